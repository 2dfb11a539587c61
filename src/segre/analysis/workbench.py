"""What several questions need, computed once: the proof, the weights, the running model."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segre.analysis.target import Target
from segre.checkpoint.commands import info
from segre.checkpoint.info import Info
from segre.checkpoint.inputs import Runnable, longest, random_tokens, read_text
from segre.collapse.models import Loaded, load
from segre.collapse.passes import Pass
from segre.collapse.record import record
from segre.collapse.variants import FULL
from segre.errors import UnsupportedError
from segre.files import shown
from segre.finding import Finding
from segre.geometry.dimension import Proof, prove, settled, without_computing
from segre.geometry.memory import DEFAULT_LIMIT
from segre.geometry.progress import Progress, quiet
from segre.inspect.diagnose import Diagnosis, diagnosis, words_of
from segre.inspect.recorded import recorded
from segre.inspect.subject import subject
from segre.models import Source

if TYPE_CHECKING:
    from segre.checkpoint.inputs import Inputs

RECORDED = 32  # tokens of the recorded pass
RECORDED_VARIANT = FULL  # what is run for it: the model as it is


@dataclass(frozen=True)
class Workbench:
    """A target, the options of the analysis, and what has been computed so far."""

    target: Target
    seed: int = 0
    inputs: int = 4
    length: int = 64
    text: Path | None = None
    memory: int = DEFAULT_LIMIT
    progress: Progress = field(default=quiet, compare=False)

    @cached_property
    def proof(self) -> Proof:
        """The bounds of the architecture itself."""
        return prove(self.target.spec, self.seed, memory=self.memory, progress=self.progress)

    @cached_property
    def finding(self) -> Finding:
        """What `segre dim` finds."""
        known = without_computing(self.target.spec)
        return settled(self.proof, self.seed, self.progress) if known is None else known

    @cached_property
    def info(self) -> Info:
        """What is counted and measured of the weights."""
        return info(self.require_weights(), self.progress)

    @cached_property
    def loaded(self) -> Loaded:
        """The model to run; if it has no weights, with random ones."""
        return load(self.target.source, self.seed, memory=self.memory)

    @cached_property
    def recorded(self) -> Pass:
        """One recorded forward pass of the model on tokens."""
        self.require_weights()
        tokens = self.tokens(self.loaded, 1, min(self.length, RECORDED))
        return record(self.loaded, tokens.batches[0][0], RECORDED_VARIANT, memory=self.memory)

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """What stands out in a pass on the first tokens, as `segre model diagnose` finds it."""
        source = self.require_weights()
        given = self.tokens(self.loaded, 1, self.length)
        model, ids = subject(source, self.seed), given.batches[0][0]
        seen = recorded(model, ids, words_of(model, ids), progress=self.progress)
        return diagnosis(seen, given.kind)

    def tokens(self, loaded: Runnable, count: int, length: int) -> Inputs:
        """Token sequences for a model: from the text, or random ones."""
        fits = min(length, longest(loaded.spec) or length)
        if self.text_given and self.text is not None:
            return read_text(loaded, self.text, count, fits)
        return random_tokens(loaded, count, fits, self.seed)

    @property
    def text_given(self) -> str | None:
        """The text as an argument of a command; models that are not in a directory read none."""
        if self.text is None or self.target.weights is None:
            return None
        return shlex.quote(shown(self.text))

    def require_weights(self) -> Source:
        """The model directory; without one there is nothing to measure."""
        if self.target.weights is None:
            raise UnsupportedError(
                self.target.unread or "needs weights, and none were given; give a model directory"
            )
        return self.target.weights

    def command(self, only: Collection[str] = ()) -> str:
        """The command that asks about the target in the same way, or about some parts."""
        options = self.options(only=",".join(only) or None, **self.inputs_given, memory=self.memory)
        return f"segre analyze {self.target.argument}{options}"

    @property
    def inputs_given(self) -> dict[str, Any]:
        """The options that name the inputs."""
        return {
            "inputs": None if self.inputs == Workbench.inputs else self.inputs,
            "length": None if self.length == Workbench.length else self.length,
            "text": self.text_given,
            "seed": self.seed,
        }

    def options(self, **given: Any) -> str:
        """Options of a command, without those that have their default values."""
        usual = {"seed": 0, "memory": f"{DEFAULT_LIMIT >> 30}G"}
        if "memory" in given:
            given["memory"] = _memory(given["memory"])
        words = [f" --{key} {value}" for key, value in given.items() if value != usual.get(key)]
        return "".join(words)


def _memory(limit: int) -> str:
    """A limit as commands take it.

    >>> _memory(8 << 30), _memory(1 << 20), _memory(1000)
    ('8G', '1M', '1000')
    """
    for power, unit in ((30, "G"), (20, "M"), (10, "K")):
        if limit and limit % (1 << power) == 0:
            return f"{limit >> power}{unit}"
    return str(limit)
