"""The data of recovery: inputs and outputs of a function.

Samples come from arrays, from a file (.json or .npz with X and Y), or from asking a black box.
They are float64, or exact fractions if all numbers are integers or fractions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from segre.errors import SegreError, WeightsError
from segre.fields.interface import Array
from segre.fields.rational import Rational
from segre.spec import Network
from segre.weights import common_kind, number_array, read_arrays

_REACH = 1e12

BlackBox = Callable[[Array], Array]


class NotRecovered(SegreError):  # noqa: N818  (an answer, not a fault)
    """The weights were looked for and are not known; the message says why."""

    exit_code = 3


class NotDetermined(NotRecovered):
    """Other weights agree with all that is given: something is missing in the data."""


class TooFewInputs(NotDetermined):
    """More inputs would determine the weights."""


class NotThisLayer(NotRecovered):
    """No weights of the given architecture agree with the data."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs X of shape (N, d, t) and the outputs Y of shape (N, d', t) for each of them.

    >>> Samples([[[1, 2]]], [[["1/2", 3]]]).exact
    True
    >>> Samples(np.ones((5, 3, 2)), np.ones((5, 4, 2)))
    Samples(5 inputs 3 x 2, outputs 4 x 2)
    """

    X: Array
    Y: Array

    def __post_init__(self) -> None:
        X, Y = common_kind([_numbers(self.X, "X"), _numbers(self.Y, "Y")])
        if X.ndim != 3 or Y.ndim != 3 or not X.size or not Y.size:
            raise WeightsError(
                f"X has shape {X.shape} and Y has shape {Y.shape}; allowed: (inputs, d, t) and "
                "(inputs, d', t), all at least 1"
            )
        if len(X) != len(Y) or X.shape[2] != Y.shape[2]:
            raise WeightsError(
                f"X has shape {X.shape} and Y has shape {Y.shape}; the first and last sizes "
                "(inputs and tokens) must be equal"
            )
        if X.dtype != object and not (np.isfinite(X).all() and np.isfinite(Y).all()):
            raise WeightsError(
                "inputs and outputs must be finite, but there is a NaN or an infinity"
            )
        for name, array, reach in (("X", X, _REACH), ("Y", Y, _REACH**10)):
            largest = float(np.abs(array).max()) if array.dtype != object else 1.0
            if largest and not 1 / reach <= largest <= reach:
                raise WeightsError(
                    f"the largest entry of {name} is {largest:.1e}, whose powers overflow "
                    f"float64; rescale it to between {1 / reach:.0e} and {reach:.0e}"
                )
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "Y", Y)

    def __repr__(self) -> str:
        (n, d, t), out = self.X.shape, self.Y.shape[1]
        return f"Samples({n} inputs {d} x {t}, outputs {out} x {t})"

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, rows: slice | Array) -> Samples:
        return Samples(self.X[rows], self.Y[rows])

    @property
    def exact(self) -> bool:
        """Whether all numbers are fractions."""
        return self.X.dtype == object

    def floats(self) -> Samples:
        """The same in float64."""
        X, Y, _ = common_kind([self.X, self.Y, np.zeros(0)])
        return Samples(X, Y)

    def joined(self, other: Samples) -> Samples:
        """These samples together with others."""
        return Samples(np.concatenate([self.X, other.X]), np.concatenate([self.Y, other.Y]))

    def require(self, spec: Network) -> None:
        """Refuse samples whose shapes differ from those of the spec."""
        given = (self.X.shape[1], self.Y.shape[1], self.X.shape[2])
        if given != (spec.widths[0], spec.widths[-1], spec.t):
            raise WeightsError(
                f"the samples map {given[0]} x {given[2]} to {given[1]} x {given[2]}, but "
                f"{str(spec)!r} maps {spec.widths[0]} x {spec.t} to {spec.widths[-1]} x {spec.t}"
            )

    @classmethod
    def read(cls, path: str | Path) -> Samples:
        """Read {"X": ..., "Y": ...} as .json, or arrays X and Y as .npz; `-` is standard input."""
        path = Path(path)
        try:
            given = read_arrays(path)
            if set(given) != {"X", "Y"}:
                raise WeightsError("the file must hold X and Y, and nothing else")
            arrays = {
                key: value if isinstance(value, np.ndarray) else number_array(value, key)
                for key, value in given.items()
            }
            return cls(arrays["X"], arrays["Y"])
        except SegreError as error:
            raise WeightsError(f"samples {str(path)!r}: {error}") from None

    @classmethod
    def ask(cls, box: BlackBox, X: Array, outputs: int) -> Samples:
        """Ask a black box about each input; `outputs` is the width d' of its answers."""
        answers = []
        for x in X:
            y = np.asarray(box(x.copy()))
            if y.shape != (outputs, x.shape[1]):
                raise WeightsError(
                    f"the black box returned shape {y.shape} for an input of shape {x.shape}; the "
                    f"spec requires {(outputs, x.shape[1])}"
                )
            answers.append(y)
        return cls(X, np.stack(answers))


def relative(error: Array, to: Array) -> float:
    """The norm of the error relative to that of `to` (by itself where that is zero)."""
    scale = float(np.linalg.norm(to))
    return float(np.linalg.norm(error)) / (scale if scale > 0 else 1.0)


def _numbers(given: Array, name: str) -> Array:
    if isinstance(given, np.ndarray) and given.dtype.kind in "fiu":
        return given.astype(np.float64)
    if isinstance(given, np.ndarray) and given.dtype == object:
        try:
            return Rational().constant(given)
        except (ValueError, TypeError, OverflowError, ZeroDivisionError) as error:
            raise WeightsError(f"{name}: {error}") from None
    return number_array(given, name)
