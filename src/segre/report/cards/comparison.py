"""Designs side by side, in a notebook and as a table."""

from __future__ import annotations

from segre.analysis.comparison import GUARANTEES, Comparison
from segre.finding import GROUPS
from segre.report.cards import carded, tabled
from segre.report.cards.card import Card
from segre.report.comparison import explained, exponent_in_words, letter, rows
from segre.report.dimensions import known_by
from segre.report.page.blocks import Cell, Items, Table
from segre.values import counted


@tabled.register
def table_of_comparison(found: Comparison) -> Table:
    """One row for each design."""
    columns = [
        *("model", "parameters", "dimension", "lower", "upper", "status", "known by", "redundant"),
        *GROUPS,
        "no known symmetry",
        "exponent",
        *GUARANTEES.values(),
        *(f"{what}, t={tokens}" for tokens in found.tokens for what in ("operations", "state")),
    ]
    out: list[tuple[Cell, ...]] = []
    for one in found.designs:
        finding = one.finding
        costs: list[Cell] = []
        for tokens in found.tokens:
            costs += [one.cost.total(tokens), one.cost.state(tokens)]
        out.append(
            (
                *(one.name, finding.parameters, finding.value, finding.lower, finding.upper),
                *(finding.status, known_by(finding), one.redundant),
                *(one.pieces[group] for group in GROUPS),
                one.unexplained,
                None if one.exponents is None else exponent_in_words(one),
                *(one.guaranteed(trait) for trait in GUARANTEES),
                *costs,
            )
        )
    words = {"model", "status", "known by", "exponent", *GUARANTEES.values()}
    return Table(
        "designs",
        "Designs side by side",
        tuple(columns),
        tuple(out),
        tuple(column not in words for column in columns),
        note=explained(found),
    )


@carded.register
def card_of_comparison(found: Comparison) -> Card:
    """The table, with a row for each quantity."""
    title = f"{counted(len(found.designs), 'design')} side by side"
    named = tuple(f"{letter(number)}: `{name}`" for number, name in enumerate(found.names))
    return Card(title=title, tiles=(), blocks=(Items("", named), lines_of(found)))


def lines_of(found: Comparison) -> Table:
    """A row for each quantity, a column for each design."""
    cells: tuple[tuple[Cell, ...], ...] = tuple(
        (name, *map(_cell, words)) for name, words in rows(found)
    )
    letters = (letter(number) for number in range(len(found.names)))
    return Table("comparison", "", ("", *letters), cells, note=explained(found))


def _cell(word: str) -> Cell:
    """A whole number that is not broken at its commas."""
    plain = word.replace(",", "")
    return int(plain) if plain.isdigit() and "," in word else word
