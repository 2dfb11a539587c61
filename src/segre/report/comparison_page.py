"""Designs side by side, as a plot and as a page."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from segre import __version__
from segre.analysis.comparison import Comparison
from segre.report.analysis.charts import lines
from segre.report.cards.comparison import lines_of
from segre.report.comparison import letter, short
from segre.report.dimensions import known_by, value_in_words, weakest
from segre.report.drawing import picture
from segre.report.page.blocks import Figure, Page, Section, Tile
from segre.report.page.render import write_page
from segre.values import counted

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#777777")


def plot_comparison(found: Comparison, path: Path) -> None:
    """Dimensions as a share of parameters, and operations against the number of tokens."""
    names = [f"{letter(n)}  {name}"[:60] for n, name in enumerate(found.names)]
    count = len(names)
    with picture(path, 11, max(3.4, 1.6 + 0.4 * count)) as figure:
        left, right = figure.subplots(1, 2)
        places = range(count)
        known = [one.finding.parameters - (one.redundant or 0) for one in found.designs]
        shares = [
            100 * dims / one.finding.parameters
            for dims, one in zip(known, found.designs, strict=True)
        ]
        left.barh(places, shares, color=_COLOURS[0], height=0.6)
        left.barh(places, [100 - share for share in shares], left=shares, color="0.85", height=0.6)
        for place, one in zip(places, found.designs, strict=True):
            words = value_in_words(one.finding, "{:,}".format)
            left.annotate(
                f"{words} of {one.finding.parameters:,}",
                (2, place),
                va="center",
                fontsize=8,
                color="white",
            )
        left.set_yticks(places, names, fontsize=8)
        left.invert_yaxis()
        left.set_xlim(0, 100)
        left.set_xlabel("functional dimension, % of parameters")
        for number, one in enumerate(found.designs):
            totals = [one.cost.total(tokens) for tokens in found.tokens]
            colour = _COLOURS[number % len(_COLOURS)]
            right.plot(found.tokens, totals, "o-", color=colour, label=letter(number), lw=1.6)
        right.set_xscale("log")
        right.set_yscale("log")
        right.set_xticks(found.tokens, [f"{tokens:,}" for tokens in found.tokens], fontsize=8)
        right.minorticks_off()
        right.yaxis.set_major_formatter(lambda value, _: short(round(value)))
        right.set_xlabel("tokens")
        right.set_ylabel("operations")
        right.legend(frameon=False, fontsize=8)
        right.grid(alpha=0.25)
        for axes in (left, right):
            axes.spines[["top", "right"]].set_visible(False)


def write_comparison(found: Comparison, path: Path, made: str = "", command: str = "") -> None:
    """The comparison as one HTML file."""
    write_page(page_of(found, made, command), path)


def _operations(found: Comparison) -> Figure:
    figure = lines(
        "operations",
        "Operations against the number of tokens",
        "Operations of every design against the number of tokens, on logarithmic scales.",
        _cheapest(found),
        list(found.tokens),
        {
            f"{letter(n)} {one.name}": [one.cost.total(tokens) for tokens in found.tokens]
            for n, one in enumerate(found.designs)
        },
        y="operations",
        log=True,
        first="tokens",
    )
    ticks = {
        "title": {"text": "tokens"},
        "type": "log",
        "tickvals": list(found.tokens),
        "ticktext": [f"{tokens:,}" for tokens in found.tokens],
    }
    return replace(figure, layout={**figure.layout, "xaxis": ticks})


def _cheapest(found: Comparison) -> str:
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


def page_of(found: Comparison, made: str = "", command: str = "") -> Page:
    """The page: the table, and operations against tokens."""
    counts = Counter(known_by(one) for one in found.found)
    known = ", ".join(f"{count} {words}" for words, count in counts.items())
    section = Section(
        key="comparison",
        title="Side by side",
        status=weakest(found.found),
        lead=f"{counted(len(found.designs), 'design')}. Dimensions: {known}.",
        how="Dimensions are computed or known by a theorem, and bounds are labelled. Exponents "
        "follow from how attention weights are normalised, masked and gated. Operations and "
        "state are counted.",
        command=command,
        data={},
        blocks=(
            lines_of(found),
            _operations(found),
        ),
    )
    tiles = tuple(
        Tile(
            f"{letter(number)}  {one.name}"
            if len(one.name) < 48
            else f"{letter(number)}  {one.name[:47]}…",
            value_in_words(one.finding, "{:,}".format),
            one.finding.label,
            f"of {one.finding.parameters:,} parameters",
        )
        for number, one in enumerate(found.designs[:8])
    )
    words = ", ".join(word for word in (f"segre {__version__}", made) if word)
    return Page(
        title="Designs side by side",
        subtitle="",
        tiles=tiles,
        sections=(section,),
        document=found.document(),
        command=command,
        made=words,
    )
