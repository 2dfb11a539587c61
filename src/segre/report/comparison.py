"""Designs side by side."""

from __future__ import annotations

from typing import Any

from segre.analysis.comparison import GUARANTEES, Design, Designs
from segre.analysis.part import percent
from segre.finding import GROUPS
from segre.report.blocks import Blocks, Facts, Figure, Say, Table, Tile, Title, table
from segre.report.charts import bars, lines
from segre.report.dimensions import known_by, trusted, value_in_words, weakest
from segre.report.views import data, on_page, view
from segre.values import counted

_ALWAYS = ("parameters", "dimension", "redundant", "  share")  # lines, also of nothing
_AT_ONCE = 6  # designs beside each other
EXPONENT = (
    "collapse exponent: if tokens differ by eps, the relative residual after a layer is of order "
    "eps to this power (softmax has 3); listed by layer where layers differ"
)
UNKNOWN = (
    "For skips, norms and MLPs no exponent is known; segre model collapse measures whether tokens "
    "become alike with depth."
)


@view
def of_comparison(found: Designs) -> Blocks:
    """The name of each design, and a line for each quantity; the page has plots, too."""
    status = weakest(found.found)
    yield Title(f"{counted(len(found.designs), 'design')} side by side", status, terminal=False)
    first = tuple(dimension_tile(letter(n), one) for n, one in enumerate(found.designs[:8]))
    yield on_page([Facts(first)])
    for number, name in enumerate(found.names):
        yield Say(f"{letter(number)}  {name}", wrap=False)
    every = rows(found)
    for start in range(0, len(found.designs), _AT_ONCE):
        shown = range(start, min(start + _AT_ONCE, len(found.designs)))
        cells = tuple((title, *(words[number] for number in shown)) for title, words in every)
        numeric = (False, *[True] * len(shown))
        yield Say()
        yield Table("Designs", ("", *map(letter, shown)), cells, numeric)
    yield Say()
    yield Say(explained(found))
    yield data([_in_full(found)])
    yield on_page(plot(found) for plot in (_dimensions, _operations))


def rows(found: Designs) -> list[tuple[str, list[str]]]:
    """Every line of the comparison: its label, and an entry for each design.

    A line that says nothing of any design is left out.
    """
    said: dict[str, Any] = {  # of a design
        "parameters": lambda one: f"{one.finding.parameters:,}",
        "dimension": lambda one: value_in_words(one.finding),
        "proved by": lambda one: _evidence(one, proved=True),
        "known by": lambda one: _evidence(one, proved=False),
        "redundant": lambda one: "-" if one.redundant is None else f"{one.redundant:,}",
        "  share": lambda one: (
            "-" if one.redundant is None else percent(one.redundant, one.finding.parameters, 3)
        ),
    }
    for group in GROUPS:
        said[f"  {group}"] = lambda one, group=group: f"{one.pieces[group]:,}"
    said["  no known symmetry"] = lambda one: f"{one.unexplained:,}"
    said["collapse exponent"] = exponent_in_words
    for trait, words in GUARANTEES.items():
        said[words] = lambda one, trait=trait: "yes" if one.guaranteed(trait) else "no"
    for tokens in found.tokens:
        said[f"operations, t={tokens:,}"] = lambda one, t=tokens: short(one.cost.total(t))
        said[f"state, t={tokens:,}"] = lambda one, t=tokens: short(one.cost.state(t))
    every = [(name, [words(one) for one in found.designs]) for name, words in said.items()]
    return [(name, cells) for name, cells in every if name in _ALWAYS or {*cells} - {"-", "0"}]


def _evidence(one: Design, *, proved: bool) -> str:
    """What a dimension is proved by, or else known by; nothing in the line of the others."""
    if proved is (one.finding.value is None):
        return "-"
    return known_by(one.finding).removeprefix("proved by " if proved else "")


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


def short(number: int | None) -> str:
    """A large number with three digits; none stands for all tokens.

    >>> short(950), short(123456), short(7 * 10**12)
    ('950', '123k', '7.00T')
    """
    if number is None:
        return "all tokens"
    for power, letter in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if number >= 10**power:
            value = number / 10**power
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}{letter}"
    return str(number)


def letter(number: int) -> str:
    """The letter of a design, from 0."""
    return chr(ord("A") + number % 26) + (str(number // 26) if number >= 26 else "")


def _in_full(found: Designs) -> Table:
    """One row for each design."""
    finding = ("parameters", "dimension: finding.value", "lower", "upper", "status")
    costs = {"operations": "total", "state": "state"}
    return table(
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


def dimension_tile(name: str, one: Design) -> Tile:
    """The dimension of a design."""
    remark = f"of {one.finding.parameters:,} parameters"
    return Tile(name, value_in_words(one.finding), one.finding.label, remark)


def _named(number: int, one: Design, longest: int) -> str:
    name = one.name if len(one.name) < longest else f"{one.name[: longest - 1]}…"
    return f"{letter(number)}  {name}"


def _dimensions(found: Designs) -> Figure:
    """Dimensions as a share of all parameters."""
    shares = [
        100 * (one.finding.parameters - (one.redundant or 0)) / one.finding.parameters
        for one in found.designs
    ]
    least = min(range(len(shares)), key=lambda n: shares[n])
    return bars(
        "Functional dimension as a share of the parameters",
        [_named(n, one, 32) for n, one in enumerate(found.designs)],
        {"dimension": shares, "redundant": [100 - share for share in shares]},
        unit="% of parameters",
        rest="redundant",
        words=[
            f"{value_in_words(one.finding)} of {one.finding.parameters:,}" for one in found.designs
        ],
        takeaway=f"The share is smallest for {letter(least)}: {shares[least]:.3g} %.",
    )


def _operations(found: Designs) -> Figure:
    return lines(
        "Operations against the number of tokens",
        found.tokens,
        {
            f"{letter(n)} {one.name}": [one.cost.total(tokens) for tokens in found.tokens]
            for n, one in enumerate(found.designs)
        },
        y="operations",
        log=True,
        first="tokens",
        log_x=True,
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
