"""What changed between two checkpoints, on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table as Grid
from rich.text import Text

from segre.analysis.diff import Diff
from segre.checkpoint.changes import PIECES, Spot
from segre.checkpoint.updates import Update
from segre.files import shown
from segre.report.console import plain_console
from segre.report.text import printed

_FEW = 5  # heads, units, tokens
FAR_APART = 0.5  # relative distance of models that may be unrelated
FAR = (
    "far apart: these may be unrelated models; segre weights lineage A B looks for a common origin"
)
_LAYERS = 40  # rows of the grid that are printed; of more layers, those that changed most


@printed.register
def print_diff(found: Diff) -> None:
    """Configs, distances, ranks and outputs; then where the changes are."""
    console = plain_console()
    facts = Grid.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column()
    for name, words in facts_of(found):
        facts.add_row(name, Text(words))
    console.print(facts)
    if not found.changes.total.raw:
        return
    console.print()
    console.print(f"Relative distance, {gauge_in_words(found)}:", style="bold")
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column("", no_wrap=True)
    pieces = [piece for piece in PIECES if piece in found.by_piece]
    for piece in (*pieces, "all"):
        grid.add_column(piece, justify="right", no_wrap=True)
    for part, cells in rows_of(found):
        grid.add_row(part_in_words(part), *(number(cells.get(piece)) for piece in (*pieces, "all")))
    console.print(grid)
    for title, spots in spots_of(found):
        words = "; ".join(spot_in_words(spot) for spot in spots[:_FEW])
        console.print(Text(f"{title}: {words}"))


def facts_of(found: Diff) -> Iterator[tuple[str, str]]:
    """Lines about the whole."""
    yield "first", shown(found.one)
    yield "second", shown(found.two)
    yield "config", config_in_words(found)
    if found.common is not None:
        yield "vocabulary", f"sizes differ; only the first {found.common:,} tokens are compared"
    yield "distance", distance_in_words(found)
    yield "update", update_in_words(found)
    yield "outputs", outputs_in_words(found)
    if found.value > FAR_APART:
        yield "note", FAR


def config_in_words(found: Diff) -> str:
    """Keys that differ."""
    ignored = (
        f"; keys without effect on the function: {', '.join(found.ignored)}"
        if found.ignored
        else ""
    )
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
    return (
        "with the second moved into the gauge of the first" if found.changes.moved else "as stored"
    )


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
    widest = max(changed, key=lambda u: u.rank / u.full)
    full = all(one.rank == one.full for one in changed)
    rank_of = "full rank" if full else f"rank up to {rank_in_words(widest)}"
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


def rows_of(found: Diff) -> list[tuple[str, dict[str, float]]]:
    """Every part with its distances by piece; if there are many, those that changed most."""
    rows: dict[str, dict[str, float]] = {}
    for (part, piece), one in found.changes.grid.items():
        rows.setdefault(part, {})[piece] = one.relative
    for part, one in found.by_part.items():
        rows[part]["all"] = one.relative
    if len(rows) <= _LAYERS:
        return list(rows.items())
    kept = sorted(rows, key=lambda part: -rows[part]["all"])[:_LAYERS]
    return [(part, cells) for part, cells in rows.items() if part in kept]


def spots_of(found: Diff) -> Iterator[tuple[str, list[Spot]]]:
    """What changed most."""
    for title, spots in (
        ("heads that changed most (layer.head)", found.changes.heads),
        ("units that changed most (layer.unit)", found.changes.units),
        ("tokens that changed most", found.changes.tokens),
    ):
        if spots:
            yield title, spots


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
