"""Tests are marked by what they need, and what is left out is not even imported."""

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import needed

TESTS = Path(__file__).parent
LISTED = """
import sys
import pytest

class Seen:
    def pytest_collection_finish(self, session):
        self.files = {item.path.name for item in session.items}

seen = Seen()
code = pytest.main(["-q", "-m", sys.argv[1], *sys.argv[2:], "--collect-only", "-qq"], [seen])
print(int(code), *sorted(seen.files), "torch" in sys.modules, "playwright" in sys.modules)
"""


@pytest.mark.parametrize(
    ("name", "marks"),
    [
        ("checkpoint/test_real_models.py", {"models"}),
        ("models/test_forward.py", {"models"}),
        ("report/test_figures.py", {"browser"}),
        ("fields/test_laws.py", set()),
        ("conftest.py", set()),
    ],
)
def test_needs_are_known_from_imports(name: str, marks: set[str]) -> None:
    assert needed(TESTS / name) == marks


def test_what_is_left_out_is_not_imported() -> None:
    folders = [str(TESTS / name) for name in ("models", "fields")]
    run = subprocess.run(
        [sys.executable, "-c", LISTED, "not models and not browser", *folders],
        capture_output=True,
        text=True,
        cwd=TESTS.parent,
    )
    said = run.stdout.splitlines()[-1].split()
    assert said[0] == "0", run.stdout + run.stderr
    assert said[-2:] == ["False", "False"]
    assert "test_laws.py" in said
    assert "test_forward.py" not in said
