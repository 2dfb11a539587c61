"""What does an answer consist of? Blocks: sentences, facts, tables, curves, maps, trees, documents.

An answer says its blocks once (`segre.report.views`). The terminal, notebook cards, HTML pages,
pictures, pandas and CSV are renderers of blocks. Numbers are raw here; how they look is the
renderer's business, unless a column has a format. Colours of plots are named, so that a page can be
light or dark: "@1" to "@8" are those of series, "@ink", "@faint" and "@grid" those of text, of what
is behind, and of lines; "@1/0.2" is the first, transparent. "@sequential" is a colour scale.
In sentences, what is between `backticks` is code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from segre import __version__
from segre.finding import Status

Cell = str | int | float | bool | None


@dataclass(frozen=True)
class Tile:
    """A fact that the answer is about, and how it is known; cards and pages show it first."""

    label: str
    value: str
    status: Status
    remark: str = ""


Fact = tuple[str, Cell, str] | Tile  # a name, its value, a remark


@dataclass(frozen=True)
class Title:
    """The name of what the answer is about."""

    text: str
    status: Status | None = None  # how the whole answer is known, if no fact says so
    style: str = "bold cyan"  # on a terminal
    terminal: bool = True  # whether a terminal shows it


@dataclass(frozen=True)
class Say:
    """A line of text; an empty one separates blocks on a terminal."""

    text: str = ""
    style: str = ""  # on a terminal
    wrap: bool = True  # otherwise it is one line, to be copied
    width: int = 0  # if given, the longest line; what goes on is indented as an item of a list


@dataclass(frozen=True)
class Facts:
    """Names with values and remarks, a line each.

    On a terminal, whole numbers have separators if they are `grouped`; without `values`, remarks
    follow the names.
    """

    rows: tuple[Fact, ...]
    grouped: bool = True
    values: bool = True


@dataclass(frozen=True)
class Prose:
    """Sentences, a paragraph each."""

    paragraphs: tuple[str, ...]


@dataclass(frozen=True)
class Items:
    """A list under a few words; an item may have several lines."""

    title: str
    items: tuple[str, ...]
    numbered: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under columns; `numeric` columns are sorted as numbers and aligned to the right.

    `formats` are those of Python, one for each column ("" is as it is).
    """

    key: str  # unique on the page
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numeric: tuple[bool, ...] = ()  # found out from the cells if not given
    note: str = ""
    folded: bool = False  # shown when asked for
    formats: tuple[str, ...] = ()
    wraps: tuple[str, ...] = ()  # columns of prose, which a narrow terminal may wrap
    folds: bool = False  # all columns may, and long words are broken
    empty: str = ""  # on a terminal, in place of what is not known

    @property
    def right(self) -> tuple[bool, ...]:
        """Which columns are numbers: as given, or else by what is in them."""
        if self.numeric:
            return self.numeric
        return tuple(self._numbers(n) for n in range(len(self.columns)))

    def _numbers(self, column: int) -> bool:
        if self.formats and self.formats[column]:
            return True
        known = [row[column] for row in self.rows if row[column] is not None]
        return bool(known) and all(map(is_number, known))


Value = str | Callable[[Any], Cell]
Column = str | tuple[str, Value] | tuple[str, Value, str]


def table(key: str, title: str, things: Iterable[Any], *columns: Column, **more: Any) -> Table:
    """A table with a row for each thing.

    A column has a name, what it says of a thing (an attribute, the item of a mapping, or a function
    of it), and a format. As a text it is the name and, after a colon, the attribute.

    >>> table("words", "", ["a", "bc"], ("word", str), ("letters", len, ".1f")).rows
    (('a', 1), ('bc', 2))
    >>> table("sums", "", [3 + 4j], "real", "other: imag").rows
    ((3.0, 4.0),)
    """
    every = [_column(column) for column in columns]
    rows = tuple(tuple(_said(thing, value) for _, value, _ in every) for thing in things)
    names, _, forms = zip(*every, strict=True)
    return Table(key, title, names, rows, formats=forms, **more)


def _column(column: Column) -> tuple[str, Value, str]:
    if isinstance(column, str):
        name, _, attribute = column.partition(": ")
        return name, attribute or name, ""
    return (*column, "") if len(column) == 2 else column


def _said(thing: Any, value: Value) -> Cell:
    if not isinstance(value, str):
        return value(thing)
    found: Cell = thing[value] if isinstance(thing, Mapping) else attrgetter(value)(thing)
    return found


@dataclass(frozen=True)
class Tree:
    """A name with branches."""

    name: str
    branches: list[Tree] = field(default_factory=list)


@dataclass(frozen=True)
class Only:
    """Blocks for the terminal alone, or for everything else."""

    terminal: bool
    blocks: tuple[Block, ...]


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


@dataclass(frozen=True)
class Section:
    """One question: its answer in a sentence, how it is known, and what shows it."""

    key: str
    title: str
    status: Status
    lead: str = ""
    how: str = ""
    command: str = ""  # what answers this question alone
    blocks: tuple[Block, ...] = ()
    reason: str = ""  # why there is no answer
    seconds: float = 0.0

    @classmethod
    def measured(
        cls, key: str, title: str, lead: str, how: str, command: str, *blocks: Block
    ) -> Section:
        """A section of what was measured, by one command."""
        return cls(key, title, "measured", lead, how, command, blocks)


@dataclass(frozen=True)
class Parts:
    """Questions with answers of their own: sections of a page."""

    sections: tuple[Section, ...]


Block = (
    Title
    | Say
    | Facts
    | Prose
    | Items
    | Table
    | Tree
    | Figure
    | Download
    | Row
    | Fold
    | Only
    | Parts
)


def is_number(cell: Cell) -> bool:
    """Whether a value is a number, which words and truth values are not."""
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def flat(blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks that show something, in order: those in rows and folds too."""
    for block in blocks:
        if isinstance(block, Row | Fold | Only):
            yield from flat(block.blocks)
        else:
            yield block


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

    def signed(self, document: Mapping[str, Any], made: str, command: str = "") -> Page:
        """The page with its data, when and by what it was made, and the command for it."""
        words = [f"segre {__version__}", *filter(None, (self.made, made))]
        sections = tuple(replace(one, command=one.command or command) for one in self.sections)
        told, when = command or self.command, ", ".join(words)
        return replace(self, document=document, made=when, command=told, sections=sections)


def terminal(*blocks: Block) -> Only:
    """Blocks that only a terminal shows."""
    return Only(True, blocks)


def elsewhere(*blocks: Block) -> Only:
    """Blocks that cards and pages show, and a terminal does not."""
    return Only(False, blocks)


def tiles(*shown: Tile) -> Only:
    """Facts that cards and pages show first, and a terminal says in a sentence."""
    return elsewhere(Facts(shown))


def off_terminal(blocks: Iterable[Block]) -> Iterator[Block]:
    """Blocks as cards and pages show them: without those for a terminal."""
    for block in blocks:
        if not isinstance(block, Only):
            yield block
        elif not block.terminal:
            yield from off_terminal(block.blocks)
