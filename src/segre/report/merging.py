"""Merged checkpoints, and losses between checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from segre.checkpoint.barrier import Barriers
from segre.checkpoint.merge import Merged
from segre.files import shown
from segre.report.blocks import Block, Cell, Say, Table, Title
from segre.report.charts import lines
from segre.report.diff import FAR_APART
from segre.report.views import view

_FEW = 5  # columns of losses


@view.register
def of_merged(merged: Merged) -> Iterator[Block]:
    """Where the checkpoint is, how it was merged, and how close its sources were."""
    yield Title(f"{merged.directory}: {merged.formula}", style="")
    for one in merged.aligned:
        before, after = one.whole.distances()
        near = f"relative distance {before:.3g}"
        if one.moved:
            near = f"relative distance {before:.3g} before alignment, {after:.3g} after"
        yield Say(f"{shown(one.name)} to {shown(one.to)}: {near}", wrap=False)
        if min(before, after) > FAR_APART and not merged.by.startswith("none"):
            yield Say(
                f"{shown(one.name)} is far from {shown(one.to)}, and may be unrelated: measure the "
                "result with segre weights barrier before you use it"
            )
    if all(one.moved for one in merged.aligned):
        yield Say(f"aligned by {merged.by}", wrap=False)
    elif merged.by.startswith("none"):
        yield Say("merged without alignment")
    else:
        still = ", ".join(shown(one.name) for one in merged.aligned if not one.moved)
        yield Say(f"not moved: {still}; alignment would increase the distance", wrap=False)


@view.register
def of_barriers(found: Barriers) -> Iterator[Block]:
    """Losses along every line, and the barriers."""
    yield Title("Loss along the straight line", terminal=False)
    shares = found.lines[0].shares
    last, parts = len(shares) - 1, _FEW - 1
    places = sorted({(2 * last * i + parts) // (2 * parts) for i in range(parts + 1)})
    named = (f"{shares[place]:.2g}" for place in places)
    names = (f"from {shown(found.name)} to", *named, "barrier")
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (shown(line.name), *(float(line.losses[n]) for n in places), float(line.barrier))
        for line in found.lines
    )
    yield Table("losses", "", names, rows, formats=("", *[".3f"] * (len(names) - 1)))
    yield Say(f"measured: {found.how}", wrap=False)
    figure = lines(
        shares,
        {
            f"{shown(line.name)}: barrier {line.barrier:.2f}": list(map(float, line.losses))
            for line in found.lines
        },
        y="next-token loss (nats)",
        first=f"from {shown(found.name)} (0) to the other checkpoint (1)",
        key="losses-by-share",
        title="Loss along the straight line, measured",
        alt="A line for each checkpoint: the loss of mixed weights, by the share of the other one.",
        note=f"On {found.on}.",
    )
    yield replace(figure, layout={**figure.layout, "showlegend": True})
