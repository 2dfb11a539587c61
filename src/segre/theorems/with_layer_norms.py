"""Models with LayerNorms, all biases and learned positions: theorems D2 (GPT-2), F1 and F2 (BERT).

The letters are those of `decoders`.
"""

from __future__ import annotations

from segre.theorems.decoders import FIRST_LAYER
from segre.theorems.design import ANY, GATED, LEARNED, PLAIN, Design, positive_eps
from segre.theorems.theorem import Hypothesis, Theorem
from segre.transformer.spec import Transformer

_NORMED = {
    **LEARNED,
    "norm": ("layer",),
    "eps": ANY,
    "bias": ("all",),
    "vocab": ANY,
}
_TRUSTS = ("Ax",)


def _hypotheses(spec: Transformer) -> tuple[Hypothesis, ...]:
    d, a, v, H, V, P = spec.d, spec.head, spec.dv, spec.heads, spec.vocab, spec.parameters
    m = -(-(d - 1) // H)
    found = max((spec.t - 1) // max(m, 1), 0) * max(V - d, 0) * max(V - m - 1, 0)
    unknowns = d * (H * a + spec.kv * (a + v) + H * v) + H * a + spec.kv * (a + v) + 2 * d
    pairs = max(V - d - 1, 0) * max(V - 2 * d - 3, 0)
    return (
        Hypothesis(".d", "d >= 4", d, ">=", 4),
        Hypothesis(".a", "a <= d - 1", d - 1, ">=", a),
        Hypothesis(".v", "v <= d - 1", d - 1, ">=", v),
        Hypothesis(".heads", "Hv >= d - 1", H * v, ">=", d - 1),
        Hypothesis(".V", "V >= 2d + 2", V, ">=", 2 * d + 2),
        Hypothesis(".t", "t >= 2", spec.t, ">=", 2),
        Hypothesis(".positions", "t >= positions", spec.t, ">=", spec.positions),
        positive_eps(spec),
        Hypothesis(".contexts", "separating contexts > parameters", found, ">", P),
        Hypothesis(".first", FIRST_LAYER, pairs, ">", unknowns),
    )


def _layers(spec: Transformer, norms: int) -> dict[str, int]:
    """Symmetries of the layers; `norms` counts scalings and shifts of normed vectors in a layer."""
    a, v, H, kv, f, layers = spec.head, spec.dv, spec.heads, spec.kv, spec.ff, spec.layers
    return {
        "queries and keys": layers * kv * a * a,
        "values and outputs": layers * kv * v * v,
        "biases of keys and values": layers * kv * (a + v),
        "gains and biases of the norms": layers * norms,
        "what is read along the mean": layers * ((H + kv) * a + kv * v + f * (1 + spec.gated)),
        "what is written along the mean": layers * (H * v + f + 2),
        "gated units": layers * (f if spec.gated else 0),
    }


def _pre(spec: Transformer) -> dict[str, int]:
    return {
        **_layers(spec, 4 * spec.d),
        "means of positions": spec.positions,
        "shifts of all logits": spec.d,
    }


D_GPT2 = Theorem(
    "D2",
    "language models like GPT-2",
    Design(
        {
            **_NORMED,
            "mlp": (*GATED, *PLAIN),
            "causal": (True,),
            "tied": (True,),
            "final": (True,),
            "output": ("softmax",),
        }
    ).misfits,
    _hypotheses,
    _pre,
    _TRUSTS,
)


# --- F: norms after the skips ---------------------------------------------------------------------

_POST = {
    **_NORMED,
    "mlp": PLAIN,
    "place": ("post",),
    "embnorm": (True,),
    "types": (0, 2),
}


def _post(spec: Transformer) -> tuple[Hypothesis, ...]:
    depth = Hypothesis(".layers", "L >= 2", spec.layers, ">=", 2)
    return (depth, *_hypotheses(spec))


def _tables(spec: Transformer) -> dict[str, int]:
    """Constants that move between the tables of tokens, positions and types, and means."""
    between = 1 + (spec.types > 0)
    return {
        "constants between the tables": between * spec.d,
        "means of positions and types": spec.positions + spec.types,
    }


def _masked(spec: Transformer) -> dict[str, int]:
    ends = 4 * spec.d + 1 - (spec.types > 0)
    return {**_layers(spec, 2 * spec.d), **_tables(spec), "the head and its norm": ends}


def _hidden(spec: Transformer) -> dict[str, int]:
    return {
        **_layers(spec, 2 * spec.d),
        **_tables(spec),
        "means of tokens": spec.vocab - 1 - (spec.types > 0),
        "the pooler along the mean": spec.d if spec.pooler else 0,
    }


F_MASKED = Theorem(
    "F1",
    "masked language models like BERT",
    Design(
        {
            **_POST,
            "tied": (True,),
            "transform": (True,),
            "outbias": (True,),
            "output": ("softmax",),
        }
    ).misfits,
    _post,
    _masked,
    _TRUSTS,
    section="f",
)
F_HIDDEN = Theorem(
    "F2",
    "encoders like MiniLM",
    Design({**_POST, "output": ("hidden",), "pooler": (False, True)}).misfits,
    _post,
    _hidden,
    _TRUSTS,
    section="f",
)
