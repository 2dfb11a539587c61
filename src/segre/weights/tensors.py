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
from segre.values import quote
from segre.weights.arrays import common_kind, number_array

A = TypeVar("A", bound=Architecture)
Tensors = list[dict[str, Array]]
# of a spec and the number of a layer (from 0): the tensors that it has, and which it may leave out
Names = Callable[[A, int], tuple[tuple[str, ...], tuple[str, ...]]]


def tensors_of(
    given: dict[str, Any], read_spec: Callable[[Any], A], depth: Callable[[A], int], names: Names[A]
) -> tuple[A, Tensors]:
    """The spec and the tensors, from what `read_arrays` found in a file."""
    if any(isinstance(value, np.ndarray) for value in given.values()):
        return _of_arrays(given, read_spec, depth, names)
    if set(given) != {"spec", "layers"} or not isinstance(given["layers"], list):
        raise WeightsError(
            'this is not a file of weights; allowed keys: "spec" and "layers" (a list of tables)'
        )
    spec = read_spec(given["spec"])
    layers = given["layers"]
    if len(layers) != depth(spec):
        raise WeightsError(f"the file has {len(layers)} layers, but the spec has {depth(spec)}")
    tensors = []
    for place, own in enumerate(layers):
        known, optional = names(spec, place)
        needed = set(known) - set(optional)
        if not isinstance(own, dict) or not needed <= set(own) <= set(known):
            raise WeightsError(
                f"layer {place + 1} is not a table; allowed: a table of {', '.join(known)}"
            )
        where = f"layer {place + 1}, "
        tensors.append({name: number_array(own[name], where + name) for name in own})
    again = iter(common_kind([array for own in tensors for array in own.values()]))
    return spec, [{name: next(again) for name in own} for own in tensors]


def _of_arrays(
    given: dict[str, Any], read_spec: Callable[[Any], A], depth: Callable[[A], int], names: Names[A]
) -> tuple[A, Tensors]:
    """Of an .npz file: layer1.W_K and so on."""
    if not isinstance(given.get("spec"), str):
        raise WeightsError("the string `spec` is missing")
    spec = read_spec(given["spec"])
    tensors: Tensors = [{} for _ in range(depth(spec))]
    known = {
        f"layer{place + 1}.{name}": (place, name)
        for place in range(depth(spec))
        for name in names(spec, place)[0]
    }
    for key, array in given.items():
        if key == "spec":
            continue
        if key not in known or not isinstance(array, np.ndarray):
            allowed = next(iter(known))
            raise WeightsError(f"unknown array {quote(key)}; allowed: {allowed} and so on")
        place, name = known[key]
        tensors[place][name] = array
    for place, own in enumerate(tensors):
        every, optional = names(spec, place)
        if missing := [name for name in every if name not in own and name not in optional]:
            raise WeightsError(f"layer {place + 1}: {missing[0]} is missing")
    return spec, tensors


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
