"""All solutions of a system with finitely many, as one: F_p[x] / I is F_p[u] / (m).

If the powers of a random linear form u span the quotient algebra, every variable is a polynomial
in u. If m has no multiple root, every solution is simple, and there are as many as m has degrees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from flint import nmod_mat, nmod_poly

from segre.errors import UnluckyError
from segre.fields.draw import Stream
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.variety.groebner import ExhaustedError, Limits, Monomials, Row, groebner

MOST = 1000  # solutions; more are not counted


@dataclass(frozen=True)
class Solutions:
    """Simple solutions: the roots of `modulus`, with coordinates that are polynomials in a root."""

    modulus: Any
    coordinates: tuple[Any, ...]

    @property
    def count(self) -> int:
        """How many there are, over an algebraic closure."""
        return int(self.modulus.degree())

    def value(self, polynomial: Any) -> Any:
        """A polynomial in the variables at all solutions: a polynomial in u modulo m."""
        total = self.constant(0)
        powers: dict[tuple[int, int], Any] = {}
        for exponents, coefficient in polynomial.terms():
            term = self.constant(int(coefficient))
            for i, e in enumerate(map(int, exponents)):
                if e:
                    if (i, e) not in powers:
                        powers[i, e] = self.coordinates[i].pow_mod(e, self.modulus)
                    term = term * powers[i, e] % self.modulus
            total += term
        return total

    def constant(self, value: int) -> Any:
        """A number as a polynomial in u."""
        return nmod_poly([value], self.modulus.modulus())

    def distinct(self, value: Any) -> int:
        """How many different values there are: the degree of the minimal polynomial."""
        size = self.count
        if not size:
            return 0
        powers = [self.constant(1)]
        for _ in range(size - 1):
            powers.append(powers[-1] * value % self.modulus)
        rows = [[int(power[i]) for i in range(size)] for power in powers]
        return int(nmod_mat(rows, self.modulus.modulus()).rank())

    def without(self, value: Any) -> Solutions:
        """The solutions at which a value is not zero."""
        modulus = self.modulus
        if modulus.degree() > 0:
            modulus //= modulus.gcd(value)
        return Solutions(modulus, tuple(one % modulus for one in self.coordinates))


def solutions(
    system: Sequence[Any], used: Sequence[int], field: Prime, limits: Limits
) -> Solutions:
    """All solutions of a system of polynomials, in those variables of their ring that are used.

    Raises UnluckyError if there are infinitely many, or one of them is multiple.
    """
    order = Monomials(len(used))
    packed = [
        {order.pack([exponents[i] for i in used]): int(c) for exponents, c in one.terms()}
        for one in system
    ]
    basis = groebner(packed, order, field.p, limits)
    standard = standard_monomials(basis, order)
    nothing = [nmod_poly([0], field.p)] * (max(used) + 1)
    if not standard:
        return Solutions(nmod_poly([1], field.p), tuple(nothing))
    limits.check("solving", len(used) * len(standard) ** 2)
    modulus, own = _univariate(_products(basis, standard, order, field.p), field)
    for place, coordinate in zip(used, own, strict=True):
        nothing[place] = coordinate
    return Solutions(modulus, tuple(nothing))


def standard_monomials(basis: Sequence[Row], order: Monomials) -> list[int]:
    """The monomials that no leading monomial divides, the smallest first."""
    leads = [row.lead for row in basis]
    powers = [order.exponents(lead) for lead in leads]
    if 0 in leads:
        return []
    for i in range(order.variables):
        if not any(one[i] and sum(one) == one[i] for one in powers):
            raise UnluckyError("there are infinitely many solutions")
    found, queue, seen = [], [0], {0}
    while queue:
        monomial = queue.pop()
        if any(order.divides(lead, monomial) for lead in leads):
            continue
        found.append(monomial)
        if len(found) > MOST:
            raise ExhaustedError(f"there are more than {MOST} solutions")
        following = [monomial + order.variable(i) for i in range(order.variables)]
        queue += [one for one in following if one not in seen]
        seen.update(following)
    return sorted(found, key=order.rank)


def _products(
    basis: Sequence[Row], standard: Sequence[int], order: Monomials, p: int
) -> list[Array]:
    """For each variable the matrix of multiplication with it: rows are standard monomials."""
    size = len(standard)
    place = {monomial: i for i, monomial in enumerate(standard)}
    normal: dict[int, Array] = dict(zip(standard, np.eye(size, dtype=np.int64), strict=True))
    steps = [order.variable(i) for i in range(order.variables)]
    border = {one + step for one, step in product(standard, steps)} - set(standard)
    tails = {row.lead: row for row in basis}
    for monomial in sorted(border, key=order.rank):
        if monomial in tails:
            row = tails[monomial]
            vector = np.zeros(size, dtype=np.int64)
            for other, value in zip(row.monomials[1:], row.coefficients[1:], strict=True):
                vector[place[other]] = -value % p
        else:
            step = next(s for s in steps if order.divides(s, monomial) and monomial - s in border)
            below = normal[monomial - step]
            used = np.flatnonzero(below).tolist()
            table = np.array([normal[standard[b] + step] for b in used])
            vector = below[used] @ table % p
        normal[monomial] = vector
    return [np.array([normal[one + step] for one in standard]) for step in steps]


def _univariate(products: list[Array], field: Prime) -> tuple[Any, list[Any]]:
    """The minimal polynomial of a random linear form, and each variable as a polynomial in it."""
    p, size, variables = field.p, len(products[0]), len(products)
    form = field.residues(field.draw(Stream.COMBINATIONS, 0, (variables,))).tolist()
    times = sum(int(c) * matrix for c, matrix in zip(form, products, strict=True)) % p
    powers = [np.eye(1, size, dtype=np.int64)[0]]
    for _ in range(size):
        powers.append(powers[-1] @ times % p)
    krylov = nmod_mat(size, size, np.array(powers[:size]).T.reshape(-1).tolist(), p)
    if krylov.rank() < size:
        raise UnluckyError("a solution is multiple")
    wanted = np.array([powers[size], *(matrix[0] for matrix in products)]).T
    right = nmod_mat(size, variables + 1, wanted.reshape(-1).tolist(), p)
    solved = np.array([int(x) for x in krylov.solve(right).entries()], dtype=object)
    columns = solved.reshape(size, variables + 1).T.tolist()
    modulus = nmod_poly([*(-c % p for c in columns[0]), 1], p)
    if modulus.gcd(modulus.derivative()).degree() > 0:
        raise UnluckyError("a solution is multiple")
    return modulus, [nmod_poly(column, p) for column in columns[1:]]


def determinant(
    rows: Sequence[Sequence[Any]], modulus: Any = None, limits: Limits | None = None
) -> Any:
    """The determinant of a small matrix of polynomials, modulo another if given; no divisions."""
    size = len(rows)
    minors: Mapping[int, Any] = {0: 1}
    for row in rows:
        grown: dict[int, Any] = {}
        for used, minor in minors.items():
            if limits is not None:
                limits.check("expanding a minor")
            for j in range(size):
                if not used >> j & 1:
                    term = minor * row[j] * (-1 if (used >> j).bit_count() % 2 else 1)
                    grown[used | 1 << j] = grown.get(used | 1 << j, 0) + term
        minors = {used: one if modulus is None else one % modulus for used, one in grown.items()}
    return minors[(1 << size) - 1]
