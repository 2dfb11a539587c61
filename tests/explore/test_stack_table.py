"""The formulas of stacks on the static page are segre's, and a wrong one stops the build."""

import random
from typing import Any

import pytest

from segre.explore import stack_table as tables
from segre.explore.formulas import DisagreementError
from segre.explore.stack_table import check, formulas_of, rows, stack_table
from segre.geometry.point import Point
from segre.geometry.rank import symmetry_rank
from segre.hybrid.fiber import parts
from segre.hybrid.spec import Hybrid

EVERY = list(rows())


def test_rows_have_every_mechanism_and_every_option() -> None:
    assert {row["kind"] for row in EVERY} == {
        *("softmax", "lightning", "linear", "fast", "double", "gapless")
    }
    for key, one in (("gate", "element"), ("conv", "depthwise"), ("feature", "relu")):
        assert any(row[key] == one for row in EVERY)
    assert any(row["window"] == "+" and row["gate"] == "head" for row in EVERY)


def test_formulas_at_random_sizes() -> None:
    rng = random.Random(2)
    for row in rng.sample(EVERY, 40):
        for factored in (False, True):
            formulas = formulas_of(row, factored)
            for _ in range(5):
                check(row, formulas, factored, rng)


def test_a_formula_that_is_wrong_stops_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    true = tables.of_traits

    def wrong(spec: Any) -> Any:
        return {part: count + 1 for part, count in true(spec).items()}

    monkeypatch.setattr(tables, "of_traits", wrong)
    plain = [row for row in EVERY if row["kind"] == "softmax"][:6]
    with pytest.raises(DisagreementError):
        stack_table(lambda row: row in plain)


@pytest.mark.parametrize(
    "text",
    [
        "softmax/d=3,3,3/a=2/gate=element/t=3",
        "softmax/d=4,4/a=2/heads=2/dv=2/bias=both/t=3",
        "fast/d=4,4/a=4/t=3",
        "linear/d=3,3/a=2/feature=exp/t=3",
        "lightning/d=4,4/a=2/dv=4/feature=square/decay=1/2/t=3",
        "double/d=3,3/a=2/conv=depthwise/kernel=2/t=4",
        "softmax/d=3,3/a=3/unit=sphere/conv=none/t=3",
        "softmax/d=3,3,3/a=2/conv=shared/kernel=2/t=4",
    ],
)
def test_names_and_counts_are_those_of_the_generators(text: str) -> None:
    spec = Hybrid.parse(text)
    found: dict[tuple[str, str], int] = {}
    for one in symmetry_rank(Point.draw(spec, 0)).symmetries:
        found[one.group, one.name] = found.get((one.group, one.name), 0) + one.dimension
    assert parts(spec) == found
