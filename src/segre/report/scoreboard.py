"""All outcomes together: as text, as one page, and as a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterator

from segre.report.blocks import (
    Block,
    Cell,
    Page,
    Prose,
    Say,
    Section,
    Table,
    Tile,
    Title,
    terminal,
)
from segre.report.outcomes import block_of, expected, figure_of, in_words, measured
from segre.report.text import cells_of
from segre.report.views import paged, view
from segre.reproduce.claim import Claim
from segre.reproduce.experiment import Outcome
from segre.reproduce.scoreboard import Scoreboard
from segre.values import counted

CLAIMS = ("claim", "source", "expected", "measured", "status")


@view.register
def of_scoreboard(found: Scoreboard) -> Iterator[Block]:
    """One line for each experiment."""
    yield Title("Claims of related works, rerun", terminal=False)
    table = summary(found)
    yield terminal(Say(f"{table.title}:"))
    yield table
    for name, reason in found.left_out:
        yield Say(f"Left out: {name}: {reason}")
    counts = ", ".join(f"{count} {status}" for status, count in found.counts().items())
    yield Say()
    yield Say(f"Claims: {counts}.")


def summary(found: Scoreboard) -> Table:
    """How many claims of each experiment hold."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (one.experiment, f"{one.work.authors} {one.work.year}", *one.counts().values())
        for one in found.outcomes
    )
    columns = ("experiment", "work", "reproduced", "not reproduced", "not testable here")
    return Table("summary", "Claims of every experiment", columns, rows, folds=True)


def _claims(one: Outcome) -> Table:
    rows = tuple(map(claim_row, one.claims))
    return Table(f"{one.experiment}-claims", "Claims", CLAIMS, rows)


def claim_row(claim: Claim) -> tuple[str, ...]:
    """A claim under the columns of `CLAIMS`."""
    said = f"{claim.says} ({claim.why})" if claim.why else claim.says
    return said, claim.source, expected(claim), measured(claim), claim.status


@paged.register
def page_of_scoreboard(found: Scoreboard) -> Page:
    """The page: counts, a summary, then the experiments one by one."""
    counts = found.counts()
    tiles = tuple(
        Tile(status.capitalize(), str(counts.get(status, 0)), "measured", "claims")
        for status in ("reproduced", "not reproduced", "not testable here")
    )
    left_out = tuple(f"Left out: `{name}`: {why}" for name, why in found.left_out)
    overview = Section.measured(
        "overview",
        "All experiments",
        f"{counted(len(found.outcomes), 'experiment')}, {counted(sum(counts.values()), 'claim')}.",
        "A claim is reproduced if the measurement agrees with the expected value, for every seed "
        "unless the claim says otherwise.",
        "",
        summary(found),
        *((Prose(left_out),) if left_out else ()),
    )
    sections = (overview, *map(_section, found.outcomes))
    return Page("Claims of related works, rerun", "", tiles, sections)


def _section(one: Outcome) -> Section:
    seeds = f" Seeds {', '.join(map(str, one.seeds))}." if one.seeds else ""
    name = one.experiment
    return Section.measured(
        name,
        f"{name}: {one.question}",
        f"{one.work}.{seeds} {in_words(one)}.",
        " ".join(one.found.notes),
        one.command,
        _claims(one),
        *(figure_of(f"{name}-figure-{n}", panel) for n, panel in enumerate(one.found.panels)),
        *(block_of(f"{name}-table-{n}", table) for n, table in enumerate(one.found.tables)),
    )


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
        yield from _grid(_claims(one))
        for table in one.found.tables:
            yield f"\n{table.title}:\n"
            yield from _grid(block_of("", table))
            if table.note:
                yield f"\n{table.note}"
        for note in one.found.notes:
            yield f"\n{note}"


def _grid(table: Table) -> Iterator[str]:
    yield f"| {' | '.join(table_cell(name) or ' ' for name in table.columns)} |"
    yield "|" + "|".join("---:" if right else "---" for right in table.right) + "|"
    for row in table.rows:
        yield f"| {' | '.join(map(table_cell, cells_of(table, row)))} |"


def table_cell(text: str) -> str:
    """Text with the characters escaped that Markdown or a table would interpret."""
    for mark in "|*<_":
        text = text.replace(mark, "\\" + mark)
    return text
