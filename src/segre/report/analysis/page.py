"""An analysis as a page: what is seen first, then a section for every part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from segre import __version__
from segre.analysis.part import Part, percent
from segre.analysis.run import Analysis
from segre.errors import SegreError
from segre.files import extension
from segre.report.analysis import architecture, depth, heads, paths, weights
from segre.report.page.blocks import Block, Items, Page, Prose, Section, Tile
from segre.report.page.render import write_page

_FORMATS = (".html", ".htm")

_BLOCKS: dict[str, Callable[[Part], Iterator[Block]]] = {
    "findings": heads.of_findings,
    "what": architecture.of_choices,
    "dimension": architecture.of_bounds,
    "redundancy": architecture.of_symmetries,
    "proof": architecture.of_certificates,
    "depth": depth.blocks,
    "heads": heads.blocks,
    "paths": paths.blocks,
    "weights": weights.blocks,
}


def require_report(path: Path) -> None:
    """Refuse a file that cannot be written, before anything is computed."""
    if extension(path, _FORMATS) not in _FORMATS:
        raise SegreError(
            f"report {str(path)!r}: {path.suffix!r} is not a format; allowed: {', '.join(_FORMATS)}"
        )


def write_report(analysis: Analysis, path: Path, made: str = "") -> None:
    """The page of an analysis as a file; it is there whole or not at all."""
    require_report(path)
    write_page(page_of(analysis, made), path)


def page_of(analysis: Analysis, made: str = "") -> Page:
    """The page of an analysis; `made` says when."""
    target = analysis.target
    subtitle = str(target.spec) if str(target.spec) != target.name else ""
    return Page(
        title=target.name,
        subtitle=subtitle,
        tiles=tuple(tiles(analysis)),
        sections=tuple(section_of(part) for part in analysis.parts),
        document=analysis.document(),
        command=analysis.command,
        made=", ".join(
            word for word in (f"segre {__version__}", f"seed {analysis.seed}", made) if word
        ),
    )


def section_of(part: Part) -> Section:
    """A part of an analysis, and what it is shown by."""
    blocks: tuple[Block, ...] = ()
    if part.data is not None:
        own = part.key == "depth"  # shows its notes itself
        notes = (_notes(part.notes),) if part.notes and not own else ()
        blocks = (*_BLOCKS[part.key](part), *notes)
    shown = {
        "status": part.label,
        "blocks": blocks,
        "reason": f"{part.reason[:1].upper()}{part.reason[1:]}",
        "seconds": 0.0 if part.data is None else part.seconds,
    }
    return Section(**{**vars(part), **shown})


def _notes(notes: tuple[str, ...]) -> Block:
    return Prose(notes) if len(notes) == 1 else Items("", notes)


def tiles(analysis: Analysis) -> Iterator[Tile]:
    """The numbers to see first, of the parts that ran."""
    yield Tile("Parameters", f"{analysis.target.spec.parameters:,}", "exact")
    for key, tiles_of in _TILES.items():
        if key in analysis and analysis[key].data is not None:
            yield from tiles_of(analysis[key])


def _finding_tile(part: Part) -> Iterator[Tile]:
    assert part.data is not None
    remark = f"on {part.data['inputs']['tokens']} tokens"
    yield Tile("Things that stand out", str(len(part.data["findings"])), part.status, remark)


def _size_tiles(part: Part) -> Iterator[Tile]:
    data = part.data
    assert data is not None
    known = data["dimension"] is not None
    if known:
        value, remark = f"{data['dimension']:,}", "independent directions of the function"
    elif data["upper"] is None:
        value, remark = f"\u2248 {data['estimate']:,}", "a count by formulas, not a bound"
    elif data["lower"] is None:
        value, remark = f"\u2264 {data['upper']:,}", "parameters minus known symmetries"
    else:
        value, remark = (
            f"{data['lower']:,} to {data['upper']:,}",
            "between bounds proved by computation",
        )
    yield Tile("Functional dimension", value, part.label, remark)
    least = "" if known else "\u2248 " if data["upper"] is None else "\u2265 "
    left = data["estimate"] if data["upper"] is None else data["upper"]
    redundant = data["parameters"] - (data["dimension"] if known else left)
    share = percent(redundant, data["parameters"], 3)
    remark = f"{share} of all; they do not change the function"
    yield Tile("Redundant parameters", f"{least}{redundant:,}", part.label, remark)


def _proof_tile(part: Part) -> Iterator[Tile]:
    assert part.data is not None
    if part.data["of"] == "itself":
        computed = part.proved_by != "theorem"
        checked = "the computation" if computed else "hypotheses and count, not the theorem,"
        yield Tile("Certificate", "valid", part.label, f"{checked} checked by independent code")
        return
    valid = sum(one["valid"] for one in part.data["instances"])
    networks = "network" if valid == 1 else "networks"
    remark = f"but valid for {valid} small {networks} of the same design"
    yield Tile("Certificate", "none at this size", part.status, remark)


def _depth_tile(part: Part) -> Iterator[Tile]:
    assert part.data is not None
    value, remark = depth.verdict(part.data)
    yield Tile("Tokens with depth", value, part.status, remark)


def _weights_tile(part: Part) -> Iterator[Tile]:
    assert part.data is not None
    exactly, nearly = part.data["special"]["exactly"], part.data["special"]["nearly"]
    layers = len(part.data["measured"]["layers"])
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
