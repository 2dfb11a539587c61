"""Where checkpoints come from, and their hashes, as tables."""

from __future__ import annotations

from segre.checkpoint.content_hash import ContentHash, Hashes
from segre.checkpoint.lineage import Lineage, Relation
from segre.report.cards import tabled
from segre.report.page.blocks import Table


@tabled.register(Lineage)
@tabled.register(Relation)
def table_of_pairs(found: Lineage | Relation) -> Table:
    """Every pair: verdict, relatives, distance."""
    pairs = found.pairs if isinstance(found, Lineage) else (found,)
    names = ("one", "two", "verdict", "relatives", "threshold", "distance", "reason")
    rows = tuple(
        (
            pair.one,
            pair.two,
            pair.verdict,
            None if pair.kinship is None else pair.kinship.share,
            None if pair.kinship is None else pair.kinship.threshold,
            pair.distance,
            pair.reason,
        )
        for pair in pairs
    )
    return Table("pairs", "Pairs", names, rows)


@tabled.register
def table_of_numbers(found: ContentHash) -> Table:
    """Every number, and its rounding error."""
    rows = tuple((x.part, x.name, x.value, x.error) for x in found.numbers)
    return Table("numbers", "Numbers", ("part", "number", "value", "error"), rows)


@tabled.register
def table_of_hashes(found: Hashes) -> Table:
    """Every checkpoint, and its hashes."""
    rows = tuple(
        (x.name, x.values, None if x.function is None else x.function.hash) for x in found.each
    )
    return Table("hashes", "Hashes", ("model", "values", "function"), rows)
