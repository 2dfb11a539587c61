"""The normal form: the same function, reached by elements that can be undone, and once for all."""

import numpy as np
import pytest

from segre.models import architecture
from segre.symmetry.action import Move, undo
from segre.symmetry.reduction import Reduction
from segre.symmetry.space import FloatWeights
from segre.transformer.spec import Transformer
from segre.transformer.tensors import tensors
from symmetry.test_action import SMALL, distance, drawn, outputs, packed, unpacked, weights


def reduced(spec: Transformer, model: FloatWeights, slack: float = 0.0) -> FloatWeights:
    """The normal form, part by part, undone on the way to see whether the model comes back."""
    reduction, out = Reduction(spec, lambda tensor: model(*tensor), slack), {}
    for part in dict.fromkeys(part for part, _ in tensors(spec)):
        own = {name: x for (where, name), x in model.tensors.items() if where == part}
        move = reduction.part(part, own)
        found = {(part, name): x for name, x in own.items()}
        out |= found
        back = FloatWeights(spec, reduction.beside | found)
        undo(back, move)
        if full_rank(move):
            for tensor in found:
                size = max(float(np.abs(model(*tensor)).max()), 1e-9)
                assert np.abs(back(*tensor) - model(*tensor)).max() < 1e-7 * size, tensor
    return FloatWeights(spec, out)


def full_rank(move: Move) -> bool:
    """Whether no head lacks rank: then nothing is recorded of its bases."""
    heads = [x for one, x in move if getattr(one, "group", "") == "gl"]
    return not any((x == np.eye(x.shape[-1])).all(axis=(-1, -2)).any() for x in heads)


@pytest.mark.parametrize("seed", range(45))
def test_the_function_stays(seed: int) -> None:
    spec = drawn(seed)
    vector = weights(spec)
    found = reduced(spec, unpacked(spec, vector))
    assert distance(outputs(spec, packed(spec, found)), outputs(spec, vector)) < 1e-7


@pytest.mark.parametrize("known", SMALL[1::3])
def test_once_is_enough(known: str) -> None:
    spec = architecture(known)
    assert isinstance(spec, Transformer)
    once = reduced(spec, unpacked(spec, weights(spec)))
    twice = reduced(spec, once, 1e-9)
    assert distance(packed(spec, twice), packed(spec, once)) < 1e-9
