"""What kind of point of its space of functions a polynomial network is, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from segre.fields.linear import TOLERANCE
from segre.geometry.strata import KindOfPoint
from segre.json_data import stated
from segre.polynomial.spec import Polynomial

Reason = Literal["zero function", "several filters", "rank drop"]


@dataclass(frozen=True)
class PolynomialPoint(KindOfPoint):
    """What the two kinds of points share.

    `tangent` is the rank of the parametrisation at the weights given. At a smooth point with
    generic weights it equals `dimension`.
    """

    spec: Polynomial
    singular: bool
    reasons: tuple[Reason, ...]
    dimension: int
    tangent: int | None
    exact: bool

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        names = "spec kind singular reasons dimension tangent exact status"
        return stated(self, names, spec=str(self.spec))


@dataclass(frozen=True)
class FilterPoint(PolynomialPoint):
    """The function of a convolutional network, and all filters behind it up to scale.

    `filters` says how many choices of filters there are (0 stands for infinitely many: the zero
    function), `branches` lists the first of them. `tangent_span` is the dimension of the span of
    the tangent spaces of all branches, None where it is too large to compute.
    """

    filters: int
    branches: tuple[tuple[tuple[str, ...], ...], ...]
    tangent_span: int | None

    @property
    def how(self) -> str:
        """How it is known."""
        kind = "fractions" if self.exact else f"float64, zero below {TOLERANCE:g} of a filter"
        return f"zeros at the ends of filters, in {kind}"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return super().document() | stated(self, "filters branches tangent_span")


@dataclass(frozen=True)
class QuadraticPoint(PolynomialPoint):
    """The function x -> x^T M x of a quadratic network, by the signature of M.

    `boundary`: with output weights of these signs (`outputs`: how many are positive, negative and
    zero) there are functions of the architecture arbitrarily near that cannot be reached.
    """

    rank: int
    signature: tuple[int, int]
    outputs: tuple[int, int, int]
    boundary: bool

    @property
    def how(self) -> str:
        """How it is known."""
        return f"the signature of a symmetric matrix, in {'fractions' if self.exact else 'float64'}"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return super().document() | stated(self, "rank signature outputs boundary")
