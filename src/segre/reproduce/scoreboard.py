"""What came out of all experiments: which claims of which works hold here?

Outcomes are kept as documents, one file for each, from which the scoreboard is read back without
running anything.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from segre.errors import SegreError, UnsupportedError
from segre.files import read_given, whole_file
from segre.geometry.progress import Progress, quiet
from segre.json_data import strict_json
from segre.reproduce.claim import Verdict
from segre.reproduce.experiment import Experiment, Outcome, perform
from segre.reproduce.registry import MODULES, experiment
from segre.shown import Shown

MOST_BYTES = 1 << 26


@dataclass(frozen=True)
class Scoreboard(Shown):
    """All outcomes, and the experiments that could not run here, with the reason."""

    outcomes: tuple[Outcome, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    def counts(self) -> dict[Verdict, int]:
        """How many claims there are of each status."""
        total: Counter[Verdict] = Counter()
        for one in self.outcomes:
            total.update(one.counts())
        return dict(total)

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "counts": self.counts(),
            "experiments": [one.document() for one in self.outcomes],
            "left_out": dict(self.left_out),
        }


def run_all(
    folder: Path,
    names: Sequence[str] = (),
    *,
    seed: int = 0,
    seeds: int = 3,
    full: bool = False,
    fresh: bool = False,
    options: Callable[[Experiment], dict[str, Any]] = lambda _: {},
    progress: Progress = quiet,
) -> Scoreboard:
    """Run the experiments, or go on with their runs in `folder`; a document is written for each."""
    known = [experiment(name) for name in names or MODULES]
    folder.mkdir(parents=True, exist_ok=True)
    outcomes, left_out = [], []
    for one in known:

        def show(stage: str, done: int, total: int, name: str = one.name) -> None:
            progress(f"{name}: {stage}", done, total)

        try:
            found = perform(
                one,
                seed=seed,
                seeds=seeds,
                full=full and bool(one.longer),
                options=options(one),
                file=folder / f"{one.name}.run",
                fresh=fresh,
                progress=show,
            )
        except UnsupportedError as error:
            left_out.append((one.name, str(error)))
            continue
        write(found, folder)
        outcomes.append(found)
    return Scoreboard(tuple(outcomes), tuple(left_out))


def write(found: Outcome, folder: Path) -> None:
    """The document of an outcome and the seconds it took, as NAME.json."""
    text = strict_json({**found.document(), "seconds": round(found.seconds, 1)}, indent=1)
    with whole_file(folder / f"{found.experiment}.json") as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def read(file: Path) -> Outcome:
    """An outcome as it was written."""
    try:
        document = json.loads(read_given(file, MOST_BYTES))
        return replace(Outcome.of(document), seconds=float(document["seconds"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise SegreError(f"result {str(file)!r} cannot be read; run the experiment again") from None


def read_all(folder: Path) -> Scoreboard:
    """The outcomes in a folder, in the order of the registry."""
    there = [folder / f"{name}.json" for name in MODULES]
    return Scoreboard(tuple(read(file) for file in there if file.exists()))
