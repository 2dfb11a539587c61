"""What is analysed, and what several questions need of it, computed once.

>>> bench = Workbench.of("llama-3-8b")
>>> bench.model, f"{bench.spec.parameters:,}"
(None, '8,030,261,248')
"""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segre.checkpoint.commands import info
from segre.checkpoint.info import Info
from segre.checkpoint.inputs import shortened
from segre.checkpoint.model import Model
from segre.checkpoint.opening import trained
from segre.checkpoint.reading import CONFIG
from segre.checkpoint.runnable import load
from segre.collapse.passes import Pass
from segre.collapse.record import record
from segre.collapse.variants import FULL
from segre.errors import SpecError, UnsupportedError
from segre.files import shown
from segre.finding import Finding
from segre.geometry.dimension import Proof, prove, settled, without_computing
from segre.geometry.memory import DEFAULT_LIMIT
from segre.geometry.progress import Progress, quiet
from segre.inspect.diagnose import Diagnosis, diagnosis, words_of
from segre.inspect.recorded import recorded
from segre.models import Source, Spec, architecture, called
from segre.models.live import live
from segre.values import quote

if TYPE_CHECKING:
    from segre.checkpoint.inputs import Inputs

RECORDED = 32  # tokens of the recorded pass
RECORDED_VARIANT = FULL  # what is run for it: the model as it is


@dataclass(frozen=True)
class Workbench:
    """What is analysed, by the text that a user gave for it; options; what was computed so far."""

    given: str
    spec: Spec
    source: Source
    model: Model | None = None  # None: there are no weights, or they cannot be read
    unread: str = ""  # why there are no weights, if some were given
    seed: int = 0
    inputs: int = 4
    length: int = 64
    text: Path | None = None  # a text to run the model on
    memory: int = DEFAULT_LIMIT
    progress: Progress = field(default=quiet, compare=False)

    @classmethod
    def of(cls, source: Source) -> Workbench:
        """What `segre dim` takes, or a model with weights, which is opened.

        What is in a directory is checked here: files that cannot be read are an error.
        """
        named, text = isinstance(source, str | Path), called(source)
        if named and Path(text).suffix == ".gguf":
            raise SpecError(
                f"target {quote(text)}: a GGUF file; make a model directory of it first: "
                f"segre model convert {shlex.quote(text)} -o model"
            )
        if isinstance(source, Model) and source.random is not None:
            return cls(text, architecture(source), source)
        if isinstance(source, Model) or trained(source):
            try:
                model = Model.open(source)
                assert model.design is not None
                return cls(text, model.design, source, model)
            except UnsupportedError as error:
                return cls(text, architecture(source), source, unread=str(error))
        if not named and live(source) is None:
            source = text  # a mapping or a spec, as an inline spec
        return cls(text, architecture(source), source)

    def __enter__(self) -> Workbench:
        return self

    def __exit__(self, *raised: Any) -> None:
        if self.model is not None:
            self.model.close(*raised)

    @property
    def name(self) -> str:
        """What to call it: a file or directory by the end of its path."""
        path = Path(self.given)
        if self.model is None and not self.unread and path.name != CONFIG:
            return self.given
        known = path if path.name not in ("", "..") else path.resolve()
        return "/".join(part for part in known.parts[-2:] if part != known.root)

    @property
    def argument(self) -> str:
        """As an argument of a command: the given text, without the directories of this machine."""
        return shlex.quote(shown(self.given))

    @cached_property
    def proof(self) -> Proof:
        """The bounds of the architecture itself."""
        return prove(self.spec, self.seed, memory=self.memory, progress=self.progress)

    @cached_property
    def finding(self) -> Finding:
        """What `segre dim` finds."""
        known = without_computing(self.spec)
        return settled(self.proof, self.seed, self.progress) if known is None else known

    @cached_property
    def info(self) -> Info:
        """What is counted and measured of the weights."""
        return info(self.require_model(), self.progress)

    @cached_property
    def loaded(self) -> Model:
        """The model to run, up to its last hidden states; with random weights if it has none."""
        return load(self.model or self.source, self.seed, memory=self.memory)

    @cached_property
    def recorded(self) -> Pass:
        """One recorded forward pass of the model on tokens."""
        self.require_model()
        tokens = self.tokens(self.loaded, 1, min(self.length, RECORDED))
        return record(self.loaded, tokens.batches[0][0], RECORDED_VARIANT, memory=self.memory)

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """What stands out in a pass on the first tokens, as `segre model diagnose` finds it."""
        model = self.require_model()
        given = self.tokens(self.loaded, 1, self.length)
        ids = given.batches[0][0]
        seen = recorded(model, ids, words_of(model, ids), progress=self.progress)
        return diagnosis(seen, given.kind)

    def tokens(self, model: Model, count: int, length: int) -> Inputs:
        """Token sequences for a model: from the text, or random ones."""
        return shortened(model, self.text if self.model else None, count, length, self.seed)

    @property
    def text_given(self) -> str | None:
        """The text as an argument of a command; models that are not in a directory read none."""
        if self.text is None or self.model is None:
            return None
        return shlex.quote(shown(self.text))

    def require_model(self) -> Model:
        """The model; without weights there is nothing to measure."""
        if self.model is None:
            raise UnsupportedError(
                self.unread or "needs weights, and none were given; give a model directory"
            )
        return self.model

    def asking(self, verb: str, **given: Any) -> str:
        """The command that asks about the target alone, with the options that are given."""
        return f"segre {verb} {self.argument}{self.options(**given)}"

    def command(self, only: Collection[str] = ()) -> str:
        """The command that asks about the target in the same way, or about some parts."""
        asked = {"only": ",".join(only) or None, **self.inputs_given}
        return self.asking("analyze", **asked, memory=self.memory)

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
