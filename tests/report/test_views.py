"""A new kind of answer is one file: it says its blocks, and every renderer shows them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from markupsafe import Markup

from segre.report.blocks import Block, Facts, Fold, Items, Row, Say, Table, Tile, Title, Tree
from segre.report.cards import html_of
from segre.report.charts import by_head, lines
from segre.report.frame import csv_of, frame_of
from segre.report.markdown import markdown_of
from segre.report.page.render import render, write_answer
from segre.report.png import plot
from segre.report.text import text_of
from segre.report.views import elsewhere, page_of, terminal, view
from segre.shown import Tabular


@dataclass(frozen=True)
class Invented(Tabular):
    """An answer that only this test knows."""

    blocks: tuple[Block, ...]
    status: str = "measured"
    how: str = "drawn at random"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {"blocks": len(self.blocks)}


@view
def of_invented(found: Invented) -> Iterator[Block]:
    yield from found.blocks


class Words:
    """Words that occur nowhere else, each given out once."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.given: list[str] = []

    def __call__(self) -> str:
        word = "w" + "".join(self.draw.choice("bcdfghjklmnpqrstvwz") for _ in range(11))
        self.given.append(word)
        return word


def random_blocks(seed: int) -> tuple[list[str], tuple[Block, ...]]:
    """Blocks of every kind in a random order, and the words that are in them."""
    new, draw = Words(seed), Random(seed)
    rows = tuple((new(), draw.random(), draw.randrange(10**6)) for _ in range(draw.randrange(1, 6)))
    blocks: list[Block] = [
        Say(new()),
        Say(new(), wrap=False),
        Say(new(), width=60),
        Facts(((new(), draw.randrange(10**9), new()), Tile(new(), new(), "exact", new()))),
        Facts(((new(), "", new()),), values=False),
        Items(new(), (new(), new())),
        Items("", (f"{new()}\n{new()}",), numbered=True),
        Table("", (new(), new(), new()), rows, formats=("", ".3g", ",")),
        Tree(new(), [Tree(new()), Tree(new(), [Tree(new())])]),
        Row((Say(new()), Fold("", (Say(new()),)))),
    ]
    draw.shuffle(blocks)
    return new.given, (Title(new()), *blocks)


@pytest.mark.parametrize("seed", range(12))
def test_no_renderer_loses_a_word(seed: int) -> None:
    words, blocks = random_blocks(seed)
    answer = Invented(blocks)
    page = Markup(render(page_of(answer))).striptags()
    for where, text in (
        ("text", text_of(answer)),
        ("card", html_of(answer)),
        ("page", page),
        ("Markdown", markdown_of(blocks)),
    ):
        missing = [word for word in words if word not in text]
        assert not missing, where


@pytest.mark.parametrize("seed", range(6))
def test_numbers_are_the_same_everywhere(seed: int) -> None:
    _, blocks = random_blocks(seed)
    answer = Invented(blocks)
    (table,) = (one for one in blocks if isinstance(one, Table))
    shown = [text_of(answer), html_of(answer).replace("<wbr>", ""), render(page_of(answer))]
    for _, share, count in table.rows:
        assert all(f"{share:.3g}" in text and f"{count:,}" in text for text in shown)
    frame = frame_of(answer)
    assert [tuple(row) for row in frame.itertuples(index=False)] == list(table.rows)
    assert len(csv_of(answer).splitlines()) == len(table.rows) + 1
    assert answer.to_pandas().equals(frame)


def test_some_blocks_are_for_one_place() -> None:
    answer = Invented((Title("t"), terminal(Say("here")), elsewhere(Say("there"))))
    assert "here" in text_of(answer)
    assert "there" not in text_of(answer)
    for html in (html_of(answer), Markup(render(page_of(answer))).striptags()):
        assert "there" in html
        assert "here." not in html.replace("there", "")


def test_plots_become_pages_and_pictures(tmp_path: Path) -> None:
    curve = lines("A curve", range(4), {"a": [1, 2, 3, 4]}, y="y", takeaway="It rises.")
    cells = [[1.0, 2.0], [None, 4.0]]
    heads = by_head("A map", cells, what="size")
    answer = Invented((Title("plots"), curve, heads))
    plot(answer, tmp_path / "a.png")
    write_answer(answer, tmp_path / "a.html")
    assert (tmp_path / "a.png").stat().st_size > 10_000
    text = (tmp_path / "a.html").read_text()
    assert json.dumps(answer.document()) in text
    assert text.count('class="plotted"') == 2
