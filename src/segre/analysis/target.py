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
from segre.checkpoint.store import CONFIG, has_weights
from segre.errors import SpecError, UnsupportedError
from segre.files import shown
from segre.models import PRESETS, architecture
from segre.spec import Network
from segre.transformer.spec import Transformer
from segre.values import quote


@dataclass(frozen=True)
class Target:
    """An architecture by the text that a user gave for it; with weights, if they can be read."""

    text: str
    spec: Network | Transformer
    weights: Path | None = None  # the model directory
    unread: str = ""  # why there are no weights, if some were given

    @classmethod
    def read(cls, text: str) -> Target:
        """The target that is meant: whatever `segre dim` takes, or a model directory with weights.

        What is in a directory is checked here: files that cannot be read are an error.
        """
        path = Path(text)
        if path.suffix == ".gguf":
            raise SpecError(
                f"target {quote(text)}: a GGUF file; make a model directory of it first: "
                f"segre weights convert {shlex.quote(text)} -o model"
            )
        spec = architecture(text)
        if text in PRESETS or not has_weights(path):
            return cls(text, spec)
        try:
            with Model.open(path):
                return cls(text, spec, weights=path)
        except UnsupportedError as error:
            return cls(text, spec, unread=str(error))

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
        """As reports name it: the text that was given, without where that is on this machine."""
        return shown(self.text)
