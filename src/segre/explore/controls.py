"""Which choices of a transformer can be changed on the page, and which of them go together?

What contradicts another choice is hidden by `when`, so that the page asks segre about designs that
make sense; what a preset has beside the controls is kept until the control it belongs to (`drops`)
is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from segre.explore.control import Control
from segre.transformer.choices import GATED, MlpKind, NormKind, Place, Position

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
_EXPERT: Mapping[str, tuple[Any, ...]] = {"mlp": GATED, "experts": ("+",)}
_ROUTING = ("router", "groups", "within", "dense", "expbias", "limit", "sharedgate")
_HEAD = ("transform", "headnorm", "outbias", "pooler", "labels", "read", "relation", "logitcap")

CONTROLS = (
    Control("d", "Width", "Sizes", "size", (*_WIDTHS, *_WIDER), hint="of the residual stream"),
    Control("layers", "Layers", "Sizes", "size", _LAYERS, drops=("share",)),
    Control("heads", "Heads", "Sizes", "size", _HEADS, hint="query heads per layer"),
    Control(
        "kv",
        "Key-value heads",
        "Sizes",
        "size",
        _HEADS,
        hint="divides the heads; fewer means grouped queries",
        resets=("kvrank", "qrank"),
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
        hint="hidden units; with experts, those of the dense layers",
    ),
    Control(
        "vocab",
        "Vocabulary",
        "Sizes",
        "size",
        (0, *_WORDS, *_MORE_WORDS),
        hint="0 means that inputs are arbitrary vectors",
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
        drops=(*_ROUTING, "transform", "headnorm", "relation"),
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
        "Position of the norms",
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
        ("softmax", "lightning (no softmax)"),
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
        hint="how many tokens a token sees; 0 means all",
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
        "kvrank",
        "Latent rank of keys and values",
        "Attention",
        "size",
        (0, *_RANKS, 512),
        hint="latent attention, as in DeepSeek; 0 means none",
        when={"attn": ("softmax",)},
        drops=("rotary", "cap", "scale", "rescale", "dv"),
        resets=("kv", "qknorm", "bias", "gate"),
    ),
    Control(
        "qrank",
        "Latent rank of queries",
        "Attention",
        "size",
        (0, *_RANKS, 512, 768, 1536),
        hint="0 means a plain query map",
        when={"kvrank": ("+",)},
    ),
    Control(
        "sinks",
        "Attention sinks",
        "Attention",
        "flag",
        hint="an extra score per head that attends to nothing",
        when={"attn": ("softmax",)},
    ),
    Control(
        "experts",
        "Experts",
        "Experts",
        "size",
        (0, 2, 4, 8, 16, 32, 64, 128, 256),
        hint="routed MLPs per layer; 0 means one MLP",
        when={"mlp": GATED},
        drops=_ROUTING,
    ),
    Control(
        "active",
        "Experts per token",
        "Experts",
        "size",
        (1, 2, 4, 6, 8, 16),
        hint="how many the router chooses",
        when=_EXPERT,
    ),
    Control("eff", "Width of an expert", "Experts", "size", (*_HIDDEN, *_MORE), when=_EXPERT),
    Control(
        "shared",
        "Width of the shared expert",
        "Experts",
        "size",
        (0, *_HIDDEN),
        hint="used by every token; 0 means none",
        when=_EXPERT,
        drops=("sharedgate",),
    ),
    Control(
        "tied",
        "Tied embeddings",
        "Input and output",
        "flag",
        when={"vocab": ("+",)},
        drops=_HEAD,
    ),
    Control(
        "output",
        "Function",
        "Input and output",
        "choice",
        ("softmax", "logits", "hidden"),
        ("probabilities", "logits", "hidden states"),
        when={"vocab": ("+",)},
        drops=_HEAD,
    ),
)
