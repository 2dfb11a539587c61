"""What is in examples/: each script's question, and what its docstring says it prints.

The docstring of a script is the one place that holds its output, indented after "Prints" (every
character as printed) or "Prints, but for measured numbers". The table of examples/README.md
follows from it.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent

from blocks import ROOT, agree

_PRINTS = re.compile(r"^Prints(, but for measured numbers)?:\n\n(.*?)(?=\n*\Z)", re.DOTALL | re.M)
_ROW = re.compile(r"^\| [^|]*\| \[.*\n", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """One script."""

    path: Path
    text: str

    @classmethod
    def of(cls, path: Path) -> Example:
        """Read a script."""
        return cls(path, path.read_text(encoding="utf-8"))

    @property
    def docstring(self) -> str:
        """What it says about itself."""
        return ast.get_docstring(ast.parse(self.text)) or ""

    @property
    def question(self) -> str:
        """Its first line."""
        return self.docstring.split("\n", 1)[0]

    @property
    def mark(self) -> str:
        """How exact its output is, as in a console block."""
        found = _PRINTS.search(self.docstring)
        return "measured" if found and found[1] else ""

    @property
    def shown(self) -> str:
        """The output in its docstring."""
        found = _PRINTS.search(self.docstring)
        return dedent(found[2]) if found else ""

    def run(self) -> subprocess.CompletedProcess[str]:
        """Run it as a reader does."""
        environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "80"}
        command = [sys.executable, "-W", "error", str(self.path)]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300
        )

    def filled(self) -> str:
        """The script with what it prints in its docstring."""
        done = self.run()
        if done.returncode or done.stderr:
            sys.exit(f"{self.path}: exit code {done.returncode}\n{done.stderr}")
        output = done.stdout.rstrip("\n")
        if agree(self.mark, output, self.shown):
            return self.text
        before, _, code = self.text.partition('"""\n\n')  # the end of the docstring
        promise = next(line for line in before.split("\n") if line.startswith("Prints"))
        told = before[: before.index(promise)] + promise
        return f'{told}\n\n{indent(output, "    ")}\n"""\n\n{code}'

    @staticmethod
    def all() -> list[Example]:
        """Every script, in order."""
        return [Example.of(path) for path in sorted((ROOT / "examples").glob("[0-9]*.py"))]

    @staticmethod
    def table(page: str) -> str:
        """The page of examples with the rows of its table as the scripts have them."""
        rows = [
            f"| {example.question} | [{example.path.name}]({example.path.name}) "
            f"| `{example.shown.splitlines()[-1].strip()}` |\n"
            for example in Example.all()
        ]
        first = _ROW.search(page)
        start = first.start() if first else len(page)
        return page[:start] + "".join(rows) + _ROW.sub("", page[start:])
