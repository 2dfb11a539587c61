"""Designs side by side, on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table as Grid
from rich.text import Text

from segre.analysis.comparison import GUARANTEES, Comparison, Design
from segre.analysis.part import percent
from segre.finding import GROUPS
from segre.report.console import plain_console
from segre.report.dimensions import known_by, trusted, value_in_words
from segre.report.text import printed

_AT_ONCE = 6  # designs beside each other
EXPONENT = (
    "collapse exponent: if tokens differ by eps, the relative residual after a layer is of order "
    "eps to this power (softmax has 3); listed by layer where layers differ"
)
UNKNOWN = (
    "For skips, norms and MLPs no exponent is known; segre collapse measures whether tokens become "
    "alike with depth."
)


def rows(found: Comparison) -> Iterator[tuple[str, list[str]]]:
    """Every line of the comparison: its label, and an entry for each design."""
    designs = found.designs
    yield "parameters", [f"{one.finding.parameters:,}" for one in designs]
    yield "dimension", [value_in_words(one.finding, "{:,}".format) for one in designs]
    known = [known_by(one.finding) for one in designs]
    met = [one.finding.value is not None for one in designs]
    if any(met):
        by = (words.removeprefix("proved by ") for words in known)
        yield "proved by", [words if ok else "-" for words, ok in zip(by, met, strict=True)]
    if not all(met):
        yield "known by", ["-" if ok else words for words, ok in zip(known, met, strict=True)]
    yield "redundant", [_number(one.redundant) for one in designs]
    yield "  share", [_share(one) for one in designs]
    for group in GROUPS:
        if any(one.pieces[group] for one in designs):
            yield f"  {group}", [f"{one.pieces[group]:,}" for one in designs]
    if any(one.unexplained for one in designs):
        yield "  no known symmetry", [f"{one.unexplained:,}" for one in designs]
    if any(one.exponents is not None for one in designs):
        yield "collapse exponent", [exponent_in_words(one) for one in designs]
    for trait, words in GUARANTEES.items():
        yield words, ["yes" if one.guaranteed(trait) else "no" for one in designs]
    for tokens in found.tokens:
        yield f"operations, t={tokens:,}", [short(one.cost.total(tokens)) for one in designs]
        yield f"state, t={tokens:,}", [_state(one, tokens) for one in designs]


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _share(one: Design) -> str:
    return "-" if one.redundant is None else percent(one.redundant, one.finding.parameters, 3)


def exponent_in_words(one: Design) -> str:
    """By layer; one number if all are the same."""
    if one.exponents is None:
        return "-"
    words = ["zero" if power is None else str(power) for power in one.exponents]
    return words[0] if len(set(words)) == 1 else ",".join(words)


def explained(found: Comparison) -> str:
    """What a proof by a theorem is, what exponents mean, and why some designs have none."""
    known = [one.exponents is not None for one in found.designs]
    said = [trusted(found.found), *[EXPONENT + "."] * any(known), *[UNKNOWN] * (not all(known))]
    return " ".join(filter(None, said))


def _state(one: Design, tokens: int) -> str:
    state = one.cost.state(tokens)
    return "all tokens" if state is None else short(state)


def short(number: int) -> str:
    """A large number with three digits.

    >>> short(950), short(123456), short(7 * 10**12)
    ('950', '123k', '7.00T')
    """
    for power, letter in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if number >= 10**power:
            value = number / 10**power
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}{letter}"
    return str(number)


def letter(number: int) -> str:
    """The letter of a design, from 0."""
    return chr(ord("A") + number % 26) + (str(number // 26) if number >= 26 else "")


@printed.register
def print_comparison(found: Comparison) -> None:
    """The name of each design, and a line for each quantity."""
    console = plain_console()
    for number, name in enumerate(found.names):
        console.print(Text(f"{letter(number)}  {name}"), soft_wrap=True)
    every = list(rows(found))
    for start in range(0, len(found.designs), _AT_ONCE):
        shown = range(start, min(start + _AT_ONCE, len(found.designs)))
        grid = Grid(box=None, pad_edge=False)
        grid.add_column("", no_wrap=True)
        for number in shown:
            grid.add_column(letter(number), justify="right", no_wrap=True)
        for title, words in every:
            grid.add_row(title, *(words[number] for number in shown))
        console.print()
        console.print(grid)
    console.print(f"\n{explained(found)}")
