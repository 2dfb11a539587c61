"""The benchmarks run and say what they should. No test here asserts a time."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.checkpoints import minilm

ROOT = Path(__file__).parents[2]


def run_quick(name: str, folder: Path) -> dict[str, Any]:
    saved = folder / f"{name}.json"
    command = [sys.executable, "-W", "error", "-m", f"bench.{name}", "--quick"]
    done = subprocess.run(
        [*command, "--json", str(saved)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "cpu: " in done.stdout
    document: dict[str, Any] = json.loads(saved.read_text())
    assert document["benchmark"] == name
    assert document["quick"]
    assert document["machine"]["blas"]
    return document


def test_rank(tmp_path: Path) -> None:
    rows = run_quick("rank", tmp_path)["rows"]
    assert [(row["n"], row["rank"]) for row in rows] == [
        (100, 100),
        (100, 80),
        (200, 200),
        (200, 160),
    ]


def test_gaps(tmp_path: Path) -> None:
    document = run_quick("gaps", tmp_path)
    rows = {row["feature"]: row for row in document["rows"]}
    assert 0 < rows["all"]["designs"] <= 6
    for row in (row for row in document["rows"] if row["designs"]):
        assert sum(row[label] for label in ("proved", "certain", "likely", "open")) == 1
    assert all(row["lower"] < row["upper"] for row in document["open"])


def test_growth(tmp_path: Path) -> None:
    document = run_quick("growth", tmp_path)
    found = {(row["layers"], row["d"]): row["dimension"] for row in document["rows"]}
    assert found == {(1, 3): 17, (1, 4): 28, (2, 3): 25, (2, 4): 40}
    assert all(row["peak"] >= row["start"] > 0 for row in document["rows"])


def test_transformers(tmp_path: Path) -> None:
    rows = run_quick("transformers", tmp_path)["rows"]
    assert [(row["parameters"], row["dimension"], row["proof"]) for row in rows] == [
        (116, 97, "mod p"),
        (208, 175, "balls"),
    ]
    for row in rows:
        assert row["status"] == "proved"
        assert row["peer_dimension"] == row["dimension"]
        assert row["difference"] < 1e-12
        assert row["peak"] >= row["start"] > 0


def test_sweep(tmp_path: Path) -> None:
    document = run_quick("sweep", tmp_path)
    assert document["mismatches"] == []
    exact = [row for row in document["rows"] if row["method"] == "segre exact"]
    assert [row["workers"] for row in exact] == [1, 2, 2]
    assert all(row["proved"] == row["architectures"] for row in exact)


def test_paths(tmp_path: Path) -> None:
    rows = run_quick("paths", tmp_path)["rows"]
    sizes = [(row["layers"], row["heads"], row["paths"]) for row in rows]
    assert sizes == [(2, 3, 16), (4, 3, 256), (4, 1, 16), (4, 3, 256)]
    assert all(max(row["difference"], row["error"]) < 1e-14 for row in rows)


def test_collapse(tmp_path: Path) -> None:
    (row,) = run_quick("collapse", tmp_path)["rows"]
    assert row["ratio"] == row["measured"] / row["plain"] > 0


def test_forward(tmp_path: Path) -> None:
    """The JSON has the rows of the last table: whole processes."""
    document = run_quick("forward", tmp_path)
    (row,) = document["rows"]
    assert document["ratio"] > 0
    assert 0 < row["anonymous"] < row["peak"]


def test_startup(tmp_path: Path) -> None:
    rows = {row["command"]: row for row in run_quick("startup", tmp_path)["rows"]}
    assert {"python -c pass", "segre --help", "pip --help"} <= set(rows)
    assert rows["segre --help"]["over_segre"] == rows["python -c pass"]["over_python"] == 1
    assert all(row["median"] >= row["fastest"] > 0 for row in rows.values())


def test_estimator_without_torch_says_how_to_get_it() -> None:
    hide_torch = "import sys; sys.modules['torch'] = None; import bench.estimator as e; e.main([])"
    done = subprocess.run(
        [sys.executable, "-c", hide_torch], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "segre[models]" in done.stderr


@pytest.mark.parametrize(
    "name",
    [
        *("estimator", "rank", "growth", "transformers", "sweep", "recovery"),
        *("paths", "forward", "collapse", "checkpoints", "startup"),
    ],
)
def test_help_says_what_is_compared(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{name}", "--help"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "--quick" in done.stdout
    assert any(word in done.stdout.lower() for word in ("peer", "against"))


def test_analysis(tmp_path: Path) -> None:
    (row,) = run_quick("analysis", tmp_path)["rows"]
    assert row["parameters"] == 120
    assert row["ratio"] is None
    assert 0.5 < row["size"] < 3  # MB


def test_inspect(tmp_path: Path) -> None:
    minilm()  # skips where it is not installed
    found = run_quick("inspect", tmp_path)
    apart, rows = found["apart"][0], found["rows"]
    assert apart["with"] == "transformers"
    assert max(apart["patterns"], apart["streams"]) < 1e-5
    assert [row["what"] for row in rows if "TransformerLens" not in row["what"]] == [
        "recorded pass",
        "diagnose",
        "trace",
        "shares of heads",
    ]
    assert all(row["ratio"] == row["peer"] / row["seconds"] > 0 for row in rows)
