"""Groebner bases mod p against Bezout's theorem, and solutions that solve."""

import itertools
from math import prod
from typing import Any

import numpy as np
import pytest
from flint import Ordering, nmod_mpoly_ctx

from segre.errors import UnluckyError
from segre.fields.prime import Prime
from segre.variety.groebner import ExhaustedError, Limits, Monomials, groebner
from segre.variety.points import determinant, solutions

FIELD = Prime()
LIMITS = (60.0, 1 << 30)


def ring(variables: int) -> Any:
    names = tuple(f"x{i}" for i in range(variables))
    return nmod_mpoly_ctx.get(names, modulus=FIELD.p, ordering=Ordering.degrevlex)


def dense(own: Any, degree: int, rng: np.random.Generator) -> Any:
    """A random polynomial with all monomials up to a degree."""
    size = len(own.gens())
    every = itertools.product(range(degree + 1), repeat=size)
    return own.from_dict(
        {key: int(rng.integers(1, FIELD.p)) for key in every if sum(key) <= degree}
    )


@pytest.mark.parametrize("degrees", [(2,), (2, 3), (3, 4), (2, 2, 2), (3, 2, 2), (2, 2, 2, 2)])
def test_as_many_solutions_as_bezout_says_and_all_solve(degrees: tuple[int, ...]) -> None:
    rng = np.random.default_rng(sum(degrees))
    own = ring(len(degrees))
    system = [dense(own, degree, rng) for degree in degrees]
    found = solutions(system, range(len(degrees)), FIELD, Limits(*LIMITS))
    assert found.count == prod(degrees)
    assert all(not found.value(one) for one in system)
    assert found.distinct(found.value(dense(own, 1, rng))) == found.count
    assert found.distinct(found.constant(3)) == 1
    assert found.without(found.constant(1)).count == found.count
    assert found.without(found.constant(0)).count == 0


def test_every_s_polynomial_reduces_to_zero() -> None:
    """Buchberger's criterion, by the basis of the basis and each element."""
    rng = np.random.default_rng(7)
    own, order = ring(3), Monomials(3)
    system = [
        {order.pack(map(int, e)): int(c) for e, c in dense(own, 2, rng).terms()} for _ in range(2)
    ]
    basis = groebner(system, order, FIELD.p, Limits(*LIMITS))
    again = groebner(
        [dict(zip(row.monomials, row.coefficients, strict=True)) for row in basis] + system,
        order,
        FIELD.p,
        Limits(*LIMITS),
    )
    assert again == basis
    for row in basis:
        others = [one.lead for one in basis if one is not row]
        assert not any(order.divides(lead, m) for lead in others for m in row.monomials)


def test_infinitely_many_none_and_multiple_solutions() -> None:
    x, y = ring(2).gens()
    with pytest.raises(UnluckyError, match="infinitely many"):
        solutions([x * y], [0, 1], FIELD, Limits(*LIMITS))
    with pytest.raises(UnluckyError, match="multiple"):
        solutions([x**2, y - 1], [0, 1], FIELD, Limits(*LIMITS))
    assert solutions([x, x - 1, y], [0, 1], FIELD, Limits(*LIMITS)).count == 0
    assert solutions([y**2 - 2], [1], FIELD, Limits(*LIMITS)).count == 2


def test_limits_stop_it() -> None:
    own, rng = ring(3), np.random.default_rng(0)
    system = [dense(own, 3, rng) for _ in range(3)]
    with pytest.raises(ExhaustedError, match="0 seconds"):
        solutions(system, range(3), FIELD, Limits(0, 1 << 30))
    with pytest.raises(ExhaustedError, match="memory"):
        solutions(system, range(3), FIELD, Limits(60, 1000))


def test_determinants() -> None:
    rng = np.random.default_rng(3)
    for size in (1, 2, 3, 5):
        matrix = rng.integers(-9, 9, (size, size))
        wanted = round(np.linalg.det(matrix.astype(float)))
        assert determinant([[int(x) for x in row] for row in matrix]) == wanted
