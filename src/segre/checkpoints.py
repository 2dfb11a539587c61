"""Checkpoints: what they contain, their normal form, and whether two are the same.

Each function corresponds to one command of `segre model`, on model directories or models in
memory; `apply` writes weights into a model in place. `demo` writes three small trained models to
try everything on, and `example` one with random weights.

>>> import segre
>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     model = segre.checkpoints.example(f"{folder}/model")
...     moved = segre.checkpoints.move(model, f"{folder}/moved", seed=1)
...     found = segre.checkpoints.same(model, moved.directory)
>>> moved.agrees, found.verdict, found.status
(True, 'same function', 'measured')
"""

from __future__ import annotations

from segre.checkpoint.barrier import Barriers, barrier
from segre.checkpoint.commands import (
    Written,
    align,
    apply,
    canonical,
    check,
    convert,
    expand,
    info,
    move,
    same,
    shrink,
)
from segre.checkpoint.comparison import Check, Comparison
from segre.checkpoint.content_hash import ContentHash, content_hash
from segre.checkpoint.demo import Demo, demo
from segre.checkpoint.example import example
from segre.checkpoint.info import Info
from segre.checkpoint.lineage import Lineage, lineage
from segre.checkpoint.merge import Merged, merge

__all__ = [
    "Barriers",
    "Check",
    "Comparison",
    "ContentHash",
    "Demo",
    "Info",
    "Lineage",
    "Merged",
    "Written",
    "align",
    "apply",
    "barrier",
    "canonical",
    "check",
    "content_hash",
    "convert",
    "demo",
    "example",
    "expand",
    "info",
    "lineage",
    "merge",
    "move",
    "same",
    "shrink",
]


def __dir__() -> list[str]:
    return __all__
