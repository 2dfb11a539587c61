"""The examples run as readers run them, and print what their docstrings say."""

import ast
import importlib
from pathlib import Path

import pytest

from blocks import ROOT, agree
from example import Example

EXAMPLES = Example.all()
each_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one.path.stem)


@each_example
def test_prints_what_it_says(example: Example) -> None:
    before = set(ROOT.iterdir())
    done = example.run()
    assert done.stderr == ""
    assert done.returncode == 0
    assert example.shown
    assert agree(example.mark, done.stdout.rstrip("\n"), example.shown), done.stdout
    assert set(ROOT.iterdir()) <= before | {ROOT / "out"}


@each_example
def test_is_short_and_asks_a_question(example: Example) -> None:
    assert example.question.endswith("?")
    assert len(example.text.splitlines()) < 60


@each_example
def test_uses_public_names(example: Example) -> None:
    for node in ast.walk(ast.parse(example.text)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("segre"):
            module = importlib.import_module(node.module)
            for name in node.names:
                assert not name.name.startswith("_")
                assert hasattr(module, name.name)


def test_the_page_has_every_script_and_its_last_line() -> None:
    page = Path(ROOT / "examples" / "README.md").read_text()
    assert len(EXAMPLES) >= 12
    assert page == Example.table(page), "python scripts/fill_docs.py writes the table"
