"""Which designs does a theorem cover? Section 3."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from segre.polynomial.spec import Polynomial
from segre.spec import Network
from segre.transformer.spec import Transformer

Covers = Callable[[Any], bool]
Spec = Network | Transformer | Polynomial

GATED = ("swiglu", "geglu", "geglu-tanh")
PLAIN = ("silu", "gelu", "gelu-tanh")
STACKS = ("A", "A'", "L1", "L")
POLYNOMIALS = ("V", "M", "K")
ALWAYS = frozenset(
    ("d", "layers", "heads", "kv", "head", "dv", "ff", "t", "layout", "scale", "bylayer")
)


def _any(_value: Any) -> bool:
    return True


def _one(*allowed: Any) -> Covers:
    return lambda value: value in allowed


def _one_base(base: Any) -> bool:
    return isinstance(base, int)


def _smooth(how: Any) -> bool:
    """Whether frequencies are as they are, or rescaled in a way that the theorems know."""
    if not isinstance(how, str):
        return False
    return how == "" or how.split(":")[0] in ("linear", "llama3")


_ROTARY: dict[str, Covers] = {
    "norm": _one("rms"),
    "eps": _any,
    "mlp": _one(*GATED, *PLAIN),
    "pos": _one("rope"),
    "rotary": _any,
    "base": _one_base,
    "rescale": _smooth,
    "causal": _one(True),
}
_LOGITS, _SOFTMAX = _one("softmax", "logits"), _one("softmax")
_DECODER = {
    **_ROTARY,
    "window": _any,
    "vocab": _any,
    "final": _one(True),
    "embscale": _any,
    "output": _LOGITS,
}
_LEARNED: dict[str, Covers] = {
    "norm": _one("layer"),
    "eps": _any,
    "pos": _one("learned"),
    "positions": _any,
    "bias": _one("all"),
    "vocab": _any,
}
_ENCODER = {
    **_LEARNED,
    "place": _one("post"),
    "mlp": _one(*PLAIN),
    "embnorm": _one(True),
    "types": _one(0, 2),
}
_COLUMNS: dict[str, dict[str, Covers]] = {
    "B": {**_ROTARY, "qknorm": _one(False, True)},
    "C": {**_DECODER, "qknorm": _one(False, True), "tied": _any},
    "D1": {**_DECODER, "bias": _one("qkv"), "tied": _any},
    "E": {
        **_DECODER,
        "place": _one("sandwich"),
        "mlp": _one(*GATED),
        "tied": _one(True),
        "cap": _any,
        "logitcap": _any,
    },
    "D2": {
        **_LEARNED,
        "mlp": _one(*GATED, *PLAIN),
        "causal": _one(True),
        "tied": _one(True),
        "final": _one(True),
        "output": _SOFTMAX,
    },
    "F1": {
        **_ENCODER,
        "tied": _one(True),
        "transform": _one(True),
        "outbias": _one(True),
        "output": _SOFTMAX,
    },
    "F2": {**_ENCODER, "pooler": _any, "output": _one("hidden")},
}
TRANSFORMERS = tuple(_COLUMNS)
NAMES = (*STACKS, *TRANSFORMERS, *POLYNOMIALS)
_DEFAULTS = {key.name: key.default for key in fields(Transformer) if key.name not in ALWAYS}


def uncovered(spec: Spec, theorem: str) -> str:
    """What a theorem does not cover of a design, in a few words; empty if it covers it."""
    if isinstance(spec, Polynomial):
        return _of_polynomial(spec, theorem) if theorem in POLYNOMIALS else "polynomial networks"
    if isinstance(spec, Network):
        return _of_stack(spec, theorem) if theorem in STACKS else "stacks"
    return _of_keys(spec, theorem) if theorem in TRANSFORMERS else "transformers"


def _of_polynomial(spec: Polynomial, theorem: str) -> str:
    if (spec.kind == "cnn") != (theorem == "K"):
        return "convolutions" if spec.kind == "cnn" else "dense layers"
    if theorem != "K" and (spec.degree == 1) != (theorem == "M"):
        return f"degree {spec.degree}"
    if theorem != "V":
        return ""
    if spec.bias:
        return "biases"
    if len(spec.widths) != 3:
        return f"{len(spec.widths) - 1} layer" + "s" * (len(spec.widths) > 2)
    return f"{spec.widths[2]} outputs" if spec.widths[2] > 1 else ""


def _of_stack(net: Network, theorem: str) -> str:
    score = "softmax" if theorem in ("A", "A'") else "lightning"
    if net.score != score:
        return f"{net.score} attention"
    heads = list(net.layers)
    alone = all(head.heads == 1 and head.dv is None for head in heads)
    if alone == (theorem == "A'"):
        return "one head without dv in every layer" if alone else "several heads, or dv"
    if theorem in ("L1", "L") and (len(heads) == 1) != (theorem == "L1"):
        return f"{len(heads)} layer" + "s" * (len(heads) > 1)
    return ""


def _of_keys(spec: Transformer, theorem: str) -> str:
    column = _COLUMNS[theorem]
    for key, default in _DEFAULTS.items():
        value = getattr(spec, key)
        if not (column[key](value) if key in column else value == default):
            return f"{key}={value}"[:80]
    return ""
