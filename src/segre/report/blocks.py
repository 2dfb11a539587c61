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
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal

from segre.finding import Status

Cell = str | int | float | bool | None


class Block:
    """A part of an answer; those that there are follow."""


Blocks = Iterator[Block]


@dataclass(frozen=True)
class Tile:
    """A fact that the answer is about, and how it is known; cards and pages show it first."""

    label: str
    value: str
    status: Status
    remark: str = ""


Fact = tuple[str, Cell, str] | Tile  # a name, its value, a remark


@dataclass(frozen=True)
class Title(Block):
    """The name of what the answer is about; on a page, a second one is the subtitle."""

    text: str
    status: Status | None = None  # how the whole answer is known, if no fact says so
    style: str = "bold cyan"  # on a terminal
    terminal: bool = True  # whether a terminal shows it


@dataclass(frozen=True)
class Say(Block):
    """A line of text; an empty one separates blocks on a terminal."""

    text: str = ""
    style: str = ""  # on a terminal
    wrap: bool = True  # otherwise it is one line, to be copied
    width: int = 0  # if given, the longest line; what goes on is indented as an item of a list


@dataclass(frozen=True)
class Facts(Block):
    """Names with values and remarks, a line each.

    On a terminal, whole numbers have separators if they are `grouped`; without `values`, remarks
    follow the names.
    """

    rows: tuple[Fact, ...]
    grouped: bool = True
    values: bool = True


def told(said: Mapping[str, str]) -> Facts:
    """Facts without a value: what there is to say, by name."""
    return Facts(tuple((name, "", words) for name, words in said.items()), values=False)


@dataclass(frozen=True)
class Items(Block):
    """A list under a few words; an item may have several lines."""

    title: str
    items: tuple[str, ...]
    numbered: bool = False


@dataclass(frozen=True)
class Table(Block):
    """Rows under columns; `numeric` columns are sorted as numbers and aligned to the right.

    `formats` are those of Python, one for each column ("" is as it is).
    """

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


def table(title: str, things: Iterable[Any], *columns: Column, **more: Any) -> Table:
    """A table with a row for each thing.

    A column has a name, what it says of a thing (an attribute, the item of a mapping, or a function
    of it), and a format. As a text it is the name and, after a colon, the attribute.

    >>> table("Words", ["a", "bc"], ("word", str), ("letters", len, ".1f")).rows
    (('a', 1), ('bc', 2))
    >>> table("Sums", [3 + 4j], "real", "other: imag").rows
    ((3.0, 4.0),)
    """
    every = [_column(column) for column in columns]
    rows = tuple(tuple(_said(thing, value) for _, value, _ in every) for thing in things)
    names, _, forms = zip(*every, strict=True)
    return Table(title, names, rows, formats=forms, **more)


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
class Tree(Block):
    """A name with branches."""

    name: str
    branches: list[Tree] = field(default_factory=list)


@dataclass(frozen=True)
class Figure(Block):
    """A plot (traces and layout of plotly, with named colours), and the numbers behind it."""

    title: str
    takeaway: str  # what it shows, in a sentence that is computed from the numbers
    traces: tuple[Mapping[str, Any], ...]
    layout: Mapping[str, Any]
    numbers: Table
    height: int = 360
    note: str = ""
    status: Status | None = None  # how it is known, if not as its section is
    heads: Mapping[str, Any] | None = None  # of a map of heads: what a panel shows of each

    @property
    def alt(self) -> str:
        """What is drawn, in a sentence, for whoever does not see it."""
        across, up = (
            self.layout.get(f"{letter}axis", {}).get("title", {}).get("text", "") for letter in "xy"
        )
        kinds = {trace.get("type", "scatter") for trace in self.traces}
        what = "A map" if "heatmap" in kinds else "Bars" if "bar" in kinds else "A plot"
        axes = f" of {up or 'values'} against {across}" if across else ""
        named = [str(trace["name"]) for trace in self.traces if trace.get("name")]
        return f"{what}{axes}: {'; '.join([self.title, *named])}."


@dataclass(frozen=True)
class Download(Block):
    """A document to save as a file."""

    name: str  # the file's name
    label: str
    document: Any


@dataclass(frozen=True)
class Row(Block):
    """Blocks side by side, where there is room for that."""

    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Fold(Block):
    """Blocks behind a line that opens them."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Section(Block):
    """One question: its answer in a sentence, how it is known, and what shows it.

    A page whose answer has sections consists of these.
    """

    key: str
    title: str
    status: Status
    lead: str = ""
    how: str = ""
    command: str = ""  # what answers this question alone
    blocks: tuple[Block, ...] = ()
    reason: str = ""  # why there is no answer
    seconds: float = 0.0


@dataclass(frozen=True)
class Parts(Block):
    """Several questions, a few lines each."""

    sections: tuple[Section, ...]


Place = Literal["terminal", "card", "page", "data"]


@dataclass(frozen=True)
class Only(Block):
    """Blocks for some of the renderers; they are made when one of these asks for them."""

    places: tuple[Place, ...]
    blocks: Iterable[Block]


def is_number(cell: Cell) -> bool:
    """Whether a value is a number, which words and truth values are not."""
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def shown_in(place: Place, blocks: Iterable[Block]) -> Blocks:
    """The blocks that a renderer shows, in order."""
    for block in blocks:
        if not isinstance(block, Only):
            yield block
        elif place in block.places:
            yield from shown_in(place, block.blocks)


def flat(place: Place, blocks: Iterable[Block]) -> Blocks:
    """The same with those in rows and folds, instead of the rows and folds."""
    for block in shown_in(place, blocks):
        if isinstance(block, Row | Fold):
            yield from flat(place, block.blocks)
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
