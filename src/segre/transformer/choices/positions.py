"""Positions: rotations of queries and keys, or a table that is learned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from segre.transformer.by_layer import Base, Bases, Rescales, every
from segre.transformer.choices.attention import Attention
from segre.transformer.rescale import Rescale, rescale

Position = Literal["none", "rope", "learned"]
Layout = Literal["half", "interleaved"]


@dataclass(frozen=True)
class Positions(Attention):
    """The choices of positions."""

    pos: Position = "none"
    base: Bases = 10_000  # rotary frequencies are base^(-2j/rotary); 0: a layer has none
    rotary: int = 0  # how many dimensions of a head turn; 0 is all of them
    layout: Layout = "half"
    rescale: Rescales = ""  # rescaled rotary frequencies; empty is none
    positions: int = 0  # rows of the table of learned positions; 0 is offset + t
    offset: int = 0  # rows of that table before that of the first token

    @property
    def standard(self) -> int:
        """The dimension of queries and keys: scores are divided by its root."""
        return self.head + (self.rotary if self.latent else 0)

    @property
    def turns_by_layer(self) -> bool:
        """Whether layers have different rotary frequencies."""
        return isinstance(self.base, tuple) or isinstance(self.rescale, tuple)

    @property
    def rotations(self) -> tuple[tuple[Base, str], ...]:
        """Base and rescaling of the rotary layers, each pair once."""
        if self.pos != "rope":
            return ()
        layers = self.layers if self.turns_by_layer else 1
        both = zip(every(self.base, layers), every(self.rescale, layers), strict=True)
        return tuple(dict.fromkeys((base, how) for base, how in both if base))

    @property
    def rescaling(self) -> Rescale | None:
        """The rescaling of rotary frequencies, if any; of the layer `at` if layers differ."""
        assert isinstance(self.rescale, str)
        return rescale(self.rescale) if self.rescale else None

    @property
    def rotary_dim(self) -> int:
        """Rotary dimensions of a head."""
        return self.rotary if self.pos == "rope" else 0

    @property
    def still(self) -> int:
        """Dimensions of a head that are not rotary."""
        return self.head if self.latent else self.head - self.rotary_dim

    @property
    def unused_positions(self) -> int:
        """Rows of the table of learned positions that no token has."""
        return self.positions - self.t if self.pos == "learned" else 0

    def sharpness(self, layer: int) -> Fraction:
        """The square of the factor of a layer's scores that the query weights do not include."""
        square = self.standard / self.scale if self.scale else Fraction(1)
        return square / layer**2 if self.bylayer else square

    def rules(self) -> Iterator[str]:
        """Which choices contradict each other, one line each."""
        yield from super().rules()
        yield from self._rotary() if self.pos == "rope" else self._not_rotary()
        if self.pos == "learned":
            first = f" after the first {self.offset}" if self.offset else ""
            if self.positions < self.offset + self.t:
                yield f"positions: {self.positions} is less than t={self.t}{first}"
            if self.by_mechanism:
                yield "pos=learned cannot be combined with attn by layer"
            return
        for key in ("offset", "positions"):
            if getattr(self, key):
                yield f"{key} needs pos=learned"

    def _not_rotary(self) -> Iterator[str]:
        for key in ("rescale", "rotary"):
            if getattr(self, key):
                yield f"{key} needs pos=rope"
        if isinstance(self.base, tuple):
            yield "base by layer needs pos=rope"

    def _rotary(self) -> Iterator[str]:
        if self.rotary % 2 or self.rotary < 2:
            yield f"rotary: {self.rotary} is not allowed; allowed: even numbers from 2"
        if not self.latent and self.rotary > self.head:
            yield f"rotary: {self.rotary} is more than head={self.head}; allowed: at most head"
        if not self.rotations:
            yield "base: 0 in all layers means no rotary positions; write pos=none"
        for base, how in self.rotations:
            yield from self._rotation(base, how)
        still = isinstance(self.base, tuple) and 0 in self.base
        if still and self.latent:
            yield "base: 0 in some layers cannot be combined with latent attention (kvrank)"
        if self.share and self.turns_by_layer:
            yield "base and rescale by layer cannot be combined with share=true"
        if not self.by_mechanism:
            for key in ("feature", "decay"):
                needs = f"{key} needs attn=lightning, and not pos=rope"
                if getattr(self, key) != "none":
                    yield needs
        if self.qknorm and not self.gain:
            grows = next((how for _, how in self.rotations if how and rescale(how).grows), "")
            needs = f"rescale={grows} needs gain=true where queries and keys have norms (qknorm)"
            if grows:
                yield needs

    def _rotation(self, base: Base, how: str) -> Iterator[str]:
        if base < 2:
            yield f"base: {base} is not allowed; allowed: numbers from 2"
        if how.startswith("dynamic") and self.rotary < 4:
            yield "rescale=dynamic needs rotary=4 or more"
        if how.startswith("longrope"):
            count, planes = len(rescale(how).short), self.rotary // 2
            if count != planes:
                allowed = f"allowed: one for each rotary plane, {planes}"
                yield f"rescale=longrope: {count} numbers; {allowed}"
