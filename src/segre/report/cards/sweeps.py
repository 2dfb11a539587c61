"""Sweeps in a notebook: counterexamples first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from segre.finding import Status
from segre.report.cards import carded, tabled
from segre.report.cards.card import Card
from segre.report.page.blocks import Block, Facts, Items, Table, Tile
from segre.sweep.export import table
from segre.sweep.fit import Fit
from segre.sweep.run import Ran, Swept
from segre.sweep.search import CUT_SHORT
from segre.sweep.status import Standing
from segre.sweep.store import Row


@carded.register
def card_of_standing(found: Standing) -> Card:
    """The state of a sweep."""
    return Card(
        title=f"Sweep {found.name}",
        lead="" if found.claim is None else f"Claim: `{found.claim}`",
        tiles=tuple(_standing_tiles(found)),
        blocks=tuple(_standing_blocks(found)),
    )


def _standing_tiles(found: Standing) -> Iterator[Tile]:
    if found.claim is not None:
        refuted = found.verdicts.get("fails", 0)
        remark = "the claim is refuted" if refuted else "so far" if _unfinished(found) else ""
        yield Tile("counterexamples", f"{refuted:,}", "exact", remark)
        yield Tile("the claim holds for", f"{found.verdicts.get('holds', 0):,}", "exact")
    planned = "" if found.planned is None else f" of {found.planned:,}"
    yield Tile("architectures done", f"{found.done:,}{planned}", "exact")
    proved = found.statuses.get("proved", 0)
    status: Status = "proved by computation" if proved else "not run"  # sweeps use no theorem
    yield Tile("dimensions proved", f"{proved:,}", status)


def _unfinished(found: Standing) -> bool:
    return found.planned is not None and found.done < found.planned


def _standing_blocks(found: Standing) -> Iterator[Block]:
    if found.counterexamples:
        number = found.verdicts.get("fails", 0)
        yield _rows_table("Counterexamples", found.counterexamples, number)
    if found.undecided:
        yield _rows_table("Undecided", found.undecided, found.verdicts.get("undecided", 0))
    told = {"holds", "fails", "proved"}  # by the tiles
    counts = {**found.verdicts, **found.statuses}
    rest = tuple((name, number, "") for name, number in counts.items() if name not in told)
    if rest:
        yield Facts(rest)


def _rows_table(title: str, rows: Sequence[Row], total: int) -> Table:
    names = ("spec", "parameters", "lower", "upper", "closed form")
    cells = tuple((row.spec, row.parameters, row.lower, row.upper, row.closed_form) for row in rows)
    more = f", the first {len(rows)} of {total:,}" if total > len(rows) else ""
    return Table(title.lower(), f"{title}{more}", names, cells, (False, True, True, True, True))


@carded.register
def card_of_run(ran: Ran) -> Card:
    """What one run did."""
    rate = f"{ran.done / ran.seconds:.0f} a second" if ran.done and ran.seconds else ""
    left = "the same call continues" if ran.left else "all are done"
    return Card(
        title="A run of a sweep",
        tiles=(
            Tile("done now", f"{ran.done:,}", "exact", rate),
            Tile("done before", f"{ran.before:,}", "exact"),
            Tile("left", f"{ran.left:,}", "exact", left),
        ),
        lead=ran.mended or "",
    )


@carded.register
def card_of_swept(swept: Swept) -> Card:
    """The state of the sweep after a run."""
    return card_of_standing(swept.standing)


@carded.register
def card_of_fit(found: Fit) -> Card:
    """Formulas that were found, and what they do not explain."""
    left = f"{len(found.left):,} of {found.rows:,}"
    blocks: list[Block] = [table_of_fit(found)] if found.pieces else []
    if found.left:
        blocks.append(Items("Not explained", found.left[:5]))
    if found.cut_short:
        blocks.append(Items("", (f"The search was stopped early: {CUT_SHORT}.",)))
    return Card(
        title=f"Formulas in {', '.join(found.fields)}",
        tiles=(
            Tile("formulas", f"{len(found.pieces):,}", "estimated", "conjectures"),
            Tile("rows not explained", left, "exact"),
        ),
        lead="A formula found this way is a conjecture: state it as a claim and test it in a "
        "sweep.",
        blocks=tuple(blocks),
    )


@tabled.register
def table_of_fit(found: Fit) -> Table:
    """A row for each formula."""
    names = ("dimension", "where", "rows", "rows proved", "fresh", "new proved")
    rows = tuple(
        (
            str(piece.law),
            piece.place,
            piece.rows,
            piece.proved,
            len(piece.fresh),
            len(piece.tested.proved),
        )
        for piece in found.pieces
    )
    return Table("formulas", "Formulas", names, rows)


@tabled.register
def table_of_standing(found: Standing) -> Table:
    """Every row of the store as it is now, as `export` writes it."""
    names, rows = table(found.store)
    return Table("rows", found.name, names, rows)


@tabled.register
def table_of_swept(swept: Swept) -> Table:
    """The same, after a run."""
    return table_of_standing(swept.standing)
