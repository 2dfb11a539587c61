"""Try to make segre answer wrongly, and count what gets through.

python -m bench.faults                  everything; takes about half an hour
python -m bench.faults hostile_files    one kind of fault
python -m bench.faults --quick          a few of each, as in the tests
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Sequence
from dataclasses import asdict

import bench.faults
from bench.faults.tally import Tally
from bench.harness import Report, arguments

COLUMNS = {
    "kind": ("kind", ""),
    "fault": ("fault", ""),
    "tried": ("tried", ",d"),
    "wrong": ("wrong", ",d"),
    "note": ("what happened", ""),
}


def kinds() -> list[str]:
    """The modules of this package that try something."""
    found = (item.name for item in pkgutil.iter_modules(bench.faults.__path__))
    return sorted(
        name
        for name in found
        if name not in ("__main__", "tally", "small_models", "processes", "preloaded")
    )


def tallies(kind: str, quick: bool) -> Sequence[Tally]:
    """Try one kind of fault."""
    found: Sequence[Tally] = importlib.import_module(f"bench.faults.{kind}").tally(quick)
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("kind", nargs="*", metavar="KIND", help=", ".join(kinds()))
    given = parser.parse_args()
    chosen = given.kind or kinds()
    if unknown := [kind for kind in chosen if kind not in kinds()]:
        parser.error(f"{unknown[0]!r} is not a kind of fault; allowed: {', '.join(kinds())}")
    report = Report("faults", given)
    rows = []
    for kind in chosen:
        print(f"trying {kind} ...", file=sys.stderr)
        rows += [{"kind": kind, **asdict(found)} for found in tallies(kind, given.quick)]
    report.table("faults, and what got through", COLUMNS, rows)
    report.finish()
    sys.exit(any(row["wrong"] for row in rows))


if __name__ == "__main__":
    main()
