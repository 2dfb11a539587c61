"""Two models side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np

from segre.analysis.run import Analysis
from segre.analysis.side_by_side import SideBySide
from segre.collapse.curves import Curves
from segre.collapse.variants import ALONE, FULL
from segre.inspect.diagnose import Diagnosis
from segre.inspect.measure import Measure
from segre.report.blocks import (
    Block,
    Figure,
    Items,
    Page,
    Row,
    Say,
    Section,
    Table,
    Tile,
    Title,
)
from segre.report.charts import Number, residuals
from segre.report.collapse import power
from segre.report.comparison import dimension_tile, explained, letter, rows
from segre.report.depth import known_residuals
from segre.report.diagnosis import findings_block, heads_block
from segre.report.diff import facts_block, facts_of, pieces_of, tiles_of
from segre.report.dimensions import known_by, weakest
from segre.report.views import paged, tabled, view

Line = tuple[str, str, str]
RESIDUALS = "Residual after the last layer"


@view.register
def of_side_by_side(found: SideBySide) -> Iterator[Block]:
    """Sizes, measures and findings of both; then what changed from one to the other."""
    yield Title("Side by side", terminal=False)
    for number, each in enumerate(found.both):
        yield Say(f"{letter(number)}  {each.target}", wrap=False)
    for title, own in (
        ("Sizes", size_rows(found)),
        (RESIDUALS, depth_rows(found)),
        ("Measured, medians", measure_rows(found)),
    ):
        if own:
            yield Say()
            yield table_of_rows("rows", "", own, first=title)
    for number, each in enumerate(found.both):
        if "findings" in each:
            yield Say()
            yield Say(f"{letter(number)}: {each['findings'].lead or each['findings'].reason}")
            yield Items("", tuple(findings_of(each)))
    yield Say()
    if found.changes is None:
        yield Say(f"The weights are not compared: {found.no_diff}.")
        return
    yield Say("From A to B, by segre diff:")
    yield facts_block(found.changes, 2)


def table_of_rows(
    key: str, title: str, rows: Sequence[Line], note: str = "", *, first: str = ""
) -> Table:
    """A row for each quantity, a column for each model."""
    names = (first, letter(0), letter(1))
    return Table(key, title, names, tuple(rows), (False, True, True), note, wraps=names[1:])


@tabled.register
def table_of_side_by_side(found: SideBySide) -> Table:
    """Every quantity that both models have."""
    rows = [*size_rows(found), *depth_rows(found), *measure_rows(found)]
    return Table("side-by-side", "Side by side", ("what", letter(0), letter(1)), tuple(rows))


def size_rows(found: SideBySide) -> list[Line]:
    """Shapes, and every line of `segre compare` on the two."""
    specs = [each.spec for each in found.both]
    shapes = [("layers", "depth"), ("width", "width")]
    out: list[Line] = []
    for name, key in shapes:
        one, two = (f"{getattr(spec, key):,}" for spec in specs)
        out.append((name, one, two))
    one, two = (_heads(spec) for spec in specs)
    out.append(("heads in a layer", one, two))
    return out + [(name, words[0], words[1]) for name, words in rows(found.designs)]


def _heads(spec: Any) -> str:
    counts = sorted({int(count) for count in spec.heads_by_layer})
    return ", ".join(map(str, counts))


def depth_rows(found: SideBySide) -> list[Line]:
    """Relative residuals after the last layer, for the variants that both have."""
    ends = [_ends(each) for each in found.both]
    names = [name for name in ends[0] if name in ends[1]]
    if not names:
        return []
    known: Line = ("known by", str(found.one["depth"].status), str(found.two["depth"].status))
    return [*((name, ends[0][name], ends[1][name]) for name in names), known]


def _ends(found: Analysis) -> dict[str, str]:
    data = found["depth"].data if "depth" in found else None
    if data is None:
        return {}
    if data["kind"] == "stack":
        return {"as it is": power(float(np.median([row[-1] for row in data["log10"]["relative"]])))}
    words = {one["variant"]: one["words"] for one in data["versions"]}
    logs = {words[curve["variant"]]: curve["log10"][-1] for curve in data["curves"]}
    return {name: "-" if log is None else power(float(log)) for name, log in logs.items()}


def measure_rows(found: SideBySide) -> list[Line]:
    """Medians of all measures that both models have."""
    one, two = found.diagnoses
    if one is None or two is None:
        return []
    out: list[Line] = []
    if one.loss is not None and two.loss is not None:
        out.append(("Loss, nats", f"{one.loss:.3f}", f"{two.loss:.3f}"))
    for measure, first, second in pairs(one, two):
        out.append((measure.title, _number(first), _number(second)))
    return out


def pairs(one: Diagnosis, two: Diagnosis) -> Iterator[tuple[Measure, Any, Any]]:
    """The measures that both have, with their values."""
    for measure in one.measured:
        if measure.key in two.values:
            yield measure, one.values[measure.key], two.values[measure.key]


def _number(values: Any) -> str:
    middle = float(np.median(values))
    return f"{middle:.3g}" if isfinite(middle) else "-"


def findings_of(found: Analysis) -> list[str]:
    """The findings, one sentence each."""
    data = found["findings"].data if "findings" in found else None
    return [] if data is None else [one["what"] for one in data["findings"]]


@paged.register
def page_of_side_by_side(found: SideBySide) -> Page:
    """Sizes, findings, depth and heads of both, and what changed from the first to the second."""
    names = [each.name for each in found.both]
    title = " and ".join(names) if names[0] != names[1] else names[0]
    told = "; ".join(f"{letter(n)} is {each.target}" for n, each in enumerate(found.both))
    made = f"seed {found.one.seed}"
    sections = tuple(_sections(found))
    return Page(title, told, tuple(_tiles(found)), sections, command=found.command, made=made)


def _tiles(found: SideBySide) -> Iterator[Tile]:
    for number, one in enumerate(found.designs.designs):
        yield dimension_tile(f"{letter(number)}: functional dimension", one)
    for number, diagnosis in enumerate(found.diagnoses):
        if diagnosis is not None:
            remark = f"on {diagnosis.tokens} tokens"
            yield Tile(f"{letter(number)}: findings", str(diagnosis.value), "measured", remark)
    if found.changes is not None:
        yield tiles_of(found.changes)[0]


def _sections(found: SideBySide) -> Iterator[Section]:
    first, second = (known_by(one) for one in found.designs.found)
    yield Section(
        "sizes",
        "Sizes",
        weakest(found.designs.found),
        f"The dimension of A: {first}; of B: {second}.",
        "As in segre compare, dimensions are computed or known by a theorem, and bounds are "
        "labelled. Operations and state are counted.",
        found.commands.get("sizes", ""),
        (table_of_rows("sizes", "Sizes", size_rows(found), explained(found.designs)),),
    )
    for key, title, blocks in (
        ("findings", "What stands out", tuple(_findings(found))),
        ("depth", "Rank against depth", tuple(_depth(found))),
        ("heads", "Layers and heads", tuple(_maps(found))),
    ):
        parts = [each[key] for each in found.both if key in each]
        if not parts:
            continue
        said = [f"{letter(n)}: {part.lead or part.reason}" for n, part in enumerate(parts)]
        yield Section(
            key,
            title,
            parts[0].status if parts[0].data is not None else parts[1].status,
            " ".join(said),
            parts[0].how or parts[1].how,
            parts[0].command,
            blocks,
            seconds=sum(part.seconds for part in parts),
        )
    yield _changed(found, found.commands.get("diff", ""))


def _findings(found: SideBySide) -> Iterator[Block]:
    lists = tuple(
        replace(findings_block(diagnosis), title=f"{letter(n)}: {found.both[n].name}")
        for n, diagnosis in enumerate(found.diagnoses)
        if diagnosis is not None and diagnosis.findings
    )
    if lists:
        yield Row(lists)


def _depth(found: SideBySide) -> Iterator[Block]:
    curves = [each["depth"].details for each in found.both if "depth" in each]
    if not curves or not all(isinstance(one, Curves) for one in curves):
        return
    every = {
        f"{letter(number)}: {curve.variant.words}": known_residuals(curve)
        for number, one in enumerate(curves)
        for curve in one.curves
        if curve.variant in (FULL, ALONE)
    }
    yield residuals(
        every,
        takeaway=_last(every),
        dashed=[name for name in every if name.startswith("B")],
        note="1 means that tokens have nothing in common, 0 that all of them are the same. "
        "Attention only is the model without skips and MLPs.",
    )
    yield replace(table_of_rows("depth-ends", RESIDUALS, depth_rows(found)), folded=True)


def _last(series: Mapping[str, Sequence[Number]]) -> str:
    """Where both models end as they are."""
    said = []
    for name, values in series.items():
        own, _, words = name.partition(": ")
        if words == FULL.words:
            last = values[-1]
            said.append(f"{last:.2g} in {own}" if last is not None else f"not known in {own}")
    return f"After the last layer the relative residual is {' and '.join(said)}."


def _maps(found: SideBySide) -> Iterator[Block]:
    measured = measure_rows(found)
    maps = tuple(
        _named(heads_block(diagnosis), number, found)
        for number, diagnosis in enumerate(found.diagnoses)
        if diagnosis is not None
    )
    if maps:
        yield Row(maps)
    if measured:
        medians = table_of_rows("measures", "Medians of the measures", measured)
        yield replace(medians, folded=True)


def _named(figure: Figure, number: int, found: SideBySide) -> Figure:
    title = f"{letter(number)}: {found.both[number].name}"
    return replace(figure, key=f"heads-{letter(number).lower()}", title=title)


def _changed(found: SideBySide, command: str) -> Section:
    title = "What changed"
    if found.changes is None:
        why = f"{found.no_diff[:1].upper()}{found.no_diff[1:]}."
        return Section("diff", title, "not run", reason=why)
    return Section.measured(
        "diff",
        title,
        f"{dict(facts_of(found.changes))['distance'].capitalize()}.",
        "The second model is moved towards the first by symmetries, which do not change its "
        "function. The remaining difference is a change of the function. The command writes a "
        "separate page with `-o FILE.html`.",
        command,
        facts_block(found.changes, 2),
        pieces_of(found.changes),
    )
