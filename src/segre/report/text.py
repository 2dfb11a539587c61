"""Blocks on a terminal; `str` of an answer is the same text, wrapped at 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from segre.report.blocks import (
    Block,
    Cell,
    Facts,
    Items,
    Parts,
    Say,
    Table,
    Tile,
    Title,
    Tree,
    flat,
)
from segre.report.console import captured, plain_console
from segre.report.views import blocks_of

if TYPE_CHECKING:
    from rich.table import Table as Grid
    from rich.tree import Tree as Branches

COLOURS = {
    "proved": "green",
    "proved by computation": "green",
    "proved by theorem": "cyan",
    "exact": "blue",
    "certain": "cyan",
    "likely": "yellow",
    "computed": "yellow",
    "bounded": "yellow",
    "measured": "magenta",
    "estimated": "red",
    "not run": "dim",
}


def print_text(answer: object) -> None:
    """Print an answer."""
    write(plain_console(), blocks_of(answer))


def text_of(answer: object) -> str:
    """The same text as a string, without colours, wrapped at 80 columns."""
    text = StringIO()
    token = captured.set(text)
    try:
        print_text(answer)
    finally:
        captured.reset(token)
    return "\n".join(line.rstrip() for line in text.getvalue().strip("\n").split("\n"))


def write(console: Console, blocks: Iterable[Block]) -> None:
    """Print blocks, one after the other; plots and documents have no text."""
    for block in flat("terminal", blocks):
        match block:
            case Say(width=width) if width:
                _write_paragraph(console, block)
            case Say(text, style, wrap):
                console.print(text, style=style or None, soft_wrap=not wrap)
            case Title(text, style=style, terminal=True):
                console.print(Text(text, style=style), soft_wrap=True)
            case Facts():
                _write_facts(console, block)
            case Table(note=note):
                console.print(grid_of(block))
                if note:
                    console.print(note)
            case Items():
                _write_items(console, block)
            case Tree():
                console.print(_tree(block))
            case Parts():
                console.print(_parts(block))


def _write_paragraph(console: Console, said: Say) -> None:
    """A paragraph of limited width; if it is indented, the lines after the first are more so."""
    width = max(40, min(console.width, said.width))
    text = said.text.lstrip()
    indent = " " * (len(said.text) - len(text))
    for line in textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent + "  " * bool(indent),
        break_on_hyphens=False,
        break_long_words=False,
    ):
        console.print(line, soft_wrap=True)


def _write_items(console: Console, block: Items) -> None:
    """A list; items with a number wrap under themselves."""
    if block.title:
        console.print(block.title)
    for number, item in enumerate(block.items, 1):
        if not block.numbered:
            console.print(f"- {item}")
            continue
        head = f"{number}. "
        for line in item.split("\n"):
            for part in _wrapped(line, max(24, console.width - len(head))):
                console.print(f"{head}{part}", soft_wrap=True)
                head = " " * len(head)


def _write_facts(console: Console, facts: Facts) -> None:
    """Name, value and remark in columns; long remarks wrap under themselves."""
    tiles = [row if isinstance(row, Tile) else None for row in facts.rows]
    lines = [
        (row.label, row.value, row.remark)
        if isinstance(row, Tile)
        else (row[0], shown(row[1], "," * (facts.grouped and isinstance(row[1], int))), row[2])
        for row in facts.rows
    ]
    named = max(len(name) for name, _, _ in lines)
    numbered = max(len(value) for _, value, _ in lines)
    margin = named + numbered + 4 if facts.values else named + 2
    for (name, value, words), tile in zip(lines, tiles, strict=True):
        head = Text(f"{name:<{named}}  {f'{value:>{numbered}}  ' * facts.values}")
        head.stylize("bold", 0, named)
        if tile is not None:
            head.append(words, style=COLOURS.get(tile.status))
            console.print(head, soft_wrap=True)
            continue
        first, *rest = _wrapped(words, max(24, console.width - margin))
        head.append(first)
        head.rstrip()
        console.print(head, soft_wrap=True)
        for line in rest:
            console.print(" " * margin + line, soft_wrap=True)


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of a remark; specs are not broken, since they are to be copied."""
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def shown(value: Cell, form: str = "", empty: str = "") -> str:
    """A cell as text.

    >>> shown(0.12345), shown(1234, ","), shown(True), shown(None, empty="-"), shown("a", ".3g")
    ('0.1235', '1,234', 'yes', '-', 'a')
    """
    if value is None:
        return empty
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    return format(value, form or (".4g" if isinstance(value, float) else ""))


def cells_of(table: Table, row: Sequence[Cell]) -> list[str]:
    """A row of a table as text."""
    formats = table.formats or ("",) * len(row)
    return [shown(cell, form, table.empty) for cell, form in zip(row, formats, strict=True)]


def grid_of(table: Table) -> Grid:
    """A table, whose numbers are aligned to the right."""
    from rich.table import Table as Grid  # here: many answers need none

    grid = Grid(
        box=None, pad_edge=table.folds, padding=(0, 2, 0, 0), show_header=any(table.columns)
    )
    for name, right in zip(table.columns, table.right, strict=True):
        grid.add_column(
            name,
            justify="right" if right else "left",
            no_wrap=not table.folds and name not in table.wraps,
            overflow="fold" if table.folds else "ellipsis",
        )
    for row in table.rows:
        grid.add_row(*map(Text, cells_of(table, row)))
    return grid


def _parts(parts: Parts) -> Grid:
    """A few lines for each part: its title, how the answer is known, and the answer."""
    from rich.table import Table as Grid

    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column()
    for part in parts.sections:
        status = Text(part.status, COLOURS[part.status])
        grid.add_row(part.title, status, Text(part.lead or part.reason, "" if part.lead else "dim"))
    return grid


def _tree(tree: Tree) -> Branches:
    from rich.tree import Tree as Branches

    root = Branches(Text(tree.name))
    root.children = [_tree(branch) for branch in tree.branches]
    return root
