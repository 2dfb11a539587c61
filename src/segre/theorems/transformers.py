"""Transformers: theorems B, C, D1 (Qwen2), E, and with LayerNorms D2 (GPT-2), F1 and F2 (BERT).

With d the width, L layers, H query heads, kv key-value heads, a dimensions of queries and keys, v
of values, f hidden units, V tokens and P parameters. Sequences of t' tokens are enough: the outputs
at the first t' places are those of t' tokens, if every layer sees so many.
"""

from __future__ import annotations

from segre.theorems.design import (
    ANY,
    GATED,
    LEARNED,
    PLAIN,
    ROPE,
    Design,
    full_rotation,
    positive_eps,
    shortest_window,
)
from segre.theorems.theorem import Hypothesis, Theorem
from segre.transformer.spec import Transformer

_DECODER = {
    **ROPE,
    "mlp": (*GATED, *PLAIN),
    "norm": ("rms",),
    "eps": ANY,
    "causal": (True,),
}
_WORDS = {
    **_DECODER,
    "window": ANY,
    "vocab": ANY,
    "tied": ANY,
    "final": (True,),
    "embscale": ANY,
    "output": ("softmax", "logits"),
}


def _sizes(spec: Transformer, tokens: int) -> list[Hypothesis]:
    """Hypotheses of B, C, D and E on the sizes."""
    d, a, v = spec.d, spec.head, spec.dv
    return [
        Hypothesis(".d", "d >= 3", d, ">=", 3),
        Hypothesis(".a", "a <= d", d, ">=", a),
        Hypothesis(".v", "v <= d", d, ">=", v),
        Hypothesis(".t", "t' >= a + 1", tokens, ">=", a + 1),
    ]


def _layers(spec: Transformer) -> dict[str, int]:
    """Symmetries of the layers."""
    kv, a, v, layers = spec.kv, spec.head, spec.dv, spec.layers
    return {
        "queries and keys": layers * (a // 2 if spec.qknorm else kv * a),
        "values and outputs": layers * kv * v * v,
        "gains of the norms": layers * 2 * spec.d,
        "gated units": layers * (spec.ff if spec.gated else 0),
    }


def _ends(spec: Transformer) -> dict[str, int]:
    """Symmetries of the token tables with the last norm."""
    d = spec.d
    if spec.tied:
        return {}
    return {
        "gain of the last norm": d,
        "rotations of the stream": d * (d - 1) // 2,
        "shifts of all logits": d if spec.output == "softmax" else 0,
    }


def _attention(spec: Transformer) -> int:
    """Weights of the attention of one layer, its gain left out."""
    d, a, v, H, kv = spec.d, spec.head, spec.dv, spec.heads, spec.kv
    biases = H * a + kv * (a + v) if spec.query_bias else 0
    gains = 2 * a if spec.qknorm else 0
    return d * (H * a + kv * a + kv * v + H * v) + biases + gains


def _generic_points(spec: Transformer) -> int:
    """N of the page: points that determine what a norm of queries or keys adds."""
    a = spec.head
    return a * (a + 1) // 2 + a if spec.qknorm else 0


def contexts(V: int, t: int, m: int, words: int, last: int) -> int:
    """The number of contexts with private letters: the better of the two forms of C2.

    m letters follow each other; fewer than `words` of the words may be spoilt, and `last` of the
    tokens cannot come last.
    """
    blocks = (t - 1) // m
    first = (blocks - 1) * (V - words) * (V - m - last) if blocks > 1 and words < V else 0
    apart = min((V - words) // 2, V - 1 - m)  # last tokens, in a set of their own
    second = blocks * apart * (V - apart - words) if apart > 0 else 0
    return max(first, second, 0)


def _enough_contexts(spec: Transformer, tokens: int) -> Hypothesis:
    m = max(spec.head + 1, -(-spec.d // spec.heads))
    words = spec.d + 1 + _generic_points(spec)
    found = contexts(spec.vocab, tokens, m, words, 1)
    says = "separating contexts > parameters"
    return Hypothesis(".contexts", says, found, ">", spec.parameters)


def _first_layer(spec: Transformer, extra: int) -> list[Hypothesis]:
    """The first attention can be read off its outputs: n_1 < (V - d - 1)(V - 2d - 3)."""
    d, V, a = spec.d, spec.vocab, spec.head
    unknowns = _attention(spec) + extra
    pairs = max(V - d - 1, 0) * max(V - 2 * d - 3, 0)
    says = "(V - d - 1)(V - 2d - 3) > n_1 (one attention layer)"
    out = [Hypothesis(".first", says, pairs, ">", unknowns)]
    if spec.qknorm:
        needed = d + _generic_points(spec)
        common = max(V - 1 - a - (a * unknowns // (V - a) if a < V else V), 0)
        says = "common keys >= N = d + a(a+1)/2 + a"
        out.append(Hypothesis(".keys", says, common, ">=", needed))
        spread = common - 1 - a
        others = max(V - 1 - -(-unknowns // spread), 0) if spread > 0 else 0
        out.append(Hypothesis(".queries", "common queries >= N", others, ">=", needed))
    return out


def _written(spec: Transformer) -> Hypothesis:
    return Hypothesis(".heads", "Hv >= d", spec.heads * spec.dv, ">=", spec.d)


def _tokens(spec: Transformer) -> Hypothesis:
    return Hypothesis(".V", "V >= 2d + 2", spec.vocab, ">=", 2 * spec.d + 2)


# --- B: continuous inputs -------------------------------------------------------------------------


def _continuous(spec: Transformer) -> tuple[Hypothesis, ...]:
    eps = [positive_eps(spec)] if spec.qknorm else []
    return (*_sizes(spec, spec.t), *full_rotation(spec), *eps)


B = Theorem(
    "B",
    "RMSNorm decoders on continuous inputs",
    Design({**_DECODER, "qknorm": (False, True)}).misfits,
    _continuous,
    _layers,
    ("Ax",),
)


# --- C: language models like Llama ----------------------------------------------------------------


def _words(spec: Transformer) -> tuple[Hypothesis, ...]:
    tokens = shortest_window(spec)
    return (
        *_sizes(spec, tokens),
        _written(spec),
        _tokens(spec),
        *full_rotation(spec),
        positive_eps(spec),
        _enough_contexts(spec, tokens),
        *_first_layer(spec, 2 * spec.d),
    )


C = Theorem(
    "C",
    "language models like Llama, Mistral and Qwen3",
    Design({**_WORDS, "qknorm": (False, True)}).misfits,
    _words,
    lambda spec: {**_layers(spec), **_ends(spec)},
    ("Ax", "Lindemann"),
)


# --- D: with biases of queries, keys and values ---------------------------------------------------


def _with_biases(spec: Transformer) -> dict[str, int]:
    """Biases of values beyond the d constants that they can write are also redundant."""
    spare = spec.layers * max(0, spec.kv * spec.dv - spec.d)
    return {**_layers(spec), "biases of values": spare, **_ends(spec)}


D_QWEN2 = Theorem(
    "D1",
    "language models like Qwen2",
    Design({**_WORDS, "bias": ("qkv",)}).misfits,
    _words,
    _with_biases,
    ("Ax", "Lindemann"),
)


# --- E: norms on both sides, and caps -------------------------------------------------------------


def _capped(spec: Transformer) -> tuple[Hypothesis, ...]:
    d, V, P = spec.d, spec.vocab, spec.parameters
    tokens = shortest_window(spec)
    o = min(d, spec.heads * spec.dv)
    m = max(spec.head + 1, -(-o // spec.heads))
    places = d + (d - o) * (d - o + 1) // 2  # N_u of the page
    blocks = (tokens - 1) // m - 1
    found = max(blocks, 0) * max(V - d - 1, 0) * max(V - m - places, 0)
    return (
        *_sizes(spec, tokens),
        Hypothesis(".o", "o = min(d, Hv) >= 2", o, ">=", 2),
        Hypothesis(".squares", "o(o+1)/2 >= d", o * (o + 1) // 2, ">=", d),
        Hypothesis(".f", "f >= d", spec.ff, ">=", d),
        _tokens(spec),
        *full_rotation(spec),
        positive_eps(spec),
        Hypothesis(".cap", "scores are capped", spec.cap.numerator, ">=", 1),
        Hypothesis(".logitcap", "logits are capped", spec.logitcap.numerator, ">=", 1),
        Hypothesis(".contexts", "separating contexts > parameters", found, ">", P),
        *_first_layer(spec, 3 * d),
    )


E = Theorem(
    "E",
    "language models like Gemma 2",
    Design(
        {
            **_WORDS,
            "mlp": GATED,
            "place": ("sandwich",),
            "tied": (True,),
            "cap": ANY,
            "logitcap": ANY,
        }
    ).misfits,
    _capped,
    _layers,
    ("Ax", "Lindemann"),
)


# --- LayerNorms, all biases and learned positions -------------------------------------------------

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
    return (
        Hypothesis(".d", "d >= 4", d, ">=", 4),
        Hypothesis(".a", "a <= d - 1", d - 1, ">=", a),
        Hypothesis(".v", "v <= d - 1", d - 1, ">=", v),
        Hypothesis(".heads", "Hv >= d - 1", H * v, ">=", d - 1),
        _tokens(spec),
        Hypothesis(".t", "t >= 2", spec.t, ">=", 2),
        Hypothesis(".positions", "t >= positions", spec.t, ">=", spec.positions),
        positive_eps(spec),
        Hypothesis(".contexts", "separating contexts > parameters", found, ">", P),
        *_first_layer(spec, 2 * d),
    )


def _normed_layers(spec: Transformer, norms: int) -> dict[str, int]:
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
        **_normed_layers(spec, 4 * spec.d),
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
    return {**_normed_layers(spec, 2 * spec.d), **_tables(spec), "the head and its norm": ends}


def _hidden(spec: Transformer) -> dict[str, int]:
    return {
        **_normed_layers(spec, 2 * spec.d),
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
