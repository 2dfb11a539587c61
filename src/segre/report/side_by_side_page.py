"""Two models side by side, as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from segre import __version__
from segre.analysis.side_by_side import SideBySide
from segre.collapse.variants import FULL, variant
from segre.report.analysis.charts import Number, lines
from segre.report.cards.diff import pieces_of, tiles_of
from segre.report.cards.side_by_side import table_of_rows
from segre.report.comparison import explained, letter
from segre.report.diff import facts_of
from segre.report.dimensions import known_by, value_in_words, weakest
from segre.report.inspection_blocks import findings_block, heads_block
from segre.report.page.blocks import Block, Facts, Figure, Items, Page, Row, Section, Tile
from segre.report.page.render import write_page
from segre.report.side_by_side import RESIDUALS, depth_rows, measure_rows, size_rows

_LOWEST = 1e-30  # what lies below is in the table
_SHOWN = ("full", "attention")  # curves of each


def write_side_by_side(found: SideBySide, path: Path, made: str = "") -> None:
    """Both models on one page."""
    write_page(page_of(found, made), path)


def page_of(found: SideBySide, made: str = "") -> Page:
    """Sizes, findings, depth and heads of both, and what changed from the first to the second."""
    names = [each.target.name for each in found.both]
    words = (f"segre {__version__}", f"seed {found.one.seed}", made)
    return Page(
        title=" and ".join(names) if names[0] != names[1] else names[0],
        subtitle="; ".join(
            f"{letter(n)} is {each.target.shown}" for n, each in enumerate(found.both)
        ),
        tiles=tuple(_tiles(found)),
        sections=tuple(_sections(found)),
        document=found.document(),
        command=found.command,
        made=", ".join(word for word in words if word),
    )


def _tiles(found: SideBySide) -> Iterator[Tile]:
    for number, one in enumerate(found.designs.designs):
        yield Tile(
            f"{letter(number)}: functional dimension",
            value_in_words(one.finding, "{:,}".format),
            one.finding.label,
            f"of {one.finding.parameters:,} parameters",
        )
    for number, diagnosis in enumerate(found.diagnoses):
        if diagnosis is not None:
            remark = f"on {diagnosis.tokens} tokens"
            yield Tile(f"{letter(number)}: findings", str(diagnosis.value), "measured", remark)
    if found.changes is not None:
        yield tiles_of(found.changes)[0]


def _sections(found: SideBySide) -> Iterator[Section]:
    first, second = (known_by(one) for one in found.designs.found)
    yield Section(
        key="sizes",
        title="Sizes",
        status=weakest(found.designs.found),
        lead=f"The dimension of A: {first}; of B: {second}.",
        how="As in segre compare, dimensions are computed or known by a theorem, and bounds are "
        "labelled. Operations and state are counted.",
        command=found.commands.get("sizes", ""),
        data={},
        blocks=(table_of_rows("sizes", "Sizes", size_rows(found), explained(found.designs)),),
    )
    for key, title, blocks in (
        ("findings", "What stands out", tuple(_findings(found))),
        ("depth", "Rank against depth", tuple(_depth(found))),
        ("heads", "Layers and heads", tuple(_heads(found))),
    ):
        parts = [each[key] for each in found.both if key in each]
        if not parts:
            continue
        said = [f"{letter(n)}: {part.lead or part.reason}" for n, part in enumerate(parts)]
        yield Section(
            key=key,
            title=title,
            status=parts[0].status if parts[0].data is not None else parts[1].status,
            lead=" ".join(said),
            how=parts[0].how or parts[1].how,
            command=parts[0].command,
            data={},
            blocks=blocks,
            seconds=sum(part.seconds for part in parts),
        )
    yield _changed(found, found.commands.get("diff", ""))


def _findings(found: SideBySide) -> Iterator[Block]:
    lists = tuple(
        Items(f"{letter(number)}: {found.both[number].target.name}", block.items)
        for number, diagnosis in enumerate(found.diagnoses)
        if diagnosis is not None
        for block in findings_block(diagnosis)
    )
    if lists:
        yield Row(lists)


def _depth(found: SideBySide) -> Iterator[Block]:
    every: dict[str, list[Number]] = {}
    for number, each in enumerate(found.both):
        data = each["depth"].data if "depth" in each else None
        if data is None or data["kind"] != "model":
            return
        for curve in data["curves"]:
            if curve["variant"] in _SHOWN:
                logs = curve["log10"]
                values = [None if log is None or log < -300 else 10.0**log for log in logs]
                words = variant(curve["variant"]).words
                every[f"{letter(number)}: {words}"] = values
    longest = max(map(len, every.values()))
    series = {name: [*values, *[None] * (longest - len(values))] for name, values in every.items()}
    yield lines(
        "depth",
        "How different tokens are, by layer",
        "The relative residual after every layer, for both models and for their attention alone.",
        _ends(every),
        range(longest),
        series,
        y="relative residual",
        log=True,
        dashed=[name for name in series if name.startswith("B")],
        lowest=_LOWEST,
        note="1 means that tokens have nothing in common, 0 that all of them are the same. "
        "Attention only is the model without skips and MLPs.",
    )
    yield replace(table_of_rows("depth-ends", RESIDUALS, depth_rows(found)), folded=True)


def _ends(series: Mapping[str, Sequence[Number]]) -> str:
    """Where both models end as they are."""
    said = []
    for name, values in series.items():
        own, _, words = name.partition(": ")
        if words == FULL.words:
            last = values[-1]
            said.append(f"{last:.2g} in {own}" if last is not None else f"not known in {own}")
    return f"After the last layer the relative residual is {' and '.join(said)}."


def _heads(found: SideBySide) -> Iterator[Block]:
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
    title = f"{letter(number)}: {found.both[number].target.name}"
    return replace(figure, key=f"heads-{letter(number).lower()}", title=title)


def _changed(found: SideBySide, command: str) -> Section:
    if found.changes is None:
        return Section(
            key="diff",
            title="What changed",
            status="not run",
            reason=f"{found.no_diff[:1].upper()}{found.no_diff[1:]}.",
        )
    facts = dict(list(facts_of(found.changes))[2:])
    return Section.measured(
        "diff",
        "What changed",
        f"{facts['distance'].capitalize()}.",
        "The second model is moved towards the first by symmetries, which do not change its "
        "function. The remaining difference is a change of the function. The command writes a "
        "separate page with `-o FILE.html`.",
        command,
        Facts(tuple((name, words, "") for name, words in facts.items())),
        pieces_of(found.changes),
    )
