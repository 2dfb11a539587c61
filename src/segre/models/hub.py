"""Where is a model of the Hugging Face hub on this machine? Only the local cache is searched.

The cache has a directory models--ORG--NAME for ORG/NAME, in it `refs/main` with a revision, and
`snapshots/REVISION` with the files. Nothing is ever downloaded.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from segre.errors import SpecError
from segre.values import quote

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}(/[A-Za-z0-9_][A-Za-z0-9_.-]{0,95})?", re.ASCII)
_REVISION = re.compile(r"[A-Za-z0-9_.-]{1,100}", re.ASCII)


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
