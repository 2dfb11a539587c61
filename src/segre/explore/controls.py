"""Which choices of a transformer can be changed on the page, and which of them go together?

What contradicts another choice is hidden by `when`, so that the page asks segre about designs that
make sense; what a preset has beside the controls is kept until the control it belongs to (`drops`)
is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from segre.explore.control import choice, flag, part, size
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
_HIDDEN_LAYER = {"mlp": tuple(kind for kind in _MLPS if kind != "none")}
_SOFTMAX = {"attn": ("softmax",)}
_WORDED = {"vocab": ("+",)}
_ROUTING = "router groups within dense expbias limit sharedgate"
_HEAD = "transform headnorm outbias pooler labels read relation logitcap"

CONTROLS = (
    *part(
        "Sizes",
        size("d", "Width", (*_WIDTHS, *_WIDER), "of the residual stream"),
        size("layers", "Layers", _LAYERS, drops="share"),
        size("heads", "Heads", _HEADS, "query heads per layer"),
        size(
            "kv",
            "Key-value heads",
            _HEADS,
            "divides the heads; fewer means grouped queries",
            resets="kvrank qrank",
        ),
        size(
            "head",
            "Head rank",
            _RANKS,
            "dimensions of a head's queries, keys and values",
            drops="dv rotary scale rescale",
        ),
        size(
            "ff",
            "MLP width",
            (*_HIDDEN, *_MORE),
            "hidden units; with experts, those of the dense layers",
            when=_HIDDEN_LAYER,
        ),
        size(
            "vocab",
            "Vocabulary",
            (0, *_WORDS, *_MORE_WORDS),
            "0 means that inputs are arbitrary vectors",
            drops=f"embed project types embnorm embscale final patch cls {_HEAD}",
        ),
        size("t", "Tokens", _TOKENS, "length of an input", drops="positions offset"),
    ),
    *part(
        "Layers",
        choice(
            "mlp",
            "MLP",
            _MLPS,
            [_MLP_WORDS[kind] for kind in _MLPS],
            drops=f"{_ROUTING} transform headnorm relation",
        ),
        choice(
            "norm",
            "Norm",
            get_args(NormKind),
            ("none", "RMSNorm", "LayerNorm"),
            drops="final embnorm firstnorm gain skip transform layerscale",
        ),
        choice(
            "place",
            "Position of the norms",
            get_args(Place),
            ("before the layers", "after the skips", "on both sides", "after the layers"),
            when=_NORMED,
            drops="final firstnorm skip",
        ),
        choice("eps", "eps of the norms", ("0", "1e-05", "1e-06", "1e-12"), when=_NORMED),
        flag("residual", "Residual connections"),
        flag("parallel", "Attention and MLP in parallel", when=_HIDDEN_LAYER),
        choice(
            "bias",
            "Biases",
            ("none", "qkv", "attn", "mlp", "all"),
            ("none", "queries, keys, values", "attention", "MLP", "everywhere"),
        ),
    ),
    *part(
        "Attention",
        choice(
            "attn",
            "Mechanism",
            ("softmax", "lightning"),
            ("softmax", "lightning (no softmax)"),
            drops="cap scale bylayer decay mixnorm mixeps",
        ),
        choice(
            "feature",
            "Feature map",
            ("none", "silu"),
            ("none", "SiLU of queries, keys and values"),
            when={"attn": ("lightning",), "pos": ("none", "learned")},
        ),
        choice(
            "gate",
            "Gate",
            ("none", "head", "element"),
            ("none", "one for each head", "one for each entry"),
            drops="mixnorm mixeps decay",
        ),
        choice(
            "pos",
            "Positions",
            get_args(Position),
            ("none", "rotary (RoPE)", "learned"),
            drops="base rotary layout rescale positions offset",
        ),
        flag("causal", "Causal mask", drops="pooler labels read"),
        size(
            "window",
            "Window",
            (0, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2047, 4096, 8192),
            "how many tokens a token sees; 0 means all",
        ),
        choice(
            "qknorm",
            "Norms of queries and keys",
            ("false", "true", "all"),
            ("none", "of every head", "of all heads together"),
            when=_SOFTMAX,
        ),
        size(
            "kvrank",
            "Latent rank of keys and values",
            (0, *_RANKS, 512),
            "latent attention, as in DeepSeek; 0 means none",
            when=_SOFTMAX,
            drops="rotary cap scale rescale dv",
            resets="kv qknorm bias gate",
        ),
        size(
            "qrank",
            "Latent rank of queries",
            (0, *_RANKS, 512, 768, 1536),
            "0 means a plain query map",
            when={"kvrank": ("+",)},
        ),
        flag(
            "sinks",
            "Attention sinks",
            "an extra score per head that attends to nothing",
            when=_SOFTMAX,
        ),
    ),
    *part(
        "Experts",
        size(
            "experts",
            "Experts",
            (0, 2, 4, 8, 16, 32, 64, 128, 256),
            "routed MLPs per layer; 0 means one MLP",
            when={"mlp": GATED},
            drops=_ROUTING,
        ),
        size(
            "active",
            "Experts per token",
            (1, 2, 4, 6, 8, 16),
            "how many the router chooses",
            when=_EXPERT,
        ),
        size("eff", "Width of an expert", (*_HIDDEN, *_MORE), when=_EXPERT),
        size(
            "shared",
            "Width of the shared expert",
            (0, *_HIDDEN),
            "used by every token; 0 means none",
            when=_EXPERT,
            drops="sharedgate",
        ),
    ),
    *part(
        "Input and output",
        flag("tied", "Tied embeddings", when=_WORDED, drops=_HEAD),
        choice(
            "output",
            "Function",
            ("softmax", "logits", "hidden"),
            ("probabilities", "logits", "hidden states"),
            when=_WORDED,
            drops=_HEAD,
        ),
    ),
)
