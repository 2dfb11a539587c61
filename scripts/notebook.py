"""What is in the notebooks of examples/: code, and what it printed when it was last run.

The outputs that a notebook holds are those of running it. A cell with the tag `measured` prints
numbers that are measurements: there the words are compared, and not the numbers. Of pictures it is
compared only that they are there.
"""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from blocks import ROOT, words

_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
_SECONDS = 120  # that a cell may take


@dataclass(frozen=True)
class Notebook:
    """One notebook."""

    path: Path
    node: Any  # as nbformat reads it

    @classmethod
    def of(cls, path: Path) -> Notebook:
        """Read a notebook."""
        return cls(path, nbformat.read(path, as_version=4))

    @staticmethod
    def all() -> list[Notebook]:
        """Every notebook, in order."""
        return [Notebook.of(path) for path in sorted((ROOT / "examples").glob("*.ipynb"))]

    @property
    def cells(self) -> list[Any]:
        """The cells with code."""
        return [cell for cell in self.node.cells if cell.cell_type == "code"]

    def run(self) -> Notebook:
        """The notebook with the outputs of running it, from the first cell to the last."""
        fresh = deepcopy(self.node)
        fresh.metadata = nbformat.from_dict(_METADATA)
        for number, cell in enumerate(fresh.cells, 1):
            cell["id"] = f"cell-{number}"
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        client = NotebookClient(
            fresh,
            timeout=_SECONDS,
            kernel_name="python3",
            record_timing=False,
            resources={"metadata": {"path": str(self.path.parent)}},
        )
        client.execute()
        fresh.metadata = nbformat.from_dict(_METADATA)
        for cell in fresh.cells:
            if cell.cell_type == "code":
                cell.outputs = [one for one in cell.outputs if not _is_cleared(one)]
        return Notebook(self.path, fresh)

    def agrees(self, other: Notebook) -> bool:
        """Whether two runs print the same, as exactly as each cell says it does."""
        pairs = zip(self.cells, other.cells, strict=True)
        return all(_said(one) == _said(two) for one, two in pairs)

    def text(self) -> str:
        """The file of the notebook."""
        return nbformat.writes(self.node).rstrip("\n") + "\n"

    def filled(self) -> str:
        """The file with outputs as they are now; those that agree are left as they are."""
        fresh = self.run()
        for old, new in zip(self.cells, fresh.cells, strict=True):
            if _said(old) == _said(new):
                new.outputs = old.outputs
        return fresh.text()


def _is_cleared(output: Any) -> bool:
    """What is left of a progress bar, if a cell takes more than a second."""
    return output.output_type == "display_data" and output.data.get("text/html") == ""


def _said(cell: Any) -> list[Any]:
    """What a cell prints, without what is measured if its tag says so."""
    measured = "measured" in cell.metadata.get("tags", ())
    out: list[Any] = []
    for output in cell.outputs:
        texts = output.get("data") or {output.get("name", "error"): output.get("text", "")}
        for kind, text in sorted(texts.items()):
            if kind.startswith("image/"):
                out.append(kind)
            else:
                out.append((kind, _words(text) if measured else text))
    return out


def _words(text: str) -> list[str]:
    """The words around measured numbers; which rows a table has is measured too."""
    plain = re.sub(r"<tbody>.*?</tbody>", "", text, flags=re.DOTALL)
    plain = re.sub(r"^ *(embed|head|layer)\b.*$", "", plain, flags=re.MULTILINE)
    return words(plain)
