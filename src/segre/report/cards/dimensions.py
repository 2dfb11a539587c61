"""Dimensions of architectures in a notebook."""

from __future__ import annotations

from collections.abc import Iterator

from segre.analysis.part import percent
from segre.finding import GROUPS, Finding, Findings
from segre.geometry.explain import Explanation
from segre.report.analysis.architecture import hypotheses_table, symmetry_tables
from segre.report.cards import carded, tabled
from segre.report.cards.card import Card
from segre.report.dimensions import (
    gathered,
    known_by,
    status_in_words,
    trusted,
    value_in_words,
)
from segre.report.page.blocks import Block, Cell, Facts, Items, Table, Tile

_FEW = 8  # symmetries that are seen at once


@carded.register
def card_of_finding(found: Finding) -> Card:
    """The dimension, its bounds with their evidence, and the symmetries."""
    return Card(title=str(found.spec), tiles=tuple(_tiles(found)), blocks=tuple(_blocks(found)))


def _tiles(found: Finding) -> Iterator[Tile]:
    status = found.label
    value = value_in_words(found, "{:,}".format).replace("..", " to ")
    words = status_in_words(found)
    remark = "both bounds meet" if words == status else words
    yield Tile("functional dimension", value, status, remark)
    yield Tile("parameters", f"{found.parameters:,}", "exact")
    if (redundant := found.redundant) is not None:
        least = "" if found.number is not None else "at least "
        least = "about " if found.upper is None else least
        share = f"{percent(redundant, found.parameters, 3)} of all"
        yield Tile("redundant parameters", f"{least}{redundant:,}", status, share)


def _blocks(found: Finding) -> Iterator[Block]:
    rows: list[tuple[str, Cell, str]] = [
        (name, bound, evidence.statement)
        for name, bound, evidence in (
            ("lower bound", found.lower, found.lower_evidence),
            ("upper bound", found.upper, found.upper_evidence),
            ("estimate", found.estimate, found.estimate_evidence),
        )
        if bound is not None and evidence is not None
    ]
    if found.sample is not None:
        rows.append(("random points", found.sample.points, found.sample.how))
        rows.append(("unexplained", found.unexplained, "redundant, but by no known symmetry"))
    yield Facts(tuple(rows))
    if found.theorem is not None:
        yield hypotheses_table(found.theorem)
    if found.symmetries:
        yield _symmetries(found)
    if found.notes:
        yield Items("", found.notes)


def _symmetries(found: Finding) -> Table:
    """Equal rows of many layers are shown as one; `to_pandas` has all of them."""
    title = "Symmetries: changes of the weights that do not change the function"
    if found.redundancy is None:
        lines = [(one.name, one.where, one.dimension) for one in found.symmetries]
        names: tuple[str, ...] = ("symmetry", "where", "dimensions")
        return Table("symmetries", title, names, tuple(lines), folded=len(lines) > _FEW)
    grouped = [(one.group, one.name, one.where, one.dimension) for one in gathered(found)]
    names = ("piece", "symmetry", "where", "dimensions")
    return Table("symmetries", title, names, tuple(grouped), folded=len(grouped) > _FEW)


@tabled.register
def table_of_finding(found: Finding) -> Table:
    """All symmetries."""
    names: tuple[str, ...] = ("symmetry", "where", "dimensions")
    rows: list[tuple[Cell, ...]] = [
        (one.name, one.where, one.dimension) for one in found.symmetries
    ]
    if found.redundancy is not None:
        names = (*names, "piece", "holds")
        rows = [
            (*row, one.group, one.holds) for row, one in zip(rows, found.symmetries, strict=True)
        ]
    return Table("symmetries", "Symmetries", names, tuple(rows))


@carded.register
def card_of_findings(several: Findings) -> Card:
    """One row for each architecture."""
    return Card("Redundant parameters", blocks=(table_of_findings(several),))


@tabled.register
def table_of_findings(several: Findings) -> Table:
    """Parameters of each architecture, and how many of them are redundant."""
    names = ("model", "parameters", *GROUPS, "redundant", "share in %", "dimension", "known by")
    rows = tuple(_row(*one) for one in _named(several))
    return Table("models", "", names, rows, note=trusted(several.found))


def _named(several: Findings) -> Iterator[tuple[str, Finding]]:
    yield from zip(several.names, several.found, strict=True)


def _row(name: str, found: Finding) -> tuple[Cell, ...]:
    redundancy = found.redundancy or {"pieces": dict.fromkeys(GROUPS, 0), "total": 0}
    total = redundancy["total"]
    pieces = (redundancy["pieces"][group] for group in GROUPS)
    share = 100 * total / found.parameters
    return (name, found.parameters, *pieces, total, share, found.number, known_by(found))


@carded.register
def card_of_explanation(told: Explanation) -> Card:
    """The continuous and discrete symmetries, and what each design choice does."""
    return Card(
        title=told.name,
        subtitle="" if str(told.finding.spec) == told.name else str(told.finding.spec),
        tiles=tuple(_tiles(told.finding)),
        blocks=tuple(symmetry_tables(told.document())),
    )


@tabled.register
def table_of_explanation(told: Explanation) -> Table:
    """All symmetries of what is explained."""
    return table_of_finding(told.finding)
