"""Are the stored dimensions of reproductions right? The kernel checks a certificate of each."""

from __future__ import annotations

from pathlib import Path

from segre.certificate import certify
from segre.errors import SegreError
from segre.geometry.progress import Progress, quiet
from segre.kernel import verify as check
from segre.reproduce.experiment import Outcome
from segre.reproduce.registry import experiment
from segre.reproduce.scoreboard import read_all
from segre.sweep.verify import Difference, Verified
from segre.sweep.verify import verify as sample_of

_COUNTS = ("rows", "checked", "without", "confirmed")


def verify(folder: Path, *, progress: Progress = quiet) -> Verified:
    """Send what a folder of reproductions holds through the kernel.

    That is every dimension in its results, and a sample of the rows of every store, which are
    computed again too.
    """
    if not folder.is_dir():
        raise SegreError(
            f"folder {str(folder)!r}: there is no such directory; give one that `segre reproduce "
            "--all` has written"
        )
    stored = [pair for outcome in read_all(folder).outcomes for pair in _dimensions(outcome)]
    parts = []
    for place, (spec, dimension) in enumerate(stored):
        progress("certificates", place, len(stored))
        parts.append(_certified(spec, dimension))
    parts += [sample_of(store, progress=progress) for store in sorted(folder.glob("*.db"))]
    if not parts:
        raise SegreError(f"folder {str(folder)!r}: it holds no results or stores with dimensions")
    total = {name: sum(getattr(part, name) for part in parts) for name in _COUNTS}
    differences = tuple(one for part in parts for one in part.differences)
    return Verified(**total, differences=differences, seed=0)


def _dimensions(outcome: Outcome) -> list[tuple[str, int | None]]:
    """Specs and their dimensions, if an outcome has any."""
    of = experiment(outcome.experiment).dimension_of
    try:
        return [] if of is None else [of(row) for row in outcome.found.tables[0].rows]
    except (IndexError, TypeError):
        raise SegreError(f"result of {outcome.experiment}: its first table was altered") from None


def _certified(spec: str, dimension: int | None) -> Verified:
    """One dimension that is stored as proved, or None if its bounds did not meet."""
    if dimension is None:
        return Verified(0, 0, 1, (), 0)
    verdict = check(certify(spec, method="exact"))
    agrees = (verdict.lower, verdict.upper) == (dimension, dimension)
    wrong = Difference(spec, "dimension", dimension, verdict.upper)
    if not verdict.valid:
        wrong = Difference(spec, "certificate", "valid", verdict.reason)
    return Verified(1, 1, 0, () if agrees else (wrong,), 0, confirmed=int(agrees))
