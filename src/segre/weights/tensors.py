"""A spec and its tensors, layer by layer, as files hold them: JSON (exact or floats) and .npz."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from segre.architectures import Architecture
from segre.errors import WeightsError
from segre.fields.interface import Array
from segre.files import extension, whole_file
from segre.network import tensors
from segre.values import quote
from segre.weights.arrays import common_kind, number_array

A = TypeVar("A", bound=Architecture)
Tensors = list[dict[str, Array]]


def tensors_of(given: dict[str, Any], read_spec: Callable[[Any], A]) -> tuple[A, Tensors]:
    """The spec and the tensors, from what `read_arrays` found in a file."""
    if any(isinstance(value, np.ndarray) for value in given.values()):
        return _of_arrays(given, read_spec)
    if set(given) != {"spec", "layers"} or not isinstance(given["layers"], list):
        raise WeightsError(
            'this is not a file of weights; allowed keys: "spec" and "layers" (a list of tables)'
        )
    spec, layers = read_spec(given["spec"]), given["layers"]
    if len(layers) != spec.depth:
        raise WeightsError(f"the file has {len(layers)} layers, but the spec has {spec.depth}")
    found = []
    for number, (own, known) in enumerate(zip(layers, _names(spec), strict=True), 1):
        if not isinstance(own, dict) or set(own) != set(known):
            raise WeightsError(
                f"layer {number} is not a table; allowed: a table of {', '.join(known)}"
            )
        found.append({name: number_array(own[name], f"layer {number}, {name}") for name in own})
    again = iter(common_kind([array for own in found for array in own.values()]))
    return spec, [{name: next(again) for name in own} for own in found]


def _names(spec: Architecture) -> list[list[str]]:
    """The names of the tensors of each layer."""
    found: list[list[str]] = [[] for _ in range(spec.depth)]
    for part, name in tensors(spec):
        found[int(part) - 1].append(name)
    return found


def _of_arrays(given: dict[str, Any], read_spec: Callable[[Any], A]) -> tuple[A, Tensors]:
    """Of an .npz file: layer1.W_K and so on."""
    if not isinstance(given.get("spec"), str):
        raise WeightsError("the string `spec` is missing")
    spec = read_spec(given["spec"])
    every = list(enumerate(_names(spec), 1))
    known = [f"layer{number}.{name}" for number, own in every for name in own]
    for key in given:
        if key != "spec" and (key not in known or not isinstance(given[key], np.ndarray)):
            raise WeightsError(f"unknown array {quote(key)}; allowed: {known[0]} and so on")
    for number, own in every:
        if missing := [name for name in own if f"layer{number}.{name}" not in given]:
            raise WeightsError(f"layer {number}: {missing[0]} is missing")
    return spec, [{name: given[f"layer{number}.{name}"] for name in own} for number, own in every]


def write_tensors(
    path: str | Path, spec: Architecture, layers: Sequence[Mapping[str, Array]]
) -> None:
    """Write a .json file (exact or float64) or an .npz file (float64)."""
    suffix = extension(path, (".json", ".npz"))
    exact = any(tensor.dtype == object for own in layers for tensor in own.values())
    if suffix == ".npz":
        if exact:
            raise WeightsError(
                f"weights {str(path)!r}: .npz files hold floats, and these weights "
                "are fractions; write .json instead"
            )
        arrays: dict[str, Any] = {
            f"layer{number}.{name}": tensor
            for number, own in enumerate(layers, 1)
            for name, tensor in own.items()
        }
        with whole_file(path, suffix) as temporary:
            np.savez(temporary, spec=np.array(str(spec)), **arrays)
        return
    if suffix != ".json":
        raise WeightsError(
            f"weights {str(path)!r}: unknown file type; allowed: .json and .npz files"
        )
    listed = [
        {
            name: (np.vectorize(str)(tensor) if exact else tensor).tolist()
            for name, tensor in own.items()
        }
        for own in layers
    ]
    text = json.dumps({"spec": str(spec), "layers": listed})
    with whole_file(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
