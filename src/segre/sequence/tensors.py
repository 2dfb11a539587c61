"""The tensors of a stack by name, from a vector, a mapping, a `Weights` or a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from segre.errors import SegreError, WeightsError
from segre.fields.interface import Array
from segre.models import Source, only
from segre.network import tensors
from segre.sequence.files import read_tensors
from segre.sequence.given import floats
from segre.spec import KINDS, Network
from segre.stage import Slot
from segre.values import quote
from segre.weights import Weights

Given = Weights | Mapping[str, Any] | str | Path | Any
Wanted = Mapping[str, Slot]


def stack_of(source: Source) -> Network:
    """The stack of a spec; other architectures are refused."""
    allowed = ", ".join(f"{kind}/" for kind in KINDS)
    why = f"segre model run supports only stacks of attention layers; allowed: {allowed}"
    return only(Network, source, why)


def tensors_of(spec: Network, weights: Given) -> dict[str, Array]:
    """All tensors, as finite floats of the shapes that the spec says; the number of tokens is free.

    Names are layer1.W_K, layer1.W_Q and so on; of the second group of heads of a layer
    layer1.2.W_K.
    """
    wanted = {f"layer{part}.{name}": slot for (part, name), slot in tensors(spec).items()}
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


def _by_name(wanted: Wanted, given: Mapping[str, Any]) -> dict[str, Array]:
    for name in given:
        if name not in wanted:
            some = ", ".join(list(wanted)[:3])
            raise WeightsError(f"unknown tensor {quote(str(name))}; allowed: {some} and so on")
    out = {}
    for name, slot in wanted.items():
        if name not in given:
            raise WeightsError(f"{name} is missing; it must have shape {slot.shape}")
        out[name] = floats(name, given[name])
        if out[name].shape != slot.shape:
            raise WeightsError(
                f"{name} has shape {out[name].shape}; the spec requires {slot.shape}"
            )
    return out


def _of_vector(wanted: Wanted, vector: Array) -> dict[str, Array]:
    count = sum(slot.size for slot in wanted.values())
    if vector.shape != (count,):
        raise WeightsError(f"the weights have shape {vector.shape}; the spec requires ({count},)")
    return {name: vector[slot.range].reshape(slot.shape) for name, slot in wanted.items()}


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
