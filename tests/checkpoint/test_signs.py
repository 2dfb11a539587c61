"""Signs that norms wear: copies that differ in them alone are the same function."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from segre.checkpoint.canonical import canonical_parts
from segre.checkpoint.commands import align, canonical, move, same
from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model
from segre.symmetry.orders import sign_orders
from segre.symmetry.space import FloatWeights
from support.checkpoints import apart, rewritten
from support.zoo import IMAGES, NAMES, save_tiny

Change = Callable[[str, Tensors], None]
_WRITERS = ("tokens", "positions", "W_O", "W_down", "b_O", "b_down")
_READERS = ("W_Q", "W_K", "W_V", "W_gate", "W_up")


def minus(w: Tensors, *names: str) -> None:
    w.update({name: -w[name] for name in names if name in w})


def embeddings(part: str, w: Tensors) -> None:
    """The tables and the gain of their norm; a tied table, and the norm before the words."""
    if part == "embed":
        minus(w, "tokens", "positions", "types", "norm.gain")
    if part == "head":
        minus(w, "normT.gain", "normT.bias")


def between(part: str, w: Tensors) -> None:
    """The stream between two norms of a layer, and the gain of the second."""
    if part == "1":
        minus(w, "post1.gain", "post1.bias", "W_up", "W_down", "b_down", "post2.gain")


def before_the_last(part: str, w: Tensors) -> None:
    """The whole stream but for the hidden states, and the last gain."""
    minus(w, *_WRITERS, *_READERS)
    if part == "head":
        minus(w, "norm.gain")
    else:
        minus(w, "norm1.bias", "norm2.bias")


def coordinates(part: str, w: Tensors) -> None:
    """Some coordinates of a stream that RMSNorms read, and their last gains."""
    signs = np.where(np.arange(24) % 3 == 0, -1.0, 1.0)
    w.update({name: w[name] * signs[:, None] for name in _WRITERS if name in w})
    w.update({name: w[name] * signs for name in _READERS if name in w})
    if part == "head":
        w["norm.gain"] = w["norm.gain"] * signs[:, None]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("bert-mlm", embeddings),
        ("bert-mlm", between),
        ("bert", embeddings),
        ("bert", between),
        ("bert-labels", between),
        ("opt-post", between),
        ("albert", between),
        ("albert-mlm", between),
        ("electra-mlm", between),
        ("modernbert", embeddings),
        ("gpt2-hidden", before_the_last),
        ("llama-hidden", coordinates),
    ],
)
def test_copies_with_other_signs_are_the_same(name: str, change: Change, tmp_path: Path) -> None:
    one = save_tiny(name, tmp_path / "one")
    two = rewritten(one, tmp_path / "two", change)
    moved = tmp_path / "moved"
    move(two, moved, seed=3)
    assert apart(one, two) < 1e-5
    assert same(one, two).verdict in ("same function", "identical")
    assert same(one, moved).verdict == "same function"
    forms = []
    for source in (one, moved):
        canonical(source, form := tmp_path / f"{source.name} form")
        with Model.open(form) as model:
            forms.append({part: model.part(part) for part in model.parts})
    for part, tensors in forms[0].items():
        for key, tensor in tensors.items():
            size = max(float(np.linalg.norm(tensor)), 1e-30)
            assert np.linalg.norm(tensor - forms[1][part][key]) / size < 1e-5, (part, key)
    done = align(two, moved, tmp_path / "aligned")
    assert apart(two, tmp_path / "aligned") < 1e-5
    assert same(two, tmp_path / "aligned").verdict in ("same function", "identical"), done


@pytest.mark.parametrize("name", [*NAMES, *IMAGES])
def test_twice_is_nothing_and_the_normal_form_has_no_signs_left(name: str, tmp_path: Path) -> None:
    folder = save_tiny(name, tmp_path / "model")
    rng = np.random.default_rng(0)
    with Model.open(folder) as model:
        spec, orders = model.spec, [*sign_orders(model.spec)]
        every = {(part, name): x for part in model.parts for name, x in model.part(part).items()}
        w = FloatWeights(spec, dict(every))
        for order in orders:
            element = order.draw(rng, w)
            order.act(w, element)
            order.act(w, element)
        assert all(np.array_equal(x, w(*tensor)) for tensor, x in every.items())
        form = dict(canonical_parts(model))
    for part, name in {tensor for order in orders for tensor in order.by}:
        gain = form[part][name]
        assert gain.sum() > 0 or (spec.norm == "rms" and (gain > 0).all())
