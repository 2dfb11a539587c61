"""What changed between two checkpoints, in a notebook and as a table."""

from __future__ import annotations

from segre.analysis.diff import Diff
from segre.checkpoint.changes import PIECES
from segre.report.cards import carded, tabled
from segre.report.cards.card import Card
from segre.report.diff import basis_in_words, facts_of, rank_in_words, spots_of
from segre.report.page.blocks import Block, Facts, Table, Tile


@tabled.register
def table_of_diff(found: Diff) -> Table:
    """One row for each part and piece."""
    rows = tuple(
        (part, piece, one.relative, one.relative_raw)
        for (part, piece), one in found.changes.grid.items()
    )
    columns = ("part", "piece", "distance", "as stored")
    return Table("grid", "Relative distances", columns, rows, (False, False, True, True))


@carded.register
def card_of_diff(found: Diff) -> Card:
    """Facts, pieces, and what changed most."""
    return Card(
        title="What changed between two checkpoints?",
        tiles=tiles_of(found),
        blocks=(
            Facts(tuple((name, words, "") for name, words in facts_of(found))),
            pieces_of(found),
            *most_of(found),
        ),
    )


def tiles_of(found: Diff) -> tuple[Tile, ...]:
    """Distance, gauge, rank, outputs."""
    total, out = found.changes.total, found.outputs
    tiles = [
        Tile("Distance", f"{found.value:.3g}", "measured", f"relative, {basis_in_words(found)}")
    ]
    if found.changes.moved:
        remark = f"of the squared difference as stored ({total.relative_raw:.3g})"
        tiles.append(Tile("was gauge", f"{100 * found.gauge:.3g} %", "measured", remark))
    widest = max(found.changed, key=lambda one: one.rank / one.full, default=None)
    rank = "none changed" if widest is None else rank_in_words(widest)
    remark = (
        "" if widest is None else f"of {len(found.changed):,} matrices that changed, the largest"
    )
    tiles.append(Tile("rank of the update", rank, "measured", remark))
    apart = Tile("change of outputs", f"{out.mean:.2g}", "measured", f"relative, on {out.inputs}")
    return (*tiles, apart)


def pieces_of(found: Diff) -> Table:
    """Distances by piece."""
    pieces = [(piece, found.by_piece[piece]) for piece in PIECES if piece in found.by_piece]
    note = f"Relative to the first model. Distance: {basis_in_words(found)}."
    if not found.changes.moved:
        rows = tuple((name, one.relative) for name, one in pieces)
        return Table("pieces", "By piece", ("piece", "distance"), rows, (False, True), note)
    both = tuple((name, one.relative, one.relative_raw) for name, one in pieces)
    columns = ("piece", "distance", "as stored")
    return Table("pieces", "By piece", columns, both, (False, True, True), note)


def most_of(found: Diff) -> tuple[Block, ...]:
    """Heads, units and tokens that changed most."""
    blocks: list[Block] = []
    for title, spots in spots_of(found):
        tokens = spots[0].part == "embed"
        columns = ("token", "id", "distance") if tokens else ("layer", "number", "distance", "")
        rows = tuple(
            (spot.text, spot.number, spot.distance)
            if tokens
            else (spot.part, spot.number, spot.distance, spot.text)
            for spot in spots
        )
        numeric = (not tokens, True, True) if tokens else (True, True, True, False)
        key = title.split()[0]
        blocks.append(Table(key, f"{title[:1].upper()}{title[1:]}", columns, rows, numeric))
    return tuple(blocks)


def updates_of(found: Diff) -> Table:
    """All updates of matrices."""
    rows = tuple(
        (one.part, one.name, one.distance, rank_in_words(one), one.directions, one.stable_rank)
        for one in found.updates
    )
    columns = ("layer", "matrix", "distance", "rank", "99 % in", "stable rank")
    note = (
        "Rank: number of singular values above rounding. 99 % in: directions that carry 99 % of "
        "the squared change."
    )
    numeric = (True, False, True, False, True, True)
    return Table("updates", "Rank of the updates", columns, rows, numeric, note, folded=True)
