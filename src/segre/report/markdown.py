"""Blocks as Markdown, for a code host or the documentation site; sentences are Markdown already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from segre.report.blocks import Block, Fact, Facts, Items, Say, Table, Tile, Title, Tree, flat
from segre.report.text import cells_of, shown


def markdown_of(blocks: Iterable[Block]) -> str:
    """All blocks, with an empty line between them; plots are left out."""
    paragraphs = (text for block in flat("card", blocks) for text in _paragraphs(block))
    return "\n\n".join(paragraphs) + "\n"


def _paragraphs(block: Block) -> Iterator[str]:
    match block:
        case Title(text):
            yield f"# {text}"
        case Say(text) if text:
            yield text.strip()
        case Items(title, items, numbered):
            yield from [title] * bool(title)
            mark = "1." if numbered else "-"
            yield "\n".join(f"{mark} {' '.join(item.split())}" for item in items)
        case Facts(rows):
            yield _facts(rows)
        case Table(title, note=note):
            yield from [f"{title}:"] * bool(title)
            yield _table(block)
            yield from [note] * bool(note)
        case Tree():
            yield "\n".join(_branches(block))


def _facts(rows: Sequence[Fact]) -> str:
    tiles = [row for row in rows if isinstance(row, Tile)]
    told = [(row.label, f"{row.value} ({row.status})", row.remark) for row in tiles]
    told += [(row[0], shown(row[1]), row[2]) for row in rows if not isinstance(row, Tile)]
    return "\n".join(f"- **{name}** {value} {words}".rstrip() for name, value, words in told)


def _table(table: Table) -> str:
    rule = "|".join("---:" if right else "---" for right in table.right)
    names = [table_cell(name) or " " for name in table.columns]
    cells = (map(table_cell, cells_of(table, row)) for row in table.rows)
    first, *rest = (f"| {' | '.join(line)} |" for line in (names, *cells))
    return "\n".join([first, f"|{rule}|", *rest])


def _branches(tree: Tree, depth: int = 0) -> Iterator[str]:
    yield f"{'  ' * depth}- {tree.name}"
    for branch in tree.branches:
        yield from _branches(branch, depth + 1)


def table_cell(text: str) -> str:
    """Text with the characters escaped that Markdown or a table would interpret."""
    for mark in "|*<_":
        text = text.replace(mark, "\\" + mark)
    return text
