"""Does every theorem say what the exact rank says? On small architectures, some outside of it.

Each plan of `segre sweep` that compares a theorem with the exact rank is run into a store of its
own, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from segre.geometry.progress import Progress, quiet
from segre.shown import Shown
from segre.sweep.builtin import builtin_names
from segre.sweep.run import run
from segre.sweep.store import Store

PLANS = tuple(name for name in builtin_names() if name.startswith("theorem-"))


@dataclass(frozen=True)
class Row:
    """One theorem: how many architectures it was compared on, and what came out."""

    theorem: str
    within: bool  # the hypotheses hold
    architectures: int
    equal: int  # the exact rank is the theorem's count
    undecided: int  # the count lies between two bounds that do not meet
    different: int


@dataclass(frozen=True)
class Comparison(Shown):
    """All theorems."""

    rows: tuple[Row, ...]

    @property
    def mismatches(self) -> int:
        """Architectures within the hypotheses whose dimension is not what the theorem says."""
        return sum(row.different for row in self.rows if row.within)

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {"rows": [asdict(row) for row in self.rows], "mismatches": self.mismatches}


def experiment(
    folder: str | Path,
    *,
    limit: int | None = None,
    workers: int | None = None,
    progress: Progress = quiet,
) -> Comparison:
    """Run what is not yet done of every plan, at most `limit` architectures of each."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    counts: Counter[tuple[str, bool, str]] = Counter()
    for name in PLANS:
        store = folder / f"{name}.db"
        run(name, store, limit=limit, workers=workers, progress=progress)
        counts.update(_outcomes(store))
    named = dict.fromkeys((within, theorem) for theorem, within, _ in counts)
    rows = []
    for within, theorem in sorted(named, key=lambda key: (not key[0], key[1])):
        said = [counts[theorem, within, word] for word in ("holds", "undecided", "fails")]
        rows.append(Row(theorem, within, sum(said), *said))
    return Comparison(tuple(rows))


def _outcomes(path: Path) -> Iterator[tuple[str, bool, str]]:
    with Store.open(path) as store:
        for row in store.rows():
            theorem = row.evidence.get("theorem")
            if theorem is not None:
                yield theorem["name"], theorem["holds"], row.claim or "undecided"
