"""What changed between two checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from segre.analysis.diff import Diff, SmallDiff
from segre.checkpoint.changes import PIECES, Spot, Update
from segre.files import shown
from segre.report.blocks import (
    Blocks,
    Column,
    Facts,
    Figure,
    Row,
    Say,
    Table,
    Tile,
    Title,
    table,
    told,
)
from segre.report.charts import bars, heat_map, lines
from segre.report.views import data, elsewhere, measured, on_page, terminal, tiles, view

_FEW = 5  # heads, units, tokens
FAR_APART = 0.5  # relative distance of models that may be unrelated
FAR = "far apart: these may be unrelated models; segre model lineage A B looks for a common origin"
_LOWEST = 1e-6  # smaller singular values are drawn here
_LAYERS = 40  # rows of the grid that are printed; of more layers, those that changed most


@view
def of_diff(found: Diff) -> Blocks:
    """Configs, distances, ranks and outputs; then where the changes are."""
    yield Title("What changed between two checkpoints?", terminal=False)
    yield Title(f"{shown(found.one)} → {shown(found.two)}", terminal=False)
    yield tiles(*tiles_of(found))
    yield facts_block(found)
    yield on_page(_sections(found))
    grid = found.changes.grid.items()
    every = tuple((*place, one.relative, one.relative_raw) for place, one in grid)
    columns = ("part", "piece", "distance", "as stored")
    yield data([Table("Relative distances", columns, every, (False, False, True, True))])
    if not found.changes.total.raw:
        return
    yield Say()
    yield Say(f"Relative distance, {gauge_in_words(found)}:", "bold")
    yield distances_of(found)
    for title, spots in spots_of(found):
        words = "; ".join(spot_in_words(spot) for spot in spots[:_FEW])
        yield terminal(Say(f"{title}: {words}"))
    yield elsewhere(pieces_of(found), *most_of(found))


@view
def of_small_diff(found: SmallDiff) -> Blocks:
    """The verdict, and distances: of the weights, the outputs and what the normal forms have."""
    yield Title("What changed between two small networks?", terminal=False)
    names = {"first": found.one, "second": found.two}
    yield told({**names, "function": found.same.verdict, "reason": found.same.reason})
    distances = {"outputs at random inputs": found.outputs, **dict(found.invariants)}
    if found.stored is not None:
        distances = {"weights as stored": found.stored, **distances}
    rows = tuple((name, number(far)) for name, far in distances.items())
    yield Say()
    yield Table("Distances", ("relative to the first", "distance"), rows, (False, True))
    title, pieces = "Distances, relative to the first", {"distance": list(distances.values())}
    yield bars(title, list(distances), pieces, unit="distance")


def facts_block(found: Diff, *left_out: str) -> Facts:
    """Lines about the whole."""
    return told({name: words for name, words in facts_of(found).items() if name not in left_out})


def facts_of(found: Diff) -> dict[str, str]:
    """What is said about the whole."""
    said = {"first": shown(found.one), "second": shown(found.two), "config": config_in_words(found)}
    if found.common is not None:
        words = f"sizes differ; only the first {found.common:,} tokens are compared"
        said["vocabulary"] = words
    said["distance"] = distance_in_words(found)
    said["update"] = update_in_words(found)
    said["outputs"] = outputs_in_words(found)
    return {**said, "note": FAR} if found.value > FAR_APART else said


def config_in_words(found: Diff) -> str:
    """Keys that differ."""
    names = ", ".join(found.ignored)
    ignored = f"; keys without effect on the function: {names}" * bool(names)
    if not found.config:
        return f"no difference that changes the function{ignored}"
    pairs = (f"{key} {one!r} -> {two!r}" for key, (one, two) in found.config.items())
    return f"differs: {', '.join(pairs)}{ignored}"


def distance_in_words(found: Diff) -> str:
    """The overall distance, and how much of it was gauge."""
    total = found.changes.total
    if not total.raw:
        return "0: all weights are equal"
    distance = f"{found.value:.3g} relative to the first, {basis_in_words(found)}"
    if not found.changed and not found.others:
        distance += f", no more than rounding (1 part in {1 / found.roundoff:,.0f})"
    if not found.changes.moved:
        return distance
    return (
        f"{distance}; {total.relative_raw:.3g} as stored: {100 * found.gauge:.3g} % of the squared "
        "difference was gauge"
    )


def basis_in_words(found: Diff) -> str:
    """The gauge in which everything is measured."""
    return "in a common gauge" if found.changes.moved else "as stored"


def gauge_in_words(found: Diff) -> str:
    """The gauge in which differences are listed."""
    moved = "with the second moved into the gauge of the first"
    return moved if found.changes.moved else "as stored"


def update_in_words(found: Diff) -> str:
    """Which matrices changed, in how many directions, and what else."""
    changed = found.changed
    others = " and ".join(filter(None, [", ".join(found.others[:-1]), *found.others[-1:]]))
    if not changed:
        return f"no matrix of a layer changed, only {others}" if others else "nothing changed"
    names = ", ".join(dict.fromkeys(sorted(u.name for u in changed)))
    rest = f"{others} changed too" if others else "nothing else changed"
    if all(one.low_rank for one in changed):
        rank = max(one.rank for one in changed)
        return f"low rank, as from an adapter such as LoRA: rank at most {rank} ({names}); {rest}"
    full = all(one.rank == one.full for one in changed)
    rank_of = "full rank" if full else f"rank up to {rank_in_words(widest_of(changed))}"
    median = sorted(u.directions / u.full for u in changed)[len(changed) // 2]
    return (
        f"{rank_of}: {len(changed):,} of {len(found.updates):,} matrices changed; 99 % of the "
        f"squared change lies in {100 * median:.0f} % of the directions (median); {rest}"
    )


def outputs_in_words(found: Diff) -> str:
    """How much the outputs differ."""
    out = found.outputs
    words = [f"on {out.inputs} ({out.count} x {out.length}): relative difference {out.mean:.2g}"]
    if out.divergence is not None and out.agreement is not None:
        words.append(f"divergence {out.divergence:.2g} nats")
        words.append(f"the likeliest token agrees at {100 * out.agreement:.3g} % of positions")
    if out.losses is not None:
        words.append(f"loss {out.losses[0]:.4f} -> {out.losses[1]:.4f} nats")
    return "; ".join(words)


def grid_of(
    found: Diff, *, stored: bool = False
) -> tuple[list[str], list[str], list[list[float | None]]]:
    """Parts, pieces, and the distance for each pair of them: in a common gauge, or as stored."""
    pieces = [piece for piece in PIECES if piece in found.by_piece]
    parts = list(found.by_part)
    known = {
        place: one.relative_raw if stored else one.relative
        for place, one in found.changes.grid.items()
    }
    return parts, pieces, [[known.get((part, piece)) for piece in pieces] for part in parts]


def distances_of(found: Diff) -> Table:
    """The distances of every part by piece; of many parts, of those that changed most."""
    parts, pieces, cells = grid_of(found)
    whole = {part: found.by_part[part].relative for part in parts}
    kept = sorted(parts, key=lambda part: -whole[part])[:_LAYERS]
    rows = tuple(
        (part_in_words(part), *map(number, row), number(whole[part]))
        for part, row in zip(parts, cells, strict=True)
        if part in kept
    )
    return Table("Distances", ("", *pieces, "all"), rows, (False, *[True] * len(pieces), True))


def spots_of(found: Diff) -> Iterator[tuple[str, list[Spot]]]:
    """What changed most."""
    every = {
        "heads that changed most (layer.head)": found.changes.heads,
        "units that changed most (layer.unit)": found.changes.units,
        "tokens that changed most": found.changes.tokens,
    }
    return ((title, spots) for title, spots in every.items() if spots)


def spot_in_words(spot: Spot) -> str:
    """A head, unit or token, and how far it moved.

    >>> spot_in_words(Spot("2", 1, 2.8, "QK 5.6e-08, VO 2.8")), spot_in_words(Spot("2", 20, 0.95))
    ('2.1 (QK 5.6e-08, VO 2.8)', '2.20 (0.95)')
    """
    if spot.part == "embed":
        named = f" {spot.text!r}" if spot.text else ""
        return f"{spot.number}{named} ({spot.distance:.2g})"
    return f"{spot.part}.{spot.number} ({spot.text or f'{spot.distance:.2g}'})"


def rank_in_words(update: Update) -> str:
    """The rank of an update.

    >>> rank_in_words(Update("1", "W_Q", 0.1, 8, 64, 7, 2.0))
    '8 of 64'
    """
    return f"{'at least ' if update.at_least else ''}{update.rank:,} of {update.full:,}"


def part_in_words(part: str) -> str:
    """As in reports.

    >>> part_in_words("embed"), part_in_words("3")
    ('embeddings', 'layer 3')
    """
    return {"embed": "embeddings", "head": "head"}.get(part, f"layer {part}")


def number(value: float | None) -> str:
    """Three digits; nothing where there is nothing."""
    return "" if value is None else "0" if not value else f"{value:.3g}"


def tiles_of(found: Diff) -> Iterator[Tile]:
    """Distance, gauge, rank, outputs."""
    total, out = found.changes.total, found.outputs
    yield Tile("Distance", f"{found.value:.3g}", "measured", f"relative, {basis_in_words(found)}")
    if found.changes.moved:
        remark = f"of the squared difference as stored ({total.relative_raw:.3g})"
        yield Tile("was gauge", f"{100 * found.gauge:.3g} %", "measured", remark)
    rank, remark = "none changed", ""
    if found.changed:
        rank = rank_in_words(widest_of(found.changed))
        remark = f"of {len(found.changed):,} matrices that changed, the largest"
    yield Tile("rank of the update", rank, "measured", remark)
    yield Tile("change of outputs", f"{out.mean:.2g}", "measured", f"relative, on {out.inputs}")


def widest_of(updates: Iterable[Update]) -> Update:
    """The update in the largest share of all directions."""
    return max(updates, key=lambda one: one.rank / one.full)


def pieces_of(found: Diff) -> Table:
    """Distances by piece."""
    known = found.by_piece
    columns: list[Column] = [("piece", str), ("distance", lambda piece: known[piece].relative)]
    if found.changes.moved:
        columns.append(("as stored", lambda piece: known[piece].relative_raw))
    note = f"Relative to the first model. Distance: {basis_in_words(found)}."
    pieces = [piece for piece in PIECES if piece in known]
    return table("By piece", pieces, *columns, note=note)


def most_of(found: Diff) -> Iterator[Table]:
    """Heads, units and tokens that changed most."""
    for title, spots in spots_of(found):
        columns: tuple[Column, ...] = (("layer", "part", ">"), "number", "distance", ": text")
        if spots[0].part == "embed":
            columns = ("token: text", "id: number", "distance")
        yield table(title[:1].upper() + title[1:], spots, *columns)


def _sections(found: Diff) -> Blocks:
    """What changed, where, and in how many directions."""
    facts = facts_of(found)
    yield measured(
        "whole",
        "What changed",
        facts["distance"].capitalize() + ".",
        "The second checkpoint is moved towards the first by symmetries, which do not change "
        "its function. The remaining difference is a change of the function."
        if found.changes.moved
        else "The files are compared as they are stored.",
        facts_block(found),
        pieces_of(found),
    )
    yield measured(
        "where",
        "Where",
        f"Relative distances by layer and piece, {gauge_in_words(found)}.",
        "Root of the squared differences, summed over the tensors of a piece, relative to the "
        "first. Single heads are compared by their query-key and value-output products.",
        Row(tuple(_maps(found))),
        *most_of(found),
    )
    updates = table(
        "Rank of the updates",
        found.updates,
        *(("layer", "part", ">"), "matrix: name", "distance", ("rank", rank_in_words)),
        *("99 % in: directions", "stable rank: stable_rank"),
        note="Rank: number of singular values above rounding. 99 % in: directions that carry 99 % "
        "of the squared change.",
        folded=True,
    )
    yield measured(
        "updates",
        "Rank of the update",
        facts["update"][:1].upper() + facts["update"][1:] + ".",
        "Singular values of the difference of each matrix, compared with those that rounding "
        "gives.",
        *_spectra(found),
        updates,
    )


def _maps(found: Diff) -> Iterator[Figure]:
    """Distances by layer and piece: as stored, if that is something else, and in common."""
    every = {basis_in_words(found): grid_of(found)}
    if found.changes.moved:
        every["as stored"] = grid_of(found, stored=True)
    most = max((x for _, _, rows in every.values() for row in rows for x in row if x), default=1)
    for title, (parts, pieces, cells) in every.items():
        yield heat_map(
            f"Relative distance by layer and piece: {title}",
            ("part", [part_in_words(part) for part in parts]),
            ("piece", pieces),
            cells,
            what="distance",
            look={"zmin": 0, "zmax": most, "texttemplate": "%{z:.2g}"},
            takeaway=_farthest(parts, pieces, cells),
        )


def _farthest(parts: list[str], pieces: list[str], cells: list[list[float | None]]) -> str:
    """Where the two are farthest apart."""
    far, part, piece = max(
        (cell or 0.0, part, piece)
        for part, row in zip(parts, cells, strict=True)
        for piece, cell in zip(pieces, row, strict=True)
    )
    if not far:
        return "Nothing differs."
    return f"The two differ most in {piece} of {part_in_words(part)}: {far:.2g}, relative."


def _low_rank(found: Diff) -> str:
    """In how many directions the most concentrated update goes."""
    large = {one: int((x.spectrum > 0.1 * x.spectrum[0]).sum()) for one, x in found.largest.items()}
    sizes = {name: len(one.spectrum) for name, one in found.largest.items()}
    name = min(large, key=lambda one: large[one] / sizes[one])
    return (
        f"The most concentrated update is that of {name} of layer {found.largest[name].part}: "
        f"{large[name]} of {sizes[name]} singular values are above a tenth of the largest."
    )


def _spectra(found: Diff) -> Iterator[Figure]:
    """Singular values of the largest update of each kind of matrix."""
    largest = found.largest
    if not largest:
        return
    series = {
        f"{name}, layer {one.part}": np.maximum(
            one.spectrum / max(one.spectrum[0], 1e-300), _LOWEST
        ).tolist()
        for name, one in largest.items()
    }
    yield lines(
        "Singular values of the update, relative to the largest",
        range(1, max(map(len, series.values())) + 1),
        series,
        y="singular value",
        log=True,
        first="direction",
        mode="lines",
        takeaway=_low_rank(found),
        note="A steep drop shows an update of low rank. Values below one millionth are drawn at "
        "one millionth.",
    )
