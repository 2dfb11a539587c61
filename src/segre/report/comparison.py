"""Designs side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from segre.analysis.comparison import GUARANTEES, Design, Designs
from segre.analysis.part import percent
from segre.finding import GROUPS
from segre.report.blocks import (
    Block,
    Cell,
    Figure,
    Page,
    Say,
    Section,
    Table,
    Tile,
    Title,
    table,
)
from segre.report.charts import bars, lines
from segre.report.dimensions import known_by, trusted, value_in_words, weakest
from segre.report.views import paged, tabled, view
from segre.values import counted

_AT_ONCE = 6  # designs beside each other
EXPONENT = (
    "collapse exponent: if tokens differ by eps, the relative residual after a layer is of order "
    "eps to this power (softmax has 3); listed by layer where layers differ"
)
UNKNOWN = (
    "For skips, norms and MLPs no exponent is known; segre model collapse measures whether tokens "
    "become alike with depth."
)


@view.register
def of_comparison(found: Designs) -> Iterator[Block]:
    """The name of each design, and a line for each quantity."""
    yield Title(f"{counted(len(found.designs), 'design')} side by side", terminal=False)
    for number, name in enumerate(found.names):
        yield Say(f"{letter(number)}  {name}", wrap=False)
    every = list(rows(found))
    for start in range(0, len(found.designs), _AT_ONCE):
        shown = range(start, min(start + _AT_ONCE, len(found.designs)))
        cells = tuple((title, *(words[number] for number in shown)) for title, words in every)
        numeric = (False, *[True] * len(shown))
        yield Say()
        yield Table("comparison", "", ("", *map(letter, shown)), cells, numeric)
    yield Say()
    yield Say(explained(found))


def rows(found: Designs) -> Iterator[tuple[str, list[str]]]:
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


def explained(found: Designs) -> str:
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


@tabled.register
def table_of_comparison(found: Designs) -> Table:
    """One row for each design."""
    finding = ("parameters", "dimension: finding.value", "lower", "upper", "status")
    costs = {"operations": "total", "state": "state"}
    return table(
        "designs",
        "Designs side by side",
        found.designs,
        "model: name",
        *(name if ":" in name else f"{name}: finding.{name}" for name in finding),
        ("known by", lambda one: known_by(one.finding)),
        "redundant",
        *((group, lambda one, group=group: one.pieces[group]) for group in GROUPS),
        "no known symmetry: unexplained",
        ("exponent", lambda one: None if one.exponents is None else exponent_in_words(one)),
        *((words, lambda one, t=trait: one.guaranteed(t)) for trait, words in GUARANTEES.items()),
        *(
            (f"{what}, t={tokens}", lambda one, name=name, t=tokens: getattr(one.cost, name)(t))
            for tokens in found.tokens
            for what, name in costs.items()
        ),
        note=explained(found),
    )


def lines_of(found: Designs) -> Table:
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


@paged.register
def page_of_comparison(found: Designs) -> Page:
    """The page: the table, dimensions, and operations against tokens."""
    counts = Counter(known_by(one) for one in found.found)
    known = ", ".join(f"{count} {words}" for words, count in counts.items())
    section = Section(
        "comparison",
        "Side by side",
        weakest(found.found),
        f"{counted(len(found.designs), 'design')}. Dimensions: {known}.",
        "Dimensions are computed or known by a theorem, and bounds are labelled. Exponents "
        "follow from how attention weights are normalised, masked and gated. Operations and "
        "state are counted.",
        blocks=(lines_of(found), _dimensions(found), _operations(found)),
    )
    first = enumerate(found.designs[:8])
    tiles = tuple(dimension_tile(_named(number, one, 48), one) for number, one in first)
    return Page("Designs side by side", "", tiles, (section,))


def dimension_tile(name: str, one: Design) -> Tile:
    """The dimension of a design."""
    remark = f"of {one.finding.parameters:,} parameters"
    return Tile(name, value_in_words(one.finding), one.finding.label, remark)


def _named(number: int, one: Design, longest: int) -> str:
    name = one.name if len(one.name) < longest else f"{one.name[: longest - 1]}…"
    return f"{letter(number)}  {name}"


def _dimensions(found: Designs) -> Figure:
    """Dimensions as a share of all parameters."""
    known = [one.finding.parameters - (one.redundant or 0) for one in found.designs]
    whole = [one.finding.parameters for one in found.designs]
    shares = [100 * few / all_of_them for few, all_of_them in zip(known, whole, strict=True)]
    least = min(range(len(shares)), key=lambda n: shares[n])
    return bars(
        [_named(n, one, 32) for n, one in enumerate(found.designs)],
        {"dimension": shares, "redundant": [100 - share for share in shares]},
        unit="% of parameters",
        rest="redundant",
        words=[
            f"{value_in_words(one.finding)} of {one.finding.parameters:,}" for one in found.designs
        ],
        key="dimensions",
        title="Functional dimension as a share of the parameters",
        alt="A bar for each design: the share of its parameters that the function depends on.",
        takeaway=f"The share is smallest for {letter(least)}: {shares[least]:.3g} %.",
    )


def _operations(found: Designs) -> Figure:
    return lines(
        found.tokens,
        {
            f"{letter(n)} {one.name}": [one.cost.total(tokens) for tokens in found.tokens]
            for n, one in enumerate(found.designs)
        },
        y="operations",
        log=True,
        first="tokens",
        log_x=True,
        key="operations",
        title="Operations against the number of tokens",
        alt="Operations of every design against the number of tokens, on logarithmic scales.",
        takeaway=_cheapest(found),
    )


def _cheapest(found: Designs) -> str:
    """Which design needs the fewest operations on the most tokens."""
    tokens = max(found.tokens)
    totals = [one.cost.total(tokens) for one in found.designs]
    least, most = min(totals), max(totals)
    if least == most:
        return f"On {tokens:,} tokens every design needs {short(least)} operations."
    few, many = letter(totals.index(least)), letter(totals.index(most))
    return (
        f"On {tokens:,} tokens {few} needs the fewest operations ({short(least)}), {many} the most "
        f"({short(most)})."
    )
