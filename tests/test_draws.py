"""On a push every law is tried, on some of its cases; every night on all of them."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent
PLACES = ("stack", "transformer", "geometry/test_transformers.py", "kernel/test_counting.py")


def cases(given: dict[str, str], *places: str) -> set[str]:
    """The tests that pytest would run."""
    kept = {key: value for key, value in os.environ.items() if key != "SEGRE_TEST_ALL"}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "not models"]
    done = subprocess.run(
        [*command, *(str(TESTS / place) for place in places)],
        capture_output=True,
        text=True,
        cwd=TESTS.parent,
        env=kept | given,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {line for line in done.stdout.splitlines() if "::" in line}


def law(case: str) -> str:
    return case.partition("[")[0]


def test_no_law_is_lost() -> None:
    push, night = cases({}, *PLACES), cases({"SEGRE_TEST_ALL": "1"}, *PLACES)
    assert push < night
    assert {*map(law, push)} == {*map(law, night)}
    few, every = Counter(map(law, push)), Counter(map(law, night))
    assert {n for name, n in few.items() if name.endswith("test_closed_form_is_the_dimension")} == {
        4
    }
    assert len(night) > 1.5 * len(push)
    assert sum(every[name] == few[name] for name in few) > len(few) / 2  # most have few cases


def test_what_is_named_is_run_with_all_of_its_cases() -> None:
    named = "kernel/test_counting.py::test_closed_form_is_the_dimension"
    assert len(cases({}, named)) == 120
