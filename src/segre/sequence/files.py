"""Arrays in files: .npy, .npz, .json and .safetensors are read, never pickles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from segre.errors import SegreError, WeightsError
from segre.fields.interface import Array
from segre.files import extension, is_standard_input, read_given, save_tensors, whole_file
from segre.values import quote
from segre.weights import common_kind, number_array, read_arrays
from segre.weights.arrays import npy_array

LARGEST = 1 << 36
LONGEST_PIPE = 1 << 28
ARRAYS = (".npy", ".safetensors")
TENSORS = (".npz", ".json", ".safetensors")


def require_array_file(path: Path, *, written: bool = True) -> str:
    """The file type by which an array is read or `written`; unknown types are refused."""
    suffix = extension(path, ARRAYS) if written else path.suffix
    if suffix not in ARRAYS:
        raise SegreError(f"{str(path)!r}: unknown file type; allowed: {' and '.join(ARRAYS)} files")
    return suffix


def read_array(path: Path) -> Array:
    """The one array of a file; what is piped in (`-`) is as in an .npy file."""
    piped = is_standard_input(path)
    if not piped:
        require_array_file(path, written=False)
    try:
        if piped or path.suffix == ".npy":
            return npy_array(path.name, _bytes(path))
        found = _safetensors(path)
        if len(found) != 1:
            raise WeightsError(f"the file holds {len(found)} arrays; allowed: one")
        return next(iter(found.values()))
    except WeightsError as error:
        raise SegreError(f"input {str(path)!r}: {error}") from None


def write_array(path: Path, array: Array) -> None:
    """Write an array, completely or not at all."""
    suffix = require_array_file(path)
    with whole_file(path, suffix) as temporary:
        if suffix == ".npy":
            np.save(temporary, array, allow_pickle=False)
        else:
            save_tensors({"Y": np.ascontiguousarray(array)}, temporary)


def read_tensors(path: Path) -> tuple[dict[str, Any], Any]:
    """Tensors by name, and the spec that the file states, if it does."""
    try:
        if path.suffix not in TENSORS and not is_standard_input(path):
            raise WeightsError(f"unknown file type; allowed: {', '.join(TENSORS)} files")
        if path.suffix == ".safetensors":
            return dict(_safetensors(path)), None
        given = read_arrays(path, strings=("spec",))
        spec = given.pop("spec", None)
        return (_layers(given) if "layers" in given else given), spec
    except SegreError as error:
        raise WeightsError(f"weights {str(path)!r}: {error}") from None


def _layers(given: dict[str, Any]) -> dict[str, Any]:
    """The tensors of a JSON document {"spec": ..., "layers": [{"W_K": ...}, ...]}."""
    layers = given.get("layers")
    if set(given) != {"layers"} or not isinstance(layers, list):
        raise WeightsError(
            'this is not a file of weights; allowed keys: "spec" and "layers" (a list of tables)'
        )
    out = {}
    for number, own in enumerate(layers, 1):
        if not isinstance(own, Mapping):
            raise WeightsError(f"layer {number} is not a table; allowed: a table of tensors")
        for name, value in own.items():
            array = number_array(value, f"layer {number}, {name}")
            out[f"layer{number}.{name}"] = common_kind([array, np.zeros(0)])[0]  # fractions rounded
    return out


def _bytes(path: Path) -> bytes:
    try:
        if is_standard_input(path):
            return read_given(path, LONGEST_PIPE)
        size = path.stat().st_size if path.is_file() else 0
        return read_given(path, min(size, LARGEST))
    except OSError as error:
        raise WeightsError(error.strerror or str(error)) from None


def _safetensors(path: Path) -> dict[str, Array]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(_bytes(path)))
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError) as error:
        said = quote(" ".join(str(error).split()))
        raise WeightsError(f"not a safetensors file, or of an unknown type ({said})") from None
