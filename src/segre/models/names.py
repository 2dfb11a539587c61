"""What does a name stand for: an inline spec, a preset, a file, a directory, a model on the hub?

Case does not matter in names of kinds, families and presets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from segre import spec as stack
from segre.files import is_standard_input
from segre.models import hub
from segre.models.registry import FAMILIES, PRESETS
from segre.polynomial import spec as polynomial
from segre.values import quote

STACKS = stack.KINDS
POLYNOMIALS = polynomial.KINDS
KINDS = (*STACKS, *POLYNOMIALS, "transformer", *FAMILIES)
CONFIG = "config.json"
TENSORS = ".safetensors"
LIST = "segre model list has all names"


@dataclass(frozen=True)
class Meaning:
    """What a name stands for: an inline spec, a preset, or a file and its directory."""

    inline: str = ""
    preset: str = ""
    file: Path | None = None  # a spec or a config; it need not exist
    weights: Path | None = None  # where its weights are, if there are any: a directory or a file

    @property
    def kind(self) -> str:
        """The kind of an inline spec, or the preset that it changes."""
        return self.inline.partition("/")[0]

    @property
    def folder(self) -> Path | None:
        """The directory of its config, which may also hold a tokenizer."""
        return None if self.file is None or is_standard_input(self.file) else self.file.parent


def meaning(name: str | Path) -> Meaning | None:
    """What a name stands for; None if that is not known.

    Preset names take precedence over directories (write ./gpt2 for a directory named gpt2). Files
    on the disk take precedence over names in another case and over models of the hub.

    >>> meaning("LLaMA/d=8/ff=16").inline, meaning("Llama-3-8B").preset
    ('llama/d=8/ff=16', 'llama-3-8b')
    >>> meaning("llama-3-8b/kv=32").kind
    'llama-3-8b'
    """
    text = str(name)
    kind, slash, rest = text.partition("/")
    spoken = isinstance(name, str)
    inline = Meaning(inline=f"{kind.lower()}{slash}{rest}") if kind.lower() in KINDS else None
    if spoken and "=" in rest:
        if inline is not None:
            return inline
        if kind.lower() in PRESETS:
            return Meaning(inline=f"{kind.lower()}/{rest}")
    if spoken and text in PRESETS:
        return Meaning(preset=text)
    found = _on_disk(Path(name))
    if found is not None:
        return found
    if spoken and text.lower() in PRESETS:
        return Meaning(preset=text.lower())
    snapshot = hub.snapshot(text)
    if snapshot is not None:
        return Meaning(file=snapshot / CONFIG, weights=snapshot)
    return inline if spoken else None


def _on_disk(path: Path) -> Meaning | None:
    if is_standard_input(path):
        return Meaning(file=path)
    directory = _holds(path.is_dir)
    if not str(path).isprintable() and not directory and not _holds(path.is_file):
        return None
    if directory:
        return Meaning(file=path / CONFIG, weights=path)
    if path.suffix == TENSORS:
        return Meaning(file=path.parent / CONFIG, weights=path)
    return Meaning(file=path) if path.suffix in {".toml", ".json"} else None


def unknown(text: str) -> str:
    """Why a name is refused, and what to write instead."""
    word, names = text.rsplit("/", 1)[-1], (*PRESETS, *KINDS)
    if "=" in text:
        word = text.partition("/")[0]
        why = f"{quote(word)} is not a known kind or preset{nearest(word, names)}"
    elif _holds(Path(text).is_file):
        why = "this file is neither .toml nor .json"
    elif "/" in text and hub.is_id(text):
        why = f"no such file, and it is {hub.advice(text)}{nearest(word, names)}"
    else:
        why = f"not a known name{nearest(word, names)}"
    return (
        f"spec {quote(text)}: {why}; {LIST}; allowed: names, inline specs "
        f"(llama/d=8/heads=2/ff=16/t=3), .toml and .json files, and directories with {CONFIG}"
    )


def _holds(question: Callable[[], bool]) -> bool:
    """The answer to a question about a path; no if the system cannot tell."""
    try:
        return question()
    except (OSError, ValueError):  # a name too long, a directory closed to us, a zero byte
        return False


def nearest(word: str, known: Iterable[str]) -> str:
    """The three names closest to the given text, for an error."""
    start, every = word.lower()[:100], list(dict.fromkeys(known))
    begin = [name for name in every if start and name.startswith(start)]
    near = [*begin, *get_close_matches(start, every, n=6, cutoff=0.0)]
    return f" (closest names: {', '.join(list(dict.fromkeys(near))[:3])})"
