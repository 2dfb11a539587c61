"""The weights of a polynomial network: a spec and a vector of floats, or of exact fractions.

In files the matrix of a dense layer is called W, the filter of a convolution w (a list of numbers
is enough), and biases b.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from segre.errors import SegreError, WeightsError
from segre.fields.interface import Array
from segre.polynomial.spec import Polynomial
from segre.polynomial.stages import stages
from segre.weights.arrays import read_arrays
from segre.weights.numbers import Numbers, random_fractions
from segre.weights.tensors import Tensors, tensors_of, write_tensors

Source = str | Mapping[str, Any] | Polynomial


@dataclass(frozen=True)
class PolynomialWeights(Numbers):
    """A polynomial network and its vector of weights: float64, or exact fractions.

    >>> w = PolynomialWeights.random("cnn/k=2,2/degree=2", seed=1, exact=True)
    >>> w.exact, [sorted(own) for own in w.layers]
    (True, [['w'], ['w']])
    """

    spec: Polynomial
    vector: Array

    @cached_property
    def layers(self) -> list[dict[str, Array]]:
        """The tensors of each layer, by name."""
        return [
            {
                name: self.vector[slot.range].reshape(slot.shape)
                for name, slot in stage.slots.items()
            }
            for stage in stages(self.spec)
        ]

    @classmethod
    def random(cls, spec: Source, seed: int = 0, *, exact: bool = False) -> PolynomialWeights:
        """Normal weights, or small random fractions."""
        net = Polynomial.parse(spec)
        rng = np.random.default_rng(seed)
        if not exact:
            return cls(net, rng.standard_normal(net.parameters))
        return cls(net, random_fractions(rng, net.parameters))

    @classmethod
    def of_layers(cls, spec: Source, layers: Tensors) -> PolynomialWeights:
        """From tensors; inverse of `layers`. A filter, or biases, may be a list of numbers."""
        net = Polynomial.parse(spec)
        parts = []
        for number, (stage, own) in enumerate(zip(stages(net), layers, strict=True), 1):
            for name, slot in stage.slots.items():
                tensor = own[name]
                listed = name != "W" and tensor.shape == (prod(slot.shape),)
                if tensor.shape != slot.shape and not listed:
                    raise WeightsError(
                        f"layer {number}: {name} has shape {tensor.shape}; {str(net)!r} needs "
                        f"{slot.shape} (rows, columns)"
                    )
                parts.append(tensor.reshape(-1))
        return cls(net, np.concatenate(parts))

    @classmethod
    def read(cls, path: str | Path) -> PolynomialWeights:
        """Read a .json or .npz file, or standard input (`-`)."""
        try:
            return cls.of_document(read_arrays(Path(path), strings=("spec",)))
        except SegreError as error:
            raise WeightsError(f"weights {str(path)!r}: {error}") from None

    @classmethod
    def of_document(cls, given: dict[str, Any]) -> PolynomialWeights:
        """From what `read_arrays` found in a file."""
        return cls.of_layers(*tensors_of(given, _spec, lambda spec: spec.depth, _names))

    def write(self, path: str | Path) -> None:
        """Write a .json file (exact or float64) or an .npz file (float64)."""
        write_tensors(path, self.spec, self.layers)


def is_polynomial(given: Mapping[str, Any]) -> bool:
    """Whether the contents of a file describe a polynomial network."""
    spec = given.get("spec")
    kind = spec.get("kind") if isinstance(spec, Mapping) else str(spec).partition("/")[0]
    return kind in ("poly", "cnn")


def _names(spec: Polynomial, place: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(stages(spec)[place].slots), ()


def _spec(value: Any) -> Polynomial:
    """The spec in a file of weights; it may not name another file."""
    if isinstance(value, str | dict):
        return Polynomial.parse(value)
    raise WeightsError(
        "spec is not valid here; allowed: an inline spec, or a table of keys and values"
    )
