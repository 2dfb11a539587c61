"""Experiments: tables, then every claim with its status; all outcomes together; theorems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from segre.report.blocks import Blocks, Facts, Figure, Say, Table, Tile, Title, table
from segre.report.charts import axis, curve, figure
from segre.report.markdown import markdown_of
from segre.report.views import measured, on_page, terminal, view
from segre.reproduce.claim import Claim, Verdict
from segre.reproduce.experiment import Outcome
from segre.reproduce.found import Mark, Panel, Series
from segre.reproduce.found import Table as Given
from segre.reproduce.scoreboard import Scoreboard
from segre.reproduce.theorems import Comparison
from segre.values import counted

UNKNOWN = "-"
_MODES: dict[Mark, dict[str, Any]] = {
    "line": {"mode": "lines"},
    "line and points": {"mode": "lines+markers"},
    "points": {"mode": "markers"},
    "crosses": {"mode": "markers", "marker": {"symbol": "x", "size": 9}},
    "dashes": {"mode": "lines", "line": {"dash": "dash"}},
    "dots": {"mode": "lines", "line": {"dash": "dot"}},
}


@view
def of_outcome(found: Outcome) -> Blocks:
    """The work, the question, tables, claims, notes."""
    yield Title(found.experiment, terminal=False)
    yield Say(f"{found.question} {found.work}.")
    if found.seeds:
        several = "Seeds" if len(found.seeds) > 1 else "Seed"
        yield Say(f"{several}: {', '.join(map(str, found.seeds))}.")
    for given in found.found.tables:
        yield from (Say(), terminal(Say(f"{given.title}:")), table_of(given))
    yield Say()
    claim = ("claim (source)", lambda one: f"{one.says} ({one.source})")
    numbers = ("measured", seen), ("expected", expected)
    yield table("", found.claims, "status", claim, *numbers, folds=True)
    for one in found.claims:
        if one.why:
            yield Say(f"{one.status.capitalize()}: {lower(one.says)}: {one.why}.")
    yield Say()
    yield Say(f"Claims: {in_words(+Counter(found.counts()))}.")  # without zeros
    yield from map(Say, found.found.notes)
    panels = map(figure_of, found.found.panels)
    yield on_page(replace(panel, takeaway=found.question) for panel in panels)


def table_of(given: Given) -> Table:
    """A table of an experiment."""
    formats = tuple(given.formats) or ("",) * len(given.columns)
    numeric = tuple(
        bool(form) or not any(isinstance(row[place], str) for row in given.rows)
        for place, form in enumerate(formats)
    )
    columns, rows = tuple(given.columns), tuple(map(tuple, given.rows))
    looks: dict[str, Any] = {"formats": formats, "folds": True, "empty": UNKNOWN}
    return Table(given.title, columns, rows, numeric, given.note, **looks)


def in_words(counts: Mapping[Any, int]) -> str:
    """How many claims there are of each status."""
    return ", ".join(f"{count} {status}" for status, count in counts.items())


def expected(claim: Claim) -> str:
    """What is expected, in a few characters."""
    if claim.relation == "none" or claim.expected is None:
        return UNKNOWN if claim.relation == "none" else "yes"
    value = number(claim.expected)
    if claim.relation == "=":
        return f"{value} ± {number(claim.tolerance)}" if claim.tolerance else value
    return f"{'at most' if claim.relation == '<=' else 'at least'} {value}"


def seen(claim: Claim) -> str:
    """What was measured: the mean and the deviation over seeds."""
    if claim.mean is None:
        return UNKNOWN
    if claim.relation == "true":
        right, count = sum(map(bool, claim.measured)), len(claim.measured)
        if right == count:
            return "yes"
        return f"{right} of {count}" if count > 1 else "no"
    spread = f" ± {claim.spread:.1g}" if len(claim.measured) > 1 else ""
    return number(claim.mean) + spread


def number(value: float) -> str:
    """A number in a few characters.

    >>> number(0.2583), number(3.0), number(1.2e-9), number(1057.4973)
    ('0.2583', '3', '1.2e-09', '1057')
    """
    return f"{value:.4g}"


def lower(text: str) -> str:
    """The text with a small first letter, for use within a sentence; names in capitals stay."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def figure_of(panel: Panel) -> Figure:
    """A panel of an experiment."""
    rows = tuple(
        (series.label, x, y)
        for series in panel.series
        for x, y in zip(series.x, series.y, strict=True)
    )
    across = axis(panel.x, type="log" if panel.log_x else "linear")
    up = axis(panel.y, type="log" if panel.log_y else "linear")
    if panel.ticks:
        across["tickvals"] = list(panel.ticks)
    if panel.equal:
        up["scaleanchor"] = "x"
    if panel.low is not None and panel.high is not None and not panel.log_y:
        up["range"] = [panel.low, panel.high]
    legend = any(series.label for series in panel.series)
    return figure(
        panel.title,
        [_trace(series, place) for place, series in enumerate(panel.series)],
        {"xaxis": across, "yaxis": up, "showlegend": legend},
        Table("", ("series", panel.x, panel.y), rows, folded=True),
    )


def _trace(series: Series, place: int) -> dict[str, Any]:
    number = place if series.colour is None else series.colour
    ink = "@faint" if number < 0 else f"@{1 + number % 8}"
    style = _MODES[series.mark]
    marker = {"color": ink, "size": 6, **style.get("marker", {})}
    named = {"name": series.label, "showlegend": bool(series.label)}
    spread = {"error_y": {"type": "data", "array": list(series.spread), "color": ink}}
    more = {**style, **named, "marker": marker, **(spread if series.spread else {})}
    return curve(series.x, series.y, ink, **more)


# --- all outcomes, and theorems -----------------------------------------------------------------

VERDICTS: tuple[Verdict, ...] = ("reproduced", "not reproduced", "not testable here")


@view
def of_scoreboard(found: Scoreboard) -> Blocks:
    """One line for each experiment; the page has all of them."""
    yield Title("Claims of related works, rerun", terminal=False)
    counts = _summary(found)
    yield terminal(Say(f"{counts.title}:"))
    yield counts
    for name, reason in found.left_out:
        yield Say(f"Left out: {name}: {reason}")
    yield Say()
    yield Say(f"Claims: {in_words(found.counts())}.")
    yield on_page(_sections(found))


def _summary(found: Scoreboard) -> Table:
    """How many claims of each experiment hold."""
    return table(
        "Claims of every experiment",
        found.outcomes,
        "experiment",
        ("work", lambda one: f"{one.work.authors} {one.work.year}"),
        *((status, lambda one, status=status: one.counts()[status]) for status in VERDICTS),
        folds=True,
    )


def _claims(one: Outcome) -> Table:
    said = ("claim", lambda claim: claim.says + f" ({claim.why})" * bool(claim.why))
    numbers = ("expected", expected), ("measured", seen)
    return table("Claims", one.claims, said, "source", *numbers, "status")


def _seeds(one: Outcome) -> str:
    return f"Seeds {', '.join(map(str, one.seeds))}. " if one.seeds else ""


def _sections(found: Scoreboard) -> Blocks:
    """Counts, a summary, then the experiments one by one."""
    counts = found.counts()
    shown = ((status, str(counts.get(status, 0))) for status in VERDICTS)
    yield Facts(tuple(Tile(name.capitalize(), n, "measured", "claims") for name, n in shown))
    yield measured(
        "overview",
        "All experiments",
        f"{counted(len(found.outcomes), 'experiment')}, {counted(sum(counts.values()), 'claim')}.",
        "A claim is reproduced if the measurement agrees with the expected value, for every seed "
        "unless the claim says otherwise.",
        _summary(found),
        *(Say(f"Left out: `{name}`: {why}") for name, why in found.left_out),
    )
    for one in found.outcomes:
        yield measured(
            one.experiment,
            f"{one.experiment}: {one.question}",
            f"{one.work}. {_seeds(one)}Claims: {in_words(+Counter(one.counts()))}.",
            " ".join(one.found.notes),
            _claims(one),
            *map(figure_of, one.found.panels),
            *map(table_of, one.found.tables),
            command=one.command,
        )


@view
def of_comparison(found: Comparison) -> Blocks:
    """A line for each theorem, where its hypotheses hold and where they do not."""
    yield Title("The theorems against exact ranks", terminal=False)
    counts = [(name, name, ",") for name in ("architectures", "equal", "undecided", "different")]
    for within, title in ((True, "Hypotheses hold"), (False, "A hypothesis fails")):
        rows = [row for row in found.rows if row.within == within]
        if rows:
            yield Say(f"{title}: the theorem's dimension compared with the exact rank.")
            yield table(title, rows, "theorem", *counts)
    said = "Undecided: the theorem's dimension lies between two proved bounds that do not meet."
    yield Say(said)
    yield Say(f"Mismatches where the hypotheses hold: {found.mismatches}.")


# --- a page of the documentation ----------------------------------------------------------------


def markdown(found: Scoreboard, pictures: str) -> str:
    """The same page for the site; the plot of an experiment is NAME.svg in `pictures`."""
    said = (
        "Claims of related works, rerun with segre from seeds. This page is made from stored "
        "results (docs/results in the repository); `segre reproduce --all -o results` "
        f"recomputes them. {len(found.outcomes)} experiments, claims: {in_words(found.counts())}."
    )
    blocks = [Title("Reproductions"), Say(said), replace(_summary(found), title="")]
    for one in found.outcomes:
        blocks += [
            Say(f"## {one.experiment}"),
            Say(f"*{one.question}* {one.work}."),
            Say(f"`{one.command}`. {_seeds(one)}Computed in {one.seconds:.0f} seconds."),
            Say(f"![{one.question}]({pictures}/{one.experiment}.svg)"),
            replace(_claims(one), title=""),
            *map(table_of, one.found.tables),
            *map(Say, one.found.notes),
        ]
    return markdown_of(blocks)
