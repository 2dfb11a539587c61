"""The forward map of networks with monomial activations, over any field.

Inputs are columns, of shape (inputs, width, 1). A layer's activation belongs to its stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any

import numpy as np

from segre.fields.interface import Array, E, Field
from segre.polynomial.spec import Convolution, Dense, Polynomial
from segre.stage import Slot, Stage

AXES = 2


@lru_cache(maxsize=64)
def stages(spec: Polynomial) -> tuple[Stage, ...]:
    """A stage for each layer."""
    starts = accumulate(
        (layer.weights + spec.bias * layer.units for layer in spec.layers), initial=0
    )
    last = spec.depth
    return tuple(
        Stage(
            f"layer {number}",
            {slot.name: slot for slot in _slots(layer, spec.bias, start)},
            partial(_apply, layer=layer, degree=spec.degree if number < last else 1),
            axes=AXES,
        )
        for number, (layer, start) in enumerate(zip(spec.layers, starts, strict=False), 1)
    )


@lru_cache(maxsize=64)
def tensors(spec: Polynomial) -> dict[tuple[str, str], Slot]:
    """All weight tensors, by layer and name: W (dense) or w (a filter), and b."""
    parts = enumerate(stages(spec), 1)
    return {(str(n), name): slot for n, stage in parts for name, slot in stage.slots.items()}


def weight_name(layer: Dense | Convolution) -> str:
    """The names of the weights of a layer."""
    return "W" if isinstance(layer, Dense) else "w"


def _slots(layer: Dense | Convolution, bias: bool, start: int) -> list[Slot]:
    shape = (layer.units, layer.weights // layer.units)
    own = Slot(weight_name(layer), start, shape)
    return [own, *[Slot("b", start + own.size, (layer.units, 1))] * bias]


def _apply(
    field: Field[E],
    weights: Mapping[str, Any],
    x: E,
    *,
    layer: Dense | Convolution,
    degree: int,
) -> E:
    if isinstance(layer, Dense):
        out = field.matmul(weights["W"], x)
    else:
        out = _convolved(field, weights["w"], x, layer)
    if "b" in weights:
        out = field.add(out, weights["b"])
    return power(field, out, degree)


def _convolved(field: Field[E], taps: E, x: E, layer: Convolution) -> E:
    total: E | None = None
    for place in range(layer.kernel):
        entry = field.matmul(taps, field.constant(_unit(layer.kernel, place)))
        part = field.mul(entry, field.matmul(field.constant(_picked(layer, place)), x))
        total = part if total is None else field.add(total, part)
    assert total is not None
    return total


def power(field: Field[E], x: E, degree: int) -> E:
    """Entrywise x^degree, by repeated squaring."""
    out: E | None = None
    while degree:
        if degree % 2:
            out = x if out is None else field.mul(out, x)
        degree //= 2
        x = field.mul(x, x) if degree else x
    assert out is not None
    return out


def _unit(size: int, place: int) -> Array:
    out = np.zeros((size, 1), dtype=np.int64)
    out[place] = 1
    return out


@lru_cache(maxsize=256)
def _picked(layer: Convolution, place: int) -> Array:
    """Ones at (j, stride j + place): which entry is at this place of the filter."""
    out = np.zeros((layer.width_out, layer.width_in), dtype=np.int64)
    rows = np.arange(layer.width_out)
    out[rows, layer.stride * rows + place] = 1
    return out
