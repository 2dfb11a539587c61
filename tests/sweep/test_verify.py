"""Rows that are altered and sealed again are found by computing them again, and only by that."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from bench.faults.stores import PLAN, in_this_process, make

from segre.sweep.status import standing
from segre.sweep.store import Store
from segre.sweep.verify import check
from support.terminal import run

CHANGES = {
    "lower": lambda row: replace(row, lower=row.lower - 1),
    "upper": lambda row: replace(row, upper=row.upper + 1),
    "both": lambda row: replace(row, lower=row.lower - 1, upper=row.upper - 1),
    "parameters": lambda row: replace(row, parameters=row.parameters + 1),
    "closed form": lambda row: replace(row, closed_form=row.closed_form + 1),
    "status": lambda row: replace(row, status="lower-bound"),
    "claim": lambda row: replace(row, claim="fails" if row.claim == "holds" else "holds"),
    "field": lambda row: replace(row, fields={**row.fields, "t": row.fields["t"] + 1}),
    "spec": lambda row: replace(row, spec=row.spec.replace("t=", "t=1")),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "s.db"
    make(path)
    return path


def test_a_store_that_a_run_wrote_agrees(store: Path) -> None:
    found = check(store, in_this_process, sample=None)
    assert (found.value, found.checked) == (True, PLAN.draw)
    for seed in range(3):
        part = check(store, in_this_process, sample=4, seed=seed)
        assert (part.value, part.checked, part.rows) == (True, 4, PLAN.draw)


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_sealed_again_is_shown_and_does_not_agree(
    change: str, store: Path, tmp_path: Path
) -> None:
    forged = tmp_path / "forged.db"
    forged.write_bytes(store.read_bytes())
    with Store.open(store) as whole:
        row = Random(change).choice(list(whole.rows()))
    with Store.create(forged, PLAN) as opened:
        opened.add([CHANGES[change](row)])
    standing(forged)  # checksums do not find it
    assert not check(forged, in_this_process, sample=None).value


def test_the_command_says_what_differs(store: Path, tmp_path: Path) -> None:
    good = run("sweep", "verify", store, "--sample", "2", "--workers", "1")
    assert (good.returncode, good.stderr) == (0, "")
    assert "2 of 24 rows computed again (seed 0): all agree" in good.stdout
    forged = tmp_path / "forged.db"
    forged.write_bytes(store.read_bytes())
    with Store.create(forged, PLAN) as opened:
        row = next(opened.rows())
        opened.add([CHANGES["both"](row)])
    bad = run("sweep", "verify", forged, "--all", "--workers", "1")
    assert bad.returncode == 1
    assert "24 of 24 rows computed again (seed 0): 1 differ" in bad.stdout
    assert f"{row.spec}: lower is {row.lower - 1} in the store, computed: {row.lower}" in bad.stdout
