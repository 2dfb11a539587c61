"""What does a file hold: the weights of a network, or a point of a function space?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from segre.errors import WeightsError
from segre.fields.interface import Array
from segre.values import LARGEST, quote
from segre.weights.arrays import common_kind, number_array
from segre.weights.numbers import read_with
from segre.weights.polynomial import PolynomialWeights, is_polynomial
from segre.weights.vector import Weights

P = TypeVar("P", "LayerPoint", Weights)


@dataclass(frozen=True)
class LayerPoint:
    """One lightning layer as a point: V and A, with K and Q if they were given."""

    V: Array
    A: Array
    weights: tuple[Array, Array] | None
    a: int | None

    @classmethod
    def read(cls, path: str | Path) -> LayerPoint:
        """Read a .json or .npz file with V and A, or V, K and Q; A may come with `a`."""
        return read_with(path, "point", cls.of_document)

    @classmethod
    def of_document(cls, given: dict[str, Any]) -> LayerPoint:
        """From what `read_arrays` found in a file."""
        keys = set(given) - {"a"}
        if keys not in ({"V", "A"}, {"V", "K", "Q"}):
            found = quote(", ".join(sorted(given)) or "nothing")
            raise WeightsError(
                f"the file holds {found}; allowed: V and A (with a), V, K and Q, "
                "or the weights of a polynomial network"
            )
        names = ["V", "A"] if "A" in given else ["V", "K", "Q"]
        arrays = common_kind([_matrix(given[name], name) for name in names])
        a = None if given.get("a") is None else _rank(given["a"])
        if "A" in given:
            return cls(arrays[0], arrays[1], None, a)
        V, K, Q = arrays
        if K.shape != Q.shape:
            raise WeightsError(
                f"K has shape {K.shape} and Q has shape {Q.shape}; the shapes must be equal"
            )
        with np.errstate(all="ignore"):
            A = K.T @ Q
        if A.dtype != object and not np.isfinite(A).all():
            raise WeightsError("K^T Q overflows float64; rescale K and Q")
        return cls(V, A, (K, Q), K.shape[0])


def read_point(path: str | Path) -> LayerPoint | PolynomialWeights:
    """Read a file: one lightning layer, or the weights of a polynomial network."""
    return read_with(path, "point", lambda given: _network_or(LayerPoint, given))


def read_weights(path: str | Path) -> Weights | PolynomialWeights:
    """Read a file of weights: of an attention stack, or of a polynomial network."""
    return read_with(path, "weights", lambda given: _network_or(Weights, given))


def _network_or(other: type[P], given: dict[str, Any]) -> P | PolynomialWeights:
    """The weights of a polynomial network, or something else."""
    return (
        PolynomialWeights.of_document(given) if is_polynomial(given) else other.of_document(given)
    )


def _rank(value: Any) -> int:
    """The head rank, from JSON or from an array of one number."""
    number = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
    whole = isinstance(number, int | float) and not isinstance(number, bool)
    if not whole or not 1 <= number <= LARGEST or number != int(number):
        raise WeightsError(f"a: {quote(str(value))} is not allowed; allowed: whole numbers from 1")
    return int(number)


def _matrix(value: Any, name: str) -> Array:
    array = value if isinstance(value, np.ndarray) else number_array(value, name)
    if array.ndim != 2 or not array.size:
        raise WeightsError(f"{name} has shape {array.shape}; allowed: matrices")
    return array
