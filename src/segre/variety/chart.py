"""Which weights of a network can be fixed without losing functions?

A chart fixes weights at 0 or 1 until as many are free as the functions have dimensions. If the
Jacobian by the free weights still has that rank at one point, the functions of the chart are dense
among all functions, and almost all of them have finitely many weights there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
from flint import Ordering, nmod_mat, nmod_mpoly_ctx

from segre.errors import SegreError
from segre.fields.draw import Stream
from segre.fields.interface import Array
from segre.fields.operators import Operators
from segre.fields.prime import Prime
from segre.network import forward, jacobian
from segre.polynomial.spec import Polynomial
from segre.variety.groebner import ExhaustedError

Fixed = tuple[int | None, ...]
Key = tuple[int, tuple[int, ...]]  # number of an output, exponents of the input
_MOST_TERMS = 200_000


def chart(spec: Polynomial, dimension: int, field: Prime) -> Fixed:
    """For each weight its fixed value, or None: exactly `dimension` weights are free.

    Scales of hidden units fix one weight of each; larger symmetries fix more. Here three weights
    of M = W^T C W are fixed, since a rotation of W does not change M.

    >>> chart(Polynomial.parse("poly/3-2-1/degree=2"), 5, Prime())
    (0, 1, None, 1, None, None, None, None)
    """
    fixed: list[int | None] = [None] * spec.parameters
    for place in range(spec.parameters):
        if sum(value is None for value in fixed) == dimension:
            break
        for value in (0, 1):
            fixed[place] = value
            if rank_at(spec, fixed, field) == dimension:
                break
        else:
            fixed[place] = None
    return tuple(fixed)


def cone_chart(spec: Polynomial, fixed: Fixed, dimension: int, field: Prime) -> Fixed | None:
    """The same with one more weight fixed, so that all multiples of its functions are dense."""
    for place in reversed(range(spec.parameters)):
        if fixed[place] is None:
            one = (*fixed[:place], 1, *fixed[place + 1 :])
            if rank_at(spec, one, field, multiples=True) == dimension:
                return one
    return None


def rank_at(
    spec: Polynomial, fixed: Sequence[int | None], field: Prime, *, multiples: bool = False
) -> int:
    """The rank of the Jacobian by the free weights at a random point; also by a scale."""
    weights = field.draw(Stream.WEIGHTS, 0, (spec.parameters,))
    free = [i for i, value in enumerate(fixed) if value is None]
    for i, value in enumerate(fixed):
        if value is not None:
            weights[i] = value
    X = field.draw(Stream.INPUTS, 0, (spec.parameters + 1, spec.width_in, 1))
    rows = jacobian(field, spec, weights, X)[..., free].reshape(-1, len(free))
    if multiples:
        rows = np.concatenate([rows, forward(field, spec, weights, X).reshape(-1, 1)], axis=1)
    return _rank(field.residues(rows), field.p)


def _rank(rows: Array, p: int) -> int:
    if not rows.size:
        return 0
    height, width = rows.shape
    return int(nmod_mat(height, width, rows.reshape(-1).tolist(), p).rank())


# --- the functions of a chart ---------------------------------------------------------------------


class Symbols(Operators):
    """Polynomials: whatever has Python's operators."""

    def constant(self, x: Array) -> Array:
        """Whole numbers, which a polynomial ring contains."""
        out = np.empty(x.shape, dtype=object)
        out.reshape(-1)[:] = [int(value) for value in x.reshape(-1).tolist()]
        return out

    def fraction(self, value: Fraction) -> Array:
        """Whole numbers only."""
        if value.denominator != 1:
            raise SegreError(f"{value} is not a coefficient of these polynomials")
        return self.constant(np.array([[value.numerator]], dtype=object))

    def exp(self, x: Array, used: Array | None = None) -> Array:  # noqa: ARG002
        """Refused: polynomials have no exponentials."""
        raise SegreError("the outputs of a network with exponentials are not polynomials")

    def reciprocal(self, x: Array) -> Array:  # noqa: ARG002
        """Refused: polynomials have no inverses."""
        raise SegreError("the outputs of a network with division are not polynomials")


@dataclass(frozen=True)
class Functions:
    """The function of generic weights: each coefficient is a polynomial in the free weights.

    `ring` has a variable for each free weight, then a scale, then one more for an inverse.
    """

    ring: Any
    coefficients: dict[Key, Any]

    @property
    def variables(self) -> tuple[Any, ...]:
        """The free weights."""
        return tuple(self.ring.gens()[:-2])


def functions(spec: Polynomial, fixed: Sequence[int | None], p: int) -> Functions:
    """All coefficients of the outputs, where weights that are not None have fixed values.

    The forward map runs over the polynomial ring F_p[weights, inputs].

    >>> found = functions(Polynomial.parse("poly/2-1-1/degree=2"), [1, None, None], 101)
    >>> {key: str(value) for key, value in found.coefficients.items()}
    {(0, (2, 0)): 'w2', (0, (1, 1)): '2*w1*w2', (0, (0, 2)): 'w1^2*w2'}
    """
    _require_few_terms(spec)
    free = [i for i, value in enumerate(fixed) if value is None]
    names = [f"w{i}" for i in free]
    inputs = [f"x{i}" for i in range(spec.width_in)]
    both = _ring([*names, *inputs], p)
    symbols = both.gens()
    weights = np.empty(spec.parameters, dtype=object)
    weights[:] = [0 if value is None else int(value) for value in fixed]
    for place, symbol in zip(free, symbols, strict=False):
        weights[place] = symbol
    X = np.empty((1, spec.width_in, 1), dtype=object)
    X[0, :, 0] = symbols[len(free) :]
    out = forward(Symbols(), spec, weights, X).reshape(-1)
    ring = _ring([*names, "scale", "inverse"], p)
    found: dict[Key, dict[tuple[int, ...], int]] = defaultdict(dict)
    for number, output in enumerate(out):
        for exponents, value in (both.constant(0) + output).terms():
            where = (number, tuple(map(int, exponents[len(free) :])))
            found[where][(*map(int, exponents[: len(free)]), 0, 0)] = int(value)
    made = {key: ring.from_dict(found[key]) for key in sorted(found, reverse=True)}
    return Functions(ring, made)


def _ring(names: list[str], p: int) -> Any:
    return nmod_mpoly_ctx.get(tuple(names), modulus=p, ordering=Ordering.degrevlex)


def _require_few_terms(spec: Polynomial) -> None:
    """Refuse what would have too many terms, before it has them."""
    terms = 1
    for number, layer in enumerate(spec.layers, 1):
        terms = terms * (layer.weights // layer.units) + spec.bias
        if number < spec.depth and terms <= _MOST_TERMS:
            power = min(terms - 1, spec.degree)
            terms = comb(terms - 1 + spec.degree, power)
        if terms * layer.width_out > _MOST_TERMS:
            raise ExhaustedError("the coefficients have too many terms to write out")
