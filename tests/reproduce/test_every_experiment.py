"""Laws of all experiments: each runs, resumes to the same bits, and explains itself."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from blocks import ROOT
from segre.errors import SegreError
from segre.report.experiments import markdown
from segre.report.png import plot
from segre.reproduce.claim import FORMULA, PAPER, SOURCES, Claim
from segre.reproduce.experiment import Experiment, Outcome, perform
from segre.reproduce.registry import MODULES, experiment, experiments
from segre.reproduce.scoreboard import read, read_all
from segre.reproduce.state import Kept, Store
from segre.reproduce.verify import verify
from segre.sweep.run import run as sweep
from support.terminal import run

EVERY = pytest.mark.parametrize("name", MODULES)
_DONE: dict[str, Outcome] = {}
STORED = ROOT / "docs" / "results"


class StopError(Exception):
    """The process is gone."""


def small(one: Experiment, **given: Any) -> Outcome:
    return perform(one, **{"seeds": 2, "options": one.small, **given})


def undisturbed(name: str) -> Outcome:
    """The outcome of a small run; once for all tests."""
    if name not in _DONE:
        _DONE[name] = small(experiment(name))
    return _DONE[name]


@EVERY
def test_an_interrupted_run_ends_in_the_same_document(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after every single time that anything was kept."""
    one, file, expected = experiment(name), tmp_path / "a.run", undisturbed(name).document()
    save, written = Store._save, 0

    def stopping(self: Store) -> None:
        nonlocal written
        save(self)
        written += 1
        if written <= 5:
            raise StopError

    monkeypatch.setattr(Store, "_save", stopping)
    while True:
        try:
            found = small(one, file=file)
            break
        except StopError:
            assert list(tmp_path.iterdir()) == [file]
    assert written >= 1
    assert found.document() == expected


@EVERY
def test_a_run_of_another_seed_is_refused(name: str, tmp_path: Path) -> None:
    one, file = experiment(name), tmp_path / "a.run"
    meant = {"experiment": name, "seeds": [0, 1], "full": False, **one.defaults(), **one.small}
    if not one.seeded:
        meant |= {"seeds": [], "experiment": "something else"}
    Store(file, meant).unit("nothing", lambda _: 0)
    with pytest.raises(SegreError, match=r"to another run \(.*--fresh"):
        small(one, file=file, seed=5)


@EVERY
def test_documents_are_read_back(name: str) -> None:
    found = undisturbed(name)
    document = json.loads(json.dumps(found.document()))
    assert Outcome.of(document).document() == document
    assert found.claims
    assert sum(found.counts().values()) == len(found.claims)
    assert {claim.source for claim in found.claims} <= set(SOURCES)
    for table in found.found.tables:
        assert {len(row) for row in table.rows} <= {len(table.columns)}
        assert len(table.formats) in {0, len(table.columns)}
    for panel in found.found.panels:
        assert all(len(one.x) == len(one.y) for one in panel.series)


@EVERY
def test_text_and_picture(name: str, tmp_path: Path) -> None:
    found = undisturbed(name)
    said = str(found)
    assert found.work.arxiv in said
    assert "Claims: " in said
    plot(found, tmp_path / "a.svg")
    assert (tmp_path / "a.svg").stat().st_size > 1000


@EVERY
def test_what_is_measured_belongs_to_its_seed(name: str) -> None:
    """Seed 1 alone gives the numbers that it gives after seed 0."""
    one = experiment(name)
    if not one.seeded:
        return
    both, alone = undisturbed(name), small(one, seed=1, seeds=1)
    for first, second in zip(both.claims, alone.claims, strict=True):
        if len(first.measured) == 2:
            assert second.measured == pytest.approx(first.measured[1:], rel=1e-9), first.says


@EVERY
def test_stored_claims_have_sources_and_reasons(name: str) -> None:
    """Limits of our own are not the paper's; numbers are why something is not reproduced."""
    for claim in read(STORED / f"{name}.json").claims:
        if claim.relation in ("<=", ">=") and claim.source == "paper":
            assert "published" in claim.says
        assert (claim.why == "") == (claim.status == "reproduced")
        if claim.status == "not reproduced":
            assert re.search(r"\d", claim.why.partition(" in ")[0]), claim.why
            shown = re.findall(r"-?\d+\.\d+", claim.why.rpartition(": ")[2])
            if claim.relation != "true":
                wrong = [x for x in claim.measured if not claim._fits(float(x or 0))]
                assert [float(x) for x in shown] == pytest.approx(wrong, rel=1e-3)


@EVERY
def test_an_experiment_describes_itself(name: str) -> None:
    one = experiment(name)
    assert one.name == name
    assert one.title.endswith(".")
    assert one.question.endswith("?")
    assert all(example.startswith(name) for example in one.examples)
    assert one.examples
    assert set(one.small) <= set(one.defaults())


def test_a_killed_process_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    """The signal that nobody can catch, sent after something was kept."""
    file = tmp_path / "gap.run"
    line = (
        "reproduce",
        "gap",
        "-o",
        str(tmp_path / "gap.svg"),
        "--json",
        "--widest",
        "250",
        "--seeds",
        "2",
    )
    process = subprocess.Popen([sys.executable, "-m", "segre", *line], stdout=subprocess.DEVNULL)
    try:
        limit = time.monotonic() + 300  # a guard against hanging
        while not file.exists() and time.monotonic() < limit:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    resumed = json.loads(run(*line).stdout)
    other = json.loads(run(*line, "--fresh").stdout)
    assert resumed == other
    assert process.returncode == -signal.SIGKILL


def test_a_picture_that_cannot_be_drawn_is_refused_first(tmp_path: Path) -> None:
    done = run("reproduce", "gap", "-o", str(tmp_path / "gap.docx"))
    assert done.returncode == 2
    assert "allowed: .png" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_unknown_names_are_refused() -> None:
    with pytest.raises(SegreError, match="allowed: "):
        experiment("no such thing")
    with pytest.raises(SegreError, match="unknown option deep; allowed: widest"):
        perform(experiment("gap"), options={"deep": 3})
    assert [one.name for one in experiments()] == list(MODULES)


# --- claims --------------------------------------------------------------------------------------


def test_the_status_of_a_claim_follows_from_its_numbers() -> None:
    assert PAPER("x").near(1, [1.04, 0.97], tolerance=0.05).status == "reproduced"
    assert PAPER("x").near(1, [1.06, 0.94], tolerance=0.05).status == "not reproduced"
    assert PAPER("x").near(1, [1.06, 0.94], tolerance=0.05, by_mean=True).status == "reproduced"
    assert PAPER("x").at_most(2, [1, 2]).status == "reproduced"
    assert PAPER("x").at_most(2, [1, 2.1]).status == "not reproduced"
    assert PAPER("x").at_least(2, [2, 3]).status == "reproduced"
    assert PAPER("x").at_least(2, [1.9, 3]).status == "not reproduced"
    assert PAPER("x").holds([True, True]).status == "reproduced"
    assert PAPER("x").holds([True, False]).status == "not reproduced"
    assert PAPER("x").untestable("too large").status == "not testable here"
    assert PAPER("x").near(1, [float("nan")], tolerance=9).status == "not reproduced"
    assert PAPER("x").near(1, [], tolerance=9).status == "not reproduced"


def test_a_claim_is_read_back_and_judged_again() -> None:
    claim = FORMULA("x").near(1, [1.5, 1], tolerance=0.1)
    document = claim.document()
    assert Claim.of(document) == claim
    assert Claim.of(document | {"status": "reproduced"}).status == "not reproduced"
    assert claim.spread == pytest.approx(0.5 / 2**0.5)


# --- the state of a run --------------------------------------------------------------------------


def test_arrays_and_floats_come_back_to_the_last_bit(tmp_path: Path) -> None:
    file = tmp_path / "a.run"
    values = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)

    def stopped(kept: Kept) -> None:
        kept.keep({"weights": [values, {"step": 7}], "rate": 0.1 + 0.2})
        raise StopError

    with pytest.raises(StopError):
        Store(file, {"seed": 0}).unit("training", stopped)

    def again(kept: Kept) -> str:
        assert kept.state is not None
        (found, rest), rate = kept.state["weights"], kept.state["rate"]
        assert (found == values).all()
        assert found.dtype == values.dtype
        assert (rest, rate) == ({"step": 7}, 0.1 + 0.2)
        return "went on"

    store = Store(file, {"seed": 0})
    assert store.unit("training", again) == "went on"
    assert store.under_way == {}
    assert Store(file, {"seed": 0}).unit("training", stopped) == "went on"


def test_damaged_files_are_refused_and_stay(tmp_path: Path) -> None:
    file = tmp_path / "a.run"
    Store(file, {"seed": 0}).unit("x", lambda _: 1)
    good = file.read_bytes()
    for wrong in (b"", b"text", good[: len(good) // 2], good[:-8]):
        file.write_bytes(wrong)
        with pytest.raises(SegreError, match="cannot be read; give --fresh"):
            Store(file, {"seed": 0})
        assert file.read_bytes() == wrong
    assert Store(file, {"seed": 0}, fresh=True).done == {}


# --- all of them ---------------------------------------------------------------------------------


def test_every_experiment_has_a_stored_result() -> None:
    """Remade by scripts/results.py; as the command without options gives it."""
    assert {file.stem for file in STORED.glob("*.json")} == set(MODULES)
    for found in read_all(STORED).outcomes:
        one = experiment(found.experiment)
        assert found.command == f"segre reproduce {one.name}"
        assert found.seeds == ((0, 1, 2) if one.seeded else ())
        assert (found.title, found.question, found.work) == (one.title, one.question, one.work)
        assert dict(found.options) == json.loads(json.dumps(one.defaults()))
        stored = json.loads((STORED / f"{one.name}.json").read_text())
        assert found.document() == {key: stored[key] for key in stored if key != "seconds"}


@pytest.mark.parametrize("name", ["path-lengths", "localise", "gated-moe"])
def test_stored_results_are_what_is_computed(name: str) -> None:
    stored, found = read(STORED / f"{name}.json"), perform(experiment(name))
    assert len(stored.claims) == len(found.claims)
    for old, new in zip(stored.claims, found.claims, strict=True):
        assert (old.says, old.status) == (new.says, new.status)
        if new.expected is None or abs(new.expected) > 1e-6:  # not what is rounding
            assert old.measured == pytest.approx(new.measured, rel=1e-6)


def test_all_experiments_make_one_page_and_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "results"
    line = ("reproduce", "--all", "-o", str(folder), "--only", "path-lengths", "--only", "localise")
    first = run(*line, "--seeds", "1", "--json")
    assert first.returncode == 0, first.stderr
    document = json.loads(first.stdout)
    assert [one["experiment"] for one in document["experiments"]] == ["path-lengths", "localise"]
    page = (folder / "index.html").read_text()
    for one in document["experiments"]:
        assert one["work"]["title"] in page
        assert one["command"] in page
        assert (folder / f"{one['experiment']}.png").stat().st_size > 1000
        assert read(folder / f"{one['experiment']}.json").experiment == one["experiment"]
    again = run(*line, "--seeds", "1")
    assert "Claims: " in again.stdout
    other = run(*line, "--seeds", "2")
    assert other.returncode == 2
    assert "to another run (seeds = [0])" in other.stderr
    assert len(other.stderr.splitlines()) == 1


def test_all_and_what_it_does_not_allow(tmp_path: Path) -> None:
    for words, said in (
        (("--all", "--only", "nothing"), "unknown experiment 'nothing'; allowed: "),
        (("--all", "gap"), "--all and the name of an experiment exclude each other"),
        (("--verify", "gap"), "--verify and the name of an experiment exclude each other"),
        (("--verify", "--all"), "--verify runs no experiment"),
        (("-o", "somewhere"), "give the name of an experiment, or --all"),
    ):
        done = run("reproduce", *words, cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_stored_dimensions_go_through_the_kernel(tmp_path: Path) -> None:
    """Of results and of stores; one that was altered is named."""
    done = run("reproduce", "--verify", "-o", STORED)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("22 of 22 rows computed again (seed 0): all agree; the kernel")
    with pytest.raises(SegreError, match="holds no results"):
        verify(tmp_path)
    with pytest.raises(SegreError, match="there is no such directory"):
        verify(tmp_path / "missing")
    fields = {"layers": 1, "d": "2..3", "a": 1, "t": 2}
    sweep({"kind": "softmax", "exhaustive": True, "fields": fields}, tmp_path / "a.db", workers=1)
    document = json.loads((STORED / "gated-moe.json").read_text())
    document["tables"][0]["rows"][1][3] += 1
    (tmp_path / "gated-moe.json").write_text(json.dumps(document))
    found = verify(tmp_path)
    assert (found.checked, found.confirmed) == (8, 7)
    (wrong,) = found.differences
    assert (wrong.what, wrong.stored, wrong.computed) == ("dimension", 32, 31)
    again = run("reproduce", "--verify", "-o", tmp_path)
    assert again.returncode == 1
    assert "dimension is 32 in the store, computed: 31" in again.stdout
    document["tables"][0]["rows"][1] = []
    (tmp_path / "gated-moe.json").write_text(json.dumps(document))
    with pytest.raises(SegreError, match="first table was altered"):
        verify(tmp_path)


def test_the_page_of_the_documentation_has_every_claim() -> None:
    board = read_all(STORED)
    page = markdown(board, "results")
    for one in board.outcomes:
        assert f"## {one.experiment}\n" in page
        assert f"`{one.command}`" in page
        assert f"results/{one.experiment}.svg" in page
    for status, count in board.counts().items():
        rows = [line for line in page.splitlines() if line.endswith(f" | {status} |")]
        heading = status == "not testable here"  # the last column of the summary
        assert len(rows) == count + heading


def test_a_damaged_result_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "gap.json").write_text("{}")
    with pytest.raises(SegreError, match="cannot be read; run the experiment again"):
        read_all(tmp_path)
