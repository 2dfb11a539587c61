"""Formulas are found where there are some, tested afresh, and not made up where there are none."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_sweeps import segre

from segre.errors import SweepError
from segre.sweep.expression import Expression
from segre.sweep.fit import fit
from segre.sweep.plan import Plan
from segre.sweep.polynomial import Polynomial, interpolate, monomials
from segre.sweep.run import run

NAMES = ("x", "y", "z")
GRID = [{"x": x, "y": y, "z": z} for x in range(1, 5) for y in range(1, 5) for z in range(1, 5)]


@given(
    st.dictionaries(
        st.sampled_from(monomials(NAMES, 3)),
        st.fractions(-9, 9, max_denominator=3).filter(bool),
        max_size=6,
    )
)
def test_polynomials_are_recovered_and_read_back(terms: dict[Any, Fraction]) -> None:
    wanted = Polynomial(terms, 20)
    scale = 6  # values are integers
    values = [int(wanted.value(point) * scale) for point in GRID]
    found = interpolate(NAMES, 3, GRID, values)
    assert found is not None
    assert found.terms == {m: c * scale for m, c in terms.items()}
    assert [Expression(str(found)).value(point) for point in GRID] == values


@given(st.lists(st.integers(-(10**6), 10**6), min_size=64, max_size=64))
def test_noise_is_no_polynomial(values: list[int]) -> None:
    found = interpolate(NAMES, 2, GRID, values)
    assert found is None or [found.value(point) for point in GRID] == values


def swept(folder: Path, kind: str, fields: dict[str, Any], **more: Any) -> Path:
    path = folder / "s.db"
    plan = {"kind": kind, "exhaustive": True, "fields": fields, **more}
    run(Plan.from_mapping(plan), path, workers=2)
    return path


def same(one: str, two: str, points: list[dict[str, int]]) -> bool:
    return all(Expression(one).value(p) == Expression(two).value(p) for p in points)


EVERYWHERE = [{"l": x["x"], "d": x["y"], "a": x["z"]} for x in GRID]


@pytest.mark.parametrize(
    ("kind", "inside", "outside"),
    [
        ("softmax", "l*a*(2*d - a) + d*d", "(l + 1)*d*d"),
        ("lightning", "l*a*(2*d - a) + d*d - l", "(l + 1)*d*d - l"),
    ],
)
def test_the_published_formulas_are_found(
    tmp_path: Path, kind: str, inside: str, outside: str
) -> None:
    path = swept(tmp_path, kind, {"layers": "1..3", "d": "2..5", "a": "1..6", "t": 2})
    found = fit(path)
    assert found.fields == ("l", "d", "a")
    assert [piece.place for piece in found.pieces] == ["a <= d", "otherwise"]
    for piece, wanted in zip(found.pieces, (inside, outside), strict=True):
        assert same(str(piece.polynomial), wanted, EVERYWHERE)
        assert len(piece.fresh) == 20
        assert not piece.undecided
        assert piece.polynomial.whole
    assert found.left == ()


def test_full_rank_heads_have_a_formula_the_paper_leaves_open(tmp_path: Path) -> None:
    fields = {"d": {"each": "2..4"}, "a": "2..4", "heads": "1..4", "t": 2}
    path = swept(tmp_path, "lightning", fields, where="a == d0")
    first = fit(path).pieces[0]
    points = [{"d0": p["x"], "d1": p["y"], "heads": p["z"]} for p in GRID]
    assert same(str(first.polynomial), "heads*(d0*d0 + d0*d1 - heads)", points)
    assert str(first.region) == "heads <= d0"
    assert first.fresh


def test_too_few_rows_are_refused(tmp_path: Path) -> None:
    path = swept(tmp_path, "softmax", {"layers": "1..2", "d": "2..3", "a": "1..2", "t": 2})
    with pytest.raises(SweepError, match="enough"):
        fit(path)
    done = segre("sweep", "fit", str(path))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_fractions_are_refused_unless_asked_for(tmp_path: Path) -> None:
    fields = {"d": {"each": "1..6"}, "a": "1..6", "heads": "1..5", "t": 2}
    path = swept(tmp_path, "lightning", fields, where=["a == d0", "d1 == 1", "heads <= d0"])
    with pytest.raises(SweepError, match="rational"):
        fit(path, ranks=True)
    (piece,) = fit(path, ranks=True, rational=True).pieces
    points = [{"d0": p["x"], "heads": p["y"]} for p in GRID]
    wanted = "heads*(d0 - heads) + d0*(heads*d0 - heads*(heads - 1)//2)"
    assert same(str(piece.polynomial), wanted, points)


def test_what_cannot_be_fitted_is_refused_in_a_line(tmp_path: Path) -> None:
    path = swept(tmp_path, "softmax", {"d": "2..4", "a": "1..3", "t": 2})
    for options in (
        {"fields": ["secret"]},
        {"fields": ["kind"]},
        {"where": "__import__('os')"},
        {"where": "d > 100"},
        {"where": "d == 2 and a == 1"},
    ):
        with pytest.raises(SweepError):
            fit(path, **options)  # type: ignore[arg-type]
