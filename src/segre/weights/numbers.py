"""The weights of a network as one vector: are they floats or exact fractions?"""

from __future__ import annotations

from typing import Any

import numpy as np

from segre.errors import WeightsError
from segre.fields.interface import Array
from segre.fields.linear import Floats, LinearAlgebra, Rationals
from segre.fields.rational import Rational
from segre.fields.real import Real
from segre.shown import Brief


class Numbers(Brief):
    """A spec and its vector of weights: float64, or objects that are exact fractions."""

    spec: Any
    vector: Array

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


def random_fractions(rng: np.random.Generator, count: int) -> Array:
    """Small nonzero fractions."""
    top = rng.integers(1, 60, count) * rng.choice([-1, 1], count)
    bottom = rng.integers(1, 10, count)
    return Rational().constant([f"{a}/{b}" for a, b in zip(top, bottom, strict=True)])
