"""Rank and depth: do tokens become alike, which paths carry the output, how many paths are there?

>>> import segre
>>> found = segre.collapse.measure("softmax/d=16,16,16,16,16,16,16/a=8/heads=2/t=6", inputs=2)
>>> found.advice[0].split(":")[0]
'Collapses without skips'
>>> segre.collapse.decompose("softmax/d=8,8,8/a=4/heads=2/t=6").sums.counts
(0, 0, 4)
>>> len(segre.collapse.count_paths("gpt2").value)
13
"""

from __future__ import annotations

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


def __getattr__(name: str) -> Any:
    if name in __all__:
        from segre.collapse import commands

        return getattr(commands, name)
    raise AttributeError(f"module 'segre.collapse' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
