"""Upper bounds of polynomial networks: never below the exact rank, nearly always equal to it."""

from __future__ import annotations

import pytest

from segre.geometry.dimension import dimension
from segre.models import architecture
from segre.polynomial.bounds import EXCEPTIONS, bound, expected, sums_of_powers
from segre.polynomial.spec import Polynomial
from segre.theorems import apply
from support.polynomials import random_polynomials


def test_alexander_hirschowitz_in_all_small_cases() -> None:
    """Up to five variables, degrees 2 to 4, up to 15 summands: the exact rank is the theorem."""
    defective = {}
    for n in range(2, 6):
        for degree in (2, 3, 4):
            for m in range(1, 16):
                found = dimension(f"poly/{n}-{m}-1/degree={degree}")
                assert found.value == sums_of_powers(n, degree, m), found.spec
                if degree > 2 and found.value < expected(Polynomial.parse(str(found.spec))):
                    defective[n, degree, m] = found.value
                    assert any("the defect is 1" in note for note in found.notes)
    assert defective == EXCEPTIONS


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("poly/3-5-2/degree=3", 19),
        ("poly/3-2-2-1/degree=2", 7),
        ("poly/3-2-2-1/degree=3", 8),
        ("poly/3-3-3-1/degree=2", 12),
        ("poly/2-2-2-2/degree=2", 8),
        ("poly/3-2-1-2-2/degree=2", 6),
    ],
)
def test_deep_networks_and_several_outputs(text: str, value: int) -> None:
    found = dimension(text)
    assert (found.value, found.status) == (value, "proved")


def test_no_bound_is_below_the_exact_rank_and_few_are_above() -> None:
    """`exact` uses none of the inequalities; an upper bound below the rank would stop `auto`."""
    above = 0
    every = random_polynomials(6, 250)
    for spec in every:
        exact = dimension(spec, "exact")
        assert exact.lower is not None
        assert exact.lower <= bound(spec).value <= spec.parameters
        above += exact.lower < bound(spec).value
    assert above <= 5


def test_theorems_say_what_the_exact_rank_says() -> None:
    covered = 0
    for spec in random_polynomials(7, 200):
        applied = apply(spec)
        if applied is not None:
            covered += 1
            assert applied.dimension == dimension(spec, "exact").lower, spec
    assert covered > 80


def test_a_theorem_holds_at_any_size() -> None:
    found = dimension("poly/2000-30000-1/degree=5")
    assert found.value == 60_000_000
    assert found.theorem is not None
    assert found.theorem["name"] == "V"
    assert found.theorem["trusts"] == ["Alexander-Hirschowitz"]
    filters = dimension("cnn/k=4000,3000,20/degree=3")
    assert filters.value == 4000 + 3000 + 20 - 2


def test_formulas_of_huge_networks_end() -> None:
    for text in ("poly/9-9-9-9-9-9-9-9-9/degree=1000", "poly/d=3/layers=2000/degree=7"):
        spec = architecture(text)
        assert isinstance(spec, Polynomial)
        assert 0 < bound(spec).value <= spec.parameters
