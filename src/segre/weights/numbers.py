"""The weights of a network as one vector, floats or exact fractions, and as files hold them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from segre.architectures import Architecture
from segre.errors import SegreError, WeightsError
from segre.fields.interface import Array
from segre.fields.linear import Floats, LinearAlgebra, Rationals
from segre.fields.rational import Rational
from segre.fields.real import Real
from segre.files import extension, whole_file
from segre.network import tensors
from segre.shown import Brief
from segre.values import quote
from segre.weights.arrays import common_kind, number_array, read_arrays

T = TypeVar("T")
A = TypeVar("A", bound=Architecture)
Tensors = list[dict[str, Array]]


@dataclass(frozen=True)
class Numbers(Brief):
    """A spec and its vector of weights: float64, or objects that are exact fractions."""

    spec: Any
    vector: Array

    kind: ClassVar[Any]  # of networks
    _axes: ClassVar[str]  # of tensors, in words
    listed: ClassVar[tuple[str, ...]] = ()  # tensors that may be lists of numbers

    def __post_init__(self) -> None:
        if self.vector.shape != (self.spec.parameters,):
            raise WeightsError(
                f"{self.vector.size} weights were given for {str(self.spec)!r}, which has "
                f"{self.spec.parameters}"
            )
        if not self.exact and not np.isfinite(self.vector).all():
            raise WeightsError(
                "weights must be finite, but there is a NaN or an infinity among them"
            )

    def __str__(self) -> str:
        return f"{self.spec}: {self.vector.size:,} {'fractions' if self.exact else 'floats'}"

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

    @property
    def tables(self) -> list[dict[str, Array]]:
        """The tensors of each layer, by name."""
        layers: list[dict[str, Array]] = [{} for _ in self.spec.layers]
        for (part, name), slot in tensors(self.spec).items():
            layers[int(part) - 1][name] = self.vector[slot.range].reshape(slot.shape)
        return layers

    @classmethod
    def of_tables(cls, spec: Any, tables: Sequence[Mapping[str, Array]]) -> Self:
        """From tensors; inverse of `tables`."""
        net, parts = cls.kind.parse(spec), []
        if len(tables) != net.depth:
            raise ValueError(f"{len(tables)} layers were given for {str(net)!r}")
        for (part, name), slot in tensors(net).items():
            tensor = tables[int(part) - 1].get(name)
            shape = None if tensor is None else tensor.shape
            listed = name in cls.listed and shape == (slot.size,)
            if tensor is None or not (listed or shape == slot.shape):
                raise WeightsError(
                    f"layer {part}: {name} has shape {shape}; {str(net)!r} needs {slot.shape} "
                    f"({cls._axes})"
                )
            parts.append(tensor.reshape(-1))
        return cls(net, np.concatenate(parts))

    @classmethod
    def of_document(cls, given: dict[str, Any]) -> Self:
        """From what `read_arrays` found in a file."""

        def spec(value: Any) -> Any:  # it may not name another file
            if isinstance(value, str | dict):
                inline = isinstance(value, str)
                return cls.kind.from_inline(value) if inline else cls.kind.from_mapping(value)
            raise WeightsError(
                "spec is not valid here; allowed: an inline spec, or a table of keys and values"
            )

        return cls.of_tables(*tensors_of(given, spec))

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a .json or .npz file, or standard input (`-`)."""
        return read_with(path, "weights", cls.of_document)

    def write(self, path: str | Path) -> None:
        """Write a .json file (exact or float64) or an .npz file (float64)."""
        write_tensors(path, self.spec, self.tables)


def read_with(path: str | Path, what: str, read: Callable[[dict[str, Any]], T]) -> T:
    """What a .json or .npz file or standard input holds; errors begin with its name."""
    try:
        return read(read_arrays(Path(path), strings=("spec",)))
    except SegreError as error:
        raise WeightsError(f"{what} {str(path)!r}: {error}") from None


def random_fractions(rng: np.random.Generator, count: int) -> Array:
    """Small nonzero fractions."""
    top = rng.integers(1, 60, count) * rng.choice([-1, 1], count)
    bottom = rng.integers(1, 10, count)
    return Rational().constant([f"{a}/{b}" for a, b in zip(top, bottom, strict=True)])


# --- as files hold them ---------------------------------------------------------------------------


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
