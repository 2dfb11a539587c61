"""What does a name stand for: an inline spec, a preset, a file, a directory, a model on the hub?

Case does not matter in names of kinds, families and presets. Of the Hugging Face hub only the local
cache is searched, and nothing is ever downloaded. The cache has a directory models--ORG--NAME for
ORG/NAME, in it `refs/main` with a revision, and `snapshots/REVISION` with the files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from segre import spec as stack
from segre.errors import SpecError
from segre.files import is_standard_input
from segre.models.registry import FAMILIES, PRESETS
from segre.polynomial import spec as polynomial
from segre.values import quote

STACKS = stack.KINDS
POLYNOMIALS = polynomial.KINDS
KINDS = (*STACKS, *POLYNOMIALS, "transformer", *FAMILIES)
CONFIG = "config.json"
TENSORS = ".safetensors"
LIST = "segre model list has all names"
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}(/[A-Za-z0-9_][A-Za-z0-9_.-]{0,95})?", re.ASCII)
_REVISION = re.compile(r"[A-Za-z0-9_.-]{1,100}", re.ASCII)


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
    cached = snapshot(text)
    if cached is not None:
        return Meaning(file=cached / CONFIG, weights=cached)
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
    elif "/" in text and is_id(text):
        why = f"no such file, and it is {advice(text)}{nearest(word, names)}"
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


# --- the cache of the hub -------------------------------------------------------------------------


def is_id(name: str) -> bool:
    """Whether this could be the id of a model on the hub: ORG/NAME, or NAME.

    >>> is_id("meta-llama/Llama-3.1-8B"), is_id("./gpt2"), is_id("a/b/c")
    (True, False, False)
    """
    return _ID.fullmatch(name) is not None and "--" not in name and ".." not in name


def cache() -> Path:
    """The directory of the cache, as the hub's own library finds it."""
    for key in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(key):
            return Path(os.environ[key]).expanduser()
    home = os.environ.get("HF_HOME")
    if not home:
        home = str(Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    return Path(home).expanduser() / "hub"


def snapshot(name: str) -> Path | None:
    """The files of a model in the cache; None if it is not there.

    Without `main`, a single revision is used; several are refused.
    """
    repository = _repository(name) if is_id(name) else None
    if repository is None:
        return None
    try:
        revision = (repository / "refs" / "main").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        revision = ""
    if revision:
        found = repository / "snapshots" / revision
        return found if _REVISION.fullmatch(revision) and found.is_dir() else None
    every = _listed(repository / "snapshots")
    if len(every) > 1:
        raise SpecError(
            f"model {quote(name)}: the Hugging Face cache has {len(every)} revisions, and none of "
            "them is main; give the directory of one revision"
        )
    return every[0] if every else None


def advice(name: str) -> str:
    """What to do if a model is not in the cache."""
    return (
        "not in the local Hugging Face cache; segre downloads nothing, so fetch it first with: "
        f"hf download {name}"
    )


def _repository(name: str) -> Path | None:
    """The directory of a model, ignoring the case of its name."""
    folder = f"models--{name.replace('/', '--')}"
    home = cache()
    if (home / folder).is_dir():
        return home / folder
    return next((one for one in _listed(home) if one.name.lower() == folder.lower()), None)


def _listed(folder: Path) -> list[Path]:
    """The subdirectories of a directory; empty if it cannot be read."""
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return []
