"""All outcomes together: as text, as one page, and as a page of the documentation; theorems."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

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
    table,
    terminal,
)
from segre.report.markdown import markdown_of
from segre.report.outcomes import block_of, expected, figure_of, in_words, measured
from segre.report.views import paged, view
from segre.reproduce.claim import Claim
from segre.reproduce.experiment import Outcome
from segre.reproduce.scoreboard import Scoreboard
from segre.reproduce.theorems import Comparison
from segre.values import counted

CLAIMS = ("claim", "source", "expected", "measured", "status")


@view.register
def of_scoreboard(found: Scoreboard) -> Iterator[Block]:
    """One line for each experiment."""
    yield Title("Claims of related works, rerun", terminal=False)
    counts = summary(found)
    yield terminal(Say(f"{counts.title}:"))
    yield counts
    for name, reason in found.left_out:
        yield Say(f"Left out: {name}: {reason}")
    yield Say()
    yield Say(f"Claims: {_counts(found)}.")


def _counts(found: Scoreboard) -> str:
    return ", ".join(f"{count} {status}" for status, count in found.counts().items())


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


@view.register
def of_comparison(found: Comparison) -> Iterator[Block]:
    """A line for each theorem, where its hypotheses hold and where they do not."""
    yield Title("The theorems against exact ranks", terminal=False)
    counts = [(name, name, ",") for name in ("architectures", "equal", "undecided", "different")]
    for within, title in ((True, "Hypotheses hold"), (False, "A hypothesis fails")):
        rows = [row for row in found.rows if row.within == within]
        if rows:
            yield Say(f"{title}: the theorem's dimension compared with the exact rank.")
            yield table(title, "", rows, "theorem", *counts)
    said = "Undecided: the theorem's dimension lies between two proved bounds that do not meet."
    yield Say(said)
    yield Say(f"Mismatches where the hypotheses hold: {found.mismatches}.")


# --- a page of the documentation ----------------------------------------------------------------


def markdown(found: Scoreboard, pictures: str) -> str:
    """The same page for the site; the plot of an experiment is NAME.svg in `pictures`."""
    return markdown_of(_for_the_site(found, pictures))


def _for_the_site(found: Scoreboard, pictures: str) -> Iterator[Block]:
    yield Title("Reproductions")
    yield Say(
        "Claims of related works, rerun with segre from seeds. This page is made from stored "
        "results (docs/results in the repository); `segre reproduce --all -o results` "
        f"recomputes them. {len(found.outcomes)} experiments, claims: {_counts(found)}."
    )
    yield replace(summary(found), title="")
    for one in found.outcomes:
        seeds = f"Seeds {', '.join(map(str, one.seeds))}. " if one.seeds else ""
        yield Say(f"## {one.experiment}")
        yield Say(f"*{one.question}* {one.work}.")
        yield Say(f"`{one.command}`. {seeds}Computed in {one.seconds:.0f} seconds.")
        yield Say(f"![{one.question}]({pictures}/{one.experiment}.svg)")
        yield replace(_claims(one), title="")
        yield from (block_of("", table) for table in one.found.tables)
        yield from map(Say, one.found.notes)
