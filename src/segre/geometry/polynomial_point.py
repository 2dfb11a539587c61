"""What kind of point is the function of a polynomial network: smooth, singular, on a boundary?

Convolutional networks of degree 2 or more, without biases. A function that is not zero determines
every filter up to scale, except for where the filter begins: filters with zeros at their ends can
be moved against each other. The parametrisation is an immersion, so a function is a singular point
exactly if several placements give it, and each placement is a smooth branch.

Quadratic networks with one hidden layer and one output. The function is a symmetric matrix of
rank at most m, singular where the rank is smaller. Output weights with fixed signs bound the
numbers of positive and negative eigenvalues, which gives the functions a boundary.

docs/geometry.md has the proofs. Other polynomial networks are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, pairwise
from math import comb
from typing import Any, Literal

import numpy as np
from flint import fmpq, fmpq_mat

from segre.errors import UnsupportedError
from segre.fields.interface import Array
from segre.fields.linear import TOLERANCE
from segre.geometry.strata import KindOfPoint
from segre.json_data import stated
from segre.network import forward, jacobian
from segre.polynomial.bounds import bound, forms
from segre.polynomial.spec import Convolution, Polynomial, receptive_field
from segre.weights.polynomial import PolynomialWeights

_MOST_POINTS = 2000  # where tangent vectors are evaluated
_MOST_BRANCHES = 64
_HIGHEST_CHECKED = 64  # degree: powers of fractions grow long


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


def classify_polynomial(weights: PolynomialWeights) -> FilterPoint | QuadraticPoint:
    """The kind of point that the function of a polynomial network is.

    >>> from segre.fields.rational import Rational
    >>> one = PolynomialWeights(Polynomial.parse("cnn/k=2,2/degree=2"),
    ...                         Rational().constant([0, 1, 1, 0]))
    >>> found = classify_polynomial(one)
    >>> found.kind, found.branches, found.tangent_span
    ('singular', ((('0', '1'), ('1', '0')), (('1', '0'), ('0', '1'))), 5)
    """
    spec = weights.spec
    if spec.convolutional and spec.degree > 1 and not spec.bias:
        return _filter_point(weights)
    shallow = not spec.convolutional and spec.depth == 2 and spec.widths[-1] == 1
    if shallow and spec.degree == 2 and not spec.bias:
        return _quadratic_point(weights)
    raise UnsupportedError(
        f"spec {str(spec)!r}: points of this architecture are not supported; supported: cnn/... "
        "with degree from 2 and poly/n-m-1/degree=2, without biases"
    )


# --- convolutional networks -----------------------------------------------------------------------


def _filter_point(weights: PolynomialWeights) -> FilterPoint:
    weights = _one_output(weights)
    spec = weights.spec
    placements = Placements.of(spec.convolutions, [own["w"][0] for own in weights.layers])
    reasons: list[Reason] = []
    every = [weights]
    count = 1
    if placements.zero:
        # the functions are a linear space if only the last filter has more than one entry
        if any(layer.kernel > 1 for layer in spec.convolutions[:-1]):
            reasons.append("zero function")
    else:
        count = placements.count()
        some = islice(placements, _MOST_BRANCHES)
        every = [PolynomialWeights(spec, placements.placed(starts)) for starts in some]
        if count > 1:
            reasons.append("several filters")
        _require_one_function(every)
    few = _few_points(spec)
    algebra = weights.algebra
    whole = few and count == len(every) and not placements.zero
    span = np.concatenate([_tangents(one) for one in every]) if whole else None
    return FilterPoint(
        spec=spec,
        singular=bool(reasons),
        reasons=tuple(reasons),
        dimension=bound(spec).value,
        tangent=algebra.rank(_tangents(weights)) if few else None,
        exact=weights.exact,
        filters=0 if placements.zero else count,
        branches=() if placements.zero else tuple(_written(one) for one in every),
        tangent_span=None if span is None else algebra.rank(span),
    )


def _one_output(weights: PolynomialWeights) -> PolynomialWeights:
    """The same filters on an input as long as the receptive field: other outputs are shifts."""
    layers = weights.spec.convolutions
    width = receptive_field([one.kernel for one in layers], [one.stride for one in layers])
    own: list[Convolution] = []
    for layer in layers:
        own.append(replace(layer, width_in=width))
        width = own[-1].width_out
    return PolynomialWeights(replace(weights.spec, layers=tuple(own)), weights.vector)


def _require_one_function(every: list[PolynomialWeights]) -> None:
    """A guard against mistakes: all placements have the same values at some inputs."""
    first = every[0]
    if not first.exact or first.spec.total_degree > _HIGHEST_CHECKED:
        return
    rng = np.random.default_rng(0)
    X = first.field.constant(rng.integers(-9, 10, (3, first.spec.width_in, 1)))
    values = [forward(one.field, one.spec, one.vector, X) for one in every]
    if any((value != values[0]).any() for value in values):
        raise AssertionError(
            f"{first.spec}: two placements of the filters are different functions; this is a bug "
            "in segre, please report it"
        )


def _few_points(spec: Polynomial) -> bool:
    return forms(spec.width_in, spec.total_degree) <= _MOST_POINTS


def _tangents(weights: PolynomialWeights) -> Array:
    """The derivatives by the weights, one per row, by their values at enough inputs.

    Forms of degree R are determined by their values at the points of whole numbers from 0 on whose
    sum is R: these are a principal lattice of the simplex.
    """
    spec = weights.spec
    X = np.array(list(_lattice(spec.width_in, spec.total_degree)))[:, :, None]
    field: Any = weights.field
    return np.asarray(jacobian(field, spec, weights.vector, field.constant(X))[:, 0].T)


def _lattice(variables: int, total: int) -> Iterator[tuple[int, ...]]:
    if variables == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _lattice(variables - 1, total - first):
            yield (first, *rest)


def _written(weights: PolynomialWeights) -> tuple[tuple[str, ...], ...]:
    return tuple(
        tuple(str(tap) if weights.exact else f"{tap:.6g}" for tap in own["w"][0])
        for own in weights.layers
    )


# --- quadratic networks ---------------------------------------------------------------------------


def _quadratic_point(weights: PolynomialWeights) -> QuadraticPoint:
    spec = weights.spec
    n, m, _ = spec.widths
    W, c = weights.layers[0]["W"], weights.layers[1]["W"][0]
    M = W.T @ (c[:, None] * W)
    positive, negative = signature(M)
    rank, most = positive + negative, min(m, n)
    reasons: list[Reason] = []
    if m < n and rank < m:
        reasons.append("rank drop" if rank else "zero function")
    plus, minus = int((c > 0).sum()), int((c < 0).sum())
    few = comb(n + 1, 2) <= _MOST_POINTS
    return QuadraticPoint(
        spec=spec,
        singular=bool(reasons),
        reasons=tuple(reasons),
        dimension=bound(spec).value,
        tangent=weights.algebra.rank(_tangents(weights)) if few else None,
        exact=weights.exact,
        rank=rank,
        signature=(positive, negative),
        outputs=(plus, minus, m - plus - minus),
        boundary=_bounded(most, positive, negative, plus, minus, m - plus - minus),
    )


def _bounded(most: int, positive: int, negative: int, plus: int, minus: int, zero: int) -> bool:
    """Whether some signature near (positive, negative) is not reached with outputs of these signs.

    Near a matrix are those with at least as many eigenvalues of either sign, and rank at most
    `most`. Output weights that are zero may get either sign.
    """
    return any(
        max(p - plus, 0) + max(q - minus, 0) > zero
        for p in range(positive, most + 1)
        for q in range(negative, most + 1 - p)
    )


def signature(M: Array) -> tuple[int, int]:
    """How many eigenvalues of a symmetric matrix are positive, and negative.

    All are real, so that by Descartes' rule the sign changes of the characteristic polynomial
    count the positive ones. In floats, what is below the tolerance counts as zero.
    """
    if M.dtype != object:
        values = np.linalg.eigvalsh((M + M.T) / 2)
        least = TOLERANCE * np.abs(values).max()
        return int((values > least).sum()), int((values < -least).sum())
    size = len(M)
    matrix = fmpq_mat(size, size, [fmpq(x) for x in M.reshape(-1).tolist()])
    coefficients = [x for x in matrix.charpoly().coeffs() if x != 0]
    changes = sum((a > 0) != (b > 0) for a, b in pairwise(coefficients))
    return changes, int(matrix.rank()) - changes


# --- where filters can begin ---------------------------------------------------------------------


@dataclass(frozen=True)
class Placements:
    """What of each filter is between the zeros at its ends, and where all of them may begin.

    Zeros at the ends of a filter leave room to move it. A filter that begins one place later moves
    the input by the product of the strides before its layer, so filters can be moved against each
    other: the placements with one function are the solutions of one linear equation in bounded
    integers. docs/geometry.md proves that there are no other filters with the same function, up to
    scale.
    """

    layers: tuple[Convolution, ...]
    starts: tuple[int, ...]
    inner: tuple[Array, ...]

    @classmethod
    def of(cls, layers: tuple[Convolution, ...], filters: list[Array]) -> Placements:
        """Trim the filters."""
        trimmed = [_trimmed(taps) for taps in filters]
        return cls(layers, tuple(start for start, _ in trimmed), tuple(taps for _, taps in trimmed))

    @property
    def zero(self) -> bool:
        """Whether a filter is zero, and so the function."""
        return any(not len(taps) for taps in self.inner)

    @cached_property
    def steps(self) -> list[int]:
        """By how much a filter that begins one place later moves the input."""
        out = [1]
        for layer in self.layers[:-1]:
            out.append(out[-1] * layer.stride)
        return out

    @property
    def room(self) -> list[int]:
        """How many places later than at its first a filter may begin."""
        return [
            layer.kernel - len(taps) for layer, taps in zip(self.layers, self.inner, strict=True)
        ]

    @property
    def shift(self) -> int:
        """By how much the input is moved in all."""
        return sum(start * step for start, step in zip(self.starts, self.steps, strict=True))

    def count(self) -> int:
        """How many placements have the function."""
        ways = {self.shift: 1}  # by what is left to move, from the last layer to the first
        for place in reversed(range(len(self.layers))):
            after: dict[int, int] = {}
            for left, number in ways.items():
                for start in self._allowed(place, left):
                    rest = left - start * self.steps[place]
                    after[rest] = after.get(rest, 0) + number
            ways = after
        return ways.get(0, 0)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """Where the filters begin, for each placement that has the function."""
        yield from self._from(len(self.layers) - 1, self.shift)

    def _from(self, place: int, left: int) -> Iterator[tuple[int, ...]]:
        if place < 0:
            yield ()
            return
        for start in self._allowed(place, left):
            for before in self._from(place - 1, left - start * self.steps[place]):
                yield (*before, start)

    def _allowed(self, place: int, left: int) -> range:
        """Starts of a filter after which the filters of earlier layers can still do the rest."""
        step, reach = self.steps[place], self._reach[place]
        least = max(0, -(-(left - reach) // step))
        return range(least, min(self.room[place], left // step) + 1)

    @cached_property
    def _reach(self) -> list[int]:
        """By how much the filters before each can move the input at most."""
        out = [0]
        for room, step in zip(self.room, self.steps, strict=True):
            out.append(out[-1] + room * step)
        return out[:-1]

    def placed(self, starts: tuple[int, ...]) -> Array:
        """All filters, one after the other, where they begin as given."""
        parts = []
        for layer, taps, start in zip(self.layers, self.inner, starts, strict=True):
            own = np.repeat(taps[:1] - taps[:1], layer.kernel)
            own[start : start + len(taps)] = taps
            parts.append(own)
        return np.concatenate(parts)


def _trimmed(taps: Array) -> tuple[int, Array]:
    """Where a filter begins, and its entries between the zeros at its ends."""
    if taps.dtype == object:
        (used,) = np.nonzero(taps)
    else:
        size = np.abs(taps)
        (used,) = np.nonzero(size > TOLERANCE * size.max())
    return (int(used[0]), taps[used[0] : used[-1] + 1]) if len(used) else (0, taps[:0])
