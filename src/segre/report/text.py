"""An answer on the terminal, by the renderer of its type.

Renderers are registered by type of answer. Their module is imported only when such an answer is
printed, so that one command does not load the types of others.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import singledispatch
from importlib import import_module
from io import StringIO

# The module of an answer's type, and the module of segre.report that prints it.
HOMES = {
    "segre.finding": "dimensions",
    "segre.geometry.explain": "explanation",
    "segre.variety.degree": "variety",
    "segre.variety.critical": "variety",
    "segre.variety.landscape": "variety",
    "segre.geometry.verdict": "fibers",
    "segre.geometry.strata": "fibers",
    "segre.geometry.polynomial_stratum": "points",
    "segre.geometry.recovery.answer": "fibers",
    "segre.geometry.samples": "samples",
    "segre.variety.ci": "independence",
    "segre.referee.verdict": "proofs",
    "segre.checkpoint.info": "checkpoints",
    "segre.checkpoint.demo": "weights",
    "segre.checkpoint.commands": "weights",
    "segre.checkpoint.comparison": "weights",
    "segre.checkpoint.shrunk": "weights",
    "segre.checkpoint.lineage": "lineage",
    "segre.checkpoint.content_hash": "lineage",
    "segre.checkpoint.merge": "merging",
    "segre.checkpoint.barrier": "merging",
    "segre.sequence.cost": "sequences",
    "segre.optimum.certificate": "optimum",
    "segre.collapse.commands": "collapse",
    "segre.sweep.status": "sweeps",
    "segre.sweep.run": "sweeps",
    "segre.sweep.verify": "sweeps",
    "segre.sweep.fit": "sweeps",
    "segre.sweep.builtin": "sweeps",
    "segre.reproduce.theorems": "theorems",
    "segre.reproduce.experiment": "outcomes",
    "segre.reproduce.scoreboard": "scoreboard",
    "segre.analysis.run": "analysis.text",
    "segre.analysis.comparison": "comparison",
    "segre.analysis.side_by_side": "side_by_side",
    "segre.analysis.diff": "diff",
    "segre.inspect.diagnose": "inspection",
    "segre.inspect.trace": "inspection",
    "segre.discovery": "catalog",
    "segre.analysis.part": "analysis.text",
    "segre.doctor": "doctor",
}

captured: ContextVar[StringIO | None] = ContextVar("captured", default=None)  # instead of stdout


@singledispatch
def printed(answer: object) -> None:
    """Print an answer; renderers register themselves here."""
    raise TypeError(f"no renderer prints a {type(answer).__name__}")


def print_text(answer: object) -> None:
    """Print an answer by the renderer of its type."""
    home = HOMES.get(type(answer).__module__)
    if home is not None:
        import_module(f"segre.report.{home}")
    printed(answer)


def text_of(answer: object) -> str:
    """The same text as a string, without colours, wrapped at 80 columns."""
    text = StringIO()
    token = captured.set(text)
    try:
        print_text(answer)
    finally:
        captured.reset(token)
    return "\n".join(line.rstrip() for line in text.getvalue().strip("\n").split("\n"))


def say(line: str) -> None:
    """Print a line as it is, without wrapping."""
    print(line, file=captured.get())
