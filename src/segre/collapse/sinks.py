"""Is one token so much larger than the others that it decides a curve?

Trained models send attention that is not needed to one token, mostly the first, which then has many
times the norm of the others. The residual of all tokens is that of this token then, and says little
of the rest: it is measured without the token, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from segre.checkpoint.inputs import Inputs, token_name
from segre.checkpoint.model import Model
from segre.fields.interface import Array

DOMINANT = 10.0  # times the median norm of the tokens
MEASURES = ("factor", "position", "without")


@dataclass(frozen=True)
class Sink:
    """The token of largest norm, where one dominates."""

    position: int  # counted from 0
    inputs: int  # in how many of them it is this one
    of: int  # how many inputs there are
    factor: float  # its norm over the median norm of tokens, mean over inputs, where it is largest
    layer: int  # and after which layer that is
    text: str | None = None  # what it says, if a tokenizer knows and it is the same in all inputs

    @property
    def name(self) -> str:
        """What to call it.

        >>> Sink(0, 8, 8, 165.2, 12, "<s>").name, Sink(3, 5, 8, 11.0, 2).name
        ('token 0 ("<s>")', 'token 3 (in 5 of 8 inputs)')
        """
        some = "" if self.inputs == self.of else f" (in {self.inputs} of {self.of} inputs)"
        said = "" if self.text is None else f' ("{self.text}")'
        return f"token {self.position}{said}{some}"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)


def sink_of(
    values: Mapping[str, Array], model: Model, inputs: Inputs, lost: int | None = None
) -> Sink | None:
    """The token that dominates, from its measures (layers + 1, inputs); None if there is none.

    From layer `lost` on numbers mean nothing.
    """
    factor = np.where(np.isfinite(values["factor"]), values["factor"], 0).mean(axis=-1)
    factor[len(factor) if lost is None else lost :] = 0
    layer = int(factor.argmax())
    if factor[layer] < DOMINANT:
        return None
    positions = Counter(values["position"][layer].astype(int).tolist())
    position, count = positions.most_common(1)[0]
    text = token_name(model, inputs, position)
    return Sink(position, count, inputs.count, float(factor[layer]), layer, text)


def without_largest(
    X: Array, size: Array, relative: Array, measure: Callable[[Array], Array]
) -> dict[str, Array]:
    """Of streams X (inputs, tokens, width), norms of tokens `size`: which is largest, by how much.

    `without` is the measure of the stream without its largest token where that dominates, and
    elsewhere the relative residual as it is.
    """
    position = size.argmax(axis=1)
    middle = np.sort(size, axis=1)[:, (size.shape[1] - 1) // 2]
    factor = size.max(axis=1) / np.where(middle != 0, middle, 1)
    without = np.array(relative)
    for i in np.flatnonzero(factor >= DOMINANT):
        without[i] = measure(np.delete(X[i], position[i], axis=0)[None])[0]
    return {"factor": factor, "position": position, "without": without}
