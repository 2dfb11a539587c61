"""Which design choices of a transformer change its function? Each is a field, in canonical form."""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Literal

from segre.attention.mechanism import Gate
from segre.transformer.by_layer import (
    Attns,
    Bases,
    Dense,
    Rescales,
    Windows,
    dense_layers,
    mechanisms,
    rotations,
    windows,
)

MlpKind = Literal[
    "none",
    "gelu",
    "gelu-tanh",
    "gelu-quick",
    "silu",
    "relu",
    "relu2",
    "swiglu",
    "geglu",
    "geglu-tanh",
    "geglu-quick",
    "reglu",
    "bilinear",
    "clamped",
]
NormKind = Literal["none", "rms", "layer"]
Place = Literal["pre", "post", "sandwich", "after"]
QkNorm = bool | Literal["all"]
Position = Literal["none", "rope", "learned"]
Layout = Literal["half", "interleaved"]
Bias = Literal["none", "qkv", "attn", "mlp", "norm", "mlp-norm", "all"]
Router = Literal["sigmoid", "softmax", "sigmoid-raw", "softmax-raw"]
Output = Literal["hidden", "logits", "softmax"]
Read = Literal["all", "first", "last"]
QkvFeature = Literal["none", "silu"]
Decay = Literal["none", "slopes"]

PIECEWISE = ("relu", "relu2", "reglu", "clamped")
GATED = ("swiglu", "geglu", "geglu-tanh", "geglu-quick", "reglu", "bilinear", "clamped")


@dataclass(frozen=True)
class Choices:
    """The choices, in the order of the keys of inline specs."""

    d: int  # width of the residual stream
    layers: int = 1
    heads: int = 1
    kv: int = 0  # heads of keys and values; 0 is as many as heads
    head: int = 0  # dimensions of queries and keys per head; 0 is d / heads
    dv: int = 0  # dimensions of values per head; 0 is head
    ff: int = 0  # hidden units of the MLP
    mlp: MlpKind = "none"
    norm: NormKind = "none"
    place: Place = "pre"
    gain: bool = True  # norms have gains (and, with bias=all, LayerNorms have biases)
    eps: Fraction = Fraction(0)
    pos: Position = "none"
    base: Bases = 10_000  # rotary frequencies are base^(-2j/rotary); 0: a layer has none
    rotary: int = 0  # how many dimensions of a head turn; 0 is all of them
    layout: Layout = "half"
    rescale: Rescales = ""  # rescaled rotary frequencies; empty is none
    bias: Bias = "none"
    causal: bool = False
    window: Windows = ()  # how many tokens a token sees, itself included; again and again by layer
    residual: bool = True
    skip: Fraction = Fraction(1)  # what the stream is multiplied by where something is added
    parallel: bool = False  # attention and MLP of a layer read the same stream, and both add to it
    qknorm: QkNorm = False  # norms of queries and keys: of every head, or one of all together
    vocab: int = 0
    tied: bool = False
    final: bool = False  # a norm after the last layer
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
    logitcap: Fraction = Fraction(0)  # soft cap of the logits; 0 is none
    qrank: int = 0  # latent attention: rank of the query latent; 0 is a plain query map
    kvrank: int = 0  # latent attention: rank of the key-value latent; 0 is plain attention
    experts: int = 0  # routed experts of the MLP; 0 is a dense MLP
    active: int = 0  # routed experts that a token uses
    shared: int = 0  # hidden units of the experts that all tokens use
    sharedgate: bool = False  # what those write is multiplied by a sigmoid, one for each token
    eff: int = 0  # hidden units of one routed expert
    expbias: bool = False  # routed experts and their router have biases
    limit: Fraction = Fraction(0)  # where mlp=clamped clamps its gate and its other factor
    dense: Dense = 0  # how many of the first layers have a dense MLP all the same; or a list
    router: Router = "sigmoid"  # shares of the chosen experts; raw: not divided by their sum
    groups: int = 0  # groups of experts, one after the other; 0 is none
    within: int = 0  # how many of the groups a token may use
    share: bool = False  # all layers have the same weights
    positions: int = 0  # rows of the table of learned positions; 0 is offset + t
    offset: int = 0  # rows of that table before that of the first token
    types: int = 0  # token types
    embed: int = 0  # width of the embeddings, with a linear map to d; 0 is d, without
    project: bool = False  # such embeddings get positions after the map; outputs are mapped back
    embnorm: bool = False  # a norm after the embeddings
    firstnorm: bool = True  # where norms come before: one before the first attention too
    embscale: bool = False  # embeddings are multiplied by the square root of d
    transform: bool = False  # a dense layer, an activation and a norm before the unembedding
    headnorm: bool = True  # that norm is there
    outbias: bool = False  # the unembedding has a bias
    pooler: bool = False  # tanh of a linear map of the first token: an output, or what labels read
    patch: int = 0  # entries of a patch: inputs are patches, mapped to d; 0 is none
    masked: bool = False  # a token for masked patches, a weight that nothing reads
    layerscale: bool = False  # what a sublayer writes is multiplied by a vector
    cls: bool = False  # the first token is a weight, and not read from the input
    labels: int = 0  # logits are of so many labels, instead of the vocabulary; 0 is none
    read: Read = "all"  # from which tokens labels are read
    relation: int = 0  # labels of a second output, read from the pooled token; 0 is none
    output: Output = "hidden"
    t: int = 3

    def __post_init__(self) -> None:
        """A canonical form: shortest lists, standard scales left out."""
        object.__setattr__(self, "window", windows(self.window, self.layers))
        object.__setattr__(self, "dense", dense_layers(self.dense, self.layers))
        if self._turns_by_layer:
            base, how = rotations(self.base, self.rescale, self.layers)
            object.__setattr__(self, "base", base)
            object.__setattr__(self, "rescale", how)
        if isinstance(self.attn, tuple):
            object.__setattr__(self, "attn", mechanisms(self.attn, self.layers))
        if self.mixeps == self.eps:
            object.__setattr__(self, "mixeps", Fraction(0))
        if self.qknorm == "all" and self.heads == 1:
            object.__setattr__(self, "qknorm", True)
        if self.gate == "element" and self.dv == 1:
            object.__setattr__(self, "gate", "head")
        if self.scale == self.standard:
            object.__setattr__(self, "scale", Fraction(0))
        if self.within == self.groups:  # all groups: as if there were none
            object.__setattr__(self, "groups", 0)
            object.__setattr__(self, "within", 0)

    @property
    def standard(self) -> int:
        """The dimension of queries and keys: scores are divided by its root."""
        return self.head + (self.rotary if self.latent else 0)

    @property
    def latent(self) -> bool:
        """Whether keys and values come from a common latent."""
        return self.kvrank > 0

    @property
    def _turns_by_layer(self) -> bool:
        """Whether layers have different rotary frequencies."""
        return isinstance(self.base, tuple) or isinstance(self.rescale, tuple)


KEYS = tuple(item.name for item in fields(Choices))
DEFAULTS = {item.name: item.default for item in fields(Choices)}
