"""Which formula might the dimensions of a family have? A guess from a store, tested afresh.

A polynomial in the fields is solved for exactly, over the fractions, on the largest simple region
of rows on which there is one; its coefficients are to be integers; there are to be clearly more
rows than coefficients; no row of the region may contradict it, whether its bounds meet or not. If
a polynomial is right on most rows of a region and too large on the others, a max(0, .) term that
explains these as well is looked for. And it is to give the right dimension of fresh architectures,
larger than any in the store. Rows outside of the region are fitted again. A formula found this way
is a conjecture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from segre.errors import SweepError
from segre.finding import Status, Unbounded
from segre.shown import Tabular
from segre.sweep.expression import Expression
from segre.sweep.law import Known, LawPiece
from segre.sweep.names import NUMBERED, numeric, with_entries
from segre.sweep.plan import Plan
from segre.sweep.search import KnownRow, Search, Source, meets, point_of
from segre.sweep.store import Row, Store
from segre.values import quote

DEGREE = 4


@dataclass(frozen=True)
class Fit(Unbounded, Tabular):
    """The formulas found in a store."""

    fields: tuple[str, ...]
    where: str | None
    pieces: tuple[LawPiece, ...]
    rows: int
    unproved: int  # rows among them whose bounds do not meet
    unknown: tuple[str, ...]  # rows without any bound
    left: tuple[str, ...]  # rows that no piece explains
    refuted: int  # guesses that fresh architectures refuted
    ranks: bool  # whether ranks found in balls were used as dimensions
    cut_short: bool  # not all regions were looked at
    status: ClassVar[Status] = "fitted"  # a formula found this way is a conjecture

    @property
    def value(self) -> tuple[str, ...]:
        """The formulas, one for each region."""
        return tuple(str(piece.law) for piece in self.pieces)

    @property
    def how(self) -> str:
        """How they were found."""
        return f"exact interpolation of {self.rows:,} rows, tested on new architectures"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        plain = {k: v for k, v in vars(self).items() if k != "pieces"}
        return {**plain, "pieces": [piece.document() for piece in self.pieces]}


def fit(
    path: str | Path,
    *,
    fields: Sequence[str] = (),
    where: str | None = None,
    degree: int = DEGREE,
    rational: bool = False,
    ranks: bool = False,
    fresh: int = 20,
    seed: int = 0,
) -> Fit:
    """Formulas for the dimensions in a store.

    `fields` are the variables (by default all fields of the plan that vary); `where` restricts the
    rows; `rational` allows fractional coefficients; `degree` is the largest degree that is tried.
    Each formula is tested on so many `fresh` architectures. The exact rank mod p of a row counts as
    its dimension; with `ranks`, so does a rank found in ball arithmetic at a few real points.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.sweep.run import run
    >>> fields = {"layers": 1, "d": "2..9", "a": 1, "t": 2}
    >>> plan = {"kind": "lightning", "exhaustive": True, "compute": ["exact"], "fields": fields}
    >>> with TemporaryDirectory() as folder:
    ...     ran = run(plan, f"{folder}/widths.db", workers=1)
    ...     fit(f"{folder}/widths.db", fresh=1).value
    ('d**2 + 2*d - 2',)
    """
    with Store.open(path) as store:
        plan, rows = store.plan(), list(store.rows())
    only = None if where is None else Expression(where)
    asked = [row for row in rows if meets(only, row.fields)]
    said = [(row, Known.of(row.lower, row.upper, row.evidence, ranks)) for row in asked]
    known = [(row, one) for row, one in said if one is not None]
    if all(one.value is None for _, one in known):
        raise SweepError(f"fit: no row of {quote(str(path))} has a known dimension")
    names = _variables(plan, [row for row, _ in known], fields)
    source = Source(plan, names, {row.digest for row in asked}, seed, ranks)
    search = Search(names, only, degree, rational, source, fresh)
    every = [KnownRow(row.spec, point_of(row.fields, names), one) for row, one in known]
    pieces, left = search.pieces(every)
    if not pieces:
        raise SweepError(
            f"fit: no polynomial of degree <= {degree} in {', '.join(names)} was found: "
            f"{search.reason(len(every))}"
        )
    return Fit(
        fields=tuple(names),
        where=where,
        pieces=tuple(pieces),
        rows=len(every),
        unproved=sum(not row.known.proved for row in every),
        unknown=tuple(row.spec for row, one in said if one is None),
        left=tuple(row.spec for row in left),
        refuted=search.refuted,
        ranks=ranks,
        cut_short=search.cut_short,
    )


def _variables(plan: Plan, rows: Sequence[Row], asked: Sequence[str]) -> list[str]:
    """The fields that were swept and vary, without copies of one another.

    A field that only follows another one (dv is head, if it is not given) is not a variable: a
    formula in it would be false as soon as it is given.
    """
    points = [with_entries(row.fields) for row in rows]
    numbers = numeric(points, asked, "fit")
    # of copies the first is kept: d rather than d0, d0 rather than a
    swept = {"l" if key == "layers" else key for key in plan.choices}
    free = [n for n in numbers if n in swept or n.rstrip("0123456789") in swept]
    ordered = list(asked) or sorted(free, key=_order)
    columns: dict[tuple[int, ...], str] = {}
    for name in ordered:
        column = tuple(point[name] for point in points)
        if len(set(column)) > 1:
            columns.setdefault(column, name)
    if not columns:
        raise SweepError("fit: no field varies, so there is nothing to fit")
    return list(columns.values())


def _order(name: str) -> tuple[int, bool, str]:
    stem = name.rstrip("0123456789")
    known = ("l", *NUMBERED)
    return known.index(stem) if stem in known else len(known), stem != name, name
