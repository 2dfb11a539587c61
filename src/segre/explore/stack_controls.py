"""Which choices of a stack of attention layers can be changed on the page?

A stack has no skips, norms or MLPs. What its heads do is a mechanism with options; an empty value
is the default of the mechanism.
"""

from __future__ import annotations

from typing import Any, get_args

from segre.attention.mechanism import NAMED, Biases, Conv, Feature, Gate, Normalise, Unit
from segre.explore.control import NONE, Control
from segre.spec import MIX

_USUAL = "default"
_MASKS = ("causal", "decay", "window", "local")
_OPTIONS: dict[str, Any] = {"kind": tuple(NAMED)}
_NAMES = {
    "softmax": "softmax",
    "lightning": "lightning (no softmax)",
    "linear": "linear (ELU + 1)",
    "fast": "FAST (Taylor of exp)",
    "double": "doubly normalised",
    "gapless": "gapless (minus 1/t)",
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
_RANKS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


def _choice(key: str, label: str, part: str, kinds: Any, *, usual: bool, **more: Any) -> Control:
    values = get_args(kinds)
    names = tuple(_WORDS[value] for value in values)
    if usual:
        values, names = ("", *values), (_USUAL, *names)
    return Control(key, label, part, "choice", values, names, when=_OPTIONS, **more)


CONTROLS = (
    Control("d", "Width", "Sizes", "size", _WIDTHS, hint="of the tokens"),
    Control("layers", "Layers", "Sizes", "size", (*range(1, 13), 16, 24, 32, 48, 64)),
    Control(
        "heads", "Heads", "Sizes", "size", (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32), when=_OPTIONS
    ),
    Control("a", "Head rank", "Sizes", "size", _RANKS, hint="dimensions of queries and keys"),
    Control(
        "dv",
        "Value rank",
        "Sizes",
        "size",
        (NONE, *_RANKS),
        hint="none means one value matrix per head",
    ),
    Control(
        "t",
        "Tokens",
        "Sizes",
        "size",
        (2, 3, 4, 5, 6, 8, 12, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096),
    ),
    Control(
        "kind",
        "Mechanism",
        "Attention",
        "choice",
        (*NAMED, MIX),
        (*(_NAMES[name] for name in NAMED), "several (as in the spec)"),
        resets=("order", "normalise", "feature", "unit"),
    ),
    Control(
        "order",
        "Order of the polynomial",
        "Attention",
        "size",
        (1, 2, 3, 4, 5, 6, 7, 8),
        when={"kind": ("fast",)},
    ),
    _choice("feature", "Feature map", "Attention", Feature, usual=True),
    _choice("normalise", "Weights normalised", "Attention", Normalise, usual=True),
    _choice("unit", "Queries and keys", "Attention", Unit, usual=True),
    Control(
        "gate",
        "Gate",
        "Attention",
        "choice",
        get_args(Gate),
        ("none", "one for each head", "one for each entry"),
        when=_OPTIONS,
    ),
    _choice("bias", "Biases", "Attention", Biases, usual=False),
    Control("causal", "Causal mask", "What a token sees", "flag", when=_OPTIONS, resets=("conv",)),
    Control(
        "decay",
        "Decay",
        "What a token sees",
        "choice",
        ("none", "0.99", "0.9", "0.5", "learned", "slopes"),
        ("none", "0.99", "0.9", "0.5", "learned", "slopes, one for each head"),
        when=_OPTIONS,
        resets=("conv",),
    ),
    Control(
        "window",
        "Window",
        "What a token sees",
        "size",
        _REACH,
        hint="how far away keys may be",
        when=_OPTIONS,
        resets=("conv",),
    ),
    Control(
        "local",
        "Local blocks",
        "What a token sees",
        "size",
        _REACH,
        hint="a token sees only its own block of this many",
        when=_OPTIONS,
        resets=("conv",),
    ),
    _choice("conv", "Compressed keys", "What a token sees", Conv, usual=False, resets=_MASKS),
    *(
        Control(
            name.lower(),
            name,
            "What a token sees",
            "size",
            (1, 2, 3, 4, 5, 8, 16),
            when={"conv": ("full", "depthwise", "shared")},
        )
        for name in ("Kernel", "Stride")
    ),
)
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
