"""Are the rows of a store true? A sample of them, or all, is computed again from their specs.

Checksums find damage. Whoever alters rows on purpose can compute the checksums too, and only this
finds it. Of rows with proved bounds a certificate is made, which the kernel checks.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from segre.errors import SegreError, SweepError
from segre.finding import Status, Unbounded
from segre.geometry.progress import Progress, quiet
from segre.models import architecture
from segre.shown import Shown
from segre.sweep.draw import Drawn
from segre.sweep.local import cores, solve_locally
from segre.sweep.names import fields_of
from segre.sweep.row import UNFINISHED, Row
from segre.sweep.run import MEMORY, Solver, rows_of
from segre.sweep.store import Store

SAMPLE = 20


@dataclass(frozen=True)
class Difference:
    """A value of a row that is not what was computed now."""

    spec: str
    what: str
    stored: Any
    computed: Any


@dataclass(frozen=True)
class Verified(Unbounded, Shown):
    """How many rows were computed again, and what differed."""

    rows: int  # with results
    checked: int
    without: int  # rows without results (too large, died, timed out), which say nothing
    differences: tuple[Difference, ...]
    seed: int
    status: ClassVar[Status] = "exact"  # the rows are computed as `run` computes them
    confirmed: int = 0  # rows whose bounds the kernel confirms

    @property
    def value(self) -> bool:
        """Whether everything that was checked agrees."""
        return not self.differences

    @property
    def how(self) -> str:
        """How it is known."""
        sample = "all rows" if self.checked == self.rows else f"a sample (seed {self.seed})"
        return f"{sample}, computed again"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        differences = [vars(one) for one in self.differences]
        return {**vars(self), "agrees": self.value, "differences": differences}


def verify(
    path: str | Path,
    *,
    sample: int | None = SAMPLE,
    seed: int = 0,
    workers: int | None = None,
    memory: int = MEMORY,
    progress: Progress = quiet,
) -> Verified:
    """Compute rows of a store again: a random `sample` of them, or all (None).

    `workers` is the number of processes; None is one for each core.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.sweep.run import run
    >>> fields = {"layers": 1, "d": "2..3", "a": 1, "t": 2}
    >>> with TemporaryDirectory() as folder:
    ...     ran = run({"kind": "softmax", "exhaustive": True, "fields": fields}, f"{folder}/s.db")
    ...     found = verify(f"{folder}/s.db", workers=1)
    >>> found.value, found.checked
    (True, 2)
    """
    solver: Solver = partial(solve_locally, workers=workers or cores())
    return check(path, solver, sample=sample, seed=seed, memory=memory, progress=progress)


def check(
    path: str | Path,
    solver: Solver,
    *,
    sample: int | None = SAMPLE,
    seed: int = 0,
    memory: int = MEMORY,
    progress: Progress = quiet,
) -> Verified:
    """The same, with any solver of tasks."""
    with Store.open(path) as store:
        plan, every = store.plan(), list(store.rows())
    known = [row for row in every if row.status not in UNFINISHED]
    chosen = known if sample is None else Random(seed).sample(known, min(sample, len(known)))
    waiting = [_drawn(row, plan.each, path) for row in chosen]
    again: dict[str, Row] = {}
    certified = replace(plan, compute=(*plan.compute, "certificate"))
    for row in rows_of(certified, waiting, solver, memory):
        again[row.spec] = row
        progress("checking", len(again), len(chosen))
    found, refuted, confirmed = list[Difference](), list[Difference](), 0
    for row in chosen:
        new = again[row.spec]
        if new.status in UNFINISHED:
            reason = new.evidence["problem"]
            raise SweepError(f"store {str(path)!r}: {row.spec} cannot be checked: {reason}")
        ours, theirs = _said(row), _said(new)
        found += [
            Difference(row.spec, name, ours.get(name), theirs.get(name))
            for name in {**ours, **theirs}
            if ours.get(name) != theirs.get(name)
        ]
        if (claim := new.evidence.get("certificate")) is not None:
            wrong = _refuted(row, claim)
            refuted += wrong
            confirmed += claim["problem"] is None and not wrong
    differences = (*found, *refuted)
    return Verified(len(known), len(chosen), len(every) - len(known), differences, seed, confirmed)


def _refuted(row: Row, claim: dict[str, Any]) -> list[Difference]:
    """What the kernel says against a row, if anything; it may know less."""
    if claim["problem"] is not None:
        invalid = Difference(row.spec, "certificate", "valid", claim["problem"])
        return [invalid] * ("lower" in claim)
    if row.upper is not None and row.upper < claim["lower"]:
        return [Difference(row.spec, "upper", row.upper, claim["lower"])]
    if row.lower is not None and row.lower > claim["upper"]:
        return [Difference(row.spec, "lower", row.lower, claim["upper"])]
    return []


def _drawn(row: Row, each: Any, path: str | Path) -> Drawn:
    try:
        spec = architecture(row.spec)
        return Drawn(row.place, spec, fields_of(spec, row.fields["kind"], each))
    except (SegreError, KeyError, TypeError) as error:
        raise SweepError(f"store {str(path)!r}: row {row.place} is not a result: {error}") from None


def _said(row: Row) -> dict[str, Any]:
    """What a row says, as it is stored; how long it took, and in which words, is left out."""
    own = {"digest": row.digest, **row.results(), "claim": row.claim, "seed": row.seed}
    fields = json.loads(json.dumps(row.fields))
    return own | {f"field {key}": value for key, value in fields.items()}
