"""Tables for other programs hold what the store holds."""

import json
import sys
from pathlib import Path

import pytest

from segre.errors import SweepError
from segre.sweep.export import export
from segre.sweep.plan import Plan
from segre.sweep.run import run
from segre.sweep.store import Store
from support.small_sweeps import read_csv, segre, small


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "s.db"
    run(Plan.from_mapping(small(draw=12)), path, workers=1)
    return path


def test_csv_and_parquet_agree_with_the_store(store: Path, tmp_path: Path) -> None:
    from pyarrow import parquet

    assert export(store, tmp_path / "s.csv") == export(store, tmp_path / "s.parquet") == 12
    lines = read_csv(tmp_path / "s.csv")
    table = parquet.read_table(tmp_path / "s.parquet").to_pylist()
    with Store.open(store) as opened:
        for row, line, other in zip(opened.rows(), lines, table, strict=True):
            assert line["digest"] == other["digest"] == row.digest
            assert int(line["dimension"]) == other["dimension"] == row.dimension
            assert json.loads(line["d"]) == json.loads(other["d"]) == row.fields["d"]
            assert line["claim"] == other["claim"] == "holds"
            assert line["lower_evidence"] == row.evidence["lower"]["statement"]


def test_parquet_without_pyarrow_says_what_to_install(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)
    with pytest.raises(SweepError, match=r"segre\[tables\]"):
        export(store, tmp_path / "s.parquet")


def test_other_formats_are_refused(store: Path, tmp_path: Path) -> None:
    done = segre("sweep", "export", str(store), "-o", str(tmp_path / "s.xls"))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())
