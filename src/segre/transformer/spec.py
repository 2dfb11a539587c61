"""A transformer as data: every design choice that changes its function, and nothing else.

>>> net = Transformer.parse("transformer/d=4/heads=2/norm=rms/mlp=swiglu/ff=6/t=3")
>>> net.parameters, net.head, net.output
(144, 2, 'hidden')
>>> str(net)
'transformer/d=4/heads=2/ff=6/mlp=swiglu/norm=rms/t=3'
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, get_args

from segre.errors import SpecError
from segre.spec import DEEPEST, Score
from segre.transformer.rescale import Rescale, rescale
from segre.values import choice, flag, quote, read_inline, show, whole

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
]
NormKind = Literal["none", "rms", "layer"]
Place = Literal["pre", "post", "sandwich"]
Position = Literal["none", "rope", "learned"]
Layout = Literal["half", "interleaved"]
Bias = Literal["none", "qkv", "all"]
Output = Literal["hidden", "logits", "softmax"]
Windows = tuple[int, ...]

VERSION = 1
PIECEWISE = ("relu", "relu2", "reglu")
GATED = ("swiglu", "geglu", "geglu-tanh", "geglu-quick", "reglu", "bilinear")


@dataclass(frozen=True)
class Transformer:
    """A transformer on t tokens. The order of the fields is the order of keys in inline specs.

    With `vocab` = 0 inputs are any d x t matrices and the function is the last hidden states.
    Otherwise inputs are token sequences, and the function is `output`: the distribution over
    the vocabulary (softmax), the logits, or the hidden states.

    >>> spec = Transformer.parse("transformer/d=8/heads=4/kv=2/norm=rms/pos=rope/t=3")
    >>> spec.group, spec.parameters
    (2, 200)
    """

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
    base: int = 10_000  # rotary frequencies are base^(-2j/rotary)
    rotary: int = 0  # how many dimensions of a head turn; 0 is all of them
    layout: Layout = "half"
    rescale: str = ""  # rescaled rotary frequencies; empty is none
    bias: Bias = "none"
    causal: bool = False
    window: Windows = ()  # how many tokens a token sees, itself included; again and again by layer
    residual: bool = True
    qknorm: bool = False
    vocab: int = 0
    tied: bool = False
    final: bool = False  # a norm after the last layer
    attn: Score = "softmax"
    scale: Fraction = Fraction(0)  # scores are divided by its root; 0 is the dimensions of a head
    bylayer: bool = False  # and, in layer i, by i
    cap: Fraction = Fraction(0)  # soft cap of the scores; 0 is none
    logitcap: Fraction = Fraction(0)  # soft cap of the logits; 0 is none
    qrank: int = 0  # latent attention: rank of the query latent; 0 is a plain query map
    kvrank: int = 0  # latent attention: rank of the key-value latent; 0 is plain attention
    experts: int = 0  # routed experts of the MLP; 0 is a dense MLP
    active: int = 0  # routed experts that a token uses
    shared: int = 0  # hidden units of the experts that all tokens use
    eff: int = 0  # hidden units of one routed expert
    dense: int = 0  # how many of the first layers have a dense MLP all the same
    share: bool = False  # all layers have the same weights
    positions: int = 0  # rows of the table of learned positions; 0 is t
    types: int = 0  # token types
    embed: int = 0  # width of the embeddings, with a linear map to d; 0 is d, without
    embnorm: bool = False  # a norm after the embeddings
    embscale: bool = False  # embeddings are multiplied by the square root of d
    transform: bool = False  # a dense layer, an activation and a norm before the unembedding
    outbias: bool = False  # the unembedding has a bias
    pooler: bool = False  # a second output: tanh of a linear map of the first token
    output: Output = "hidden"
    t: int = 3

    def __post_init__(self) -> None:
        """What says the same is the same: shortest windows, scales that are standard left out."""
        object.__setattr__(self, "window", _shortest(self.window, self.layers))
        if self.scale == self.standard:
            object.__setattr__(self, "scale", Fraction(0))

    # --- what follows from the fields -----------------------------------------------------

    @property
    def standard(self) -> int:
        """The dimensions in which queries meet keys: scores are divided by its root."""
        return self.head + (self.rotary if self.latent else 0)

    def sharpness(self, layer: int) -> Fraction:
        """The square of the factor of a layer's scores that is not part of its query weights."""
        square = self.standard / self.scale if self.scale else Fraction(1)
        return square / layer**2 if self.bylayer else square

    def sees(self, layer: int) -> int:
        """How many tokens a token of a layer sees at most, itself included."""
        window = self.window[(layer - 1) % len(self.window)] if self.window else 0
        return min(window or self.t, self.t)

    @property
    def rescaling(self) -> Rescale | None:
        """How rotary frequencies are rescaled, if they are."""
        return rescale(self.rescale) if self.rescale else None

    @property
    def group(self) -> int:
        """Query heads per key-value head."""
        return self.heads // self.kv

    @property
    def latent(self) -> bool:
        """Whether keys and values come from a common latent."""
        return self.kvrank > 0

    @property
    def turned(self) -> int:
        """Dimensions of a head that turn with the position."""
        return self.rotary if self.pos == "rope" else 0

    @property
    def still(self) -> int:
        """Dimensions of a head that do not turn."""
        return self.head if self.latent else self.head - self.turned

    @property
    def norm_bias(self) -> bool:
        """Whether norms have biases: LayerNorms do, where everything does."""
        return self.norm == "layer" and self.gain and self.bias == "all"

    @property
    def gated(self) -> bool:
        """Whether the MLP multiplies two linear maps."""
        return self.mlp in GATED

    @property
    def discrete(self) -> bool:
        """Whether inputs are token sequences."""
        return self.vocab > 0

    @property
    def width_in(self) -> int:
        """Rows of an input: d, or the vocabulary and the types (columns are one-hot in each)."""
        return self.vocab + self.types if self.discrete else self.d

    @property
    def output_shape(self) -> tuple[int, int]:
        """Rows and columns of an output; a pooled token is one more column."""
        return (self.d if self.output == "hidden" else self.vocab), self.t + self.pooler

    @cached_property
    def parameters(self) -> int:
        """Number of weights."""
        from segre.transformer.tensors import count

        return count(self)

    # --- reading and writing --------------------------------------------------------------

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON document, in hexadecimal."""
        text = json.dumps(self.document(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def document(self) -> dict[str, Any]:
        """The canonical mapping: what differs from the defaults. Inverse of `from_mapping`."""
        return {"version": VERSION, "kind": "transformer", **self._given()}

    def __str__(self) -> str:
        """The shortest inline string that reads back as this architecture."""
        parts = [f"{key}={_shown(value)}" for key, value in self._given().items()]
        return "/".join(["transformer", *parts])

    def _given(self) -> dict[str, Any]:
        """Keys whose values would not be filled in by `complete`."""
        values = {key: getattr(self, key) for key in KEYS}
        out: dict[str, Any] = {}
        for item in fields(self):
            rest = {key: value for key, value in values.items() if key != item.name}
            if item.name in ("d", "t") or (
                values[item.name] != _completed(rest).get(item.name, item.default)
            ):
                out[item.name] = _plain(values[item.name])
        return out

    def with_output(self, output: Output) -> Transformer:
        """The same network, asked about another output."""
        return replace(self, output=output)

    @classmethod
    def parse(cls, text: str, defaults: Mapping[str, Any] | None = None) -> Transformer:
        """Read an inline spec; `defaults` are those of a family."""
        return cls.from_mapping(read_inline(text, KEYS), quoted=text, defaults=defaults)

    @classmethod
    def from_mapping(
        cls,
        given: Mapping[str, Any],
        quoted: str | None = None,
        defaults: Mapping[str, Any] | None = None,
    ) -> Transformer:
        """Read keys and values; `quoted` is how errors name them."""
        try:
            return _build({**(defaults or {}), **given})
        except SpecError as error:
            name = quoted if quoted is not None else json.dumps(dict(given), default=str)
            raise SpecError(f"spec {quote(name)}: {error}") from None


KEYS = tuple(item.name for item in fields(Transformer))


_NUMBER = re.compile(r"[0-9]{1,30}(\.[0-9]{0,30}|/[0-9]{1,30})?(e[+-]?[0-9]{1,2})?", re.ASCII)


def fraction(key: str, value: Any) -> Fraction:
    """A number that is not negative, exactly: 0, 1e-5, 0.00001, 1/100000."""
    try:
        text = repr(value) if isinstance(value, float) else str(value)
        # no large exponents: 1e999999999 is a number too, of a gigabyte
        if isinstance(value, bool) or not _NUMBER.fullmatch(text):
            raise ValueError
        number = Fraction(text)
        if not 0 <= number < 10**12 or number.denominator > 10**30:
            raise ValueError
    except (ValueError, TypeError, ZeroDivisionError, OverflowError):
        raise SpecError(
            f"{key}: {quote(str(value))} is not allowed; allowed: numbers from 0, "
            "for example 0 or 1e-5"
        ) from None
    return number


def _bias(key: str, value: Any) -> Bias:
    if isinstance(value, bool):
        value = "all" if value else "none"
    found: Bias = choice(key, value, get_args(Bias))
    return found


def _count(key: str, value: Any) -> int:
    return whole(key, value, smallest=0)


def _windows(key: str, value: Any) -> Windows:
    """One window for all layers, or one for each."""
    given = list(value) if isinstance(value, list | tuple) else [value]
    if len(given) > DEEPEST:
        raise SpecError(f"{key}: {len(given)} windows; allowed: at most one for each layer")
    for window in given:
        if whole(key, window, smallest=0) == 1:
            raise SpecError(
                f"{key}: 1 is not allowed, a token would see only itself; allowed: 0, which is "
                "no window, or whole numbers from 2"
            )
    return tuple(given)


def _shortest(window: Windows, layers: int) -> Windows:
    """The shortest list of windows that is the same for all layers when it is repeated.

    >>> _shortest((8, 0, 8), 3), _shortest((8, 0, 8), 4), _shortest((8, 8), 2), _shortest((0,), 2)
    ((8, 0), (8, 0, 8), (8,), ())
    """
    if not any(window):
        return ()
    every = tuple(window[i % len(window)] for i in range(max(1, layers)))
    length = next(n for n in range(1, len(every) + 1) if every[n:] == every[: len(every) - n])
    return every[:length] if any(every) else ()


def _rescale(key: str, value: Any) -> str:
    """The shortest text that says the same; nothing if it changes nothing."""
    if value in ("", "none"):
        return ""
    if not isinstance(value, str):
        raise SpecError(f"{key}: {quote(str(value))} is not allowed; allowed: as in linear:4")
    found = rescale(value)
    return "" if found.idle else str(found)


def _reader(annotation: str) -> Callable[[str, Any], Any]:
    plain: dict[str, Callable[[str, Any], Any]] = {
        "int": _count,
        "bool": flag,
        "Fraction": fraction,
        "Bias": _bias,
        "Windows": _windows,
        "str": _rescale,
    }
    choices = {
        "MlpKind": MlpKind,
        "NormKind": NormKind,
        "Place": Place,
        "Position": Position,
        "Layout": Layout,
        "Score": Score,
        "Output": Output,
    }
    if annotation in plain:
        return plain[annotation]
    return lambda key, value: choice(key, value, get_args(choices[annotation]))


_READERS = {item.name: _reader(str(item.type)) for item in fields(Transformer)}


def _build(given: Mapping[str, Any]) -> Transformer:
    allowed = ("version", "kind", *KEYS)
    for key in given:
        if key not in allowed:
            raise SpecError(f"unknown key {quote(str(key))}; allowed: {', '.join(KEYS)}")
    if given.get("version", VERSION) != VERSION:
        raise SpecError(f"version {quote(str(given['version']))} is not known; allowed: {VERSION}")
    values = {
        key: _READERS[key](key, value)
        for key, value in given.items()
        if key in KEYS and value is not None
    }
    if "d" not in values:
        raise SpecError("d is missing; give the width, for example d=8")
    spec = Transformer(**_completed(values))
    if len(values.get("window", ())) > spec.layers:
        raise SpecError(f"window: more windows than layers={spec.layers}; allowed: as many")
    _require(spec)
    return spec


def _completed(values: dict[str, Any]) -> dict[str, Any]:
    """Fill in what follows from the rest where it was left open."""
    out = dict(values)
    known: dict[str, Any] = {item.name: item.default for item in fields(Transformer)}
    known |= values
    d, heads = known["d"], known["heads"] or 1

    def fill(key: str, value: Any) -> None:
        if key not in out or (isinstance(value, int) and out[key] == 0 and key in _OPEN):
            out[key] = value

    fill("kv", heads)
    fill("head", d // heads if d % heads == 0 else 0)
    fill("dv", out["head"])
    fill("rotary", out["head"] if known["pos"] == "rope" and not known["kvrank"] else 0)
    fill("positions", known["t"] if known["pos"] == "learned" else 0)
    discrete = known["vocab"] > 0
    fill("final", discrete and known["norm"] != "none" and known["place"] != "post")
    fill("output", "softmax" if discrete else "hidden")
    return out


_OPEN = ("kv", "head", "dv", "rotary", "positions")


def _require(spec: Transformer) -> None:
    """Refuse what contradicts itself, naming the key and what would be allowed."""
    for key in ("d", "layers", "heads", "t"):
        whole(key, getattr(spec, key), DEEPEST if key == "layers" else 10**9)
    if spec.head == 0:
        raise SpecError(
            f"heads: {spec.heads} does not divide d={spec.d}; give head, for example head=2"
        )
    if spec.heads % spec.kv:
        raise SpecError(f"kv: {spec.kv} does not divide heads={spec.heads}; allowed: a divisor")
    if spec.pos == "rope" and (spec.rotary % 2 or spec.rotary < 2):
        raise SpecError(f"rotary: {spec.rotary} is not allowed; allowed: even numbers from 2")
    if spec.pos == "rope" and not spec.latent and spec.rotary > spec.head:
        raise SpecError(f"rotary: {spec.rotary} is more than head={spec.head}")
    if spec.pos == "rope" and spec.base < 2:
        raise SpecError(f"base: {spec.base} is not allowed; allowed: whole numbers from 2")
    if spec.pos != "rope" and (spec.rotary or spec.rescale):
        raise SpecError(f"{'rescale' if spec.rescale else 'rotary'} needs pos=rope")
    if spec.rescaling is not None and spec.rescaling.kind == "dynamic" and spec.rotary < 4:
        raise SpecError("rescale=dynamic needs rotary=4 or more")
    if spec.window and not spec.causal:
        raise SpecError("window needs causal=true")
    _require_absorbed(spec)
    if spec.pos == "learned" and spec.positions < spec.t:
        raise SpecError(f"positions: {spec.positions} is less than t={spec.t}")
    if spec.pos != "learned" and spec.positions:
        raise SpecError("positions needs pos=learned")
    if (spec.mlp != "none") != (spec.ff > 0 or spec.experts > 0):
        raise SpecError(
            f"ff: {spec.ff} does not go with mlp={spec.mlp}; allowed: hidden units (ff=8) "
            "with an MLP (mlp=gelu), neither without"
        )
    if spec.norm == "none" and (spec.place != "pre" or spec.final or spec.embnorm):
        raise SpecError("place, final and embnorm need a norm: norm=rms or norm=layer")
    if spec.norm == "none" and not spec.qknorm and not spec.latent and spec.eps:
        raise SpecError("eps needs a norm: norm=rms or norm=layer")
    if spec.place == "post" and spec.final:
        raise SpecError("final=true with place=post: the last layer ends with a norm already")
    if spec.place != "pre" and not spec.residual:
        raise SpecError(f"place={spec.place} needs residual=true")
    if not spec.discrete:
        for key in ("tied", "embnorm", "embscale", "transform", "outbias", "pooler", "types"):
            if getattr(spec, key):
                raise SpecError(f"{key} needs a vocabulary, for example vocab=11")
        if spec.embed or spec.logitcap or spec.output != "hidden":
            raise SpecError("embed, logitcap and output need a vocabulary, for example vocab=11")
    if spec.output == "hidden" and (spec.tied or spec.transform or spec.outbias or spec.logitcap):
        raise SpecError("tied, transform, outbias and logitcap need output=logits or softmax")
    if spec.pooler and spec.output != "hidden":
        raise SpecError("pooler needs output=hidden")
    if spec.tied and spec.embed and not spec.transform:
        raise SpecError("tied embeddings of another width need transform=true")
    if spec.transform and (spec.mlp == "none" or spec.gated or spec.norm == "none"):
        raise SpecError("transform needs a norm and an MLP whose activation it shares")
    if spec.embscale and spec.tied and not (spec.gain and (spec.final or spec.transform)):
        raise SpecError("embscale with tied tables needs a norm with gains before the output")
    if spec.latent:
        for key, wrong in (
            ("qknorm", spec.qknorm),
            ("kv", spec.kv != spec.heads),
            ("bias", spec.bias != "none"),
            ("cap", spec.cap),
            ("attn", spec.attn != "softmax"),
        ):
            if wrong:
                raise SpecError(f"{key} does not go with latent attention (kvrank)")
    elif spec.qrank:
        raise SpecError("qrank needs kvrank: the two are the ranks of latent attention")
    if spec.cap and spec.attn != "softmax":
        raise SpecError("cap needs attn=softmax")
    if spec.qknorm and spec.attn != "softmax":
        raise SpecError("qknorm needs attn=softmax")
    if spec.experts:
        if not spec.gated or not 0 < spec.active <= spec.experts or not spec.eff:
            raise SpecError("experts need a gated mlp, active (1 to experts) and eff")
        if spec.dense and not spec.ff:
            raise SpecError("dense layers need ff")
    elif spec.active or spec.shared or spec.eff or spec.dense:
        raise SpecError("active, shared, eff and dense need experts")


def _require_absorbed(spec: Transformer) -> None:
    """Factors of the scores must be such as weights can absorb: proofs rest on it."""
    grows = spec.rescaling is not None and spec.rescaling.grows
    if spec.qknorm and not spec.gain and (spec.scale or spec.bylayer or grows):
        key = "scale" if spec.scale else "bylayer" if spec.bylayer else f"rescale={spec.rescale}"
        raise SpecError(f"{key} needs gain=true where queries and keys have norms (qknorm)")
    if spec.bylayer and spec.share:
        raise SpecError("bylayer=true does not go with share=true")


def _shown(value: Any) -> str:
    return ",".join(map(show, value)) if isinstance(value, list) else show(value)


def _plain(value: Any) -> Any:
    """A value as JSON has it; fractions as decimals where they are, a list of one as its item."""
    if isinstance(value, tuple):
        return value[0] if len(value) == 1 else list(value)
    if not isinstance(value, Fraction):
        return value
    if value.denominator == 1:
        return value.numerator
    decimal = repr(float(value))
    return decimal if Fraction(decimal) == value else str(value)
