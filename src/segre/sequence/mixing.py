"""How do queries and keys become mixing weights? As data, with what follows for cost.

Entry (i, j) of a pattern is what query i takes of value j, and j is among the keys that i sees:

    f(q_i . k_j) decay^(i - j),   f(s) = s, exp(s) or 1 + s + ... + s^p / p!

Then a row may be divided by its sum (`share="keys"`), after every column was
(`share="queries-keys"`), or have 1/n taken off afterwards (`share="keys-centred"`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Literal, get_args

from segre.errors import SpecError
from segre.values import choice, whole

Weigh = Literal["identity", "exp", "taylor"]
Share = Literal["none", "keys", "queries-keys", "keys-centred"]
HIGHEST_ORDER = 8


@dataclass(frozen=True)
class Mixing:
    """One head's map from scores to mixing weights; `decay` may be one number for each head.

    >>> Mixing("taylor", order=2, share="keys").features(64)
    2145
    >>> Mixing("exp", share="keys").features(64) is None
    True
    """

    weigh: Weigh = "exp"
    order: int = 0  # of taylor
    share: Share = "keys"
    causal: bool = False
    decay: float | tuple[float, ...] = 1.0
    window: int | None = None  # keys at most so far away
    local: int | None = None  # only keys in the same block of so many tokens

    def __post_init__(self) -> None:
        choice("weigh", self.weigh, get_args(Weigh))
        choice("share", self.share, get_args(Share))
        if self.weigh == "taylor":
            whole("order", self.order, HIGHEST_ORDER)
        if self.window is not None:
            whole("window", self.window, smallest=0)
        if self.local is not None:
            whole("local", self.local)
        for one in self.decays:
            if isinstance(one, bool) or not isinstance(one, int | float) or not 0 < one <= 1:
                raise SpecError(f"decay: {one}; allowed: 0 < decay <= 1")
        if self.decays != (1.0,) and not self.causal:
            raise SpecError("decay needs causal attention; leave it out, or make it causal")
        if self.share == "keys-centred" and self.restricted:
            raise SpecError(
                "share=keys-centred takes 1/n off every weight, so every query must see every key; "
                "leave out causal, window and local, or share keys"
            )

    @property
    def decays(self) -> tuple[float, ...]:
        """One decay for all heads, or one for each."""
        return self.decay if isinstance(self.decay, tuple) else (self.decay,)

    @property
    def banded(self) -> bool:
        """Whether a query sees only keys near it."""
        return self.window is not None or self.local is not None

    @property
    def restricted(self) -> bool:
        """Whether some query does not see some key."""
        return self.causal or self.banded

    @property
    def factors(self) -> bool:
        """Whether weights are inner products of features, but for a division by their row sums."""
        return self.weigh != "exp" and self.share in {"none", "keys"} and not self.banded

    def features(self, a: int) -> int | None:
        """The size of that feature map on queries of width a, or None if there is none."""
        if not self.factors:
            return None
        return a if self.weigh == "identity" else comb(a + self.order, self.order)

    @property
    def shared(self) -> bool:
        """Whether rows are divided by their sums."""
        return self.share != "none"
