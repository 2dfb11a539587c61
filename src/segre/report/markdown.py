"""Blocks as Markdown, for a code host or the documentation site; sentences are Markdown already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from segre.report.blocks import (
    Block,
    Facts,
    Items,
    Prose,
    Say,
    Table,
    Tile,
    Title,
    Tree,
    flat,
    off_terminal,
)
from segre.report.text import cells_of, shown


def markdown_of(blocks: Iterable[Block]) -> str:
    """All blocks, with an empty line between them; plots are left out."""
    paragraphs = (text for block in flat(off_terminal(blocks)) for text in _paragraphs(block))
    return "\n\n".join(paragraphs) + "\n"


def _paragraphs(block: Block) -> Iterator[str]:
    if isinstance(block, Title):
        yield f"# {block.text}"
    elif isinstance(block, Say) and block.text:
        yield block.text.strip()
    elif isinstance(block, Prose):
        yield from block.paragraphs
    elif isinstance(block, Items):
        yield from [block.title] * bool(block.title)
        mark = "1." if block.numbered else "-"
        yield "\n".join(f"{mark} {' '.join(item.split())}" for item in block.items)
    elif isinstance(block, Facts):
        tiles = [row for row in block.rows if isinstance(row, Tile)]
        rows = [row for row in block.rows if not isinstance(row, Tile)]
        told = [(row.label, f"{row.value} ({row.status})", row.remark) for row in tiles]
        told += [(name, shown(value), words) for name, value, words in rows]
        yield "\n".join(f"- **{name}** {value} {words}".rstrip() for name, value, words in told)
    elif isinstance(block, Table):
        yield from [f"{block.title}:"] * bool(block.title)
        yield "\n".join(_grid(block))
        yield from [block.note] * bool(block.note)
    elif isinstance(block, Tree):
        yield "\n".join(_branches(block))


def _branches(tree: Tree, depth: int = 0) -> Iterator[str]:
    yield f"{'  ' * depth}- {tree.name}"
    for branch in tree.branches:
        yield from _branches(branch, depth + 1)


def _grid(table: Table) -> Iterator[str]:
    yield f"| {' | '.join(table_cell(name) or ' ' for name in table.columns)} |"
    yield "|" + "|".join("---:" if right else "---" for right in table.right) + "|"
    for row in table.rows:
        yield f"| {' | '.join(map(table_cell, cells_of(table, row)))} |"


def table_cell(text: str) -> str:
    """Text with the characters escaped that Markdown or a table would interpret."""
    for mark in "|*<_":
        text = text.replace(mark, "\\" + mark)
    return text
