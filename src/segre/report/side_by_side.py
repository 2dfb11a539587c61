"""Two models side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np

from segre.analysis.run import Analysis
from segre.analysis.side_by_side import SideBySide
from segre.collapse.curves import Curves
from segre.collapse.variants import ALONE, FULL
from segre.report.blocks import Block, Blocks, Facts, Items, Row, Say, Section, Table, Tile, Title
from segre.report.charts import residuals
from segre.report.comparison import dimension_tile, explained, rows
from segre.report.depth import known_residuals, power
from segre.report.diagnosis import findings_block, heads_block
from segre.report.diff import facts_block, facts_of, pieces_of, tiles_of
from segre.report.dimensions import known_by, weakest
from segre.report.views import data, measured, on_page, view

Line = tuple[str, str, str]
RESIDUALS = "Residual after the last layer"
MEDIANS = "Measured, medians"


@view
def of_side_by_side(found: SideBySide) -> Blocks:
    """Sizes, measures and findings of both; then what changed from one to the other."""
    yield Title("Side by side", terminal=False)
    yield on_page([Title("; ".join(f"{name} is {each.target}" for name, each in named(found)))])
    for name, each in named(found):
        yield Say(f"{name}  {each.target}", wrap=False)
    tables = {"Sizes": size_rows, RESIDUALS: depth_rows, MEDIANS: measure_rows}
    every = {title: rows_of(found) for title, rows_of in tables.items()}
    for title, own in every.items():
        if own:
            yield from (Say(), _table("", own, first=title))
    for name, each in named(found):
        if "findings" in each:
            part = each["findings"]
            yield from (Say(), Say(f"{name}: {part.lead or part.reason}"))
            yield Items(
                "", tuple(one["what"] for one in (part.data or {"findings": ()})["findings"])
            )
    yield Say()
    if found.changes is None:
        yield Say(f"The weights are not compared: {found.no_diff}.")
    else:
        yield Say("From A to B, by segre diff:")
        yield facts_block(found.changes, "first", "second")
    yield on_page(_page(found, every))
    lines = tuple(line for own in every.values() for line in own)
    yield data([Table("Side by side", ("what", "A", "B"), lines)])


def named(found: SideBySide) -> Iterator[tuple[str, Analysis]]:
    """Both, with their letters."""
    return zip("AB", found.both, strict=True)


def _table(title: str, rows: list[Line], *, first: str = "", **more: Any) -> Table:
    """A row for each quantity, a column for each model."""
    names = (first, "A", "B")
    return Table(title, names, tuple(rows), (False, True, True), wraps=names[1:], **more)


def size_rows(found: SideBySide) -> list[Line]:
    """Shapes, and every line of `segre compare` on the two."""
    shapes: dict[str, Callable[[Any], str]] = {
        "layers": lambda spec: f"{spec.depth:,}",
        "width": lambda spec: f"{spec.width:,}",
        "heads in a layer": lambda spec: ", ".join(map(str, sorted({*spec.heads_by_layer}))),
    }
    first, second = (each.spec for each in found.both)
    own = [(name, said(first), said(second)) for name, said in shapes.items()]
    return [*own, *((name, one, two) for name, (one, two) in rows(found.designs))]


def depth_rows(found: SideBySide) -> list[Line]:
    """Relative residuals after the last layer, for the variants that both have."""
    one, two = (_ends(each) for each in found.both)
    lines: list[Line] = [(name, one[name], two[name]) for name in one if name in two]
    if lines:
        lines.append(("known by", found.one["depth"].status, found.two["depth"].status))
    return lines


def _ends(found: Analysis) -> dict[str, str]:
    depth = found["depth"].details if "depth" in found else None
    if depth is None:
        return {}
    if isinstance(depth.found, Curves):
        return {one.variant.words: power(float(one.log10[-1])) for one in depth.found.curves}
    return {"as it is": power(depth.value)}


def measure_rows(found: SideBySide) -> list[Line]:
    """Medians of all measures that both models have."""
    one, two = found.diagnoses
    if one is None or two is None:
        return []
    out: list[Line] = []
    if one.loss is not None and two.loss is not None:
        out.append(("Loss, nats", f"{one.loss:.3f}", f"{two.loss:.3f}"))
    both = [each for each in one.measured if each.key in two.values]
    return out + [(x.title, _number(one.values[x.key]), _number(two.values[x.key])) for x in both]


def _number(values: Any) -> str:
    middle = float(np.median(values))
    return f"{middle:.3g}" if isfinite(middle) else "-"


def _page(found: SideBySide, every: dict[str, list[Line]]) -> Blocks:
    """Sizes, findings, depth and heads of both, and what changed from the first to the second."""
    yield Facts(tuple(_tiles(found)))
    first, second = (known_by(one) for one in found.designs.found)
    yield Section(
        "sizes",
        "Sizes",
        weakest(found.designs.found),
        f"The dimension of A: {first}; of B: {second}.",
        "As in segre compare, dimensions are computed or known by a theorem, and bounds are "
        "labelled. Operations and state are counted.",
        found.commands.get("sizes", ""),
        (_table("Sizes", every["Sizes"], note=explained(found.designs)),),
    )
    maps: list[Block] = []
    lists: list[Block] = []
    for (name, each), diagnosis in zip(named(found), found.diagnoses, strict=True):
        title = f"{name}: {each.name}"
        if diagnosis is not None:
            maps.append(heads_block(diagnosis, title=title))
            lists += [replace(findings_block(diagnosis), title=title)] * bool(diagnosis.findings)
    medians = [_table(MEDIANS, every[MEDIANS], folded=True)] if every[MEDIANS] else []
    findings, heads = ([Row(tuple(row))] if row else [] for row in (lists, maps))
    yield from _section(found, "findings", "What stands out", *findings)
    yield from _section(found, "depth", "Rank against depth", *_depth(found, every[RESIDUALS]))
    yield from _section(found, "heads", "Layers and heads", *heads, *medians)
    yield _changed(found)


def _tiles(found: SideBySide) -> Iterator[Tile]:
    for name, design in zip("AB", found.designs.designs, strict=True):
        yield dimension_tile(f"{name}: functional dimension", design)
    for name, one in zip("AB", found.diagnoses, strict=True):
        if one is not None:
            yield Tile(f"{name}: findings", str(one.value), "measured", f"on {one.tokens} tokens")
    if found.changes is not None:
        yield next(tiles_of(found.changes))


def _section(found: SideBySide, key: str, title: str, *blocks: Block) -> Blocks:
    """A question that was asked of both, if it was."""
    parts = [each[key] for each in found.both if key in each]
    if parts:
        first, second = parts[0], parts[-1]
        status = (first if first.data is not None else second).status
        said = " ".join(f"{n}: {x.lead or x.reason}" for n, x in zip("AB", parts, strict=False))
        how, seconds = first.how or second.how, sum(part.seconds for part in parts)
        given = (status, said, how, first.command, blocks)
        yield Section(key, title, *given, seconds=seconds)


def _depth(found: SideBySide, ends: list[Line]) -> Blocks:
    """The curves of both models, as they are and of attention alone."""
    depths = [each["depth"].details for each in found.both if "depth" in each]
    if not depths or not all(one and isinstance(one.found, Curves) for one in depths):
        return
    every, last = {}, []
    for name, one in zip("AB", depths, strict=False):
        for curve in one.found.curves:
            if curve.variant in (FULL, ALONE):
                every[f"{name}: {curve.variant.words}"] = values = known_residuals(curve)
            if curve.variant == FULL:
                known = values[-1] is not None
                last.append(f"{values[-1]:.2g} in {name}" if known else f"not known in {name}")
    yield residuals(
        every,
        takeaway=f"After the last layer the relative residual is {' and '.join(last)}.",
        dashed=[name for name in every if name.startswith("B")],
        note="1 means that tokens have nothing in common, 0 that all of them are the same. "
        "Attention only is the model without skips and MLPs.",
    )
    yield _table(RESIDUALS, ends, folded=True)


def _changed(found: SideBySide) -> Section:
    title = "What changed"
    if found.changes is None:
        why = f"{found.no_diff[:1].upper()}{found.no_diff[1:]}."
        return Section("diff", title, "not run", reason=why)
    return measured(
        "diff",
        title,
        f"{facts_of(found.changes)['distance'].capitalize()}.",
        "The second model is moved towards the first by symmetries, which do not change its "
        "function. The remaining difference is a change of the function. The command writes a "
        "separate page with `-o FILE.html`.",
        facts_block(found.changes, "first", "second"),
        pieces_of(found.changes),
        command=found.commands.get("diff", ""),
    )
