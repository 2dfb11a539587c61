"""The residual stream: its width, how many layers add to it, and how."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from segre.spec import DEEPEST
from segre.values import show, whole

Bias = Literal["none", "qkv", "attn", "mlp", "norm", "mlp-norm", "all"]


@dataclass(frozen=True)
class Stream:
    """The choices of the stream. Each group of choices extends the one before it.

    A group ends with its `rules`. They yield an error, in one line, for each that is broken; the
    first one is raised.
    """

    d: int  # width of the residual stream
    layers: int = 1
    bias: Bias = "none"
    residual: bool = True
    skip: Fraction = Fraction(1)  # what the stream is multiplied by where something is added
    parallel: bool = False  # attention and MLP of a layer read the same stream, and both add to it
    share: bool = False  # all layers have the same weights
    t: int = 3

    @property
    def depth(self) -> int:
        """Number of layers."""
        return self.layers

    @property
    def width(self) -> int:
        """Width of the residual stream."""
        return self.d

    @property
    def widths(self) -> tuple[int, ...]:
        """The width of the stream before the first layer and after each."""
        return (self.d,) * (self.layers + 1)

    def rules(self) -> Iterator[str]:
        """Which choices contradict each other, one line each."""
        for key in ("d", "layers", "t"):
            whole(key, getattr(self, key), DEEPEST if key == "layers" else 10**9)
        if not self.skip:
            yield "skip: 0 is not allowed; allowed: numbers above 0, or residual=false"
        if self.parallel:
            wrong = {"residual": not self.residual, "share": self.share}
            yield from self.excludes("parallel=true", wrong)

    def excludes(self, choice: str, wrong: Mapping[str, object]) -> Iterator[str]:
        """Keys whose values, where they are wrong, cannot be combined with a choice."""
        for key, broken in wrong.items():
            if broken:
                yield f"{key}={show(getattr(self, key))} cannot be combined with {choice}"
