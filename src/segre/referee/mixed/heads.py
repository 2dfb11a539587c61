"""What is known of a head before any weight is drawn? The properties of section H8."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

from segre.attention.mechanism import Mechanism
from segre.referee.transformers.tensors import Key


def tap(name: str, place: int) -> str:
    """The name of a tensor at a place of a kernel: W_K, W_K+1, W_K+2, ..."""
    return f"{name}+{place}" if place else name


@dataclass(frozen=True)
class Head:
    """One head; `part` is the number of its group in the stack, `number` its own in the group."""

    layer: int  # from 1
    part: int
    number: int
    mechanism: Mechanism
    a: int
    width_in: int
    width_out: int
    dv: int | None
    tokens: int

    # Its tensors.

    def key(self, name: str) -> Key:
        """The name of one of its matrices."""
        return self.part, name, self.number

    def taps(self, name: str) -> list[Key]:
        """The matrices of all places of its kernel: of W_K, W_V, c_K, c_V."""
        wide = self.mechanism.conv == "full" if name.startswith("W") else self.filtered
        return [self.key(tap(name, i)) for i in range(self.mechanism.kernel if wide else 1)]

    @property
    def keys(self) -> list[Key]:
        """K~: what makes keys before any filter."""
        bias = self.mechanism.bias in ("key", "both")
        return self.taps("W_K") + [self.key("b_K")] * bias

    @property
    def queries(self) -> list[Key]:
        """Q~: what makes queries."""
        bias = self.mechanism.bias in ("query", "both")
        return [self.key("W_Q")] + [self.key("b_Q")] * bias

    @property
    def values(self) -> list[Key]:
        """V~: what makes values before any filter."""
        return self.taps("W_V")

    def filters(self, letter: str) -> list[Key]:
        """The filters of keys (K) or values (V), if there are any."""
        return self.taps(f"c_{letter}") if self.filtered else []

    @property
    def gates(self) -> list[Key]:
        """The map of the gate, if there is one."""
        return [self.key("W_G")] if self.mechanism.gate != "none" else []

    @property
    def decays(self) -> list[Key]:
        """The decay, if it is learned."""
        return [self.key("decay")] if self.mechanism.decay == "learned" else []

    @property
    def last(self) -> list[Key]:
        """What writes the output: W_O, or V~ if there is none."""
        return self.values if self.dv is None else [self.key("W_O")]

    # Sizes.

    @property
    def inner(self) -> int:
        """v: the width of values when they are mixed."""
        return self.width_out if self.dv is None else self.dv

    @property
    def count(self) -> int:
        """m: how many keys there are."""
        return (self.tokens - self.mechanism.kernel) // self.mechanism.stride + 1

    @property
    def filtered(self) -> bool:
        """Whether there are filters c_K and c_V."""
        return self.mechanism.conv in ("depthwise", "shared")

    # What it does.

    @property
    def alone(self) -> bool:
        """Every token sees only itself."""
        one = self.mechanism
        lonely = self.tokens == 1 or one.window == 0 or one.local == 1
        return one.conv == "none" and lonely

    @property
    def silent(self) -> bool:
        """A single weight is 1 whatever the score is."""
        return self.mechanism.normalise != "none" and (self.alone or self.count == 1)

    @property
    def dead(self) -> bool:
        """It writes nothing."""
        return self.silent and self.mechanism.normalise == "centred"

    @property
    def masked(self) -> bool:
        """A query may not see all keys."""
        one = self.mechanism
        return one.causal or one.window is not None or one.local is not None

    @property
    def uniform(self) -> bool:
        """All weights are equal."""
        one = self.mechanism
        full = self.a == 1 and one.weigh == "identity" and one.normalise == "both"
        return full and not self.masked

    @property
    def stuck(self) -> bool:
        """Weights do not depend on keys and queries, at least locally."""
        unit = self.mechanism.unit
        signs = (unit == "layer" and self.a == 2) or (unit == "sphere" and self.a == 1)
        return self.silent or self.uniform or signs

    @property
    def bilinear(self) -> bool:
        """Weights are the scores."""
        one = self.mechanism
        return one.weigh == "identity" and one.feature == one.unit == one.normalise == "none"

    @property
    def rowwise(self) -> bool:
        """Rows of values are treated one by one."""
        return self.mechanism.gate == "element" or self.mechanism.conv == "depthwise"

    @property
    def homogeneous(self) -> bool:
        """A factor of queries is a factor of all weights before they are normalised."""
        one = self.mechanism
        plain = one.weigh == "identity" and one.unit == "none"
        return plain and one.feature in ("none", "square", "relu")

    @property
    def features(self) -> int | None:
        """F: a bound on the rank of the weights; None if there is none."""
        one, order = self.mechanism, self.mechanism.order
        if self.masked or one.normalise == "centred" or one.weigh == "exp":
            return None
        if one.weigh == "identity":
            return self.a
        if one.feature != "none":
            return None
        n = self.a - (one.unit == "layer")
        fewer = one.unit != "none" and order > 1
        return comb(n + order, order) - (comb(n + order - 2, n) if fewer else 0)

    def rank(self, before: int) -> int:
        """g: a bound on the rank of what it writes, if tokens before it have this rank."""
        one = self.mechanism
        if one.gate != "none":
            return self.tokens
        keys = self.count - (one.normalise == "centred")
        bounds = [self.inner, one.kernel * before, keys, self.features]
        return min(bound for bound in bounds if bound is not None)
