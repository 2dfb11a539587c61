"""Tasks that never end: they are ended, recorded as such, and keep nobody waiting."""

from itertools import islice
from pathlib import Path

import pytest

from segre.errors import SweepError
from segre.sweep.local import solve_locally
from segre.sweep.plan import Plan
from segre.sweep.run import run
from segre.sweep.store import Store
from support.small_sweeps import never_ending, small, tasks_of

LIMIT = 5.0  # seconds; tasks that end take a hundredth


@pytest.fixture
def digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What `small(draw=12)` draws; in workers, those named in NEVER_ENDS never end."""
    never_ending(tmp_path / "site", monkeypatch)
    return [task["digest"] for task in tasks_of(12)]


def statuses(path: Path) -> dict[str, str]:
    with Store.open(path) as store:
        return {row.digest: row.status for row in store.rows()}


def test_what_never_ends_is_recorded_and_tried_again_after_all_others(
    tmp_path: Path, digests: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = {digests[0], digests[5]}
    monkeypatch.setenv("NEVER_ENDS", " ".join(slow))
    path = tmp_path / "s.db"
    first = run(Plan.from_mapping(small(draw=12)), path, workers=2, timeout=LIMIT)
    assert (first.done, first.timed_out, first.left) == (12, 2, 2)
    assert {digest for digest, status in statuses(path).items() if status == "timed-out"} == slow
    with Store.open(path) as store:
        for row in store.rows():
            if row.digest in slow:
                assert (row.lower, row.upper, row.claim) == (None, None, "undecided")
                assert row.evidence["limit"] == row.seconds == LIMIT
                assert row.evidence["problem"] == "no result within 5 s"
    # a later run does what is new first: these three, and not the slow ones
    second = run(Plan.from_mapping(small(draw=15)), path, workers=1, limit=3)
    assert (second.done, second.before, second.timed_out, second.left) == (3, 10, 0, 2)
    assert {digest for digest, status in statuses(path).items() if status != "proved"} == slow
    monkeypatch.setenv("NEVER_ENDS", "")
    third = run(Plan.from_mapping(small(draw=15)), path, workers=2, timeout=10 * LIMIT)
    assert (third.done, third.before, third.left) == (2, 13, 0)
    assert set(statuses(path).values()) == {"proved"}


def test_what_never_ends_keeps_nobody_waiting(
    digests: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a limit too: tasks that wait behind it are done by other workers."""
    monkeypatch.setenv("NEVER_ENDS", digests[0])
    results = solve_locally(tasks_of(12), 2)
    found = [result["digest"] for result in islice(results, 11)]
    results.close()  # type: ignore[attr-defined]
    assert sorted(found) == sorted(digests[1:])


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("nan"), float("inf")])
def test_a_limit_is_a_number_of_seconds(tmp_path: Path, timeout: float) -> None:
    with pytest.raises(SweepError, match="allowed: seconds"):
        run(Plan.from_mapping(small()), tmp_path / "s.db", timeout=timeout)
    assert not list(tmp_path.iterdir())
