"""Orders, signs and orthogonal matrices keep the function, and are undone exactly."""

from collections.abc import Iterator

import numpy as np
import pytest

from segre.symmetry.action import actors
from segre.symmetry.basis import Basis
from segre.symmetry.compact import of_layer, of_stream
from segre.symmetry.finite import finite
from segre.symmetry.orders import Order
from segre.symmetry.wiring import layer_parts
from segre.transformer.spec import Transformer
from symmetry.test_action import distance, drawn, outputs, packed, unpacked, weights
from symmetry.test_normal import reduced


@pytest.mark.parametrize("seed", range(60))
def test_orders_and_signs_keep_the_function_and_are_undone_exactly(seed: int) -> None:
    spec, rng = drawn(seed), np.random.default_rng(seed)
    vector = weights(spec)
    before = outputs(spec, vector)
    for one in (one for one in actors(spec) if isinstance(one, Order)):
        w = unpacked(spec, vector)
        element = one.draw(rng, w)
        one.act(w, element)
        assert distance(outputs(spec, packed(spec, w)), before) < 1e-10, one
        one.act(w, one.inverse(element))
        assert np.array_equal(packed(spec, w), vector), one


def isometries(spec: Transformer) -> Iterator[Basis | Order]:
    """What acts on reduced weights; rotations of normed queries need equal gains."""
    yield from of_stream(spec).values()
    for part in layer_parts(spec):
        for name, one in of_layer(spec, part).items():
            if not (name == "qk" and spec.at(part).qknorm):
                yield one


@pytest.mark.parametrize("seed", range(60))
def test_isometries_of_reduced_weights_keep_the_function(seed: int) -> None:
    spec, rng = drawn(seed), np.random.default_rng(seed)
    start = reduced(spec, unpacked(spec, weights(spec)))
    vector = packed(spec, start)
    before = outputs(spec, vector)
    for one in isometries(spec):
        w = unpacked(spec, vector)
        elements = [one.draw(rng, w) for _ in range(2)]
        if isinstance(one, Basis) and one.group == "planes":
            elements = [x / np.abs(x) for x in elements]
        for element in elements:
            one.act(w, element)
        found = packed(spec, w)
        assert distance(outputs(spec, found), before) < 1e-10, one
        both = unpacked(spec, vector)
        one.act(both, one.after(elements[1], elements[0]))
        assert distance(packed(spec, both), found) < 1e-12
        for element in reversed(elements):
            one.act(w, one.inverse(element))
        assert distance(packed(spec, w), vector) < 1e-12


@pytest.mark.parametrize("seed", range(60))
def test_alignment_acts_with_what_explain_lists(seed: int) -> None:
    spec = drawn(seed)
    listed = {order for one in finite(spec) for order in one.orders}
    for one in isometries(spec):
        if isinstance(one, Order) and one.width > 1 and spec.decay == "none":
            assert one in listed or max(one.copies, default=1) * one.width == spec.heads


def test_names_are_in_the_order_in_which_elements_act() -> None:
    spec = Transformer.parse(
        "transformer/d=6/layers=2/heads=4/kv=2/head=3/pos=rope/rotary=2/mlp=swiglu/ff=5/vocab=9/t=3"
    )
    names = [*of_layer(spec, "1")]
    assert names == ["heads", "queries", "vo", "qk", "still", "units", "signs"]
