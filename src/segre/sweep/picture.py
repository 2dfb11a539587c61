"""What is there to draw of a sweep? Predictions beside dimensions, and averages over two fields."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from segre.errors import SweepError
from segre.sweep.expression import Expression
from segre.sweep.names import numeric, with_entries
from segre.sweep.store import Row, Store
from segre.values import quote

_PREFERRED = ("d", "l", "a", "heads", "d0", "d1", "t")


@dataclass(frozen=True)
class Mark:
    """One architecture: the bounds of its dimension, and what was predicted."""

    spec: str
    predicted: int
    lower: int
    upper: int | None
    verdict: str

    @property
    def known(self) -> bool:
        """Whether the bounds meet: then they are the dimension."""
        return self.lower == self.upper


@dataclass(frozen=True)
class Cell:
    """All architectures with the same values of two fields."""

    x: int
    y: int
    rows: int
    redundancy: float | None  # mean share of the parameters
    fails: int


@dataclass(frozen=True)
class Picture:
    """A sweep to draw."""

    name: str
    claim: str
    prediction: str
    marks: tuple[Mark, ...]
    x: str
    y: str
    cells: tuple[Cell, ...]


def picture(path: str | Path, x: str | None = None, y: str | None = None) -> Picture:
    """What to draw of a store; the two fields are chosen if they are not given."""
    with Store.open(path) as store:
        plan, rows = store.plan(), list(store.rows())
    if not rows:
        raise SweepError(f"plot: {quote(str(path))} has no rows yet")
    said = None if plan.claim is None else plan.claim.equal_to("dimension")
    prediction = Expression("closed_form") if said is None else said
    if said is None and all(row.closed_form is None for row in rows):
        prediction = Expression("upper")
    x, y = _axes(rows, x, y)
    return Picture(
        name=str(plan.given.get("name", Path(path).stem)),
        claim="" if plan.claim is None else plan.claim.text,
        prediction=prediction.text,
        marks=tuple(_marks(rows, prediction)),
        x=x,
        y=y,
        cells=tuple(_cells(rows, x, y)),
    )


def _marks(rows: Sequence[Row], prediction: Expression) -> list[Mark]:
    marks = []
    for row in rows:
        try:
            value = prediction.value({**with_entries(row.fields), **row.results()})
        except SweepError:
            continue
        if type(value) is int and row.lower is not None:
            marks.append(Mark(row.spec, value, row.lower, row.upper, row.claim or row.status))
    return marks


def _axes(rows: Sequence[Row], x: str | None, y: str | None) -> tuple[str, str]:
    points = [with_entries(row.fields) for row in rows]
    numbers = numeric(points, (x, y), "plot")
    varied = {n for n in numbers if len({p[n] for p in points}) > 1}
    order = [*(n for n in _PREFERRED if n in varied), *sorted(varied - {*_PREFERRED}), "l", "t"]
    first = x or next(n for n in order if n != y)
    return first, y or next(n for n in order if n != first)


def _cells(rows: Sequence[Row], x: str, y: str) -> list[Cell]:
    groups: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in rows:
        known = with_entries(row.fields)
        groups[known[x], known[y]].append(row)
    cells = []
    for (at, over), group in sorted(groups.items()):
        shares = [1 - row.dimension / row.parameters for row in group if row.dimension is not None]
        mean = sum(shares) / len(shares) if shares else None
        fails = sum(row.claim == "fails" for row in group)
        cells.append(Cell(at, over, len(group), mean, fails))
    return cells
