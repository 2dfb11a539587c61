"""Attention: heads, scores, what they are compared with, and what heads mix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from segre.attention import mechanism
from segre.attention.mechanism import Gate, Mechanism
from segre.transformer.by_layer import Attns, Windows, every
from segre.transformer.choices.norms import Norms
from segre.values import whole

QkNorm = bool | Literal["all"]
QkvFeature = Literal["none", "silu"]
Decay = Literal["none", "slopes"]


@dataclass(frozen=True)
class Attention(Norms):
    """The choices of attention, apart from positions."""

    heads: int = 1
    kv: int = 0  # heads of keys and values; 0 is as many as heads
    head: int = 0  # dimensions of queries and keys per head; 0 is d / heads
    dv: int = 0  # dimensions of values per head; 0 is head
    causal: bool = False
    window: Windows = ()  # how many tokens a token sees, itself included; again and again by layer
    qknorm: QkNorm = False  # norms of queries and keys: of every head, or one of all together
    attn: Attns = "softmax"  # again and again by layer
    sinks: bool = False  # every head has a score of its own beside those of the keys, for nothing
    gate: Gate = "none"  # what heads mix is multiplied by sigmoid(W_G x): whole, or entry by entry
    feature: QkvFeature = "none"  # what queries, keys and values pass, entry by entry
    mixnorm: bool = False  # one norm of all that the heads of a layer mix, before gates
    mixeps: Fraction = Fraction(0)  # its eps; 0 is that of the other norms
    decay: Decay = "none"  # slopes: heads forget at rates of their own, later layers more slowly
    scale: Fraction = Fraction(0)  # scores are divided by its root; 0 is the dimensions of a head
    bylayer: bool = False  # and, in layer i, by i
    cap: Fraction = Fraction(0)  # soft cap of the scores; 0 is none
    qrank: int = 0  # latent attention: rank of the query latent; 0 is a plain query map
    kvrank: int = 0  # latent attention: rank of the key-value latent; 0 is plain attention

    @property
    def latent(self) -> bool:
        """Whether keys and values come from a common latent."""
        return self.kvrank > 0

    @property
    def by_mechanism(self) -> bool:
        """Whether layers have different mechanisms."""
        return isinstance(self.attn, tuple)

    @property
    def mechanism(self) -> Mechanism:
        """The attention mechanism; of the layer `at` if layers differ."""
        assert isinstance(self.attn, str)
        found = mechanism(self.attn)
        return found if self.feature == "none" else replace(found, feature=self.feature)

    @property
    def heads_by_layer(self) -> list[int]:
        """How many heads each layer has."""
        return [self.heads] * self.layers

    @property
    def group(self) -> int:
        """Query heads per key-value head."""
        return self.heads // self.kv

    @property
    def gated_elements(self) -> bool:
        """Whether heads have a gate for every element of what they mix."""
        return self.gate == "element"

    @property
    def mixing_eps(self) -> Fraction:
        """The eps of the norm of what heads mix."""
        return self.mixeps or self.eps

    @property
    def ignores_shifts(self) -> bool:
        """Whether every layer is invariant under adding one number to all scores of a query."""
        plain = not (self.by_mechanism or self.cap or self.sinks)
        return plain and self.mechanism.ignores_shifts

    @property
    def sums_to_one(self) -> bool:
        """Whether the weights of every query sum to one, in every layer."""
        return not (self.by_mechanism or self.sinks) and self.mechanism.sums_to_one

    @property
    def query_bias(self) -> bool:
        """Whether queries, keys and values have biases."""
        return self.bias in ("qkv", "attn", "all")

    @property
    def output_bias(self) -> bool:
        """Whether the output of attention has a bias."""
        return self.bias in ("attn", "all")

    @property
    def first_token_alone(self) -> bool:
        """Whether nothing is drawn for the first token, which sees only itself."""
        alone = (self.causal or self.t == 1) and not self.parallel
        return alone and self.gate == self.feature == "none"

    @property
    def salts_mix(self) -> bool:
        """Whether roots of a token may depend on what is drawn for another in the same stage."""
        return self.feature != "none" or self.mixnorm

    @property
    def roots_after_mixing(self) -> bool:
        """Whether attention ends with a norm."""
        return self.mixnorm or (self.norm != "none" and self.place != "pre")

    def sees(self, layer: int) -> int:
        """How many tokens a token of a layer sees at most, itself included."""
        if self.by_mechanism and every(self.attn, self.layers)[layer - 1] != "softmax":
            return self.t  # windows are of the other layers
        window = self.window[(layer - 1) % len(self.window)] if self.window else 0
        return min(window or self.t, self.t)

    def rules(self) -> Iterator[str]:
        """Which choices contradict each other, one line each."""
        yield from super().rules()
        whole("heads", self.heads, 10**9)
        if self.head == 0:
            yield f"heads: {self.heads} does not divide d={self.d}; give head, for example head=2"
        if self.heads % self.kv:
            yield f"kv: {self.kv} does not divide heads={self.heads}; allowed: a divisor"
        inner = self.qknorm or self.latent or self.mixnorm
        if self.norm == "none" and not inner and self.eps:
            yield "eps needs a norm: norm=rms or norm=layer"
        yield from self._by_mechanism() if self.by_mechanism else self._same_everywhere()
        yield from self._latent()
        if self.mixnorm and self.gate != "element":
            yield "mixnorm needs gate=element, and heads of more than one dimension"
        if self.mixeps and not self.mixnorm:
            yield "mixeps needs mixnorm=true"
        if self.decay != "none" and (self.gate != "element" or not self.causal):
            yield "decay needs causal=true and gate=element"
        if self.bylayer and self.share:
            yield "bylayer=true cannot be combined with share=true"
        if self.qknorm and not self.gain:  # weights must absorb all factors of the scores
            for key in ("scale", "bylayer"):
                needs = f"{key} needs gain=true where queries and keys have norms (qknorm)"
                if getattr(self, key):
                    yield needs
        if self.bias in ("norm", "mlp-norm"):
            yield from self.excludes(
                f"bias={self.bias}", {"share": self.share, "qknorm": self.qknorm}
            )

    def _same_everywhere(self) -> Iterator[str]:
        """Choices that depend on the mechanism of all layers."""
        shifts = self.mechanism.ignores_shifts
        for key, need in (("cap", "needs"), ("sinks", "need"), ("qknorm", "needs")):
            if getattr(self, key) and not shifts:
                yield f"{key} {need} attn=softmax"
        linear = self.mechanism.linear
        if self.feature != "none" and not linear:
            yield "feature needs attn=lightning, and not pos=rope"
        if self.decay != "none" and (not linear or self.window):
            yield "decay needs attn=lightning, and neither pos=rope nor window"

    def _by_mechanism(self) -> Iterator[str]:
        """Layers of both mechanisms: lightning layers are as in MiniMax, softmax layers plain."""
        if self.feature == "none" or not self.mixnorm or self.gate != "element":
            yield "attn by layer needs feature=silu, gate=element and mixnorm=true"
        if self.norm != "rms" or self.place not in ("pre", "post"):
            yield "attn by layer needs norm=rms, and place=pre or post"
        keys = ("kvrank", "share", "parallel", "sinks", "cap", "qknorm")
        wrong: dict[str, object] = {key: getattr(self, key) for key in keys}
        wrong |= {"bias": self.bias != "none", "t": self.t == 1}
        yield from self.excludes("attn by layer", wrong)

    def _latent(self) -> Iterator[str]:
        """Latent attention is causal or not, and otherwise plain."""
        if self.qrank and not self.latent:
            yield "qrank needs kvrank: the two are the ranks of latent attention"
        if not self.latent:
            return
        wrong = {
            "qknorm": self.qknorm,
            "kv": self.kv != self.heads,
            "bias": self.bias != "none",
            "cap": self.cap,
            "attn": not self.mechanism.sums_to_one,
            "gate": self.gate != "none",
            "feature": self.feature != "none",
            "mixnorm": self.mixnorm,
        }
        for key, broken in wrong.items():
            if broken:
                yield f"{key} cannot be combined with latent attention (kvrank)"
