"""Rank and depth: do tokens become alike, which paths carry the output, how many paths are there?

>>> import segre
>>> found = segre.collapse.measure("softmax/d=16,16,16,16,16,16,16/a=8/heads=2/t=6", inputs=2)
>>> found.advice[0].split(":")[0]
'Collapses without skips'
>>> segre.collapse.decompose("softmax/d=8,8,8/a=4/heads=2/t=6").sums.counts
(0, 0, 4)
>>> segre.collapse("softmax/d=4,4,4/a=2/t=3", inputs=2).status
'measured'
>>> len(segre.collapse.count_paths("gpt2").value)
13
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from segre.collapse.commands import (
        Depth,
        Paths,
        PathShares,
        count_paths,
        decompose,
        measure,
    )

__all__ = ["Depth", "PathShares", "Paths", "count_paths", "decompose", "measure"]


class _Callable(ModuleType):
    """The module itself measures a model, as the command `segre model collapse` does."""

    def __call__(self, *given: Any, **options: Any) -> Depth:
        from segre.collapse.commands import measure

        return measure(*given, **options)


sys.modules[__name__].__class__ = _Callable


def __getattr__(name: str) -> Any:
    if name in __all__:
        from segre.collapse import commands

        return getattr(commands, name)
    raise AttributeError(f"module 'segre.collapse' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
