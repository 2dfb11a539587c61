"""The forward map of stacks, over any field.

Tokens are the columns of matrices of shape (inputs, 1, width, t): the axis of length one is for
heads. Heads with the same mechanism are computed together; their weights come group by group.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from segre.attention.layer import Group, Layer, tap
from segre.attention.pattern import mixing, unit_size
from segre.fields.interface import Analytic, Array, E
from segre.spec import Network
from segre.stage import Slot, Stage

Tensors = Mapping[str, Any]


def named(group: int, name: str) -> str:
    """The name of a tensor of a group (from 0) within its layer: W_K, 2.W_K, 3.W_K, ..."""
    return f"{group + 1}.{name}" if group else name


@lru_cache(maxsize=64)
def stages(spec: Network) -> tuple[Stage, ...]:
    """A stage for each layer."""
    starts = accumulate((layer.parameters for layer in spec.layers), initial=0)
    return tuple(
        Stage(
            f"layer {number}",
            {slot.name: slot for slot in slots(layer, start)},
            partial(_apply, layer=layer, t=spec.t),
        )
        for number, (layer, start) in enumerate(zip(spec.layers, starts, strict=False), 1)
    )


@lru_cache(maxsize=64)
def tensors(spec: Network) -> dict[tuple[str, str], Slot]:
    """All weight tensors, by layer and name."""
    parts = enumerate(stages(spec), 1)
    return {(str(n), name): slot for n, stage in parts for name, slot in stage.slots.items()}


def slots(layer: Layer, start: int = 0) -> list[Slot]:
    """The weight tensors of a layer whose first weight has index `start`."""
    out = []
    for n, shapes in enumerate(layer.shapes):
        for name, shape in shapes.items():
            out.append(Slot(named(n, name), start, shape))
            start += prod(shape)
    return out


def _apply(field: Analytic[E], weights: Tensors, X: E, *, layer: Layer, t: int) -> E:
    tensors = [weights]  # the first group's names have no number
    for n, own in enumerate(layer.shapes[1:], 1):
        tensors.append({name: weights[named(n, name)] for name in own})
    # all roots first: what is drawn for one group says nothing about those of another
    pairs = [
        _keys_and_queries(field, layer, group, w, X, t)
        for group, w in zip(layer.groups, tensors, strict=True)
    ]
    total: E | None = None
    for group, w, (keys, queries) in zip(layer.groups, tensors, pairs, strict=True):
        pattern = mixing(field, group.mechanism, keys, queries, t, w.get("decay"))
        out = _written(field, group, w, X, pattern, t)
        out = out if group.heads == 1 else field.sum(out, axis=-3)
        total = out if total is None else field.add(total, out)
    assert total is not None
    return total


def _keys_and_queries(
    field: Analytic[E], layer: Layer, group: Group, w: Tensors, X: E, t: int
) -> tuple[E, E]:
    keys = _biased(field, w, "b_K", _compressed(field, group, w, "K", X, t))
    queries = _biased(field, w, "b_Q", field.matmul(w["W_Q"], X))
    one, a = group.mechanism, layer.a
    return unit_size(field, one, keys, a), unit_size(field, one, queries, a)


def _written(field: Analytic[E], group: Group, w: Tensors, X: E, pattern: E, t: int) -> E:
    """The output of the heads of a group."""
    one = group.mechanism
    if one.conv == "none":  # the values of all heads are of the same tokens
        out = field.matmul(w["W_V"], field.matmul(X, pattern))
    else:
        out = field.matmul(_compressed(field, group, w, "V", X, t), pattern)
    if one.gate != "none":
        out = field.mul(out, field.sigmoid(field.matmul(w["W_G"], X)))
    return field.matmul(w["W_O"], out) if "W_O" in w else out


def _biased(field: Analytic[E], w: Tensors, name: str, x: E) -> E:
    return field.add(x, w[name]) if name in w else x


def _compressed(field: Analytic[E], group: Group, w: Tensors, name: str, X: E, t: int) -> E:
    """Keys or values after the convolution along the sequence, if there is one."""
    one = group.mechanism
    if one.conv == "none":
        return field.matmul(w[f"W_{name}"], X)
    total: E | None = None
    for place in range(one.kernel):
        part = field.matmul(X, field.constant(_picked(one.keys(t), one.stride, place, t)))
        if one.conv == "full":
            part = field.matmul(w[tap(f"W_{name}", place)], part)
        else:
            part = field.mul(w[tap(f"c_{name}", place)], field.matmul(w[f"W_{name}"], part))
        total = part if total is None else field.add(total, part)
    assert total is not None
    return total


def _picked(count: int, stride: int, place: int, t: int) -> Array:
    """Ones at (stride j + place, j): which token is at this place of key j's kernel."""
    out = np.zeros((t, count), dtype=np.int64)
    out[stride * np.arange(count) + place, range(count)] = 1
    return out
