"""Weights of a small network as data: floats, or exact fractions; read from and written to files.

A JSON file holds `{"spec": SPEC, "layers": [{"W_K": ..., "W_Q": ..., "W_V": ..., "W_O": ...}]}`,
each tensor as nested lists (heads, rows, columns). If every number is an integer or a string such
as "3/7" the weights are exact; if any is a float they are float64. An .npz file holds the spec as
a string `spec` and arrays `layer1.W_K` and so on, and is float64.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from segre.errors import SegreError, WeightsError
from segre.fields.interface import Array
from segre.fields.linear import Floats, LinearAlgebra, Rationals
from segre.fields.rational import Rational
from segre.fields.real import Real
from segre.files import whole_file
from segre.network import LayerWeights, layer_starts, slots, unflatten
from segre.spec import Network

LONGEST_FILE = 1 << 28


@dataclass(frozen=True)
class Weights:
    """A spec and its vector of weights: float64, or objects that are exact fractions.

    >>> w = Weights.random(Network.parse("lightning/d=2,2/a=1/t=2"), seed=1, exact=True)
    >>> w.exact, w.layers[0].W_V.shape
    (True, (1, 2, 2))
    """

    spec: Network
    vector: Array

    def __post_init__(self) -> None:
        if self.vector.shape != (self.spec.parameters,):
            raise WeightsError(
                f"{self.vector.size} weights for {str(self.spec)!r}, which has "
                f"{self.spec.parameters}"
            )
        if not self.exact and not np.isfinite(self.vector).all():
            raise WeightsError("weights must be finite; there is a NaN or an infinity among them")

    @property
    def exact(self) -> bool:
        """Whether the weights are fractions."""
        return self.vector.dtype == object

    @property
    def field(self) -> Rational | Real:
        """The field to compute in."""
        return Rational() if self.exact else Real()

    @property
    def algebra(self) -> LinearAlgebra:
        """The linear algebra to use."""
        return Rationals() if self.exact else Floats()

    @cached_property
    def layers(self) -> list[LayerWeights[Array]]:
        """The tensors of each layer."""
        return [
            unflatten(layer, self.vector[start : start + layer.parameters])
            for layer, start in zip(self.spec.layers, layer_starts(self.spec), strict=True)
        ]

    @classmethod
    def random(cls, spec: Network, seed: int = 0, *, exact: bool = False) -> Weights:
        """Normal weights scaled by width, or small random fractions."""
        rng = np.random.default_rng(seed)
        if exact:
            top = rng.integers(1, 60, spec.parameters) * rng.choice([-1, 1], spec.parameters)
            bottom = rng.integers(1, 10, spec.parameters)
            pairs = [f"{a}/{b}" for a, b in zip(top, bottom, strict=True)]
            return cls(spec, Rational().constant(pairs))
        parts = [
            rng.standard_normal(slot.range.stop - slot.start) / np.sqrt(slot.shape[-1])
            for layer, start in zip(spec.layers, layer_starts(spec), strict=True)
            for slot in slots(layer, start)
        ]
        return cls(spec, np.concatenate(parts))

    @classmethod
    def of_layers(cls, spec: Network, layers: list[LayerWeights[Array]]) -> Weights:
        """From tensors; inverse of `layers`."""
        parts = []
        for number, (layer, own) in enumerate(zip(spec.layers, layers, strict=True), 1):
            for slot in slots(layer):
                tensor = getattr(own, slot.name)
                if tensor is None or tensor.shape != slot.shape:
                    found = None if tensor is None else tensor.shape
                    raise WeightsError(
                        f"layer {number}: {slot.name} has shape {found}; {str(spec)!r} needs "
                        f"{slot.shape} (heads, rows, columns)"
                    )
                parts.append(tensor.reshape(-1))
        return cls(spec, np.concatenate(parts))

    @classmethod
    def read(cls, path: str | Path) -> Weights:
        """Read a .json or .npz file."""
        path = Path(path)
        spec, tensors = _read_json(path) if path.suffix == ".json" else _read_npz(path)
        try:
            layers = [LayerWeights(**own) for own in tensors]
            if len(layers) != spec.depth:
                raise WeightsError(f"{len(layers)} layers, but the spec has {spec.depth}")
            return cls.of_layers(spec, layers)
        except (SegreError, TypeError) as error:
            raise WeightsError(f"weights {str(path)!r}: {error}") from None

    def write(self, path: str | Path) -> None:
        """Write a .json file (exact or float64) or an .npz file (float64)."""
        path = Path(path)
        names = [
            (number, slot.name)
            for number, layer in enumerate(self.spec.layers)
            for slot in slots(layer)
        ]
        if path.suffix == ".npz":
            if self.exact:
                raise WeightsError(f"weights {str(path)!r}: .npz holds floats; write .json instead")
            arrays = {f"layer{i + 1}.{name}": getattr(self.layers[i], name) for i, name in names}
            with whole_file(path) as temporary:
                np.savez(temporary, allow_pickle=False, spec=np.array(str(self.spec)), **arrays)
            return
        if path.suffix != ".json":
            raise WeightsError(f"weights {str(path)!r}: allowed: .json and .npz files")
        layers: list[dict[str, Any]] = [{} for _ in self.layers]
        for i, name in names:
            tensor = getattr(self.layers[i], name)
            layers[i][name] = (np.vectorize(str)(tensor) if self.exact else tensor).tolist()
        text = json.dumps({"spec": str(self.spec), "layers": layers})
        with whole_file(path) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")


def number_array(value: Any, name: str) -> Array:
    """Nested lists as an array: exact if all numbers are integers or strings, else float64."""
    try:
        given = np.array(value, dtype=object)
        flat = given.reshape(-1).tolist()
        if any(isinstance(item, list | dict | bool) or item is None for item in flat):
            raise ValueError("not a rectangular array of numbers")
        if any(isinstance(item, float) for item in flat):
            numbers = np.array([float(item) for item in flat])
            if not np.isfinite(numbers).all():
                raise ValueError("a NaN or an infinity")
            return numbers.reshape(given.shape)
        return Rational().constant(given)
    except (ValueError, OverflowError, ZeroDivisionError, TypeError) as error:
        raise WeightsError(f"{name}: {error}") from None


def common_kind(arrays: list[Array]) -> list[Array]:
    """Arrays with one kind of numbers: exact only if all of them are."""
    if all(array.dtype == object for array in arrays):
        return arrays
    return [
        array.astype(np.float64) if array.dtype != object else _floats(array) for array in arrays
    ]


def _floats(array: Array) -> Array:
    flat = [int(x.p) / int(x.q) for x in array.reshape(-1).tolist()]
    return np.array(flat, dtype=np.float64).reshape(array.shape)


def _read_json(path: Path) -> tuple[Network, list[dict[str, Array]]]:
    document = read_json_object(path)
    if set(document) != {"spec", "layers"} or not isinstance(document["layers"], list):
        raise WeightsError(
            f'weights {str(path)!r}: allowed keys: "spec" and "layers" (a list of tables)'
        )
    try:
        spec = Network.parse(document["spec"])
        tensors = [
            {name: number_array(value, f"layer {i}, {name}") for name, value in own.items()}
            for i, own in enumerate(document["layers"], 1)
        ]
    except (SegreError, AttributeError) as error:
        raise WeightsError(f"weights {str(path)!r}: {error}") from None
    flat = common_kind([array for own in tensors for array in own.values()])
    again = iter(flat)
    return spec, [{name: next(again) for name in own} for own in tensors]


def _read_npz(path: Path) -> tuple[Network, list[dict[str, Array]]]:
    arrays = read_npz(path)
    if "spec" not in arrays or arrays["spec"].dtype.kind != "U":
        raise WeightsError(f"weights {str(path)!r}: there is no string `spec` in it")
    try:
        spec = Network.parse(str(arrays.pop("spec")))
    except SegreError as error:
        raise WeightsError(f"weights {str(path)!r}: {error}") from None
    tensors: list[dict[str, Array]] = [{} for _ in spec.layers]
    for key, array in arrays.items():
        layer, _, name = key.partition(".")
        number = layer.removeprefix("layer")
        if not number.isdigit() or not 1 <= int(number) <= spec.depth or name not in _NAMES:
            raise WeightsError(
                f"weights {str(path)!r}: unknown array {key!r}; allowed: layer1.W_K and so on"
            )
        tensors[int(number) - 1][name] = array.astype(np.float64)
    return spec, tensors


_NAMES = ("W_K", "W_Q", "W_V", "W_O")


def read_json_object(path: Path) -> dict[str, Any]:
    """A JSON object from a file of bounded size."""
    try:
        with path.open("rb") as file:
            data = file.read(LONGEST_FILE + 1)
        if len(data) > LONGEST_FILE:
            raise WeightsError(f"weights {str(path)!r}: larger than {LONGEST_FILE} bytes")
        document = json.loads(data)
    except OSError as error:
        raise WeightsError(f"weights {str(path)!r}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else "nested too deeply"
        raise WeightsError(f"weights {str(path)!r}: not a JSON document ({reason})") from None
    if not isinstance(document, dict):
        raise WeightsError(f"weights {str(path)!r}: not a table of keys and values")
    return document


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays of an .npz file: numbers and strings only, never pickles, of bounded size."""
    if path.suffix != ".npz":
        raise WeightsError(f"weights {str(path)!r}: allowed: .json and .npz files")
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > LONGEST_FILE:
                raise WeightsError(f"weights {str(path)!r}: larger than {LONGEST_FILE} bytes")
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except OSError as error:
        raise WeightsError(f"weights {str(path)!r}: {error.strerror or error}") from None
    except (ValueError, zipfile.BadZipFile, EOFError, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise WeightsError(f"weights {str(path)!r}: not an .npz of numbers ({reason})") from None
    for key, array in arrays.items():
        if array.dtype.kind not in "fiuU":
            raise WeightsError(f"weights {str(path)!r}: {key} holds no real numbers")
    return arrays


@dataclass(frozen=True)
class LayerPoint:
    """One lightning layer as a point: V and A, and K and Q if they were given."""

    V: Array
    A: Array
    weights: tuple[Array, Array] | None
    a: int | None

    @classmethod
    def read(cls, path: str | Path) -> LayerPoint:
        """Read a .json or .npz file with V and A, or V, K and Q; A may come with `a`."""
        path = Path(path)
        given: dict[str, Any] = (
            read_json_object(path) if path.suffix == ".json" else dict(read_npz(path))
        )
        keys = set(given) - {"a"}
        if keys not in ({"V", "A"}, {"V", "K", "Q"}):
            raise WeightsError(
                f"point {str(path)!r}: it holds {', '.join(sorted(given)) or 'nothing'}; allowed: "
                "V and A (with a), or V, K and Q"
            )
        try:
            names = ["V", "A"] if "A" in given else ["V", "K", "Q"]
            arrays = common_kind([_matrix(given[name], name) for name in names])
            a = given.get("a")
            if a is not None and (isinstance(a, bool) or int(a) != a or int(a) < 1):
                raise WeightsError(f"a: {a!r} is not a whole number from 1 on")
            if "A" in given:
                return cls(arrays[0], arrays[1], None, None if a is None else int(a))
            V, K, Q = arrays
            if K.shape != Q.shape:
                raise WeightsError(f"K has shape {K.shape} and Q {Q.shape}; they must be equal")
            return cls(V, K.T @ Q, (K, Q), K.shape[0])
        except (WeightsError, TypeError, ValueError) as error:
            raise WeightsError(f"point {str(path)!r}: {error}") from None


def _matrix(value: Any, name: str) -> Array:
    if isinstance(value, np.ndarray):
        array = value.astype(np.float64)
        if not np.isfinite(array).all():
            raise WeightsError(f"{name} has a NaN or an infinity")
    else:
        array = number_array(value, name)
    if array.ndim != 2 or not array.size:
        raise WeightsError(f"{name} has shape {array.shape}; allowed: matrices")
    return array
