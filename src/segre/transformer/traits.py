"""What does one layer see of a spec whose layers differ?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

from segre.attention.mechanism import Mechanism
from segre.slope import Slope
from segre.transformer.by_layer import every
from segre.transformer.choices import Choices

# Where mechanisms differ: what layers of the other mechanism have not.
_OF_LIGHTNING: dict[str, Any] = {
    **{"gate": "none", "feature": "none", "decay": "none"},
    **{"mixnorm": False, "mixeps": Fraction(0)},
}
_OF_SOFTMAX: dict[str, Any] = {
    **{"pos": "none", "rotary": 0, "base": Choices.base, "rescale": "", "window": ()},
    **{"scale": Fraction(0), "bylayer": False},
}


@dataclass(frozen=True)
class Traits(Choices):
    """The choices, layer by layer, and what every architecture says of itself."""

    head_axes: ClassVar[int] = 2
    salted: ClassVar[bool] = True
    residuals_in_balls: ClassVar[bool] = False
    salts_searched: ClassVar[bool] = True
    has_closed_form: ClassVar[bool] = False
    counted: ClassVar[bool] = True

    def at(self, part: int | str) -> Self:
        """The same spec with the attention of one layer, counted from 1, in all layers."""
        if part in ("embed", "head") or not (self.by_mechanism or self.turns_by_layer):
            return self
        found = self._by_layer.get(int(part))
        if found is None:
            found = self._by_layer[int(part)] = self._at(int(part))
        return found

    @cached_property
    def _by_layer(self) -> dict[int, Self]:
        """What `at` has answered so far."""
        return {}

    def _at(self, layer: int) -> Self:
        if isinstance(self.attn, tuple):
            own = every(self.attn, self.layers)[layer - 1]
            rest = _OF_LIGHTNING if own == "softmax" else {**_OF_SOFTMAX, "kv": self.heads}
            return replace(self, attn=own, **rest).at(layer)
        base = every(self.base, self.layers)[layer - 1]
        if base:
            return replace(self, base=base, rescale=every(self.rescale, self.layers)[layer - 1])
        return replace(self, pos="none", rotary=0, base=Choices.base, rescale="")

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """All mechanisms, each once, in the order of the layers."""
        layers = range(1, self.layers + 1) if self.by_mechanism else (1,)
        return tuple(dict.fromkeys(self.at(i).mechanism for i in layers))

    def slopes(self, layer: int) -> tuple[Slope, ...]:
        """The decay of every head of a layer, counted from 1; empty without decay."""
        if self.at(layer).decay == "none":
            return ()
        heads = range(1, self.heads + 1)
        return tuple(Slope.in_layer(h, self.heads, layer, self.layers) for h in heads)
