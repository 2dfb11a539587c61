"""What can be measured of a recorded pass, and what a finding is.

The measures are in `measures/`. A new one appears in the text, in JSON and in the report, because
all of them go through `MEASURES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from segre.fields.interface import Array
from segre.inspect.recorded import Recorded

Axis = Literal["depth", "layer", "head"]  # streams (layers + 1), layers, (layers, heads)


@dataclass(frozen=True)
class Finding:
    """One finding: what it is, where, how large, and what it means."""

    what: str  # a sentence
    means: str  # another
    size: float  # in the unit of the measure
    weight: float  # findings are ranked by it, the largest first
    typical: float | None = None  # the median, of the same quantity, in this model
    depth: int | None = None  # after so many layers: where it is most extreme
    start: int | None = None  # the first depth at which it is there, where it has a course
    layer: int | None = None  # from 1
    heads: tuple[tuple[int, int], ...] = ()  # (layer, head), from 1
    token: int | None = None  # from 0
    text: str = ""  # of the token
    channel: int | None = None  # from 0
    extreme: Literal["largest", "smallest", "none"] = "largest"  # what is odd about the measure
    control: float | None = None  # the most extreme of the measure with random weights
    measure: str = ""  # its key

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {**vars(self), "heads": [list(head) for head in self.heads]}


Find = Callable[[Any, Array], Iterator[Finding]]


@dataclass
class Measure:
    """A number for every depth, layer or head, and what stands out in it."""

    key: str
    title: str
    axis: Axis
    how: str  # how it is computed, in one sentence
    of: Callable[[Any], Array | None]  # of a recorded pass; None where a model has none
    least: int = 2  # tokens that it needs
    find: Find | None = None

    def __call__(self, recorded: Recorded) -> Array | None:
        """Its values, for one pass."""
        return self.of(recorded)

    def finds(self, find: Find) -> Find:
        """Let a function say what stands out."""
        self.find = find
        return find

    def findings(self, recorded: Recorded, values: Array) -> Iterator[Finding]:
        """What stands out in its values; extreme ones are compared with their median."""
        for one in () if self.find is None else self.find(recorded, values):
            typical = one.typical
            if typical is None and one.extreme != "none":
                typical = float(np.median(values))
            yield replace(one, measure=self.key, typical=typical)


def measure(
    key: str, title: str, axis: Axis, how: str = "", *, least: int = 2, of: str = ""
) -> Callable[[Callable[..., Array | None]], Measure]:
    """Make a function of a recorded pass a measure; its docstring says how unless `how` does.

    `of` names what the function takes of the pass, beside the pass; a model may not have it.
    """

    def made(function: Callable[..., Array | None]) -> Measure:
        def values(recorded: Recorded) -> Array | None:
            part = getattr(recorded, of)
            return None if part is None else function(recorded, part)

        said = how or function.__doc__ or ""
        return Measure(key, title, axis, said, values if of else function, least)

    return made


def listed(numbers: Sequence[int], most: int = 6) -> str:
    """Numbers in words, neighbours joined.

    >>> listed([1, 2, 3, 7, 9, 10])
    '1–3, 7, 9–10'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words = [str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs]
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")


def numbered(what: str, numbers: Sequence[int]) -> str:
    """Layers or depths, in order.

    >>> numbered("layer", [4]), numbered("depth", [3, 2, 7])
    ('layer 4', 'depths 2–3, 7')
    """
    return f"{what}{'s' * (len(numbers) > 1)} {listed(sorted(numbers))}"


def spoken(recorded: Recorded, token: int) -> str:
    """A token in words: its place, and its text where that is known."""
    word = recorded.word(token)
    return f"token {token} ({word!r})" if word else f"token {token}"
