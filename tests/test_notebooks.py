"""The notebooks run from the first cell to the last, and hold what they print."""

from pathlib import Path
from typing import Any

import nbformat
import pytest

import segre.report.progress as progress
from notebook import Notebook

NOTEBOOKS = Notebook.all()
each_notebook = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda one: one.path.stem)


def test_there_are_some() -> None:
    assert len(NOTEBOOKS) >= 3


@each_notebook
def test_it_prints_what_it_holds(notebook: Notebook) -> None:
    before = set(notebook.path.parent.iterdir())
    fresh = notebook.run()
    assert fresh.agrees(notebook), "python scripts/fill_docs.py writes the outputs"
    assert set(notebook.path.parent.iterdir()) == before


@each_notebook
def test_it_is_as_written_by_the_script(notebook: Notebook) -> None:
    """In order, without errors, machine paths or anything else that differs from run to run."""
    assert [cell.execution_count for cell in notebook.cells] == [*range(1, len(notebook.cells) + 1)]
    assert not [one for cell in notebook.cells for one in cell.outputs if "ename" in one]
    assert [cell["id"] for cell in notebook.node.cells] == [
        f"cell-{n}" for n in range(1, len(notebook.node.cells) + 1)
    ]
    text = notebook.path.read_text()
    assert text == notebook.text()
    assert str(Path.home()) not in text
    assert "/tmp/" not in text
    assert notebook.node.cells[0].source.startswith("# ")


def test_a_bar_in_a_kernel_goes_away(tmp_path: Path) -> None:
    code = (
        "import segre, segre.report.progress as p\n"
        "p._MOMENT = p._OFTEN = 0\n"
        "assert p.in_notebook()\n"
        "with segre.progress_bar(rate=True) as show:\n"
        "    [show('counting', n, 10) for n in range(11)]\n"
        "    seen = p._html('counting', 3, 10, 1, '')\n"
        "print(len(seen) > 10)"
    )
    node = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbformat.write(node, tmp_path / "bar.ipynb")
    (cell,) = Notebook.of(tmp_path / "bar.ipynb").run().cells
    assert [one.output_type for one in cell.outputs] == ["stream"]
    assert cell.outputs[0].text == "True\n"


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a bar in a notebook shows, one after the other."""
    seen: list[str] = []
    monkeypatch.setattr(progress, "in_notebook", lambda: True)

    def display(bar: Any, html: str) -> None:
        bar.handle = "shown"
        seen.append(html)

    monkeypatch.setattr(progress._NotebookBar, "_display", display)
    return seen


def test_a_bar_says_where_it_is(shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_MOMENT", 0)
    monkeypatch.setattr(progress, "_OFTEN", 0)
    with progress.progress_bar(rate=True) as show:
        show("a < b", 0, 1200)
        show("a < b", 600, 1200)
        show("unknown", 0, 0)
    assert '<progress value="600" max="1200">' in shown[1]
    assert "a &lt; b" in shown[1]
    assert "600/1,200" in shown[1]
    assert "/s, 0:00 left" in shown[1]
    assert "<progress></progress>" in shown[2]
    assert shown[-1] == ""


def test_what_is_quick_shows_no_bar(shown: list[str]) -> None:
    with progress.progress_bar() as show:
        show("stage", 1, 2)
    with progress.progress_bar(quiet=True) as show:
        show("stage", 1, 2)
    assert shown == []


def test_a_bar_is_not_drawn_too_often(shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_MOMENT", 0)
    monkeypatch.setattr(progress, "_OFTEN", 1000)
    with progress.progress_bar() as show:
        for n in range(500):
            show("stage", n, 500)
    assert len(shown) == 2  # once, and away
