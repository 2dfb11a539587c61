"""Run experiments and store their results in docs/results, from which the site's page is made.

    python scripts/results.py              all of them: about ten minutes of one core
    python scripts/results.py gap circle   these

Runs are kept in build/results, so that a run that was interrupted goes on; --fresh starts over. Run
it after an experiment has changed, and read the difference before you commit it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from segre.reproduce.experiment import Outcome
from segre.reproduce.registry import MODULES
from segre.reproduce.scoreboard import run_all, write

ROOT = Path(__file__).parents[1]
STORED = ROOT / "docs" / "results"


def store(names: list[str], fresh: bool) -> list[Outcome]:
    """Run experiments as their commands do without options, and store what comes out."""
    STORED.mkdir(exist_ok=True)
    found = []
    for name in names or MODULES:
        print(name, flush=True)
        board = run_all(ROOT / "build" / "results", [name], fresh=fresh)
        for _, reason in board.left_out:
            sys.exit(f"{name}: {reason}")
        write(board.outcomes[0], STORED)
        found.append(board.outcomes[0])
    return found


if __name__ == "__main__":
    given = sys.argv[1:]
    for one in store([word for word in given if word != "--fresh"], "--fresh" in given):
        print(f"{one.experiment}: {one.counts()}, {one.seconds:.0f} s")
