"""How does a sweep stand? Counterexamples before anything else."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from segre.finding import Status, Unbounded
from segre.json_data import stated
from segre.shown import Tabular
from segre.sweep.row import Row
from segre.sweep.schema import UNCHECKED
from segre.sweep.store import Store

SHOWN = 20


@dataclass(frozen=True)
class Standing(Unbounded, Tabular):
    """The state of a sweep."""

    name: str
    claim: str | None
    counterexamples: tuple[Row, ...]  # the first few
    undecided: tuple[Row, ...]  # the first few
    verdicts: dict[str, int]
    statuses: dict[str, int]
    planned: int | None  # None: as many as there are
    seconds: float
    checked: bool  # whether the rows have checksums; those of an older segre have none
    store: Path = field(compare=False, repr=False)
    status: ClassVar[Status] = "exact"  # every verdict follows from proved bounds

    @property
    def done(self) -> int:
        """Architectures in the store."""
        return sum(self.statuses.values())

    @property
    def refuted(self) -> bool:
        """Whether there is a counterexample."""
        return self.verdicts.get("fails", 0) > 0

    @property
    def value(self) -> dict[str, int]:
        """For how many architectures the claim holds, fails or is undecided."""
        return self.verdicts

    @property
    def how(self) -> str:
        """How it is known."""
        return f"bounds of {self.done:,} architectures, each proved separately"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return stated(
            self,
            "name claim counterexamples first_counterexamples first_undecided verdicts statuses "
            "done planned seconds checked",
            counterexamples=self.verdicts.get("fails", 0),
            first_counterexamples=[row.document() for row in self.counterexamples],
            first_undecided=[row.document() for row in self.undecided],
        )


def standing(path: str | Path) -> Standing:
    """The state of the sweep in a store, which may still be running.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.sweep.run import run
    >>> fields = {"layers": 1, "d": "2..3", "a": 1, "t": 2}
    >>> plan = {"kind": "softmax", "exhaustive": True, "claim": "dimension == 7", "fields": fields}
    >>> with TemporaryDirectory() as folder:
    ...     ran = run(plan, f"{folder}/small.db", workers=1)
    ...     found = standing(f"{folder}/small.db")
    >>> found.refuted, [row.spec for row in found.counterexamples]
    (True, ['softmax/d=3,3/a=1/t=2'])
    """
    with Store.open(path) as store:
        plan = store.plan()
        return Standing(
            name=str(plan.given.get("name", Path(path).stem)),
            claim=None if plan.claim is None else plan.claim.text,
            counterexamples=tuple(store.rows("fails", SHOWN)),
            undecided=tuple(store.rows("undecided", SHOWN)),
            verdicts={} if plan.claim is None else store.count("claim"),
            statuses=store.count("status"),
            planned=plan.draw,
            seconds=store.seconds(),
            checked=store.version != UNCHECKED,
            store=Path(path),
        )
