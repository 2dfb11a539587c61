"""What is an attention mechanism? How keys and queries become mixing weights, as data.

A mechanism holds no code: it lists the steps, and its properties follow from them. Other modules
ask for these properties and never compare names. Tests check on random scores that every claimed
property holds and every other one fails.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import comb
from typing import Any, Literal, get_args

from segre.errors import SpecError
from segre.slope import Slope

Feature = Literal["none", "square", "exp", "relu", "elu1", "silu"]
Unit = Literal["none", "sphere", "layer"]
Weigh = Literal["identity", "exp", "taylor"]
Normalise = Literal["none", "keys", "both", "centred"]
Conv = Literal["none", "full", "depthwise", "shared"]
Gate = Literal["none", "head", "element"]
Biases = Literal["none", "key", "query", "both"]
Decay = Fraction | Slope | Literal["none", "learned"]

HIGHEST_ORDER = 8
STEPS: dict[str, Any] = {
    "weigh": Weigh,
    "normalise": Normalise,
    "feature": Feature,
    "unit": Unit,
    "conv": Conv,
    "gate": Gate,
    "bias": Biases,
}


@dataclass(frozen=True)
class Weighing:
    """What is true of a way to weigh scores. What is not claimed is taken to be false."""

    exponential: bool = False  # weights are exp(score)
    polynomial: bool = False  # weights are a polynomial in the score
    power: int = 0  # weights of c times a score are c^power times the weights; 0 if they are not
    series: bool = False  # the Taylor polynomial of exp, of the mechanism's order
    operations: int = 1  # on one score
    formula: bool = False  # geometry/stack_formula.py has been compared with exact ranks


WEIGHINGS: dict[str, Weighing] = {
    "identity": Weighing(polynomial=True, power=1, operations=0, formula=True),
    "exp": Weighing(exponential=True, formula=True),
    "taylor": Weighing(polynomial=True, series=True, operations=3, formula=True),
}


def require_known(one: Mechanism) -> None:
    """Refuse a value of a step that its type does not name; the readers of specs never give one."""
    for key, kind in STEPS.items():
        if getattr(one, key) not in get_args(kind):
            allowed = ", ".join(get_args(kind))
            raise SpecError(f"{key}: {getattr(one, key)} is not allowed; allowed: {allowed}")


@dataclass(frozen=True)
class Mechanism:
    """Keys and queries of one head become a matrix (row = key, column = query) that mixes tokens.

    Queries and keys are normalised (`unit`) and pass a feature map (`feature`), entry by entry.
    Their products are the scores. Scores are weighed (`weigh`), multiplied by decay^(query - key),
    restricted to the keys that a query sees (`causal`, `window`, `local`), and normalised. Keys and
    values may first be compressed along the sequence (`conv`, `kernel`, `stride`). After mixing
    there may be a gate, sigmoid(W_G x), one for the head or one for every element.

    >>> Mechanism().name, Mechanism(weigh="identity", normalise="none").name
    ('softmax', 'lightning')
    >>> Mechanism(window=2, gate="element").text
    'softmax:window=2:gate=element'
    """

    weigh: Weigh = "exp"
    order: int = 0  # of the Taylor polynomial of exp
    normalise: Normalise = "keys"  # over keys; first over queries and then over keys; less 1/t
    feature: Feature = "none"
    unit: Unit = "none"  # queries and keys over their lengths, or standardised as by a LayerNorm
    bias: Biases = "none"
    causal: bool = False
    decay: Decay = "none"
    window: int | None = None  # |query - key| <= window
    local: int | None = None  # query and key are in the same block of so many tokens
    conv: Conv = "none"
    kernel: int = 1
    stride: int = 1
    gate: Gate = "none"

    def __post_init__(self) -> None:
        require_known(self)
        for key, wrong, allowed in (
            (
                "order",
                (self.weigh == "taylor") != (1 <= self.order <= HIGHEST_ORDER),
                f"1 to {HIGHEST_ORDER} for fast, none for others",
            ),
            ("causal", self.decay != "none" and not self.causal, "true, if there is a decay"),
            (
                "normalise",
                self.normalise == "centred" and self.masked,
                "none, keys, both with a mask (1/t is subtracted from the weights of all keys)",
            ),
            (
                "conv",
                self.conv != "none" and self.masked,
                "none with causal, decay, window or local (a compressed key has no position)",
            ),
            (
                "kernel",
                self.conv == "none" and (self.kernel > 1 or self.stride > 1),
                "1, and stride 1, without conv=full, depthwise or shared",
            ),
            ("window", self.window is not None and self.window < 0, "whole numbers from 0"),
            ("local", self.local is not None and self.local < 1, "whole numbers from 1"),
            (
                "decay",
                isinstance(self.decay, Fraction) and not 0 < self.decay <= 1,
                "0 < decay <= 1, learned, or slopes",
            ),
        ):
            if wrong:
                value = getattr(self, key)
                shown = "none" if value is None or value == 0 else str(value).lower()
                raise SpecError(f"{key}: {shown} is not allowed; allowed: {allowed}")

    @property
    def name(self) -> str:
        """The name of the mechanism of which this is a variant."""
        return base_of(self)[0]

    @property
    def text(self) -> str:
        """Its text in specs: the name, and the options that differ from the named mechanism."""
        name, differs = base_of(self)
        parts = []
        for key in differs:
            value = getattr(self, key)
            if key == "causal":
                parts += [key] if self.decay == "none" else []
            else:
                parts.append(f"{key}={'none' if value is None else value}")
        return ":".join([name, *parts])

    @property
    def plain(self) -> bool:
        """Whether it is plain softmax or plain lightning attention, without options."""
        return self in (SOFTMAX, LIGHTNING)

    def require_sizes(self, a: int, t: int) -> None:
        """Refuse options that heads of rank a cannot have on t tokens."""
        for key, wrong, allowed in (
            ("kernel", self.kernel > t, f"1 to {t}, the number of tokens"),
            ("stride", self.stride > t, f"1 to {t}, the number of tokens"),
            ("unit", self.unit == "layer" and a == 1, "none, sphere if a=1"),
        ):
            if wrong:
                value = getattr(self, key)
                raise SpecError(f"{self.text}: {key}={value} is not allowed; allowed: {allowed}")

    # What the weights of a query look like.

    @cached_property
    def weighing(self) -> Weighing:
        """What is true of how it weighs scores."""
        return WEIGHINGS.get(self.weigh, Weighing())

    @property
    def linear(self) -> bool:
        """Whether the weights are the products of keys and queries, before they are normalised."""
        return self.weigh == "identity"

    @property
    def exponential(self) -> bool:
        """Whether the weights are exponentials of the scores, before they are normalised."""
        return self.weighing.exponential

    @property
    def series(self) -> bool:
        """Whether the weights are a Taylor polynomial of the scores: sums over monomials."""
        return self.weighing.series

    @property
    def by_features(self) -> bool:
        """Whether the weights are inner products of known features of keys and queries."""
        return self.linear or self.series

    @property
    def operations(self) -> int:
        """How many operations make a weight of a score."""
        return self.weighing.operations * max(1, self.order)

    @property
    def splits(self) -> bool:
        """Whether weights are a factor of the query times one of the key, if these are numbers."""
        return self.power > 0

    @property
    def power(self) -> int:
        """The weights of c times all scores are c^power times the weights; 0 if they are not."""
        return self.weighing.power

    @property
    def bilinear(self) -> bool:
        """Whether the weights are the scores themselves, keys^T queries, up to a mask."""
        return self.linear and self.feature == self.unit == self.normalise == "none"

    @property
    def sums_to_one(self) -> bool:
        """Whether the weights of every query sum to one."""
        return self.normalise in ("keys", "both")

    @property
    def non_negative(self) -> bool:
        """Whether weights are never negative."""
        if self.normalise == "centred":
            return False
        if self.linear:
            return self.feature in ("square", "exp", "relu", "elu1")
        bounded = self.unit == "sphere" and self.feature == "none"  # scores are at least -1
        even = self.series and (self.order % 2 == 0 or bounded)
        return self.exponential or even

    @property
    def key_floor(self) -> bool:
        """Whether the weights of every key, over all queries, sum to at least 1/t."""
        return self.normalise == "both" and self.non_negative

    @property
    def ignores_shifts(self) -> bool:
        """Whether adding one number to all scores of a query changes nothing."""
        return self.exponential and self.normalise in ("keys", "centred")

    @property
    def ignores_key_shifts(self) -> bool:
        """Whether adding one number to all scores of a key changes nothing."""
        return self.exponential and self.normalise == "both"

    @property
    def softmax(self) -> bool:
        """Whether weights are exponentials over their sum, by queries or doubly."""
        return self.ignores_shifts or self.ignores_key_shifts

    @property
    def polynomial(self) -> bool:
        """Whether the weights are a polynomial in the scores before they are normalised."""
        return self.weighing.polynomial

    @property
    def homogeneous(self) -> bool:
        """Whether a factor of queries is a factor of the weights before they are normalised."""
        return self.splits and self.feature in ("none", "square", "relu")

    @property
    def sums_of_exponentials(self) -> bool:
        """Whether weights are sums of exp(key) exp(query), before they are normalised."""
        return self.linear and self.feature == "exp" and self.unit == "none"

    @property
    def scales(self) -> bool:
        """Whether a factor of the scores is a factor of the pattern, which values can undo."""
        return self.homogeneous and self.unit == "none" and self.normalise == "none"

    @property
    def closed_form(self) -> bool:
        """Whether the dimension of one-head stacks is known by a formula."""
        return self.plain

    @property
    def rowwise(self) -> bool:
        """Whether the rows of a value map are told apart before they are written or added."""
        return self.gate == "element" or self.conv == "depthwise"

    # What its numbers are.

    @property
    def exponentials(self) -> bool:
        """Whether there are exponentials, not only rational functions and roots."""
        features = self.feature in ("exp", "elu1", "silu")
        return not self.polynomial or features or self.gate != "none"

    @property
    def roots(self) -> bool:
        """Whether there are square roots."""
        return self.unit != "none"

    @property
    def piecewise(self) -> bool:
        """Whether the function is piecewise."""
        return self.feature in ("relu", "elu1")

    # What a query sees.

    @property
    def masked(self) -> bool:
        """Whether some keys may be hidden from a query."""
        return self.causal or self.window is not None or self.local is not None

    def on(self, tokens: int) -> Mechanism:
        """The same mechanism on t tokens, without restrictions that have no effect."""
        if self.alone(tokens) and self.normalise != "centred":
            return replace(self, window=0, local=None, causal=False, decay="none")
        out = self
        if out.window is not None and out.window >= tokens - 1:
            out = replace(out, window=None)
        if out.local is not None and out.local >= tokens:
            out = replace(out, local=None)
        return replace(out, decay="none") if out.decay == 1 else out

    def alone(self, tokens: int) -> bool:
        """Whether every query sees only the key of its own token."""
        return self.conv == "none" and (tokens == 1 or self.window == 0 or self.local == 1)

    def keys(self, tokens: int) -> int:
        """How many keys there are."""
        return (tokens - self.kernel) // self.stride + 1

    def silent(self, tokens: int) -> bool:
        """Whether the scores have no effect on t tokens."""
        one = self.alone(tokens) or self.keys(tokens) == 1
        return one and self.normalise in ("keys", "both", "centred")

    def features(self, a: int) -> int | None:
        """Number of features of keys and queries whose products are the weights; None if infinite.

        It bounds the rank of the weights for any number of tokens, if there is no mask.
        """
        if self.linear:
            return a
        if not self.series or self.feature != "none":
            return None
        p, m = self.order, a - (self.unit == "layer")
        return comb(m + p, p) - (comb(m + p - 2, m) if self.unit != "none" and p > 1 else 0)


LIGHTNING = Mechanism(weigh="identity", normalise="none")
SOFTMAX = Mechanism()

NAMED = {
    "lightning": LIGHTNING,
    "softmax": SOFTMAX,
    "linear": Mechanism(weigh="identity", feature="elu1"),
    "fast": Mechanism(weigh="taylor", order=2, unit="layer"),
    "double": Mechanism(normalise="both"),
    "gapless": Mechanism(normalise="centred"),
}
OPTIONS = (
    "order",
    "normalise",
    "feature",
    "unit",
    "bias",
    "causal",
    "decay",
    "window",
    "local",
    "conv",
    "kernel",
    "stride",
    "gate",
)


def base_of(mechanism: Mechanism) -> tuple[str, list[str]]:
    """The named mechanism closest to this one, and the options that differ."""

    def differs(other: Mechanism) -> list[str]:
        return [key for key in OPTIONS if getattr(mechanism, key) != getattr(other, key)]

    able = [(name, differs(one)) for name, one in NAMED.items() if one.weigh == mechanism.weigh]
    return min(able, key=lambda found: len(found[1]))
