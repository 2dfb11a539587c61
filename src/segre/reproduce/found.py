"""What does an experiment find? Claims, tables, plots, and the results of every seed, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from string import Formatter
from typing import Any, Literal

import numpy as np

from segre.reproduce.claim import Claim

Cell = str | int | float | bool | None
Mark = Literal["line", "line and points", "points", "crosses", "dashes", "dots"]


@dataclass(frozen=True)
class Table:
    """Rows under columns; `formats` are those of Python, one for each column ("" is as it is).

    Columns may also be given with their formats, as a format string of Python.

    >>> Table("t", "{kind} {n:d}", [("a", 1)]).formats
    ('', 'd')
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    formats: Sequence[str] = ()
    note: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.columns, str):
            given = [
                (name or "", form or "") for _, name, form, _ in Formatter().parse(self.columns)
            ]
            object.__setattr__(self, "columns", [name for name, _ in given])
            object.__setattr__(self, "formats", [form for _, form in given])
        object.__setattr__(self, "rows", tuple(map(tuple, self.rows)))
        _fix(self, "columns", "formats")


@dataclass(frozen=True)
class Series:
    """A curve or points of a panel; equal colours (numbers from 0) belong together."""

    label: str  # "" is not in the legend
    x: Sequence[float]
    y: Sequence[float | None]
    mark: Mark = "line and points"
    colour: int | None = None  # by its place if not given; -1 is grey
    spread: Sequence[float] = ()  # up and down, a deviation

    def __post_init__(self) -> None:
        _fix(self, "x", "y", "spread")


@dataclass(frozen=True)
class Panel:
    """A plot with its axes."""

    title: str
    x: str
    y: str
    series: Sequence[Series]
    log_x: bool = False
    log_y: bool = False
    equal: bool = False  # a length is the same on both axes
    ticks: Sequence[float] = ()  # of the first axis; chosen by the drawing if not given
    low: float | None = None  # of the second axis
    high: float | None = None

    def __post_init__(self) -> None:
        _fix(self, "series", "ticks")


@dataclass(frozen=True)
class Found:
    """What an experiment gives back."""

    claims: Sequence[Claim]
    tables: Sequence[Table] = ()
    panels: Sequence[Panel] = ()
    notes: Sequence[str] = ()  # what is derived, what differs from the paper, what is not shown

    def __post_init__(self) -> None:
        _fix(self, "claims", "tables", "panels", "notes")


def _fix(one: object, *names: str) -> None:
    """Sequences as tuples, so that what was read back equals what was written."""
    for name in names:
        object.__setattr__(one, name, tuple(getattr(one, name)))


class Seeds(list[Any]):
    """What a unit of work gave for each seed."""

    def of(self, *path: str | int) -> list[Any]:
        """The value at a path of names and places, for each seed.

        >>> Seeds([{"loss": [3, 1]}, {"loss": [2, 0]}]).of("loss", -1)
        [1, 0]
        """
        return [reduce(getitem, path, one) for one in self]

    def means(self, *path: str | int) -> Any:
        """The mean over seeds: a number, or a list of numbers."""
        return np.mean(self.of(*path), axis=0).tolist()

    def spreads(self, *path: str | int) -> Any:
        """The deviation over seeds."""
        return np.std(self.of(*path), axis=0).tolist()

    def curve(
        self, label: str, x: Sequence[float], *path: str | int, colour: int | None = None
    ) -> Series:
        """The means at a path, and how far the seeds are apart."""
        spread = self.spreads(*path)
        return Series(label, x, self.means(*path), colour=colour, spread=spread)
