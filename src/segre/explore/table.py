"""What does the static page know? Answers for the designs of a grid, computed when it is written.

The page looks a design up and shows segre's own answer. It does not interpolate: a design that is
not in the table gets no number.
"""

from __future__ import annotations

import base64
import gzip
from functools import cache
from typing import Any

from segre.explore.designs import FIRST, STACK, family_of, presets
from segre.explore.grid import as_written, designs_around, key_of
from segre.explore.known import by_formulas
from segre.explore.stack_controls import FIRST_STACK
from segre.geometry.progress import Progress, quiet
from segre.json_data import strict_json


def table(first: str, progress: Progress = quiet) -> dict[str, dict[str, Any]]:
    """The answers for all designs of the page that begins with this one, by `key_of`.

    What each choice costs takes most of the time, and is there for presets and first designs.
    """
    named = presets()
    bases = [named[FIRST], named[FIRST_STACK]]
    bases[family_of(first) == STACK] = as_written(first)
    designs = designs_around(bases, [as_written(text) for text in named.values()])
    complete = {*bases, *map(as_written, named.values())}
    found = {}
    for done, text in enumerate(designs):
        progress("designs", done, len(designs))
        found[key_of(text)] = by_formulas(text, undo=text in complete)
    return found


@cache
def packed_table(first: str, progress: Progress = quiet) -> tuple[str, int]:
    """The table as the page carries it, compressed and in letters; and how many designs it has."""
    found = table(first, progress)
    data = strict_json(found).encode("utf-8")
    return base64.b64encode(gzip.compress(data, mtime=0)).decode("ascii"), len(found)
