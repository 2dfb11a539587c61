"""Pictures show what the store holds."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from segre.errors import SweepError
from segre.report.png import draw, draw_figure
from segre.report.views import drawn as plots
from segre.sweep.picture import Cell, Mark, Picture, picture
from segre.sweep.plan import Plan
from segre.sweep.run import run
from segre.sweep.store import Store
from support.small_sweeps import segre, small


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
        assert (mark.lower, mark.upper) == (row.lower, row.upper)
        assert mark.known == (row.dimension is not None)
        assert (mark.known and mark.lower == mark.predicted) == (mark.verdict == "holds")
    assert all(cell.redundancy is not None and 0 <= cell.redundancy < 1 for cell in found.cells)


def test_bounds_are_drawn_as_bounds() -> None:
    """A mark of a lower bound is open, and reaches up to the upper one."""
    marks = (Mark("a", 9, 9, 9, "holds"), Mark("b", 9, 4, 7, "undecided"))
    drawn = Picture("s", "", "upper", marks, "d", "t", (Cell(1, 1, 2, 0.5, 0),))
    dimensions = next(iter(plots(drawn)))
    known, bound = dimensions.traces[:2]
    assert (known["name"], known["marker"]["symbol"]) == ("holds (1)", "circle")
    assert not known["error_y"]["visible"]
    assert (bound["name"], bound["marker"]["symbol"]) == (
        "undecided, lower bound (1)",
        "circle-open",
    )
    reach = bound["error_y"]
    assert (bound["y"], reach["array"], reach["arrayminus"]) == ([4], [3], [0])
    left = Figure().subplots()
    draw_figure(left, dimensions)
    assert [text.get_text() for text in left.get_legend().get_texts()] == [
        *(known["name"], bound["name"])
    ]
    assert [line.get_ydata().tolist() for line in left.get_lines()[:2]] == [[9], [4]]
    (reach,) = left.containers[0].lines[2]
    assert reach.get_segments()[0].tolist() == [[9, 4], [9, 7]]


@pytest.mark.parametrize("name", ["s.png", "s.svg", "s.html"])
def test_every_format_is_drawn(store: Path, tmp_path: Path, name: str) -> None:
    draw(picture(store), tmp_path / name)
    data = (tmp_path / name).read_bytes()
    assert len(data) > 5000
    assert data[:4] == b"\x89PNG" or b"<" in data[:10]
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_unknown_fields_and_formats_are_refused(store: Path, tmp_path: Path) -> None:
    with pytest.raises(SweepError, match="allowed"):
        picture(store, x="secret")
    done = segre("sweep", "plot", str(store), "-o", str(tmp_path / "s.gif"))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
