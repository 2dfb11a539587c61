"""What does an answer consist of, by its type? Each kind of answer says so in one file.

The file of a kind of answer has a `view`: the blocks of such an answer, from which all that shows
it follows: the text, the card of a notebook, the page, the picture, the table. The file is imported
when such an answer is shown, so that one command does not load what shows the answers of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module
from itertools import chain
from typing import Any, TypeVar

from segre import __version__
from segre.finding import Status
from segre.report.blocks import (
    Block,
    Facts,
    Figure,
    Only,
    Page,
    Section,
    Table,
    Tile,
    Title,
    flat,
    shown_in,
)

# The files of segre.report, and the modules of the answers that they show.
FILES = {
    "catalog": "discovery",
    "checkpoints": "checkpoint.info",
    "comparison": "analysis.comparison",
    "depth": "collapse.commands",
    "diagnosis": "inspect.diagnose inspect.trace",
    "diff": "analysis.diff",
    "dimensions": "finding geometry.explain geometry.samples kernel.verify",
    "doctor": "doctor",
    "experiments": "reproduce.experiment reproduce.scoreboard reproduce.theorems",
    "fibers": "geometry.same geometry.strata geometry.polynomial_point "
    "geometry.recovery.answer optimum.certificate",
    "lineage": "checkpoint.lineage checkpoint.content_hash",
    "parts": "analysis.run analysis.part",
    "paths": "collapse.commands",
    "sequences": "sequence.cost",
    "side_by_side": "analysis.side_by_side",
    "slices": "geometry.slices",
    "sweeps": "sweep.status sweep.run sweep.verify sweep.fit sweep.builtin sweep.picture",
    "variety": "variety.degree variety.critical variety.landscape variety.ci",
    "weights": "checkpoint.demo checkpoint.commands checkpoint.comparison checkpoint.shrunk "
    "checkpoint.merge checkpoint.barrier",
}
MEANINGS: dict[Status, str] = {
    "proved by computation": "both bounds were computed, and they meet; `segre verify` repeats it",
    "proved by theorem": "by a theorem of segre's own, whose proof in docs/theorems.md has to be "
    "trusted; its hypotheses were checked",
    "exact": "computed by formulas or integer arithmetic, nothing rounded",
    "certain": "all of many random points have this rank; the chance that they all missed a larger "
    "one is below 2^-60",
    "likely": "all of many random points have this rank; no bound on the error is known",
    "bounded": "a bound on one side, or two that do not meet; the part says how each is known",
    "measured": "floating-point numbers from these weights or this run",
    "estimated": "a guess from samples or a smaller model; proves nothing",
    "not run": "not done for this model; the part says why",
}
View = TypeVar("View", bound=Callable[[Any], Iterable[Block]])
VIEWS: dict[tuple[str, str], Callable[[Any], Iterable[Block]]] = {}


def view(function: View) -> View:
    """Register the blocks of answers of one type, or of several: those that it is annotated with.

    A file is read before any answer of its types exists: they are known by their names.
    """
    kinds = next(iter(function.__annotations__.values()))
    names = str(getattr(kinds, "__name__", kinds)).split(" | ")
    VIEWS.update({(function.__module__, name): function for name in names})
    return function


def blocks_of(answer: object) -> Iterable[Block]:
    """The blocks of an answer, in order."""
    kind = type(answer)
    own = kind.__module__.removeprefix("segre.")
    files = [f"segre.report.{name}" for name, homes in FILES.items() if own in homes.split()]
    for file in files or [kind.__module__]:
        import_module(file)
        if shows := VIEWS.get((file, kind.__name__)):
            return shows(answer)
    raise TypeError(f"nothing says what a {kind.__name__} consists of")


def tabled(answer: object) -> Table:
    """The table of an answer: the one for data, or else the first that is shown."""
    blocks = list(blocks_of(answer))
    kept = (block for block in blocks if isinstance(block, Only) and "data" in block.places)
    for block in flat("data", chain(kept, blocks)):
        if isinstance(block, Table):
            return block
    raise TypeError(f"a {type(answer).__name__} has no table")


def paged(answer: Any) -> Page:
    """The page of an answer: its blocks, as one section or as the parts they are."""
    blocks = tuple(shown_in("page", blocks_of(answer)))
    title, *under = [one.text for one in blocks if isinstance(one, Title)] or [
        type(answer).__name__
    ]
    sections = [one for one in blocks if isinstance(one, Section)]
    if not sections:
        told: list[Any] = [getattr(answer, name, None) for name in ("label", "status")]
        told += [
            one.status for one in (*blocks, *tiles_of(blocks)) if isinstance(one, Title | Tile)
        ]
        status: Any = next((one for one in told if one in MEANINGS), "measured")
        how = getattr(answer, "how", "")
        sections = [Section("answer", title, status, how=how, blocks=blocks)]
    return Page(title, "".join(under[:1]), tuple(tiles_of(blocks)), tuple(sections))


def drawn(answer: object) -> list[Figure]:
    """The plots of an answer."""
    blocks = (block for section in paged(answer).sections for block in section.blocks)
    return [one for one in flat("page", blocks) if isinstance(one, Figure)]


def page_of(answer: Any, made: str = "", command: str = "") -> Page:
    """An answer as a page with its data; `made` says when, and `command` how."""
    page, seed = paged(answer), getattr(answer, "seed", None)
    words = [f"segre {__version__}", "" if seed is None else f"seed {seed}", made]
    return replace(
        page,
        document=answer.document(),
        made=", ".join(filter(None, words)),
        command=command or getattr(answer, "command", ""),
        sections=tuple(replace(one, command=one.command or command) for one in page.sections),
    )


def tiles_of(blocks: Iterable[Block]) -> Iterable[Tile]:
    """The facts that the answer is about, as cards and pages show them first."""
    for block in blocks:
        if isinstance(block, Facts):
            yield from (row for row in block.rows if isinstance(row, Tile))


# --- where blocks are shown ----------------------------------------------------------------------


def terminal(*blocks: Block) -> Only:
    """Blocks that only a terminal shows."""
    return Only(("terminal",), blocks)


def elsewhere(*blocks: Block) -> Only:
    """Blocks that cards and pages show, and a terminal does not."""
    return Only(("card", "page"), blocks)


def on_page(blocks: Iterable[Block]) -> Only:
    """What only a page shows: plots, which are also drawn as pictures, long tables, sections."""
    return Only(("page",), blocks)


def data(tables: Iterable[Table]) -> Only:
    """The table for pandas and CSV, if it is another one than the first that is printed."""
    return Only(("data",), tables)


def tiles(*shown: Tile) -> Only:
    """Facts that cards and pages show first, and a terminal says in a sentence."""
    return elsewhere(Facts(shown))


def measured(
    key: str, title: str, lead: str, how: str, *blocks: Block, command: str = ""
) -> Section:
    """A section of what was measured."""
    return Section(key, title, "measured", lead, how, command, blocks)
