"""What does an answer consist of, by its type? Each kind of answer says so in one file.

The file of a kind of answer registers a `view`: the blocks of such an answer, from which the
terminal and notebooks show it. It may also register a `paged` (sections of an HTML page, with
plots), a `drawn` (plots for a file) and a `tabled` (the table for pandas and CSV); without these,
they follow from the view. The file is imported when such an answer is shown, so that one command
does not load the types of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import singledispatch
from importlib import import_module
from typing import Any, Generic, TypeVar

from segre.finding import Status
from segre.report.blocks import Block, Facts, Figure, Page, Parts, Section, Table, Tile, Title, flat

# The module of an answer's type, and the module of segre.report that says its blocks.
HOMES = {
    "segre.finding": "dimensions",
    "segre.geometry.explain": "explanation",
    "segre.variety.degree": "variety",
    "segre.variety.critical": "variety",
    "segre.variety.landscape": "variety",
    "segre.geometry.verdict": "fibers",
    "segre.geometry.strata": "fibers",
    "segre.geometry.polynomial_stratum": "fibers",
    "segre.geometry.recovery.answer": "fibers",
    "segre.geometry.samples": "samples",
    "segre.variety.ci": "variety",
    "segre.kernel.verify": "proofs",
    "segre.checkpoint.info": "checkpoints",
    "segre.checkpoint.demo": "weights",
    "segre.checkpoint.commands": "weights",
    "segre.checkpoint.comparison": "weights",
    "segre.checkpoint.shrunk": "weights",
    "segre.checkpoint.lineage": "lineage",
    "segre.checkpoint.content_hash": "lineage",
    "segre.checkpoint.merge": "weights",
    "segre.checkpoint.barrier": "weights",
    "segre.sequence.cost": "sequences",
    "segre.optimum.certificate": "optimum",
    "segre.collapse.commands": "collapse depth paths",
    "segre.sweep.status": "sweeps",
    "segre.sweep.run": "sweeps",
    "segre.sweep.verify": "sweeps",
    "segre.sweep.fit": "sweeps",
    "segre.sweep.builtin": "sweeps",
    "segre.sweep.picture": "sweeps",
    "segre.geometry.slices": "slices",
    "segre.reproduce.theorems": "scoreboard",
    "segre.reproduce.experiment": "outcomes",
    "segre.reproduce.scoreboard": "scoreboard",
    "segre.analysis.run": "analysis.page",
    "segre.analysis.part": "analysis.page",
    "segre.analysis.comparison": "comparison",
    "segre.analysis.side_by_side": "side_by_side",
    "segre.analysis.diff": "diff",
    "segre.analysis.small_diff": "diff",
    "segre.inspect.diagnose": "diagnosis",
    "segre.inspect.trace": "trace",
    "segre.discovery": "catalog",
    "segre.doctor": "doctor",
}


T = TypeVar("T")


class Asked(Generic[T]):
    """A question to an answer: the file of the answer's type is imported, and replies."""

    def __init__(self, default: Callable[[Any], T]) -> None:
        self._ask = singledispatch(default)
        self.register = self._ask.register
        self.registry = self._ask.registry

    def __call__(self, answer: object) -> T:
        """What the answer says."""
        home = HOMES.get(type(answer).__module__, "")
        for module in home.split():
            import_module(f"segre.report.{module}")
        return self._ask(answer)


@Asked
def view(answer: object) -> Iterable[Block]:
    """The blocks of an answer, in order."""
    raise TypeError(f"nothing says what a {type(answer).__name__} consists of")


@Asked
def tabled(answer: object) -> Table:
    """The table of an answer; by default the first of its blocks that is one."""
    for block in view(answer):
        if isinstance(block, Table):
            return block
    raise TypeError(f"a {type(answer).__name__} has no table")


@Asked
def paged(answer: Any) -> Page:
    """The page of an answer; by default its blocks, as one section or as the parts they are."""
    blocks = tuple(view(answer))
    title = next((one.text for one in blocks if isinstance(one, Title)), type(answer).__name__)
    sections = [part for one in blocks if isinstance(one, Parts) for part in one.sections]
    if not sections:
        status: Status = getattr(answer, "label", None) or answer.status
        sections = [Section("answer", title, status, how=answer.how, blocks=blocks)]
    return Page(title, "", tuple(tiles_of(blocks)), tuple(sections))


@Asked
def drawn(answer: object) -> Iterable[Figure]:
    """The plots of an answer for a file; by default all that its page has."""
    blocks = flat(block for section in paged(answer).sections for block in section.blocks)
    return [one for one in blocks if isinstance(one, Figure)]


def page_of(answer: Any, made: str = "", command: str = "") -> Page:
    """An answer as a page; `made` says when, and `command` how."""
    return paged(answer).signed(answer.document(), made, command)


def tiles_of(blocks: Iterable[Block]) -> Iterator[Tile]:
    """The facts that the answer is about, as cards and pages show them first."""
    for block in flat(blocks):
        if isinstance(block, Facts):
            yield from (row for row in block.rows if isinstance(row, Tile))
