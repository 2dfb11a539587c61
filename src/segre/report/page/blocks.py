"""What a report is made of, before it is a page: sections of facts, tables, plots and downloads.

Numbers are raw here; how they look is the page's business. Colours of plots are named, so that a
page can be light or dark: "@1" to "@8" are those of series, "@ink", "@faint" and "@grid" those
of text, of what is behind, and of lines; "@1/0.2" is the first seen through. "@sequential" is a
colour scale. In sentences, what is between `backticks` is code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from segre.analysis.part import Part
from segre.finding import Status

Cell = str | int | float | bool | None


@dataclass(frozen=True)
class Facts:
    """Names with values and remarks, a line each."""

    rows: tuple[tuple[str, Cell, str], ...]


@dataclass(frozen=True)
class Prose:
    """Sentences, a paragraph each."""

    paragraphs: tuple[str, ...]


@dataclass(frozen=True)
class Items:
    """A list, a line each, under a few words."""

    title: str
    items: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Rows under columns; `numeric` columns are sorted as numbers and stand to the right."""

    key: str  # unique on the page
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numeric: tuple[bool, ...] = ()
    note: str = ""
    folded: bool = False  # shown when asked for


@dataclass(frozen=True)
class Figure:
    """A plot (traces and layout of plotly, with named colours), and the numbers behind it."""

    key: str  # unique on the page
    title: str
    alt: str  # what is drawn, in a sentence, for whoever does not see it
    takeaway: str  # what it shows, in a sentence that is computed from the numbers
    traces: tuple[Mapping[str, Any], ...]
    layout: Mapping[str, Any]
    numbers: Table
    height: int = 360
    note: str = ""
    status: Status | None = None  # how it is known, if not as its section is
    heads: Mapping[str, Any] | None = None  # of a map of heads: what a panel shows of each


@dataclass(frozen=True)
class Download:
    """A document to save as a file."""

    name: str  # the file's name
    label: str
    document: Any


@dataclass(frozen=True)
class Row:
    """Blocks side by side, where there is room for that."""

    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Fold:
    """Blocks behind a line that opens them."""

    key: str  # unique on the page
    title: str
    blocks: tuple[Block, ...]


Block = Facts | Prose | Items | Table | Figure | Download | Row | Fold


def flat(blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks that show something, in order: those in rows and folds too."""
    for block in blocks:
        if isinstance(block, Row | Fold):
            yield from flat(block.blocks)
        else:
            yield block


@dataclass(frozen=True, kw_only=True)
class Section(Part):
    """One question as it is shown: the part of the analysis, and what it is shown by."""

    blocks: tuple[Block, ...] = ()

    @classmethod
    def measured(
        cls, key: str, title: str, lead: str, how: str, command: str, *blocks: Block
    ) -> Section:
        """A section of what was measured, by one command."""
        return cls(
            key=key,
            title=title,
            status="measured",
            lead=lead,
            how=how,
            command=command,
            data={},
            blocks=blocks,
        )


@dataclass(frozen=True)
class Tile:
    """A number to see first."""

    label: str
    value: str
    status: Status
    remark: str = ""


@dataclass(frozen=True)
class Page:
    """A whole report."""

    title: str
    subtitle: str
    tiles: tuple[Tile, ...]
    sections: tuple[Section, ...]
    document: Mapping[str, Any] = field(default_factory=dict)  # everything, to download as JSON
    command: str = ""  # what made the report
    made: str = ""  # version, date, seed
