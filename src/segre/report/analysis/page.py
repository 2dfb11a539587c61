"""An analysis: what is seen first, then a section for every part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from segre.analysis.part import Part
from segre.analysis.run import Analysis
from segre.finding import Finding
from segre.report import depth, paths
from segre.report.analysis import architecture, heads
from segre.report.blocks import (
    Block,
    Download,
    Facts,
    Figure,
    Items,
    Page,
    Parts,
    Prose,
    Say,
    Section,
    Table,
    Tile,
    Title,
    elsewhere,
    flat,
    table,
    terminal,
)
from segre.report.checkpoints import section_blocks
from segre.report.diagnosis import findings_block
from segre.report.dimensions import redundant_tile, status_in_words, value_in_words
from segre.report.views import paged, tabled, view

_BLOCKS: dict[str, Callable[[Part], Iterator[Block]]] = {
    "findings": lambda part: iter([findings_block(part.details)]),
    "what": architecture.of_choices,
    "dimension": architecture.of_bounds,
    "redundancy": architecture.of_symmetries,
    "proof": architecture.of_certificates,
    "depth": depth.blocks,
    "heads": heads.blocks,
    "paths": paths.blocks,
    "weights": lambda part: section_blocks(part.details, part.takeaways["conditions"]),
}


_SHORT = {
    "findings": "Findings",
    "redundancy": "Redundancy",
    "weights": "Weights",
    "depth": "Depth",
    "dimension": "Dimension",
}


@view.register
def of_analysis(found: Analysis) -> Iterator[Block]:
    """The answers in short; the page has the plots."""
    yield Title(found.name)
    if str(found.spec) != found.name:
        yield Say(str(found.spec), "dim", wrap=False)
    yield Say()
    yield terminal(Parts(tuple(map(_in_short, found.parts))))
    sections = tuple(_without_plots(section_of(part)) for part in found.parts)
    yield elsewhere(Facts(tuple(tiles(found))), Parts(sections))
    yield Say()
    if found.command:
        yield elsewhere(Say(f"With all plots and tables, as a page: `{found.command}`"))


@view.register
def of_part(part: Part) -> Iterator[Block]:
    """One of the answers, and how it is known."""
    section = _without_plots(section_of(part))
    yield Title(part.title, part.label, terminal=False)
    yield terminal(Parts((_in_short(part),)))
    yield elsewhere(Say(part.lead or section.reason), *section.blocks)
    if part.how:
        yield Say(part.how, "dim")
    if part.command:
        yield Say(part.command, "dim")


def _in_short(part: Part) -> Section:
    """The answer with what its plots add to it, and the findings by number."""
    data = part.data or {}
    more = [part.takeaways[key] for key in _added(part) if key in part.takeaways]
    found = [f"{number}. {one['what']}" for number, one in enumerate(data.get("findings", ()), 1)]
    said = "\n".join([" ".join([part.lead or part.reason, *more]), *found])
    title = _SHORT.get(part.key, part.title)
    lead, reason = (said, "") if part.lead else ("", said)
    return Section(part.key, title, part.label, lead, reason=reason)


def _added(part: Part) -> tuple[str, ...]:
    """The plots whose sentences say more than the answer does; the others repeat it."""
    if part.key == "depth" and (part.data or {}).get("kind") == "model":
        return "depth", "what-if"
    return ("conditions",) if part.key == "weights" else ()


def _without_plots(section: Section) -> Section:
    """The section as a card has it: of a plot, the sentence that it shows."""
    kept = (one for one in flat(section.blocks) if not isinstance(one, Download))
    said = (Say(one.takeaway) if isinstance(one, Figure) else one for one in kept)
    return replace(section, blocks=tuple(said))


@tabled.register
def table_of_analysis(found: Analysis) -> Table:
    """A row for every question."""
    columns = ("part: key", "question: title", "status: label", "answer: lead")
    rest = ("how", "reason", "seconds")
    return table("parts", found.name, found.parts, *columns, *rest)


@paged.register
def page_of_analysis(found: Analysis) -> Page:
    """The page of an analysis."""
    subtitle = str(found.spec) if str(found.spec) != found.name else ""
    sections = tuple(map(section_of, found.parts))
    first = tuple(tiles(found))
    return Page(
        found.name, subtitle, first, sections, command=found.command, made=f"seed {found.seed}"
    )


def section_of(part: Part) -> Section:
    """A part of an analysis, and what it is shown by."""
    blocks: tuple[Block, ...] = ()
    if part.data is not None:
        own = part.key == "depth"  # shows its notes itself
        notes = (_notes(part.notes),) if part.notes and not own else ()
        blocks = (*_BLOCKS[part.key](part), *notes)
    reason = f"{part.reason[:1].upper()}{part.reason[1:]}"
    seconds = 0.0 if part.data is None else part.seconds
    said = (part.key, part.title, part.label, part.lead, part.how, part.command)
    return Section(*said, blocks, reason, seconds)


def _notes(notes: tuple[str, ...]) -> Block:
    return Prose(notes) if len(notes) == 1 else Items("", notes)


def tiles(analysis: Analysis) -> Iterator[Tile]:
    """The numbers to see first, of the parts that ran."""
    yield Tile("Parameters", f"{analysis.spec.parameters:,}", "exact")
    for key, tiles_of in _TILES.items():
        if key in analysis and analysis[key].data is not None:
            yield from tiles_of(analysis[key])


def _finding_tile(part: Part) -> Iterator[Tile]:
    remark = f"on {part.found['inputs']['tokens']} tokens"
    yield Tile("Things that stand out", str(len(part.found["findings"])), part.status, remark)


def _size_tiles(part: Part) -> Iterator[Tile]:
    found = part.details
    assert isinstance(found, Finding)
    dimension = value_in_words(found).replace("..", " to ")
    yield Tile("Functional dimension", dimension, part.label, status_in_words(found))
    yield from redundant_tile(found)


def _proof_tile(part: Part) -> Iterator[Tile]:
    if part.found["of"] == "itself":
        computed = part.proved_by != "theorem"
        checked = "the computation" if computed else "hypotheses and count, not the theorem,"
        yield Tile("Certificate", "valid", part.label, f"{checked} checked by independent code")
        return
    valid = sum(one["valid"] for one in part.found["instances"])
    networks = "network" if valid == 1 else "networks"
    remark = f"but valid for {valid} small {networks} of the same design"
    yield Tile("Certificate", "none at this size", part.status, remark)


def _depth_tile(part: Part) -> Iterator[Tile]:
    value, remark = depth.verdict(part.found)
    yield Tile("Tokens with depth", value, part.status, remark)


def _weights_tile(part: Part) -> Iterator[Tile]:
    exactly, nearly = part.found["special"]["exactly"], part.found["special"]["nearly"]
    layers = len(part.found["measured"]["layers"])
    value = f"nearly: {nearly}" if nearly and not exactly else str(exactly)
    remark = f"of {layers}" if nearly == 0 or not exactly else f"of {layers}; nearly: {nearly}"
    yield Tile("Layers with extra redundancy", value, part.status, remark)


_TILES: dict[str, Callable[[Part], Iterator[Tile]]] = {
    "findings": _finding_tile,
    "dimension": _size_tiles,
    "proof": _proof_tile,
    "depth": _depth_tile,
    "weights": _weights_tile,
}
