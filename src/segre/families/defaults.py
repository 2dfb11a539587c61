"""What the name of a family stands for: the keys that its inline specs need not give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ROTARY = {"norm": "rms", "mlp": "swiglu", "pos": "rope", "causal": True}
_POST = {"norm": "layer", "place": "post", "mlp": "gelu", "bias": "all", "pos": "learned"}

FAMILIES: dict[str, dict[str, Any]] = {
    "gpt2": {
        "norm": "layer",
        "mlp": "gelu-tanh",
        "bias": "all",
        "pos": "learned",
        "causal": True,
    },
    "bert": _POST,
    "albert": {**_POST, "mlp": "gelu-tanh", "share": True},
    "llama": _ROTARY,
    "mistral": _ROTARY,
    "qwen2": {**_ROTARY, "bias": "qkv"},
    "qwen3": {**_ROTARY, "qknorm": True},
    "gemma2": {**_ROTARY, "place": "sandwich", "mlp": "geglu-tanh", "cap": 50},
    "deepseek-v3": {**_ROTARY, "layout": "interleaved"},
}

_TYPED = {"types": 2, "embnorm": True}
_TRANSFORMED = {"tied": True, "transform": True, "outbias": True}
# Keys that a vocabulary brings, and keys that a distribution over it brings.
_TOKENS: dict[str, dict[str, Any]] = {
    "bert": _TYPED,
    "albert": _TYPED,
    "gemma2": {"embscale": True},
}
_WORDS: dict[str, dict[str, Any]] = {
    "gpt2": {"tied": True},
    "bert": _TRANSFORMED,
    "albert": _TRANSFORMED,
    "gemma2": {"tied": True, "logitcap": 30},
}
_FOURFOLD = ("gpt2", "bert", "albert")  # families whose MLPs are four times as wide as d
_LATENT = {"qrank": 4, "kvrank": 2}


def family_defaults(family: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The family's values of keys, as far as they go with what was given.

    >>> family_defaults("gpt2", {"d": 8})["ff"], "tied" in family_defaults("gpt2", {"d": 8})
    (32, False)
    >>> family_defaults("gpt2", {"d": 8, "vocab": 11})["tied"]
    True
    """
    out = dict(FAMILIES[family])
    if given.get("vocab") not in (None, 0):
        out |= _TOKENS.get(family, {})
        if given.get("output") != "hidden":
            out |= _WORDS.get(family, {})
    d = given.get("d")
    if family in _FOURFOLD and isinstance(d, int) and given.get("mlp") != "none":
        out["ff"] = 4 * d
    if family == "deepseek-v3" and given.get("kvrank") != 0:
        out |= _LATENT
        if given.get("pos", "rope") == "rope":
            out["rotary"] = 2
    return out
