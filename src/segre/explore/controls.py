"""Which choices of a transformer can be changed on the page, and which of them go together?

What contradicts another choice is hidden by `when`, so that the page asks segre about designs that
make sense; what a preset has beside the controls is kept until the control it belongs to (`drops`)
is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from segre.explore.control import choice, flag, joined, size
from segre.transformer.choices import GATED, MlpKind, NormKind, Place, Position

# Steps of sliders; a number field beside each takes any other value.
_WIDTHS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 576, 640, 768, 896, 1024, 1280)
_WIDER = (1536, 1600, 2048, 2304, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 12288, 16384)
_LAYERS = (*range(1, 17), 18, 20, 22, 24, 26, 28, 30, 32, 36, 40, 42, 48, 56, 64, 80, 96, 128)
_HEADS = (1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 14, 16, 20, 24, 25, 28, 32, 40, 48, 64, 72, 96, 128)
_RANKS = (2, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48, 56, 64, 72, 80, 96, 112, 128, 160, 192, 256)
_NARROW = (8, 16, 32, 64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 4864, 6144, 8192, 9216)
_MORE = (10240, 11008, 12288, 14336, 16384, 18944, 20480, 24576, 28672, 36864, 49152)
_HIDDEN = (*_NARROW, *_MORE)
_SMALL = (0, *(2**power for power in range(4, 15)))
_WORDS = (*_SMALL, 30522, 32000, 49152, 50257, 65536, 100352, 128256, 151936, 200064, 256000)
_WINDOWS = (0, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2047, 4096, 8192)
_EXPERTS = (0, 2, 4, 8, 16, 32, 64, 128, 256)
_TOKENS = tuple(2**power for power in range(2, 18))

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
_MLPS = {kind: _MLP_WORDS[kind] for kind in get_args(MlpKind) if kind in _MLP_WORDS}
_PLACES = ("before the layers", "after the skips", "on both sides", "after the layers")
_BIASES = {
    "none": "none",
    "qkv": "queries, keys, values",
    "attn": "attention",
    "mlp": "MLP",
    "all": "everywhere",
}
_SILU = "SiLU of queries, keys and values"
GATES = {"none": "none", "head": "one for each head", "element": "one for each entry"}
_QKNORMS = {"false": "none", "true": "of every head", "all": "of all heads together"}
_LATENT, _SHARED = (
    "latent attention, as in DeepSeek; 0 means none",
    "used by every token; 0 means none",
)
_OUTPUTS = {"softmax": "probabilities", "logits": "logits", "hidden": "hidden states"}
_QUERY_RANKS = (0, *_RANKS, 512, 768, 1536)


def _named(kinds: Any, *names: str) -> dict[str, str]:
    """All values of a type, with their names."""
    return dict(zip(get_args(kinds), names, strict=True))


_PARTS = {
    "Sizes": (
        size("d", "Width", (*_WIDTHS, *_WIDER), "of the residual stream"),
        size("layers", "Layers", _LAYERS),
        size("heads", "Heads", _HEADS, "query heads per layer"),
        size("kv", "Key-value heads", _HEADS, "divides the heads; fewer means grouped queries"),
        size("head", "Head rank", _RANKS, "dimensions of a head's queries, keys and values"),
        size("ff", "MLP width", _HIDDEN, "hidden units; with experts, those of the dense layers"),
        size("vocab", "Vocabulary", _WORDS, "0 means that inputs are arbitrary vectors"),
        size("t", "Tokens", _TOKENS, "length of an input"),
    ),
    "Layers": (
        choice("mlp", "MLP", _MLPS),
        choice("norm", "Norm", _named(NormKind, "none", "RMSNorm", "LayerNorm")),
        choice("place", "Position of the norms", _named(Place, *_PLACES)),
        choice("eps", "eps of the norms", ("0", "1e-05", "1e-06", "1e-12")),
        flag("residual", "Residual connections"),
        flag("parallel", "Attention and MLP in parallel"),
        choice("bias", "Biases", _BIASES),
    ),
    "Attention": (
        choice("attn", "Mechanism", {"softmax": "softmax", "lightning": "lightning (no softmax)"}),
        choice("feature", "Feature map", {"none": "none", "silu": _SILU}),
        choice("gate", "Gate", GATES),
        choice("pos", "Positions", _named(Position, "none", "rotary (RoPE)", "learned")),
        flag("causal", "Causal mask"),
        size("window", "Window", _WINDOWS, "how many tokens a token sees; 0 means all"),
        choice("qknorm", "Norms of queries and keys", _QKNORMS),
        size("kvrank", "Latent rank of keys and values", (0, *_RANKS, 512), _LATENT),
        size("qrank", "Latent rank of queries", _QUERY_RANKS, "0 means a plain query map"),
        flag("sinks", "Attention sinks", "an extra score per head that attends to nothing"),
    ),
    "Experts": (
        size("experts", "Experts", _EXPERTS, "routed MLPs per layer; 0 means one MLP"),
        size("active", "Experts per token", (1, 2, 4, 6, 8, 16), "how many the router chooses"),
        size("eff", "Width of an expert", _HIDDEN),
        size("shared", "Width of the shared expert", (0, *_NARROW), _SHARED),
    ),
    "Input and output": (
        flag("tied", "Tied embeddings"),
        choice("output", "Function", _OUTPUTS),
    ),
}
_WHEN: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "ff parallel": {"mlp": tuple(kind for kind in _MLPS if kind != "none")},
    "place eps": {"norm": ("rms", "layer")},
    "feature": {"attn": ("lightning",), "pos": ("none", "learned")},
    "qknorm kvrank sinks": {"attn": ("softmax",)},
    "qrank": {"kvrank": ("+",)},
    "experts": {"mlp": GATED},
    "active eff shared": {"mlp": GATED, "experts": ("+",)},
    "tied output": {"vocab": ("+",)},
}
_ROUTING = "router groups within dense expbias limit sharedgate"
_HEAD = "transform headnorm outbias pooler labels read relation logitcap"
_DROPS = {
    "layers": "share",
    "head": "dv rotary scale rescale",
    "vocab": f"embed project types embnorm embscale final patch cls {_HEAD}",
    "t": "positions offset",
    "mlp": f"{_ROUTING} transform headnorm relation",
    "norm": "final embnorm firstnorm gain skip transform layerscale",
    "place": "final firstnorm skip",
    "attn": "cap scale bylayer decay mixnorm mixeps",
    "gate": "mixnorm mixeps decay",
    "pos": "base rotary layout rescale positions offset",
    "causal": "pooler labels read",
    "kvrank": "rotary cap scale rescale dv",
    "experts": _ROUTING,
    "shared": "sharedgate",
    "tied": _HEAD,
    "output": _HEAD,
}
_RESETS = {"kv": "kvrank qrank", "kvrank": "kv qknorm bias gate"}
CONTROLS = joined(_PARTS, _WHEN, _DROPS, _RESETS)
