"""How long until `segre --help` is there: the wall time of whole processes, in turns.

The peers are an interpreter that does nothing (`python -c pass`), which nothing in Python can be
faster than, and the help of other command lines of the same environment: mkdocs (built on click,
as Typer is) and pip, both started as `python -m`, as segre is here. Beside the help: one command's
help, a completion as the shell asks for it, and a first answer, which has to load NumPy.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import Any

from bench.harness import Report, arguments, timed

COLUMNS = {
    "command": ("command", ""),
    "fastest": ("fastest s", ".3f"),
    "median": ("median s", ".3f"),
    "over_python": ("/ python -c pass", ".1f"),
    "over_segre": ("/ segre --help", ".2f"),
}
COMPLETION = {"_SEGRE_COMPLETE": "complete_bash", "COMP_WORDS": "segre\ndim\nll", "COMP_CWORD": "2"}
COMMANDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "python -c pass": (["-c", "pass"], {}),
    "segre --help": (["-m", "segre", "--help"], {}),
    "segre dim --help": (["-m", "segre", "dim", "--help"], {}),
    "segre dim ll<TAB>": (["-m", "segre"], COMPLETION),
    "segre dim softmax/d=3,3/a=1/t=2": (["-m", "segre", "dim", "softmax/d=3,3/a=1/t=2"], {}),
    "mkdocs --help": (["-m", "mkdocs", "--help"], {}),
    "pip --help": (["-m", "pip", "--help"], {}),
}


def start(name: str) -> None:
    """Run a command to its end; one that fails is no measurement."""
    words, more = COMMANDS[name]
    subprocess.run(
        [sys.executable, *words], check=True, capture_output=True, env={**os.environ, **more}
    )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    repeats = 2 if options.quick else options.repeats
    report = Report("startup", options)
    names = [name for name, (words, _) in COMMANDS.items() if words[0] == "-c" or _is_there(words)]
    for name in names:  # files that are read for the first time are another matter
        start(name)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(repeats):
        for name in names:
            seconds[name] += timed(partial(start, name))
    fastest = {name: min(found) for name, found in seconds.items()}
    rows: list[dict[str, Any]] = [
        {
            "command": name,
            "fastest": fastest[name],
            "median": median(seconds[name]),
            "over_python": fastest[name] / fastest["python -c pass"],
            "over_segre": fastest[name] / fastest["segre --help"],
        }
        for name in names
    ]
    report.table(f"whole processes, {repeats} of each, in turns", COLUMNS, rows)
    report.finish()


def _is_there(words: list[str]) -> bool:
    return find_spec(words[1]) is not None


if __name__ == "__main__":
    main()
