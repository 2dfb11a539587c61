"""What follows from the design choices of a transformer?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

from segre.attention import mechanism
from segre.attention.mechanism import Mechanism
from segre.slope import Slope
from segre.transformer.by_layer import Base, every
from segre.transformer.choices import GATED, PIECEWISE, Choices
from segre.transformer.rescale import Rescale, rescale

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
    """The choices, with their consequences."""

    head_axes: ClassVar[int] = 2
    salted: ClassVar[bool] = True
    residuals_in_balls: ClassVar[bool] = False
    salts_searched: ClassVar[bool] = True
    has_closed_form: ClassVar[bool] = False
    counted: ClassVar[bool] = True

    def sharpness(self, layer: int) -> Fraction:
        """The square of the factor of a layer's scores that the query weights do not include."""
        square = self.standard / self.scale if self.scale else Fraction(1)
        return square / layer**2 if self.bylayer else square

    def sees(self, layer: int) -> int:
        """How many tokens a token of a layer sees at most, itself included."""
        if self.by_mechanism and every(self.attn, self.layers)[layer - 1] != "softmax":
            return self.t  # windows are of the other layers
        window = self.window[(layer - 1) % len(self.window)] if self.window else 0
        return min(window or self.t, self.t)

    def normed_at(self, layer: int, number: int) -> bool:
        """Whether a norm comes before attention (number 1) or MLP (2) of a layer (from 1)."""
        return self.normed_before and (self.firstnorm or (layer, number) != (1, 1))

    @property
    def unused_positions(self) -> int:
        """Rows of the table of learned positions that no token has."""
        return self.positions - self.t if self.pos == "learned" else 0

    @property
    def rescaling(self) -> Rescale | None:
        """The rescaling of rotary frequencies, if any; of the layer `at` if layers differ."""
        assert isinstance(self.rescale, str)
        return rescale(self.rescale) if self.rescale else None

    @property
    def by_mechanism(self) -> bool:
        """Whether layers have different mechanisms."""
        return isinstance(self.attn, tuple)

    def at(self, part: int | str) -> Self:
        """The same spec with the attention of one layer, counted from 1, in all layers."""
        if part in ("embed", "head") or not (self.by_mechanism or self._turns_by_layer):
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
    def rotations(self) -> tuple[tuple[Base, str], ...]:
        """Base and rescaling of the rotary layers, each pair once."""
        if self.pos != "rope":
            return ()
        layers = self.layers if self._turns_by_layer else 1
        both = zip(every(self.base, layers), every(self.rescale, layers), strict=True)
        return tuple(dict.fromkeys((base, how) for base, how in both if base))

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

    @property
    def heads_by_layer(self) -> list[int]:
        """How many heads each layer has."""
        return [self.heads] * self.layers

    @property
    def exponentials(self) -> bool:
        """Whether there are transcendental functions: in scores, gates or MLPs."""
        scored = self.by_mechanism or self.mechanism.exponentials
        return scored or self.gate != "none" or self.mlp not in ("none", "bilinear")

    @property
    def piecewise(self) -> bool:
        """Whether the function is piecewise: by active units, or by chosen experts."""
        return self.mlp in PIECEWISE or self.experts > 0

    @property
    def piecewise_units(self) -> bool:
        """Whether the function is piecewise by active units."""
        return self.mlp in PIECEWISE

    @property
    def regions(self) -> tuple[str, ...]:
        """What separates the regions of a piecewise function, in words."""
        experts = ("a choice of experts",) if self.experts > 0 else ()
        return ("relu", *experts) if self.piecewise_units else experts

    @property
    def nearly_signs(self) -> bool:
        """Whether norms give little more than signs: units see few values, and seldom switch."""
        return self.norm == "layer" and self.d == 2

    @property
    def gated_elements(self) -> bool:
        """Whether heads have a gate for every element of what they mix."""
        return self.gate == "element"

    @property
    def normal_cdf(self) -> bool:
        """Whether it computes the distribution function of a normal variable."""
        return self.mlp in ("gelu", "geglu")

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

    @property
    def softmax_router(self) -> bool:
        """Whether the router uses a softmax over experts instead of a sigmoid for each."""
        return self.experts > 0 and self.router in ("softmax", "softmax-raw")

    @property
    def group(self) -> int:
        """Query heads per key-value head."""
        return self.heads // self.kv

    @property
    def mechanism(self) -> Mechanism:
        """The attention mechanism; of the layer `at` if layers differ."""
        assert isinstance(self.attn, str)
        found = mechanism(self.attn)
        return found if self.feature == "none" else replace(found, feature=self.feature)

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

    @property
    def mixing_eps(self) -> Fraction:
        """The eps of the norm of what heads mix."""
        return self.mixeps or self.eps

    @property
    def rotary_dim(self) -> int:
        """Rotary dimensions of a head."""
        return self.rotary if self.pos == "rope" else 0

    @property
    def still(self) -> int:
        """Dimensions of a head that are not rotary."""
        return self.head if self.latent else self.head - self.rotary_dim

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
    def normed_before(self) -> bool:
        """Whether attention and MLPs read the stream through norms."""
        return self.norm != "none" and self.place in ("pre", "sandwich")

    @property
    def normed_inside(self) -> bool:
        """Whether their outputs pass a norm before they are added to the stream."""
        return self.norm != "none" and self.place in ("sandwich", "after")

    @property
    def query_bias(self) -> bool:
        """Whether queries, keys and values have biases."""
        return self.bias in ("qkv", "attn", "all")

    @property
    def output_bias(self) -> bool:
        """Whether the output of attention has a bias."""
        return self.bias in ("attn", "all")

    @property
    def mlp_bias(self) -> bool:
        """Whether the linear maps of MLPs have biases."""
        return self.bias in ("mlp", "mlp-norm", "all")

    @property
    def norm_bias(self) -> bool:
        """Whether norms have biases: only LayerNorms."""
        biased = self.bias in ("norm", "mlp-norm", "all")
        return self.norm == "layer" and self.gain and biased

    @property
    def gated(self) -> bool:
        """Whether the MLP multiplies two linear maps."""
        return self.mlp in GATED

    @property
    def discrete(self) -> bool:
        """Whether inputs are token sequences."""
        return self.vocab > 0

    @property
    def table_reads(self) -> bool:
        """Whether a tied table reads the stream directly, not through a linear map."""
        return self.tied and not self.transform and not self.project

    @property
    def shows_stream(self) -> bool:
        """Whether the output is the stream, with or without a last norm."""
        return self.output == "hidden" and not self.project

    @property
    def head_width(self) -> int:
        """The output width of the transform: that of the embedding table that follows."""
        return self.d if self.labels else self.embed or self.d

    @property
    def width_in(self) -> int:
        """Rows of an input: d, a patch, or the vocabulary and the types (one-hot in each)."""
        return self.vocab + self.types if self.discrete else self.patch or self.d

    @property
    def embedded(self) -> bool:
        """Whether the stream begins with weights: token tables, or a map of patches."""
        return self.discrete or self.patch > 0

    @property
    def output_shape(self) -> tuple[int, int]:
        """Rows and columns of an output; a pooled token or its labels add one column."""
        if self.labels:
            return self.labels, self.t if self.read == "all" else 1
        hidden = self.embed if self.project else self.d
        return (hidden if self.output == "hidden" else self.vocab), self.t + self.pooler
