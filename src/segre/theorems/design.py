"""Which design choices does a theorem about transformers cover? Everything else is refused.

A theorem lists the keys of a spec that may differ from their defaults, with the values that it
covers. Every other key must have its default, so that a design choice added to segre later is
covered by no theorem until somebody proves it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from segre.theorems.theorem import Hypothesis
from segre.transformer.choices import DEFAULTS, KEYS
from segre.transformer.spec import Transformer
from segre.values import show

ANY: tuple[Any, ...] = ()  # every value is covered
GATED = ("swiglu", "geglu", "geglu-tanh")
PLAIN = ("silu", "gelu", "gelu-tanh")
# Sizes, how the dimensions of a head are ordered, and factors of scores, which weights absorb.
SIZES = ("d", "layers", "heads", "kv", "head", "dv", "ff", "t", "layout", "scale", "bylayer")
ROPE: dict[str, tuple[Any, ...]] = {
    "pos": ("rope",),
    "rotary": ANY,
    "base": ANY,
    "rescale": ANY,
}
LEARNED: dict[str, tuple[Any, ...]] = {"pos": ("learned",), "positions": ANY}
# Rescaled rotary frequencies that stay distinct, and of which one is algebraic.
RESCALED = ("linear", "llama3")


@dataclass(frozen=True)
class Design:
    """The values of the keys that a theorem covers; other keys have their defaults."""

    allowed: Mapping[str, tuple[Any, ...]]

    def misfits(self, spec: Transformer) -> tuple[str, ...]:
        """The choices of a spec that are not covered, as written in specs."""
        out = []
        for key in KEYS:
            value = getattr(spec, key)
            if key in SIZES or self._covered(key, value):
                continue
            out.append(f"{key}={_shown(value)}")
        return tuple(out)

    def _covered(self, key: str, value: Any) -> bool:
        if key == "rescale" and value:
            return self.allowed.get(key) is ANY and str(value).partition(":")[0] in RESCALED
        if key == "base" and isinstance(value, tuple):
            return False
        if key in self.allowed:
            values = self.allowed[key]
            return values is ANY or value in values
        return bool(value == DEFAULTS[key])


def _shown(value: Any) -> str:
    return ",".join(map(show, value)) if isinstance(value, tuple) else show(value)


def full_rotation(spec: Transformer) -> list[Hypothesis]:
    """All dimensions of a head are rotary, with distinct angles of which one is algebraic."""
    out = [Hypothesis(".rope", "all a dimensions turn", spec.rotary, ">=", spec.head)]
    if spec.rescaling is not None and spec.rescaling.kind == "llama3":
        # the first plane keeps its angle, 1 a token: length / (2 pi) > high, and 2 pi < 7
        length, high = spec.rescaling.length, spec.rescaling.high
        left = length.numerator * high.denominator
        right = 7 * high.numerator * length.denominator
        says = "the first plane is not slowed down: length >= 7 high"
        out.append(Hypothesis(".angle", says, left, ">=", right))
    return out


def shortest_window(spec: Transformer) -> int:
    """t': the number of tokens that a token sees in every layer."""
    return min(spec.sees(layer) for layer in range(1, spec.layers + 1))


def positive_eps(spec: Transformer) -> Hypothesis:
    """The norms have a constant under their root."""
    return Hypothesis(".eps", "eps > 0 (its numerator)", spec.eps.numerator, ">=", 1)
