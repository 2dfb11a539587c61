"""Outcomes of experiments: tables, then every claim with its status."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from segre.report.blocks import Block, Figure, Say, Table, Title, terminal
from segre.report.views import drawn, view
from segre.reproduce.claim import Claim
from segre.reproduce.experiment import Outcome
from segre.reproduce.found import Mark, Panel, Series
from segre.reproduce.found import Table as Given

UNKNOWN = "-"
_MODES: dict[Mark, dict[str, Any]] = {
    "line": {"mode": "lines"},
    "line and points": {"mode": "lines+markers"},
    "points": {"mode": "markers"},
    "crosses": {"mode": "markers", "marker": {"symbol": "x", "size": 9}},
    "dashes": {"mode": "lines", "line": {"dash": "dash"}},
    "dots": {"mode": "lines", "line": {"dash": "dot"}},
}


@view.register
def of_outcome(found: Outcome) -> Iterator[Block]:
    """The work, the question, tables, claims, notes."""
    yield Title(found.experiment, terminal=False)
    yield Say(f"{found.question} {found.work}.")
    if found.seeds:
        several = "Seeds" if len(found.seeds) > 1 else "Seed"
        yield Say(f"{several}: {', '.join(map(str, found.seeds))}.")
    for place, table in enumerate(found.found.tables):
        yield Say()
        yield terminal(Say(f"{table.title}:"))
        yield block_of(f"{found.experiment}-table-{place}", table)
    yield Say()
    yield from _claims(found.claims)
    yield Say()
    yield Say(f"{in_words(found)}.")
    yield from map(Say, found.found.notes)


def block_of(key: str, table: Given) -> Table:
    """A table of an experiment."""
    formats = tuple(table.formats) or ("",) * len(table.columns)
    numeric = tuple(
        bool(form) or not any(isinstance(row[place], str) for row in table.rows)
        for place, form in enumerate(formats)
    )
    columns, rows = tuple(table.columns), tuple(map(tuple, table.rows))
    given = (table.title, columns, rows, numeric, table.note)
    return Table(key, *given, formats=formats, folds=True, empty=UNKNOWN)


def _claims(claims: Sequence[Claim]) -> Iterator[Block]:
    """Each claim with what is expected, what was measured, and its status."""
    names = ("status", "claim (source)", "measured", "expected")
    rows = tuple(
        (one.status, f"{one.says} ({one.source})", measured(one), expected(one)) for one in claims
    )
    yield Table("claims", "", names, rows, folds=True)
    for one in claims:
        if one.why:
            yield Say(f"{one.status.capitalize()}: {lower(one.says)}: {one.why}.")


def in_words(found: Outcome) -> str:
    """How many claims there are of each status."""
    counts = [f"{count} {status}" for status, count in found.counts().items() if count]
    return f"Claims: {', '.join(counts)}"


def expected(claim: Claim) -> str:
    """What is expected, in a few characters."""
    if claim.relation == "none" or claim.expected is None:
        return UNKNOWN if claim.relation == "none" else "yes"
    value = number(claim.expected)
    if claim.relation == "=":
        return f"{value} ± {number(claim.tolerance)}" if claim.tolerance else value
    return f"{'at most' if claim.relation == '<=' else 'at least'} {value}"


def measured(claim: Claim) -> str:
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


@drawn.register
def plots_of_outcome(found: Outcome) -> Iterator[Figure]:
    """The panels of an outcome."""
    for n, panel in enumerate(found.found.panels):
        yield replace(figure_of(f"panel-{n}", panel), takeaway=found.question)


def figure_of(key: str, panel: Panel) -> Figure:
    """A panel of an experiment."""
    traces = tuple(_trace(series, place) for place, series in enumerate(panel.series))
    rows = tuple(
        (series.label, x, y)
        for series in panel.series
        for x, y in zip(series.x, series.y, strict=True)
    )
    numbers = Table(f"{key}-numbers", panel.title, ("series", panel.x, panel.y), rows, folded=True)
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": panel.x}, "type": "log" if panel.log_x else "linear"},
        "yaxis": {"title": {"text": panel.y}, "type": "log" if panel.log_y else "linear"},
        "showlegend": any(series.label for series in panel.series),
    }
    if panel.ticks:
        layout["xaxis"] |= {"tickvals": list(panel.ticks)}
    if panel.equal:
        layout["yaxis"] |= {"scaleanchor": "x"}
    if panel.low is not None and panel.high is not None and not panel.log_y:
        layout["yaxis"] |= {"range": [panel.low, panel.high]}
    alt = f"{panel.title}: {panel.y or 'values'} against {panel.x}."
    return Figure(key, panel.title, alt, "", traces, layout, numbers)


def _trace(series: Series, place: int) -> dict[str, Any]:
    number = place if series.colour is None else series.colour
    ink = "@faint" if number < 0 else f"@{1 + number % 8}"
    style = _MODES[series.mark]
    trace: dict[str, Any] = {
        "type": "scatter",
        "name": series.label,
        "showlegend": bool(series.label),
        "x": list(series.x),
        "y": list(series.y),
        "mode": style["mode"],
        "line": {"color": ink, "width": 2, **style.get("line", {})},
        "marker": {"color": ink, "size": 6, **style.get("marker", {})},
    }
    if series.spread:
        trace["error_y"] = {"type": "data", "array": list(series.spread), "color": ink}
    return trace
