"""`segre reproduce theorems`: counts of a store are what its rows say, and runs go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from segre.reproduce import theorems
from segre.reproduce.theorems import experiment
from segre.sweep.builtin import plan_of


def test_every_plan_that_compares_is_run() -> None:
    assert {"theorem-stacks", "theorem-decoders", "theorem-outside"} <= set(theorems.PLANS)
    for name in theorems.PLANS:
        plan = plan_of(name)
        assert plan.claim is not None
        assert plan.claim.text in ("dimension == theorem", "lower == theorem")
        assert set(plan.compute) == {"exact", "theorem"}


def test_a_run_goes_on_and_counts_every_architecture_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(theorems, "PLANS", ("theorem-stacks", "theorem-heads"))
    first = experiment(tmp_path, limit=15, workers=1)
    then = experiment(tmp_path, limit=15, workers=1)
    assert sum(row.architectures for row in first.rows) == 30
    assert sum(row.architectures for row in then.rows) == 60
    assert {row.theorem for row in then.rows} >= {"A", "A'"}
    assert all(row.within for row in then.rows)
    assert all(row.equal == row.architectures for row in then.rows)
    assert then.mismatches == 0
    assert "Mismatches where the hypotheses hold: 0." in str(then)
    assert then.document()["mismatches"] == 0


def test_outside_the_hypotheses_nothing_is_a_mismatch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = {
        "kind": "softmax",
        "exhaustive": True,
        "compute": ["exact", "theorem"],
        "claim": "dimension == theorem",
        "fields": {"layers": 1, "d": "2..3", "a": 1, "t": 1},
    }
    monkeypatch.setattr(theorems, "PLANS", ("one",))
    monkeypatch.setattr(theorems, "run", _run_of(plan))
    found = experiment(tmp_path)
    assert [(row.theorem, row.within, row.different) for row in found.rows] == [("A", False, 2)]
    assert found.mismatches == 0


def _run_of(plan: dict[str, object]) -> object:
    from segre.sweep.run import run

    return lambda _, store, **options: run(plan, store, **{**options, "workers": 1})
