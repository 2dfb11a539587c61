"""Checkpoints in a notebook: compared, written, and their contents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from segre.checkpoint.commands import Written
from segre.checkpoint.comparison import Check, Comparison
from segre.checkpoint.evidence import Block as Compared
from segre.checkpoint.info import Info
from segre.report.cards import carded, tabled
from segre.report.cards.card import Card
from segre.report.page.blocks import Block, Cell, Facts, Table, Tile

_FEW = 8  # blocks that are seen at once


@carded.register
def card_of_comparison(found: Comparison) -> Card:
    """The verdict, its evidence, and the blocks nearest to their limits or beyond them."""
    return Card(
        title="Are two checkpoints the same function?",
        lead=f"{found.reason[:1].upper()}{found.reason[1:]}.",
        tiles=tuple(_verdict_tiles(found)),
        blocks=tuple(_comparison_blocks(found)),
    )


def _verdict_tiles(found: Comparison) -> Iterator[Tile]:
    yield Tile("verdict", found.said, found.status)
    if found.blocks:
        count, differing = len(found.blocks), len(found.differing)
        value = f"{differing:,} of {count:,} differ" if differing else f"all {count:,} agree"
        yield Tile("blocks of weights", value, "measured", "compared with the effect of rounding")
    if found.outputs is not None:
        remark = f"rounding can explain {found.outputs_tolerance:.1g}"
        yield Tile("outputs differ by", f"{found.outputs:.2g}", "measured", f"relative; {remark}")


def _comparison_blocks(found: Comparison) -> Iterator[Block]:
    if not found.blocks:
        return
    title = "Blocks that differ most" if found.differing else "Blocks nearest to their limits"
    yield _blocks_table(found.blocks, title, len(found.differing) or 3)
    typical, coarsest = found.sensitivity
    seen: list[tuple[str, Cell, str]] = [
        (
            "detectable in a typical block",
            typical,
            "smallest relative change that would be detected",
        ),
        ("in the least sensitive block", coarsest, "measured by rounding both files once more"),
    ]
    if found.differing_entries is not None:
        seen.append(("different entries", found.differing_entries, "of the two files, as stored"))
    yield Facts(tuple(seen))


def _blocks_table(blocks: Iterable[Compared], title: str, most: int) -> Table:
    worst = sorted(blocks, key=lambda block: -block.excess)[: max(1, min(_FEW, most))]
    names = ("block", "difference", "rounding", "ratio", "limit", "most in")
    rows = tuple(
        (
            f"{one.place}, {one.kind}",
            one.difference,
            one.sensitivity,
            one.ratio,
            one.limit,
            one.name if len(one.sizes) > 1 else "",
        )
        for one in worst
    )
    return Table("blocks", title, names, rows, (False, True, True, True, True, False))


@carded.register
def card_of_check(check: Check) -> Card:
    """Whether a witness is valid."""
    differing = sum(not block.agrees for block in check.blocks)
    value = f"{differing:,} of {len(check):,} differ" if differing else f"all {len(check):,} agree"
    return Card(
        title="Is the witness valid?",
        tiles=(
            Tile("witness", "holds" if check.value else "not valid", check.status),
            Tile("blocks of weights", value, check.status, "compared with the effect of rounding"),
        ),
        blocks=(_blocks_table(check.blocks, "Blocks that differ most", differing or 3),),
    )


@tabled.register(Comparison)
@tabled.register(Check)
def table_of_blocks(found: Comparison | Check) -> Table:
    """Every block, in the order of the model."""
    names = (
        "part",
        "kind",
        "difference",
        "rounding",
        "ratio",
        "limit",
        "most in",
        "excess",
        "agrees",
    )
    rows = tuple(
        (
            one.part,
            one.kind,
            one.difference,
            one.sensitivity,
            one.ratio,
            one.limit,
            one.name,
            one.excess,
            bool(one.agrees),
        )
        for one in found.blocks
    )
    return Table("blocks", "Blocks", names, rows)


@tabled.register
def table_of_written(written: Written) -> Table:
    """What changed: by tensor, or for an alignment by block."""
    if written.blocks:
        names: tuple[str, ...] = ("block", "distance", "after", "cosine", "cosine after")
        rows: tuple[tuple[Cell, ...], ...] = tuple(
            (one.name, *map(float, one.distances()), *map(float, one.cosines()))
            for one in written.blocks
        )
    else:
        names = ("part", "tensor", "change")
        rows = tuple((one.part, one.name, one.change) for one in written.changes)
    return Table("changes", "What changed", names, rows)


@tabled.register
def table_of_info(info: Info) -> Table:
    """Every head of every layer."""
    measures = ("rank", "condition", "norm", "stable rank")
    names = ("layer", "head", *(f"{kind} {one}" for kind in ("OV", "QK") for one in measures))
    rows = tuple(
        (
            layer.number,
            head + 1,
            *(
                value
                for one in (layer.ov[head], layer.qk[head])
                for value in (one.rank, one.condition, one.norm, one.stable_rank)
            ),
        )
        for layer in info.layers
        for head in range(len(layer.ov))
    )
    return Table("heads", "Heads", names, rows)
