"""What is to be analysed: an architecture, and its weights if there are any.

>>> target = Target.read("llama-3-8b")
>>> target.weights, f"{target.spec.parameters:,}"
(None, '8,030,261,248')
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from segre.checkpoint.model import Model
from segre.checkpoint.opening import trained
from segre.checkpoint.shards import CONFIG
from segre.errors import SpecError, UnsupportedError
from segre.files import shown
from segre.models import Source, Spec, architecture, called
from segre.models.live import live
from segre.values import quote


@dataclass(frozen=True)
class Target:
    """An architecture by the text that a user gave for it; with weights, if they can be read."""

    text: str
    spec: Spec
    weights: Source | None = None  # the model directory, or the model itself
    unread: str = ""  # why there are no weights, if some were given
    source: Source = None  # what was given, if that is no text

    @classmethod
    def read(cls, source: Source) -> Target:
        """The target: whatever `segre dim` takes, or a model directory with weights.

        What is in a directory is checked here: files that cannot be read are an error.
        """
        named, text = isinstance(source, str | Path), called(source)
        if not named and live(source) is None:
            source = text  # a mapping or a spec, as an inline spec
        if named and Path(text).suffix == ".gguf":
            raise SpecError(
                f"target {quote(text)}: a GGUF file; make a model directory of it first: "
                f"segre model convert {shlex.quote(text)} -o model"
            )
        spec = architecture(source)
        if not trained(source):
            return cls(text, spec, source=source)
        try:
            with Model.open(source):
                return cls(text, spec, source if not named else Path(text), source=source)
        except UnsupportedError as error:
            return cls(text, spec, unread=str(error), source=source)

    @property
    def name(self) -> str:
        """What to call it: a file or directory by the end of its path."""
        path = Path(self.text)
        if self.weights is None and not self.unread and path.name != CONFIG:
            return self.text
        known = path if path.name not in ("", "..") else path.resolve()
        return "/".join(part for part in known.parts[-2:] if part != known.root)

    @property
    def argument(self) -> str:
        """As an argument of a command."""
        return shlex.quote(self.shown)

    @property
    def shown(self) -> str:
        """Its name in reports: the given text, without the directories of this machine."""
        return shown(self.text)
