"""Three small models to try commands on: a base model, a fine-tune, and the fine-tune moved.

The base model is a Llama with 16,248 parameters that has learned a small artificial language. The
fine-tune has learned a dialect of it, through an update of rank 2 in the last layer. The third is
the fine-tune with different weights but the same function. scripts/train_demo.py trained the first
two; the package ships the base model and the factors of the update.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from segre.checkpoint.commands import move, same
from segre.checkpoint.folder import new_directory
from segre.errors import SegreError
from segre.files import save_tensors, shown
from segre.shown import Shown

_SHIPPED = Path(__file__).parent
_BASE, _TUNED, _MOVED = NAMES = ("base", "fine-tune", "moved")
TEXT = "dialect.txt"


@dataclass(frozen=True)
class Demo(Shown):
    """The places of the models."""

    directory: Path
    written: bool = True  # False: they were there already

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "directory": shown(self.directory),
            "models": list(NAMES),
            "text": TEXT,
            "written": self.written,
        }


def demo(directory: str | Path = "segre-demo") -> Demo:
    """Write the three models and a text of the dialect into a new directory.

    A directory that already holds them is left as it is.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.checkpoint.commands import same
    >>> with TemporaryDirectory() as folder:
    ...     made = demo(f"{folder}/demo").directory
    ...     [same(made / "fine-tune", made / other).verdict for other in ("moved", "base")]
    ['same function', 'different']
    """
    base = load_file(_SHIPPED / "base.safetensors")
    factors = load_file(_SHIPPED / "update.safetensors")
    updated = {name.removesuffix(".up") for name in factors if name.endswith(".up")}
    update = {name: factors[f"{name}.up"] @ factors[f"{name}.down"] for name in updated}
    tuned = {name: value + update.get(name, np.float32(0)) for name, value in base.items()}
    if _is_there(Path(directory), {_BASE: base, _TUNED: tuned}):
        return Demo(Path(directory), written=False)
    with new_directory(directory) as folder:
        for name, weights in ((_BASE, base), (_TUNED, tuned)):
            own = folder / name
            own.mkdir()
            save_tensors(weights, own / "model.safetensors", {"format": "pt"})
            for file in ("config.json", "tokenizer.json"):
                shutil.copyfile(_SHIPPED / file, own / file)
        move(folder / _TUNED, folder / _MOVED, report=False)
        shutil.copyfile(_SHIPPED / TEXT, folder / TEXT)
    return Demo(Path(directory))


def _is_there(folder: Path, wanted: dict[str, dict[str, Any]]) -> bool:
    """Whether a directory holds the models as they were written."""
    try:
        for name, weights in wanted.items():
            held = load_file(folder / name / "model.safetensors")
            if held.keys() != weights.keys():
                return False
            if not all(np.array_equal(held[key], value) for key, value in weights.items()):
                return False
        unchanged = (folder / TEXT).read_bytes() == (_SHIPPED / TEXT).read_bytes()
        return unchanged and same(folder / _TUNED, folder / _MOVED).same
    except (OSError, SafetensorError, SegreError):
        return False
