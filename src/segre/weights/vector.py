"""The weights of a small network: a spec and a vector of floats, or of exact fractions."""

from __future__ import annotations

from collections.abc import Mapping
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
from segre.network import LayerWeights, layer_starts, slots, unflatten
from segre.spec import Network
from segre.weights.arrays import read_arrays
from segre.weights.tensors import tensors_of, write_tensors

Source = str | Path | Mapping[str, Any] | Network


@dataclass(frozen=True)
class Weights:
    """A spec and its vector of weights: float64, or objects that are exact fractions.

    >>> w = Weights.random("lightning/d=2,2/a=1/t=2", seed=1, exact=True)
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

    @cached_property
    def layers(self) -> list[LayerWeights[Array]]:
        """The tensors of each layer."""
        return [
            unflatten(layer, self.vector[start : start + layer.parameters])
            for layer, start in zip(self.spec.layers, layer_starts(self.spec), strict=True)
        ]

    @classmethod
    def random(cls, spec: Source, seed: int = 0, *, exact: bool = False) -> Weights:
        """Normal weights scaled by width, or small random fractions."""
        net = Network.parse(spec)
        rng = np.random.default_rng(seed)
        if exact:
            top = rng.integers(1, 60, net.parameters) * rng.choice([-1, 1], net.parameters)
            bottom = rng.integers(1, 10, net.parameters)
            pairs = [f"{a}/{b}" for a, b in zip(top, bottom, strict=True)]
            return cls(net, Rational().constant(pairs))
        parts = [
            rng.standard_normal(slot.range.stop - slot.start) / np.sqrt(slot.shape[-1])
            for layer, start in zip(net.layers, layer_starts(net), strict=True)
            for slot in slots(layer, start)
        ]
        return cls(net, np.concatenate(parts))

    @classmethod
    def of_layers(cls, spec: Source, layers: list[LayerWeights[Array]]) -> Weights:
        """From tensors; inverse of `layers`."""
        net = Network.parse(spec)
        parts = []
        for number, (layer, own) in enumerate(zip(net.layers, layers, strict=True), 1):
            for slot in slots(layer):
                tensor = getattr(own, slot.name)
                if tensor is None or tensor.shape != slot.shape:
                    found = None if tensor is None else tensor.shape
                    raise WeightsError(
                        f"layer {number}: {slot.name} has shape {found}; {str(net)!r} needs "
                        f"{slot.shape} (heads, rows, columns)"
                    )
                parts.append(tensor.reshape(-1))
        return cls(net, np.concatenate(parts))

    @classmethod
    def read(cls, path: str | Path) -> Weights:
        """Read a .json or .npz file, or what is piped in (`-`)."""
        try:
            return cls.of_document(read_arrays(Path(path), strings=("spec",)))
        except SegreError as error:
            raise WeightsError(f"weights {str(path)!r}: {error}") from None

    @classmethod
    def of_document(cls, given: dict[str, Any]) -> Weights:
        """From what `read_arrays` found in a file."""
        spec, tensors = tensors_of(given, _spec, lambda spec: spec.depth, _names)
        return cls.of_layers(spec, [LayerWeights(**own) for own in tensors])

    def write(self, path: str | Path) -> None:
        """Write a .json file (exact or float64) or an .npz file (float64)."""
        layers = [
            {slot.name: getattr(own, slot.name) for slot in slots(layer)}
            for layer, own in zip(self.spec.layers, self.layers, strict=True)
        ]
        write_tensors(path, self.spec, layers)


def _names(_spec: Network, _place: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return ("W_K", "W_Q", "W_V", "W_O"), ("W_O",)


def _spec(value: Any) -> Network:
    """The spec in a file of weights; it may not name another file."""
    if isinstance(value, str):
        return Network.from_inline(value)
    if isinstance(value, dict):
        return Network.from_mapping(value)
    raise WeightsError("spec: allowed: an inline spec, or a table of keys and values")
