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
from dataclasses import replace
from itertools import islice, pairwise
from math import comb
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat

from segre.errors import UnsupportedError
from segre.fields.interface import Array
from segre.fields.linear import TOLERANCE
from segre.geometry.placements import Placements
from segre.geometry.polynomial_stratum import FilterPoint, QuadraticPoint, Reason
from segre.network import forward, jacobian
from segre.polynomial.bounds import bound, forms
from segre.polynomial.spec import Convolution, Polynomial, receptive_field
from segre.weights.polynomial import PolynomialWeights

_MOST_POINTS = 2000  # where tangent vectors are evaluated
_MOST_BRANCHES = 64
_HIGHEST_CHECKED = 64  # degree: powers of fractions grow long


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
