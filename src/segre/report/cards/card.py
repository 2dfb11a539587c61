"""What an answer looks like in a notebook, before it is HTML."""

from __future__ import annotations

from dataclasses import dataclass

from segre.finding import Status
from segre.report.page.blocks import Block, Section, Tile


@dataclass(frozen=True)
class Card:
    """An answer: a few numbers first, then their evidence; no plots, and nothing to click."""

    title: str
    subtitle: str = ""
    status: Status | None = None  # how the whole answer is known, if it has no tiles that say so
    lead: str = ""  # the answer in a sentence
    tiles: tuple[Tile, ...] = ()
    blocks: tuple[Block, ...] = ()
    parts: tuple[Section, ...] = ()  # questions with answers of their own; their blocks are folded
    command: str = ""  # what says the same, or more, on the command line
