"""Norms: which kind, where they stand, and what they multiply and add."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from segre.transformer.choices.stream import Stream

NormKind = Literal["none", "rms", "layer"]
Place = Literal["pre", "post", "sandwich", "after"]


@dataclass(frozen=True)
class Norms(Stream):
    """The choices of the norms on the stream."""

    norm: NormKind = "none"
    place: Place = "pre"
    gain: bool = True  # norms have gains (and, with bias=all, LayerNorms have biases)
    eps: Fraction = Fraction(0)
    final: bool = False  # a norm after the last layer

    @property
    def normed_before(self) -> bool:
        """Whether attention and MLPs read the stream through norms."""
        return self.norm != "none" and self.place in ("pre", "sandwich")

    @property
    def normed_inside(self) -> bool:
        """Whether their outputs pass a norm before they are added to the stream."""
        return self.norm != "none" and self.place in ("sandwich", "after")

    @property
    def normed_at_end(self) -> bool:
        """Whether the last hidden states come from a norm."""
        return self.final or self.place == "post"

    @property
    def norm_bias(self) -> bool:
        """Whether norms have biases: only LayerNorms."""
        biased = self.bias in ("norm", "mlp-norm", "all")
        return self.norm == "layer" and self.gain and biased

    @property
    def nearly_signs(self) -> bool:
        """Whether norms give little more than signs: units see few values, and seldom switch."""
        return self.norm == "layer" and self.d == 2

    def rules(self) -> Iterator[str]:
        """Which choices contradict each other, one line each."""
        yield from super().rules()
        possible = self.norm_bias and self.place in ("pre", "post")
        if self.bias in ("norm", "mlp-norm") and not possible:
            yield f"bias={self.bias} needs norm=layer, gain=true, and place=pre or post"
        if self.place == "post" and self.final:
            yield (
                "final=true cannot be combined with place=post: the last layer already ends with a "
                "norm"
            )
        if self.place == "after" and self.norm == "layer":
            yield "place=after needs norm=rms"
        if self.place != "pre":
            if not self.residual:
                yield f"place={self.place} needs residual=true"
            yield from self.excludes(f"place={self.place}", {"parallel": self.parallel})
        if self.skip != 1 and (self.norm != "rms" or self.place != "post" or self.bias != "none"):
            yield "skip needs norm=rms, place=post, bias=none and project=false"
