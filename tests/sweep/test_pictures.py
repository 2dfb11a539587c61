"""Pictures show what the store holds."""

from pathlib import Path

import pytest
from small_sweeps import segre, small

from segre.errors import SweepError
from segre.report.sweep_plots import draw_sweep
from segre.sweep.picture import picture
from segre.sweep.plan import Plan
from segre.sweep.run import run
from segre.sweep.store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pictures") / "s.db"
    claim = "dimension == 3*l + t"
    run(Plan.from_mapping(small(draw=30, claim=claim)), path, workers=1)
    return path


def test_cells_and_marks_add_up(store: Path) -> None:
    found = picture(store, x="l", y="t")
    with Store.open(store) as opened:
        rows = list(opened.rows())
    assert sum(cell.rows for cell in found.cells) == len(found.marks) == len(rows)
    assert sum(cell.fails for cell in found.cells) == sum(row.claim == "fails" for row in rows) > 0
    for mark, row in zip(found.marks, rows, strict=True):
        assert mark.predicted == 3 * row.fields["l"] + row.fields["t"]
        assert (mark.dimension == mark.predicted) == (mark.verdict == "holds")
    assert all(cell.redundancy is not None and 0 <= cell.redundancy < 1 for cell in found.cells)


@pytest.mark.parametrize("name", ["s.png", "s.svg", "s.html"])
def test_every_format_is_drawn(store: Path, tmp_path: Path, name: str) -> None:
    draw_sweep(picture(store), tmp_path / name)
    data = (tmp_path / name).read_bytes()
    assert len(data) > 5000
    assert data[:4] == b"\x89PNG" or b"<" in data[:10]
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_unknown_fields_and_formats_are_refused(store: Path, tmp_path: Path) -> None:
    with pytest.raises(SweepError, match="allowed"):
        picture(store, x="secret")
    done = segre("sweep", "plot", str(store), "-o", str(tmp_path / "s.gif"))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
