"""All outcomes together: as text, as one page, and as a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from segre import __version__
from segre.report.console import plain_console
from segre.report.outcomes import cells, expected, in_words, measured, print_table, text_columns
from segre.report.page.blocks import Block, Figure, Page, Prose, Section, Tile
from segre.report.page.blocks import Table as PageTable
from segre.report.page.render import write_page
from segre.report.text import printed
from segre.reproduce.claim import Claim
from segre.reproduce.experiment import Cell, Mark, Outcome, Panel, Series, Table
from segre.reproduce.scoreboard import Scoreboard
from segre.values import counted

_MODES: dict[Mark, dict[str, Any]] = {
    "line": {"mode": "lines"},
    "line and points": {"mode": "lines+markers"},
    "points": {"mode": "markers"},
    "crosses": {"mode": "markers", "marker": {"symbol": "x", "size": 9}},
    "dashes": {"mode": "lines", "line": {"dash": "dash"}},
    "dots": {"mode": "lines", "line": {"dash": "dot"}},
}
CLAIMS = ("claim", "source", "expected", "measured", "status")


@printed.register
def print_scoreboard(found: Scoreboard) -> None:
    """One line for each experiment."""
    console = plain_console()
    print_table(console, summary(found))
    for name, reason in found.left_out:
        console.print(f"Left out: {name}: {reason}")
    counts = ", ".join(f"{count} {status}" for status, count in found.counts().items())
    console.print()
    console.print(f"Claims: {counts}.")


def summary(found: Scoreboard) -> Table:
    """How many claims of each experiment hold."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (one.experiment, f"{one.work.authors} {one.work.year}", *one.counts().values())
        for one in found.outcomes
    )
    columns = ("experiment", "work", "reproduced", "not reproduced", "not testable here")
    return Table("Claims of every experiment", columns, rows, ("", "", "d", "d", "d"))


def claim_row(claim: Claim) -> tuple[str, ...]:
    """A claim under the columns of `CLAIMS`."""
    said = f"{claim.says} ({claim.why})" if claim.why else claim.says
    return said, claim.source, expected(claim), measured(claim), claim.status


# --- one page ---------------------------------------------------------------------------------


def write_scoreboard(found: Scoreboard, path: Path, made: str = "", command: str = "") -> None:
    """One HTML file with every table, every figure and every claim."""
    write_page(page_of(found, made, command), path)


def page_of(found: Scoreboard, made: str = "", command: str = "") -> Page:
    """The page: counts, a summary, then the experiments one by one."""
    counts = found.counts()
    tiles = tuple(
        Tile(status.capitalize(), str(counts.get(status, 0)), "measured", "claims")
        for status in ("reproduced", "not reproduced", "not testable here")
    )
    overview = Section.measured(
        "overview",
        "All experiments",
        f"{counted(len(found.outcomes), 'experiment')}, {counted(sum(counts.values()), 'claim')}.",
        "A claim is reproduced if the measurement agrees with the expected value, for every seed "
        "unless the claim says otherwise.",
        command,
        _page_table("summary", summary(found)),
        *(
            (Prose(tuple(f"Left out: `{name}`: {why}" for name, why in found.left_out)),)
            if found.left_out
            else ()
        ),
    )
    return Page(
        title="Claims of related works, rerun",
        subtitle="",
        tiles=tiles,
        sections=(overview, *map(_section, found.outcomes)),
        document=found.document(),
        command=command,
        made=", ".join(word for word in (f"segre {__version__}", made) if word),
    )


def _section(one: Outcome) -> Section:
    seeds = f" Seeds {', '.join(map(str, one.seeds))}." if one.seeds else ""
    claims = Table("Claims", CLAIMS, tuple(claim_row(claim) for claim in one.claims))
    blocks: list[Block] = [_page_table(f"{one.experiment}-claims", claims)]
    for place, panel in enumerate(one.found.panels):
        blocks.append(_figure(f"{one.experiment}-figure-{place}", panel))
    for place, table in enumerate(one.found.tables):
        blocks.append(_page_table(f"{one.experiment}-table-{place}", table))
    return Section.measured(
        one.experiment,
        f"{one.experiment}: {one.question}",
        f"{one.work}.{seeds} {in_words(one)}.",
        " ".join(one.found.notes),
        one.command,
        *blocks,
    )


def _page_table(key: str, table: Table) -> PageTable:
    rows = tuple(tuple(cells(table, row)) for row in table.rows)
    numeric = tuple(not text for text in text_columns(table))
    return PageTable(key, table.title, table.columns, rows, numeric, table.note)


def _figure(key: str, panel: Panel) -> Figure:
    traces = tuple(_trace(series, place) for place, series in enumerate(panel.series))
    rows = tuple(
        (series.label, x, y)
        for series in panel.series
        for x, y in zip(series.x, series.y, strict=True)
    )
    numbers = PageTable(
        f"{key}-numbers", panel.title, ("series", panel.x, panel.y), rows, folded=True
    )
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


# --- a page of the documentation ----------------------------------------------------------------


def markdown(found: Scoreboard, pictures: str) -> str:
    """The same page for the site; the plot of an experiment is NAME.svg in `pictures`."""
    return "\n".join(_lines(found, pictures)) + "\n"


def _lines(found: Scoreboard, pictures: str) -> Iterator[str]:
    counts = ", ".join(f"{count} {status}" for status, count in found.counts().items())
    yield "# Reproductions\n"
    yield (
        "Claims of related works, rerun with segre from seeds. This page is made from stored "
        "results (docs/results in the repository); `segre reproduce --all -o results` "
        f"recomputes them. {len(found.outcomes)} experiments, claims: {counts}.\n"
    )
    yield from _grid(summary(found))
    for one in found.outcomes:
        yield f"\n## {one.experiment}\n"
        yield f"*{one.question}* {one.work}.\n"
        seeds = f"Seeds {', '.join(map(str, one.seeds))}. " if one.seeds else ""
        yield f"`{one.command}`. {seeds}Computed in {one.seconds:.0f} seconds.\n"
        yield f"![{one.question}]({pictures}/{one.experiment}.svg)\n"
        rows = tuple(claim_row(claim) for claim in one.claims)
        yield from _grid(Table("", CLAIMS, rows))
        for table in one.found.tables:
            yield f"\n{table.title}:\n"
            yield from _grid(table)
            if table.note:
                yield f"\n{table.note}"
        for note in one.found.notes:
            yield f"\n{note}"


def _grid(table: Table) -> Iterator[str]:
    yield f"| {' | '.join(table_cell(name) or ' ' for name in table.columns)} |"
    yield "|" + "|".join("---" if text else "---:" for text in text_columns(table)) + "|"
    for row in table.rows:
        yield f"| {' | '.join(map(table_cell, cells(table, row)))} |"


def table_cell(text: str) -> str:
    """Text with the characters escaped that Markdown or a table would interpret."""
    for mark in "|*<_":
        text = text.replace(mark, "\\" + mark)
    return text
