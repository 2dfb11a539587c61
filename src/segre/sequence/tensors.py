"""The layers of a stack as groups of heads, and their tensors by name.

Tensors come from a vector, a mapping, a `Weights` or a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from segre.attention.mechanism import Mechanism
from segre.errors import SegreError, WeightsError
from segre.fields.interface import Array
from segre.models import Source, only
from segre.sequence.files import read_tensors
from segre.sequence.given import floats
from segre.spec import KINDS, Network
from segre.stack.stages import named
from segre.values import quote
from segre.weights import Weights

Shapes = Mapping[str, tuple[int, ...]]
Given = Weights | Mapping[str, Any] | str | Path | Any


@dataclass(frozen=True)
class Heads:
    """Heads of one layer with the same mechanism; `names` are those of their tensors in files."""

    mechanism: Mechanism
    count: int
    a: int
    dv: int  # the width that values have when they are mixed
    shapes: Mapping[str, tuple[int, ...]]
    names: Mapping[str, str]


@dataclass(frozen=True)
class Level:
    """One layer."""

    width_in: int
    width_out: int
    groups: tuple[Heads, ...]


def stack_of(source: Source) -> Network:
    """The stack of a spec; other architectures are refused."""
    allowed = ", ".join(f"{kind}/" for kind in KINDS)
    why = f"segre model run supports only stacks of attention layers; allowed: {allowed}"
    return only(Network, source, why)


def levels(spec: Network) -> tuple[Level, ...]:
    """The layers of a stack."""
    out = []
    for number, layer in enumerate(spec.layers, 1):
        groups = tuple(
            Heads(
                group.mechanism,
                group.heads,
                layer.a,
                layer.inner,
                shapes,
                {name: f"layer{number}.{named(n, name)}" for name in shapes},
            )
            for n, (group, shapes) in enumerate(zip(layer.groups, layer.shapes, strict=True))
        )
        out.append(Level(layer.width_in, layer.width_out, groups))
    return tuple(out)


def tensors_of(spec: Network, weights: Given) -> dict[str, Array]:
    """All tensors, as finite floats of the shapes that the spec says; the number of tokens is free.

    Names are layer1.W_K, layer1.W_Q and so on; of the second group of heads of a layer
    layer1.2.W_K.
    """
    wanted = _wanted(spec)
    if isinstance(weights, str | Path):
        named, stated = read_tensors(Path(weights))
        if stated is not None:
            _require_the_same(spec, stated, weights)
        return _by_name(wanted, named)
    if isinstance(weights, Weights):
        _require_the_same(spec, weights.spec, "weights")
        if weights.exact:
            raise WeightsError(
                "the weights are fractions, but attend computes with floats; convert them first"
            )
        return _of_vector(wanted, weights.vector)
    if isinstance(weights, Mapping):
        return _by_name(wanted, weights)
    return _of_vector(wanted, floats("weights", weights))


def _by_name(wanted: Shapes, given: Mapping[str, Any]) -> dict[str, Array]:
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


def _of_vector(wanted: Shapes, vector: Array) -> dict[str, Array]:
    count = sum(prod(shape) for shape in wanted.values())
    if vector.shape != (count,):
        raise WeightsError(f"the weights have shape {vector.shape}; the spec requires ({count},)")
    out, start = {}, 0
    for name, shape in wanted.items():
        out[name] = vector[start : start + prod(shape)].reshape(shape)
        start += prod(shape)
    return out


def _wanted(spec: Network) -> Shapes:
    """All names and shapes, in the order of the vector of weights."""
    return {
        group.names[name]: shape
        for level in levels(spec)
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
