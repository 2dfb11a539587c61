"""The tensors of a stack by name, from a vector, a mapping, a `Weights` or a file."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from segre.errors import SegreError, WeightsError
from segre.fields.interface import Array
from segre.sequence.files import read_tensors
from segre.sequence.given import floats
from segre.sequence.stack import Level, levels, stack_of
from segre.spec import Network
from segre.values import quote
from segre.weights import Weights

Given = Weights | Mapping[str, Any] | str | Path | Any


def tensors_of(spec: Network, weights: Given) -> dict[str, Array]:
    """All tensors, as finite floats of the shapes that the spec says; the number of tokens is free.

    Names are layer1.W_K, layer1.W_Q and so on; of the second group of heads of a layer
    layer1.2.W_K.
    """
    every = levels(spec)
    if isinstance(weights, str | Path):
        named, stated = read_tensors(Path(weights))
        if stated is not None:
            _require_the_same(spec, stated, weights)
        return _by_name(every, named)
    if isinstance(weights, Weights):
        _require_the_same(spec, weights.spec, "weights")
        if weights.exact:
            raise WeightsError(
                "the weights are fractions, but attend computes with floats; convert them first"
            )
        return _of_vector(every, weights.vector)
    if isinstance(weights, Mapping):
        return _by_name(every, weights)
    return _of_vector(every, floats("weights", weights))


def _by_name(every: tuple[Level, ...], given: Mapping[str, Any]) -> dict[str, Array]:
    wanted = _wanted(every)
    for name in given:
        if name not in wanted:
            some = ", ".join(list(wanted)[:3])
            raise WeightsError(f"unknown tensor {quote(str(name))}; allowed: {some} and so on")
    out = {}
    for name, shape in wanted.items():
        if name not in given:
            raise WeightsError(f"{name} is missing; it must have shape {shape}")
        array = floats(name, given[name])
        if array.shape != shape:
            raise WeightsError(f"{name} has shape {array.shape}; the spec requires {shape}")
        out[name] = array
    return out


def _of_vector(every: tuple[Level, ...], vector: Array) -> dict[str, Array]:
    wanted = _wanted(every)
    count = sum(prod(shape) for shape in wanted.values())
    if vector.shape != (count,):
        raise WeightsError(f"the weights have shape {vector.shape}; the spec requires ({count},)")
    out, start = {}, 0
    for name, shape in wanted.items():
        out[name] = vector[start : start + prod(shape)].reshape(shape)
        start += prod(shape)
    return out


def _wanted(every: tuple[Level, ...]) -> dict[str, tuple[int, ...]]:
    """All names and shapes, in the order of the vector of weights."""
    return {
        group.names[name]: shape
        for level in every
        for group in level.groups
        for name, shape in group.shapes.items()
    }


def _require_the_same(spec: Network, stated: Any, source: object) -> None:
    """The spec beside the weights must be the one that is asked for, but for its tokens."""
    try:
        other = stack_of(stated)
    except SegreError as error:
        raise WeightsError(f"weights {str(source)!r}: {error}") from None
    mine, theirs = ({**one.document(), "t": 0} for one in (spec, other))
    if mine != theirs:
        raise WeightsError(
            f"the weights belong to {str(other)!r}, not to {str(spec)!r}; only t may differ"
        )


def as_dtype(tensors: Mapping[str, Array], dtype: np.dtype[Any]) -> dict[str, Array]:
    """All of them in one precision."""
    return {name: array.astype(dtype, copy=False) for name, array in tensors.items()}
