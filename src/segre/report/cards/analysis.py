"""An analysis in a notebook: the findings, and an answer to every question."""

from __future__ import annotations

from dataclasses import replace

from segre.analysis.part import Part
from segre.analysis.run import Analysis
from segre.report.analysis.page import page_of, section_of
from segre.report.cards import carded, tabled
from segre.report.cards.card import Card
from segre.report.page.blocks import Download, Figure, Prose, Section, Table, flat


@carded.register
def card_of_analysis(found: Analysis) -> Card:
    """The page of the analysis without its plots."""
    page = page_of(found)
    return Card(
        title=page.title,
        subtitle=page.subtitle,
        tiles=page.tiles,
        parts=tuple(_without_plots(section) for section in page.sections),
        command=page.command,
    )


@carded.register
def card_of_part(part: Part) -> Card:
    """One of the answers, and its evidence."""
    section = _without_plots(section_of(part))
    how = (Prose((part.how,)),) if part.how else ()
    return Card(
        title=part.title,
        status=part.label,
        lead=part.lead or section.reason,
        blocks=(*section.blocks, *how),
    )


def _without_plots(section: Section) -> Section:
    kept = tuple(one for one in flat(section.blocks) if not isinstance(one, Figure | Download))
    return replace(section, blocks=kept)


@tabled.register
def table_of_analysis(found: Analysis) -> Table:
    """A row for every question."""
    names = ("part", "question", "status", "answer", "how", "reason", "seconds")
    rows = tuple(
        (one.key, one.title, one.label, one.lead, one.how, one.reason, one.seconds)
        for one in found.parts
    )
    return Table("parts", found.target.name, names, rows)
