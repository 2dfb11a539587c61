"""Which choices of a stack of attention layers can be changed on the page?

A stack has no skips, norms or MLPs. What its heads do is a mechanism with options; an empty value
is the default of the mechanism.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from segre.attention.mechanism import NAMED, Biases, Conv, Feature, Gate, Normalise, Unit
from segre.explore.control import NONE, Control, choice, flag, joined, size
from segre.explore.controls import GATES
from segre.spec import MIX

_USUAL = "default"
_NAMES = {
    "softmax": "softmax",
    "lightning": "lightning (no softmax)",
    "linear": "linear (ELU + 1)",
    "fast": "FAST (Taylor of exp)",
    "double": "doubly normalised",
    "gapless": "gapless (minus 1/t)",
    MIX: "several (as in the spec)",
}
_WORDS = {
    "none": "none",
    "square": "squares",
    "exp": "exp",
    "relu": "ReLU",
    "elu1": "ELU + 1",
    "silu": "SiLU",
    "keys": "over keys",
    "both": "over queries, then keys",
    "centred": "over keys, minus 1/t",
    "sphere": "divided by their lengths",
    "layer": "standardised",
    "key": "of keys",
    "query": "of queries",
    "full": "by a map for every place",
    "depthwise": "by numbers for every row",
    "shared": "by numbers for all rows",
}
_REACH = (NONE, 1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_WIDTHS = (2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
_STEPS = (1, 2, 3, 4, 5, 8, 16)  # of kernels and strides
_SLOPES = {"slopes": "slopes, one for each head"}
_DECAYS = ("none", "0.99", "0.9", "0.5", "learned", "slopes")
_TOKENS = (2, 3, 4, 5, 6, 8, 12, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
_RANKS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


def _worded(key: str, label: str, kinds: Any, usual: bool = True) -> Control:
    """A choice among all values of a type; if `usual`, or what the mechanism has by itself."""
    own = {value: _WORDS[value] for value in get_args(kinds)}
    return choice(key, label, {"": _USUAL, **own} if usual else own)


_PARTS = {
    "Sizes": (
        size("d", "Width", _WIDTHS, "of the tokens"),
        size("layers", "Layers", (*range(1, 13), 16, 24, 32, 48, 64)),
        size("heads", "Heads", (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32)),
        size("a", "Head rank", _RANKS, "dimensions of queries and keys"),
        size("dv", "Value rank", (NONE, *_RANKS), "none means one value matrix per head"),
        size("t", "Tokens", _TOKENS),
    ),
    "Attention": (
        choice("kind", "Mechanism", {name: _NAMES[name] for name in (*NAMED, MIX)}),
        size("order", "Order of the polynomial", range(1, 9)),
        _worded("feature", "Feature map", Feature),
        _worded("normalise", "Weights normalised", Normalise),
        _worded("unit", "Queries and keys", Unit),
        choice("gate", "Gate", {gate: GATES[gate] for gate in get_args(Gate)}),
        _worded("bias", "Biases", Biases, usual=False),
    ),
    "What a token sees": (
        flag("causal", "Causal mask"),
        choice("decay", "Decay", {name: _SLOPES.get(name, name) for name in _DECAYS}),
        size("window", "Window", _REACH, "how far away keys may be"),
        size("local", "Local blocks", _REACH, "a token sees only its own block of this many"),
        _worded("conv", "Compressed keys", Conv, usual=False),
        size("kernel", "Kernel", _STEPS),
        size("stride", "Stride", _STEPS),
    ),
}
_WHEN: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "heads feature normalise unit gate bias": {"kind": tuple(NAMED)},
    "causal decay window local conv": {"kind": tuple(NAMED)},
    "order": {"kind": ("fast",)},
    "kernel stride": {"conv": ("full", "depthwise", "shared")},
}
_MASKS = ("causal", "decay", "window", "local")
_RESETS = {
    "kind": "order normalise feature unit",
    "conv": " ".join(_MASKS),
    **dict.fromkeys(_MASKS, "conv"),
}
CONTROLS = joined(_PARTS, _WHEN, {}, _RESETS)
USUAL = {
    **dict.fromkeys(("heads", "kernel", "stride"), "1"),
    **dict.fromkeys(("feature", "normalise", "unit", "d", "layers", "a", "t"), ""),
    **dict.fromkeys(("dv", "gate", "bias", "decay", "window", "local", "conv"), NONE),
    **{"kind": "softmax", "order": "2", "causal": "false"},
}
_SIZES = "d=32/layers=6/a=8"
# Stacks to begin with and to compare with.
NAMED_STACKS = {
    "softmax stack": f"softmax/{_SIZES}/heads=4/dv=8/t=256",
    "gated softmax stack": f"softmax/{_SIZES}/heads=4/dv=8/gate=element/t=256",
    "lightning stack": f"lightning/{_SIZES}/heads=4/dv=8/decay=slopes/t=256",
    "linear stack": f"linear/{_SIZES}/heads=4/dv=8/causal=true/t=256",
    "FAST stack": f"fast/{_SIZES}/heads=4/dv=8/t=256",
    "doubly normalised stack": f"double/{_SIZES}/heads=4/dv=8/t=256",
    "lightning stack, softmax last": "mix/d=32/layers=4/a=8/heads="
    "lightning:decay=0.9*4,lightning:decay=0.9*4,lightning:decay=0.9*4,softmax:causal*4/dv=8/t=256",
    "small stack": "softmax/d=4/layers=2/a=2/heads=1/gate=head/t=3",
}
FIRST_STACK = "softmax stack"
