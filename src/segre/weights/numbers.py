"""The weights of a network as one vector, floats or exact fractions, and as files hold them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from segre.errors import SegreError, WeightsError
from segre.fields.interface import Array
from segre.fields.linear import Floats, LinearAlgebra, Rationals
from segre.fields.rational import Rational
from segre.fields.real import Real
from segre.network import tensors
from segre.shown import Brief
from segre.weights.arrays import read_arrays
from segre.weights.tensors import tensors_of, write_tensors

T = TypeVar("T")


@dataclass(frozen=True)
class Numbers(Brief):
    """A spec and its vector of weights: float64, or objects that are exact fractions."""

    spec: Any
    vector: Array

    kind: ClassVar[Any]  # of networks
    axes: ClassVar[str]  # of tensors, in words
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
                    f"({cls.axes})"
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
