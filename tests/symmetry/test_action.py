"""Spaces act: random elements of all groups keep the function, and their inverses undo them."""

import numpy as np
import pytest
from bench.random_specs import random_core, random_design, random_transformer

from segre.errors import SegreError
from segre.fields import Real
from segre.geometry.real_point import RealPoint
from segre.models import architecture
from segre.models.instances import PROVED
from segre.network import forward
from segre.symmetry.action import actors, undo
from segre.symmetry.move import RandomMove
from segre.symmetry.space import FloatWeights
from segre.transformer.spec import Transformer
from segre.transformer.tensors import tensors

SMALL = [str(known) for known in PROVED if isinstance(architecture(known), Transformer)]


def drawn(seed: int) -> Transformer:
    """A design of one of three kinds that is defined at a real point."""
    for attempt in range(20):
        make = (random_design, random_core, random_transformer)[seed % 3]
        try:
            spec = make(1000 * attempt + seed)
        except SegreError:
            continue
        # a LayerNorm of two numbers without eps keeps only a sign: 0 / 0 is near
        sign = spec.norm == "layer" and spec.d == 2 and not spec.eps
        if spec.parameters < 1500 and not sign and np.isfinite(outputs(spec, weights(spec))).all():
            return spec
    raise AssertionError(f"no design for seed {seed}")


def weights(spec: Transformer) -> np.ndarray:
    return RealPoint(spec, 1).weights


def outputs(spec: Transformer, vector: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return forward(Real(), spec, vector, RealPoint(spec, 1).inputs(np.arange(4)))


def unpacked(spec: Transformer, vector: np.ndarray) -> FloatWeights:
    slots = tensors(spec).items()
    return FloatWeights(spec, {key: vector[s.range].reshape(s.shape) for key, s in slots})


def packed(spec: Transformer, w: FloatWeights) -> np.ndarray:
    return np.concatenate([w(*key).reshape(-1) for key in tensors(spec)])


def distance(one: np.ndarray, two: np.ndarray) -> float:
    return float(np.abs(one - two).max() / np.abs(two).max())


@pytest.mark.parametrize("seed", range(45))
def test_every_space_acts(seed: int) -> None:
    spec, rng = drawn(seed), np.random.default_rng(seed)
    vector = weights(spec)
    w, before = unpacked(spec, vector), outputs(spec, vector)
    done = []
    for one in actors(spec):
        element = one.draw(rng, w)
        one.act(w, element)
        done.append((one, element))
        assert distance(outputs(spec, packed(spec, w)), before) < 1e-8, one
    if len(done) > 3:
        assert distance(packed(spec, w), vector) > 1e-3
    undo(w, done)
    assert distance(packed(spec, w), vector) < 1e-9


@pytest.mark.parametrize("known", SMALL[::3])
def test_models_are_moved_part_by_part(known: str) -> None:
    spec = architecture(known)
    assert isinstance(spec, Transformer)
    vector = weights(spec)
    model = unpacked(spec, vector)
    move, moved = RandomMove(spec, 7, lambda tensor: model(*tensor)), FloatWeights(spec, {})
    for part in dict.fromkeys(part for part, _ in tensors(spec)):
        own = {name: x for (where, name), x in model.tensors.items() if where == part}
        move.part(part, own)
        moved.tensors.update({(part, name): x for name, x in own.items()})
    found = packed(spec, moved)
    assert distance(found, vector) > 1e-2
    assert distance(outputs(spec, found), outputs(spec, vector)) < 1e-9
