"""The weights of a polynomial network: a spec and a vector of floats, or of exact fractions.

In files the matrix of a dense layer is called W, the filter of a convolution w (a list of numbers
is enough), and biases b.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from segre.fields.interface import Array
from segre.polynomial.spec import KINDS, Polynomial
from segre.weights.numbers import Numbers, Tensors, random_fractions

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
    kind: ClassVar = Polynomial
    _axes: ClassVar[str] = "rows, columns"
    listed: ClassVar[tuple[str, ...]] = ("w", "b")

    @cached_property
    def layers(self) -> list[dict[str, Array]]:
        """The tensors of each layer, by name."""
        return self.tables

    @classmethod
    def random(cls, spec: Source, seed: int = 0, *, exact: bool = False) -> PolynomialWeights:
        """Normal weights, or small random fractions."""
        net, rng = Polynomial.parse(spec), np.random.default_rng(seed)
        count = net.parameters
        return cls(net, random_fractions(rng, count) if exact else rng.standard_normal(count))

    @classmethod
    def of_layers(cls, spec: Source, layers: Tensors) -> PolynomialWeights:
        """From tensors; inverse of `layers`. A filter, or biases, may be a list of numbers."""
        return cls.of_tables(spec, layers)


def is_polynomial(given: Mapping[str, Any]) -> bool:
    """Whether the contents of a file describe a polynomial network."""
    spec = given.get("spec")
    kind = spec.get("kind") if isinstance(spec, Mapping) else str(spec).partition("/")[0]
    return kind in KINDS
