"""All questions about a target, one after the other; a part without an answer says why."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from segre import __version__
from segre.analysis.architecture import what_it_is
from segre.analysis.depth import how_depth_acts
from segre.analysis.heads import what_heads_do, what_stands_out, what_weights_are_like
from segre.analysis.part import Part
from segre.analysis.paths import which_paths_carry
from segre.analysis.proof import what_is_proved
from segre.analysis.redundancy import how_large, what_is_redundant
from segre.analysis.workbench import Workbench
from segre.errors import CheckpointError, SegreError, SpecError, is_due_to
from segre.files import is_standard_input, shown
from segre.geometry.memory import DEFAULT_LIMIT
from segre.geometry.progress import Progress, quiet
from segre.json_data import json_data, stated
from segre.models import Source, Spec
from segre.shown import Tabular
from segre.values import quote

_ASKS_FOR = {
    "findings": "segre model diagnose DIR",
    "heads": "segre model info DIR",
    "weights": "segre model info DIR",
}
QUESTIONS: dict[str, tuple[str, Callable[[Workbench], Part]]] = {
    "findings": ("What stands out", what_stands_out),
    "what": ("What it is", what_it_is),
    "dimension": ("Functional dimension", how_large),
    "redundancy": ("What is redundant, and why", what_is_redundant),
    "proof": ("Proof", what_is_proved),
    "depth": ("Rank against depth", how_depth_acts),
    "heads": ("Heads", what_heads_do),
    "paths": ("Paths", which_paths_carry),
    "weights": ("Special points and conditioning", what_weights_are_like),
}


@dataclass(frozen=True)
class Analysis(Tabular):
    """The answers about one target, each by its key.

    >>> found = analyze("lightning/d=3,3/a=1/t=2", only=["what", "dimension"])
    >>> [part.key for part in found.parts], found["dimension"].upper, "proof" in found
    (['what', 'dimension'], 13, False)
    """

    target: str  # the given text, without the directories of this machine
    name: str  # what to call it
    spec: Spec
    weights: bool  # whether it has weights that can be read
    seed: int
    parts: tuple[Part, ...]
    command: str = ""  # what says the same again

    def __getitem__(self, key: str) -> Part:
        return next(part for part in self.parts if part.key == key)

    def __contains__(self, key: object) -> bool:
        return any(part.key == key for part in self.parts)

    @property
    def failed(self) -> tuple[Part, ...]:
        """The parts that did not run for a reason that segre did not foresee."""
        return tuple(part for part in self.parts if part.failed)

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        known = {"format": "segre-analysis", "version": 1, "segre": __version__}
        known |= {"spec": str(self.spec), **stated(self.spec, "digest parameters")}
        return dict(json_data(stated(self, "target name weights seed command parts", **known)))


def analyze(
    target: Source,
    *,
    only: Collection[str] = (),
    seed: int = 0,
    inputs: int = Workbench.inputs,
    length: int = Workbench.length,
    text: str | Path | None = None,
    memory: int = DEFAULT_LIMIT,
    progress: Progress = quiet,
) -> Analysis:
    """Everything that can be said of a model or a design; `only` names the parts to answer.

    `target` is whatever `architecture` takes; a directory with weights is run, too. One that cannot
    be read, or whose weights cannot, is an error. A part that cannot run says
    why, and the others still come.

    >>> found = analyze("softmax/d=3,3,3/a=1/t=3", only=["dimension", "heads"])
    >>> found["dimension"].status, found["dimension"].data["dimension"]
    ('proved', 19)
    >>> found["heads"].status, found["heads"].reason
    ('not run', 'needs weights, and none were given; give a model directory')
    """
    _chosen(only)
    with Workbench.of(target) as bench:
        given = None if text is None else require_readable(Path(text), bench)
        own = replace(bench, seed=seed, inputs=inputs, length=length, text=given, memory=memory)
        return answered(replace(own, progress=progress), only)


def answered(bench: Workbench, only: Collection[str] = ()) -> Analysis:
    """The answers to all questions, or to some."""
    keys = _chosen(only)
    if bench.model is None and not only:  # nothing to look into
        keys.remove("findings")
    asked = [""]  # the part that is being answered

    def tell(stage: str, done: int, total: int) -> None:
        bench.progress(f"{asked[0]}: {stage}" if stage else asked[0], done, total)

    telling = replace(bench, progress=tell)
    parts = []
    for key in keys:
        asked[0] = QUESTIONS[key][0].lower()
        parts.append(_part(telling, key))
    known = (shown(bench.given), bench.name, bench.spec, bench.model is not None)
    return Analysis(*known, bench.seed, tuple(parts), bench.command(only))


def _chosen(only: Collection[str]) -> list[str]:
    for key in only:
        if key not in QUESTIONS:
            raise SpecError(f"part {quote(key)} is not known; allowed: {', '.join(QUESTIONS)}")
    return [key for key in QUESTIONS if key in only or not only]


def require_readable(text: Path, bench: Workbench) -> Path:
    """The text file, which must exist; the target needs a tokenizer to read it."""
    if bench.model is None:
        raise SpecError(
            f"text {quote(str(text))}: needs a model directory with a tokenizer, and "
            f"{quote(bench.given)} is none"
        )
    if not is_standard_input(text) and not text.is_file():
        raise SpecError(f"text {quote(str(text))}: not a file; give a text file")
    return text


def _part(bench: Workbench, key: str) -> Part:
    title, question = QUESTIONS[key]
    bench.progress("", 0, 1)
    began = perf_counter()
    try:
        found = question(bench)
    except CheckpointError:  # bad input, not a part that cannot run
        raise
    except Exception as error:  # the rest still comes
        if is_due_to(error, KeyboardInterrupt):
            raise
        failed = not isinstance(error, SegreError)
        bug = f"{type(error).__name__}: {error}; this is a bug in segre, please report it"
        why, command = bug if failed else str(error), _ASKS_FOR.get(key, "")
        found = Part(status="not run", command=command, reason=why, failed=failed)
    return replace(found, key=key, title=title, seconds=perf_counter() - began)
