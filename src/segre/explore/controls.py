"""Which design choices can be changed on the page, and which of them go together?

A control stands for one key of a transformer's spec. What contradicts another choice is hidden by
`when`, so that the page asks segre about designs that make sense; what a preset has beside the
controls is kept until the control it belongs to (`drops`) is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

from segre.errors import SegreError, UnsupportedError
from segre.models import PRESETS, Source, architecture
from segre.transformer.choices import MlpKind, NormKind, Place, Position
from segre.transformer.spec import Transformer
from segre.values import quote

# Steps of sliders; a number field beside each takes any other value.
_WIDTHS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 576, 640, 768, 896, 1024, 1280)
_WIDER = (1536, 1600, 2048, 2304, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 12288, 16384)
_LAYERS = (*range(1, 17), 18, 20, 22, 24, 26, 28, 30, 32, 36, 40, 42, 48, 56, 64, 80, 96, 128)
_HEADS = (1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 14, 16, 20, 24, 25, 28, 32, 40, 48, 64, 72, 96, 128)
_RANKS = (2, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48, 56, 64, 72, 80, 96, 112, 128, 160, 192, 256)
_HIDDEN = (8, 16, 32, 64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 4864, 6144, 8192, 9216)
_MORE = (10240, 11008, 12288, 14336, 16384, 18944, 20480, 24576, 28672, 36864, 49152)
_WORDS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 30522, 32000, 49152, 50257)
_MORE_WORDS = (65536, 100352, 128256, 151936, 200064, 256000)
_TOKENS = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)


@dataclass(frozen=True)
class Control:
    """One key of a spec: what it is called, what it may be, and when it means something."""

    key: str
    label: str
    part: str
    kind: str  # size, choice or flag
    values: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()  # of the values, where they need words
    hint: str = ""
    when: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    drops: tuple[str, ...] = ()  # keys without a control that go when this one changes

    def document(self) -> dict[str, Any]:
        """As plain data, for the page."""
        return asdict(self)


_NORMED = {"norm": ("rms", "layer")}
_MLP_WORDS = {
    "none": "none",
    "gelu": "GELU",
    "gelu-tanh": "GELU (tanh)",
    "gelu-quick": "GELU (quick)",
    "silu": "SiLU",
    "relu": "ReLU",
    "relu2": "ReLU squared",
    "swiglu": "SwiGLU (gated)",
    "geglu": "GEGLU (gated)",
    "geglu-tanh": "GEGLU, tanh (gated)",
    "geglu-quick": "GEGLU, quick (gated)",
    "reglu": "ReGLU (gated)",
    "bilinear": "bilinear (gated)",
}
_MLPS = tuple(kind for kind in get_args(MlpKind) if kind in _MLP_WORDS)
_EXPERTS = ("experts", "active", "shared", "sharedgate", "eff", "expbias", "limit", "dense")
_ROUTING = ("router", "groups", "within", "transform", "headnorm", "relation")
_HEAD = ("transform", "headnorm", "outbias", "pooler", "labels", "read", "relation", "logitcap")

CONTROLS = (
    Control("d", "Width", "Sizes", "size", (*_WIDTHS, *_WIDER), hint="of the residual stream"),
    Control("layers", "Layers", "Sizes", "size", _LAYERS, drops=("share",)),
    Control("heads", "Heads", "Sizes", "size", _HEADS, hint="query heads of a layer"),
    Control(
        "kv",
        "Key-value heads",
        "Sizes",
        "size",
        _HEADS,
        hint="a divisor of the heads; fewer is grouped queries",
        drops=("qrank", "kvrank"),
    ),
    Control(
        "head",
        "Head rank",
        "Sizes",
        "size",
        _RANKS,
        hint="dimensions of a head's queries, keys and values",
        drops=("dv", "rotary", "scale", "rescale"),
    ),
    Control(
        "ff",
        "MLP width",
        "Sizes",
        "size",
        (*_HIDDEN, *_MORE),
        when={"mlp": tuple(kind for kind in _MLPS if kind != "none")},
        drops=_EXPERTS,
    ),
    Control(
        "vocab",
        "Vocabulary",
        "Sizes",
        "size",
        (0, *_WORDS, *_MORE_WORDS),
        hint="0: inputs are arbitrary vectors, and there is no output table",
        drops=("embed", "project", "types", "embnorm", "embscale", "final", "patch", "cls", *_HEAD),
    ),
    Control(
        "t",
        "Tokens",
        "Sizes",
        "size",
        _TOKENS,
        hint="length of an input",
        drops=("positions", "offset"),
    ),
    Control(
        "mlp",
        "MLP",
        "Layers",
        "choice",
        _MLPS,
        tuple(_MLP_WORDS[kind] for kind in _MLPS),
        drops=(*_EXPERTS, *_ROUTING),
    ),
    Control(
        "norm",
        "Norm",
        "Layers",
        "choice",
        get_args(NormKind),
        ("none", "RMSNorm", "LayerNorm"),
        drops=("final", "embnorm", "firstnorm", "gain", "skip", "transform", "layerscale"),
    ),
    Control(
        "place",
        "Place of the norms",
        "Layers",
        "choice",
        get_args(Place),
        ("before the layers", "after the skips", "on both sides", "after the layers"),
        when=_NORMED,
        drops=("final", "firstnorm", "skip"),
    ),
    Control(
        "eps",
        "eps of the norms",
        "Layers",
        "choice",
        ("0", "1e-05", "1e-06", "1e-12"),
        when=_NORMED,
    ),
    Control("residual", "Residual connections", "Layers", "flag"),
    Control(
        "parallel",
        "Attention and MLP in parallel",
        "Layers",
        "flag",
        when={"mlp": tuple(kind for kind in _MLPS if kind != "none")},
    ),
    Control(
        "bias",
        "Biases",
        "Layers",
        "choice",
        ("none", "qkv", "attn", "mlp", "all"),
        ("none", "queries, keys, values", "attention", "MLP", "everywhere"),
    ),
    Control(
        "attn",
        "Mechanism",
        "Attention",
        "choice",
        ("softmax", "lightning"),
        ("softmax", "lightning (linear, no softmax)"),
        drops=("cap", "scale", "bylayer", "decay", "mixnorm", "mixeps"),
    ),
    Control(
        "feature",
        "Feature map",
        "Attention",
        "choice",
        ("none", "silu"),
        ("none", "SiLU of queries, keys and values"),
        when={"attn": ("lightning",), "pos": ("none", "learned")},
    ),
    Control(
        "gate",
        "Gate",
        "Attention",
        "choice",
        ("none", "head", "element"),
        ("none", "one for each head", "one for each entry"),
        drops=("mixnorm", "mixeps", "decay"),
    ),
    Control(
        "pos",
        "Positions",
        "Attention",
        "choice",
        get_args(Position),
        ("none", "rotary (RoPE)", "learned"),
        drops=("base", "rotary", "layout", "rescale", "positions", "offset"),
    ),
    Control("causal", "Causal mask", "Attention", "flag", drops=("pooler", "labels", "read")),
    Control(
        "window",
        "Window",
        "Attention",
        "size",
        (0, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2047, 4096, 8192),
        hint="number of tokens that a token sees; 0: all",
    ),
    Control(
        "qknorm",
        "Norms of queries and keys",
        "Attention",
        "choice",
        ("false", "true", "all"),
        ("none", "of every head", "of all heads together"),
        when={"attn": ("softmax",)},
    ),
    Control(
        "tied",
        "Tied embeddings",
        "Ends",
        "flag",
        when={"vocab": ("+",)},
        drops=_HEAD,
    ),
    Control(
        "output",
        "Function",
        "Ends",
        "choice",
        ("softmax", "logits", "hidden"),
        ("probabilities of tokens", "logits", "last hidden states"),
        when={"vocab": ("+",)},
        drops=_HEAD,
    ),
)
KEYS = tuple(control.key for control in CONTROLS)
FIRST = "llama-3-8b"  # what the page shows when it is opened
BESIDE = "gpt2"


def values_of(spec: Transformer) -> dict[str, str]:
    """The value of every control, as specs write it.

    >>> found = values_of(design("transformer/d=8/heads=2/t=3"))
    >>> found["head"], found["kv"], found["causal"]
    ('4', '2', 'false')
    """
    return {key: _written(getattr(spec, key)) for key in KEYS}


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(map(_written, value)) or "0"
    if not isinstance(value, int | str):  # a fraction: as decimals
        return f"{float(value):g}" if value else "0"
    return str(value)


def design(text: str) -> Transformer:
    """The design of an inline spec; nothing else is read, least of all a file."""
    if not text.startswith("transformer/"):
        raise SegreError(
            f"spec {quote(text)}: the explorer supports only transformers, for example "
            "transformer/d=64/heads=4/t=16"
        )
    return Transformer.parse(text)


def shown_first(source: Source) -> str:
    """The inline spec of what a user names, to open the page with."""
    spec = architecture(source)
    if not isinstance(spec, Transformer):
        raise UnsupportedError(
            f"spec {quote(str(spec))}: the explorer supports only transformers; for stacks of "
            "attention layers use segre dim, explain or compare"
        )
    return str(spec)


def presets() -> dict[str, str]:
    """The inline spec of every preset, by name."""
    return {name: str(architecture(name)) for name in PRESETS}
