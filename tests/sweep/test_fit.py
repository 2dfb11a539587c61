"""Formulas are found where there are some, tested afresh, and not made up where there are none."""

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segre.errors import SweepError
from segre.sweep.draw import architectures
from segre.sweep.expression import Expression
from segre.sweep.fit import _variables, fit
from segre.sweep.law import Known
from segre.sweep.names import with_entries
from segre.sweep.plan import Plan
from segre.sweep.polynomial import Defect, Polynomial, defects, interpolate, monomials, terms_of
from segre.sweep.run import run
from segre.sweep.store import Store
from support.small_sweeps import segre

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


def test_a_search_that_is_cut_short_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = swept(tmp_path, "softmax", {"layers": "1..3", "d": "2..4", "a": "1..4", "t": 2})
    whole = fit(path, fresh=2)
    assert not whole.cut_short
    monkeypatch.setattr("segre.sweep.search._WORK", 0)
    with pytest.raises(SweepError, match="stopped early; give fewer --fields"):
        fit(path, fresh=2)


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
        assert same(str(piece.law.polynomial), wanted, EVERYWHERE)
        assert len(piece.fresh) == 20
        assert not piece.tested.allowed
        assert piece.law.polynomial.whole
    assert found.left == ()


def test_full_rank_heads_have_a_formula_the_paper_leaves_open(tmp_path: Path) -> None:
    fields = {"d": {"each": "2..4"}, "a": "2..4", "heads": "1..4", "t": 2}
    path = swept(tmp_path, "lightning", fields, where="a == d0")
    first = fit(path).pieces[0]
    points = [{"d0": p["x"], "d1": p["y"], "heads": p["z"]} for p in GRID]
    assert same(str(first.law.polynomial), "heads*(d0*d0 + d0*d1 - heads)", points)
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
        fit(path)
    (piece,) = fit(path, rational=True).pieces
    points = [{"d0": p["x"], "heads": p["y"]} for p in GRID]
    wanted = "heads*(d0 - heads) + d0*(heads*d0 - heads*(heads - 1)//2)"
    assert same(str(piece.law.polynomial), wanted, points)


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


def test_a_law_explains_the_exceptions_as_well(tmp_path: Path) -> None:
    """Three heads of rank 2 on three dimensions have 45, and not 48: some heads mix."""
    fields = {"layers": 1, "d": "2..5", "a": "1..4", "heads": "1..4", "t": 2}
    path = swept(tmp_path, "lightning", fields)
    found = fit(path)
    first = found.pieces[0]
    law = "heads*(2*d*a + d*d - a*a - 1 - max(0, heads - 1 - (d - a)**2))"
    points = [
        {"d": d, "a": a, "heads": h} for d in range(1, 9) for a in range(1, 9) for h in (1, 5, 9)
    ]
    assert same(str(first.law), law, points)
    assert first.law.value({"d": 3, "a": 2, "heads": 3}) == 45
    assert first.place == "a <= d and heads <= d"
    assert first.agreeing.counts == (45, 0, 0)
    assert first.tested.proved
    assert found.unproved == 0


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("lightning", {"d": "1..3", "a": "1..3", "heads": "1..4", "t": "1..2"}),
        ("softmax", {"layers": "1..2", "d": "1..3", "a": "1..2", "heads": "1..2", "t": "1..2"}),
    ],
)
def test_no_row_contradicts_what_is_proposed(
    tmp_path: Path, kind: str, fields: dict[str, Any]
) -> None:
    """Whether its bounds meet or not: and every row is explained, or said not to be."""
    path = swept(tmp_path, kind, fields)
    found = fit(path, fresh=5)
    with Store.open(path) as store:
        rows = list(store.rows())
    left, counted = set(found.left), 0
    for row in rows:
        known = Known.of(row.lower, row.upper, row.evidence)
        assert known is not None
        point = {name: with_entries(row.fields)[name] for name in found.fields}
        piece = next((p for p in found.pieces if p.region.holds(point)), None)
        assert (piece is None) is (row.spec in left)
        if piece is not None:
            assert known.allows(piece.law.value(point)), row.spec
            counted += 1
    assert counted == sum(piece.rows for piece in found.pieces)
    assert found.rows == len(rows) == counted + len(left)


def test_what_rows_say() -> None:
    modular, balls = {"lower": {"kind": "minor-mod-p"}}, {"lower": {"kind": "ball-minor"}}
    assert Known.of(None, None, {}) is None
    proved = Known.of(5, 5, balls)
    assert proved is not None
    assert proved.proved
    assert [proved.allows(n) for n in (4, 5, 6)] == [False, True, False]
    ranked = Known.of(5, 7, modular)
    assert ranked is not None
    assert not ranked.proved
    assert [ranked.allows(n) for n in (4, 5, 6)] == [False, True, False]
    between = Known.of(5, 7, balls)
    assert between is not None
    assert [between.allows(n) for n in (4, 5, 7, 8)] == [False, True, True, False]
    assert Known.of(5, 7, balls, balls=True) == ranked
    above = Known.of(None, 7, {})
    assert above is not None
    assert [above.allows(n) for n in (0, 7, 8)] == [True, True, False]


@given(
    st.sampled_from([None, "x", "y"]),
    st.lists(st.integers(-3, 3).filter(bool), min_size=1, max_size=3),
    st.randoms(use_true_random=False),
)
def test_planted_defects_are_found(factor: Any, coefficients: list[int], chance: Any) -> None:
    terms = chance.sample(terms_of(NAMES), len(coefficients))
    planted = Defect(factor, tuple(zip(coefficients, terms, strict=True)))
    over = [planted.value(point) for point in GRID]
    found = next(defects(NAMES, GRID, over), None)
    if found is None:
        assert sum(x > 0 for x in over) < 20  # too few to tell
        return
    assert [found.value(point) for point in GRID] == over
    assert all(Expression(str(found)).value(p) == x for p, x in zip(GRID, over, strict=True))


RANGES: dict[str, Any] = {
    **{"d": [4, 6, 8], "head": [1, 2, 3], "heads": [1, 2], "dv": [1, 2], "ff": [1, 2, 3]},
    **{"layers": [1, 2], "t": [2, 3], "vocab": [5, 6]},
}


@pytest.mark.parametrize("seed", range(20))
def test_formulas_are_in_what_was_swept(seed: int) -> None:
    """Not in what only follows from it: dv is head, unless it is given."""
    chance = random.Random(seed)
    fields = {"d": 4, "mlp": "gelu", "ff": 2, "t": 2}
    fields |= {key: RANGES[key] for key in chance.sample(sorted(RANGES), chance.randint(1, 4))}
    plan = Plan.from_mapping({"kind": "transformer", "exhaustive": True, "fields": fields})
    rows: Any = list(architectures(plan))
    found = _variables(plan, rows, ())
    varied = {"l" if key == "layers" else key for key in fields if key in RANGES}
    assert set(found) <= varied
    points = {tuple(row.fields[name] for name in found) for row in rows}
    assert len(points) == len(rows), "they tell all rows apart"
