"""Does a theorem prove what a certificate claims? Every number is recomputed from the spec.

Section 9 of docs/certificate.md. What a certificate lists is compared with what it should list, so
that nothing of it is believed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any

from segre.kernel.designs import GATED, PLAIN, Hypothesis, hypotheses, parameters, symmetries
from segre.kernel.document import Claim, RejectionError, Spec, keys, quote, text
from segre.polynomial.spec import Polynomial
from segre.spec import Network
from segre.transformer.spec import Transformer

STACKS = ("A", "A'", "L1", "L")
POLYNOMIALS = ("V", "M", "K")
_ALWAYS = ("d", "layers", "heads", "kv", "head", "dv", "ff", "t", "layout", "scale", "bylayer")

# Which values of a key a theorem covers; keys that are not in its column must have their defaults.


def _any(_value: Any) -> bool:
    return True


def _smooth(how: Any) -> bool:
    """Whether all layers have one rescaling of frequencies, if any, that the theorems know."""
    return isinstance(how, str) and how.split(":")[0] in ("", "linear", "llama3")


def _number(base: Any) -> bool:
    return isinstance(base, int)


_Values = Callable[[Any], bool] | tuple[Any, ...]
_Column = dict[str, _Values]
_MLPS = (*GATED, *PLAIN)
_ROTARY: _Column = {
    **{"norm": ("rms",), "eps": _any, "mlp": _MLPS, "causal": (True,), "pos": ("rope",)},
    **{"rotary": _any, "base": _number, "rescale": _smooth},
}
_DECODER: _Column = _ROTARY | {
    **{"window": _any, "vocab": _any, "embscale": _any, "tied": _any},
    **{"final": (True,), "output": ("softmax", "logits")},
}
_LEARNED: _Column = {
    **{"norm": ("layer",), "pos": ("learned",), "bias": ("all",)},
    **{"eps": _any, "positions": _any, "vocab": _any},
}
_ENCODER = _LEARNED | {"place": ("post",), "mlp": PLAIN, "embnorm": (True,), "types": (0, 2)}
_TIED: _Column = {"tied": (True,)}
_SOFTMAX: _Column = {"output": ("softmax",)}
_COLUMNS: dict[str, _Column] = {
    "B": _ROTARY | {"qknorm": (False, True)},
    "C": _DECODER | {"qknorm": (False, True)},
    "D1": _DECODER | {"bias": ("qkv",)},
    "E": _DECODER | _TIED | {"place": ("sandwich",), "mlp": GATED, "cap": _any, "logitcap": _any},
    "D2": _LEARNED | _TIED | _SOFTMAX | {"mlp": _MLPS, "causal": (True,), "final": (True,)},
    "F1": _ENCODER | _TIED | _SOFTMAX | {"transform": (True,), "outbias": (True,)},
    "F2": _ENCODER | {"pooler": _any, "output": ("hidden",)},
}
NAMES = (*STACKS, *_COLUMNS, *POLYNOMIALS)
_DEFAULTS = {key.name: key.default for key in fields(Transformer) if key.name not in _ALWAYS}


def check(spec: Spec, claim: Claim, lower: Any, upper: Any) -> list[str]:
    """The sentences of what holds; what does not is raised."""
    keys(lower, ("kind", "name", "hypotheses"), "lower")
    theorem = text(lower["name"], "lower.name", NAMES)
    if found := uncovered(spec, theorem):
        raise RejectionError(f"lower.name: theorem {theorem} does not cover {found}")
    total = parameters(spec)
    _same(claim.parameters, total, "claim.parameters")
    asked = hypotheses(spec, theorem)
    for one in asked:
        if not one.holds:
            raise RejectionError(f"lower.hypotheses: {one} does not hold")
    counted = symmetries(spec, theorem)
    dimension = total - sum(counted.values())
    _same(lower, _lower(theorem, asked), "lower")
    _same(upper, _upper(counted), "upper")
    _same(claim.lower, dimension, "claim.lower")
    _same(claim.upper, dimension, "claim.upper")
    every = f"All {len(asked)} hypotheses hold" if len(asked) > 1 else "Its one hypothesis holds"
    return [
        f"It is a certificate by theorem: theorem {theorem} covers this design.",
        f"{every}: {', '.join(map(str, asked))}.",
        f"The symmetries have dimension {total - dimension}: of {total} parameters the theorem "
        f"leaves {dimension}, the dimension.",
        f"Trusted, and not checked: {trusted(theorem, spec)}.",
    ]


def _lower(theorem: str, asked: list[Hypothesis]) -> dict[str, Any]:
    return {"kind": "theorem", "name": theorem, "hypotheses": [asdict(one) for one in asked]}


def _upper(counted: dict[str, int]) -> dict[str, Any]:
    listed = [{"name": name, "dimension": count} for name, count in counted.items()]
    return {"kind": "theorem", "symmetries": listed}


def _same(given: Any, found: Any, where: str) -> None:
    """Require that two JSON values are equal; the first difference is named."""
    if type(given) is not type(found):
        raise RejectionError(f"{where}: {quote(given)}, but it is {quote(found)}")
    if isinstance(found, dict):
        keys(given, found, where)
        for key, value in found.items():
            _same(given[key], value, f"{where}.{key}")
    elif isinstance(found, list):
        for i, (one, other) in enumerate(zip(given, found, strict=False)):
            _same(one, other, f"{where}[{i}]")
        if len(given) != len(found):
            raise RejectionError(f"{where}: {len(given)} entries, but there are {len(found)}")
    elif given != found:
        raise RejectionError(f"{where}: {quote(given)}, but it is {quote(found)}")


def trusted(theorem: str, spec: Spec) -> str:
    """What a certificate rests on that is not checked."""
    published = []
    if theorem not in ("L1", "L", *POLYNOMIALS):
        published.append("Ax")
    if theorem == "V":
        published.append("Alexander and Hirschowitz")
    if theorem in ("C", "D1", "E"):
        published.append("Lindemann")
    proof = f"the proof of theorem {theorem} in docs/theorems.md, which is not formalised"
    if isinstance(spec, Transformer) and spec.mlp in ("gelu", "geglu"):
        proof += ", that of statement (T) of docs/soundness.md, which is not formalised either"
    if not published:
        return proof
    *others, last = (f"of {author}" for author in published)
    listed = f"{', '.join(others)} and {last}" if others else last
    return f"{proof}, and the published theorem{'s' * (len(published) > 1)} {listed}"


def uncovered(spec: Spec, theorem: str) -> str:
    """What a theorem does not cover of a design, in a few words; empty if it covers it."""
    if isinstance(spec, Polynomial):
        return _of_polynomial(spec, theorem) if theorem in POLYNOMIALS else "polynomial networks"
    if isinstance(spec, Network):
        return _of_stack(spec, theorem) if theorem in STACKS else "stacks"
    if theorem not in _COLUMNS:
        return "transformers"
    column = _COLUMNS[theorem]
    for key, default in _DEFAULTS.items():
        value, allowed = getattr(spec, key), column.get(key, (default,))
        if not (value in allowed if isinstance(allowed, tuple) else allowed(value)):
            return f"{key}={value}"[:80]
    return ""


def _of_polynomial(spec: Polynomial, theorem: str) -> str:
    if (spec.kind == "cnn") != (theorem == "K"):
        return "convolutions" if spec.kind == "cnn" else "dense layers"
    if theorem != "K" and (spec.degree == 1) != (theorem == "M"):
        return f"degree {spec.degree}"
    if theorem == "V" and (spec.bias or len(spec.widths) != 3 or spec.widths[2] > 1):
        return "biases, several outputs, or other than two layers"
    return ""


def _of_stack(net: Network, theorem: str) -> str:
    score = "softmax" if theorem in ("A", "A'") else "lightning"
    if net.score != score or not net.plain:
        return f"{net.score} attention"
    alone = all(head.heads == 1 and head.dv is None for head in net.layers)
    if alone == (theorem == "A'"):
        return "one head without dv in every layer" if alone else "several heads, or dv"
    if theorem in ("L1", "L") and (len(net.layers) == 1) != (theorem == "L1"):
        return f"{len(net.layers)} layer" + "s" * (len(net.layers) > 1)
    return ""
