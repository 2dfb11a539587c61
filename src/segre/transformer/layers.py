"""The layers of a transformer, each written once over any field.

Tokens are the columns of matrices of shape (inputs, 1, 1, width, t): the two axes of length one
are for key-value heads and for the query heads of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from segre.attention.pattern import centred, decays, featured, pattern
from segre.fields.interface import Analytic, Array, E
from segre.slope import Slope
from segre.transformer.rotary import frequencies
from segre.transformer.spec import Transformer

Tensors = Mapping[str, Any]
Hook = Callable[[str, Any], Any]  # what becomes of the value at a named point (`points`)

SHARED = "mlp.shared.hook_post"  # the units of shared experts
QUICK = Fraction(1702, 1000)  # of the sigmoid that stands for the normal distribution function


def unseen(_name: str, value: Any) -> Any:
    """The hook that changes nothing."""
    return value


def linear(field: Analytic[E], w: Tensors, name: str, x: E) -> E:
    """W x, plus the bias if there is one (W_up has b_up)."""
    out = field.matmul(w[f"W_{name}"], x)
    return field.add(out, w[f"b_{name}"]) if f"b_{name}" in w else out


def normalise(field: Analytic[E], spec: Transformer, w: Tensors, name: str, x: E, width: int) -> E:
    """LayerNorm or RMSNorm of every column, with its gain and bias if it has them."""
    return gained(field, w, name, standardised(field, spec, x, width))


def standardised(field: Analytic[E], spec: Transformer, x: E, width: int) -> E:
    """LayerNorm or RMSNorm of every column, before its gain and bias."""
    if spec.norm == "layer":
        mean = field.mul(field.sum(x, axis=-2), field.fraction(Fraction(-1, width)))
        x = field.add(x, mean)
    return _over_root(field, spec, x, width)


def root_mean_square(
    field: Analytic[E], spec: Transformer, w: Tensors, name: str, x: E, width: int
) -> E:
    """RMSNorm of every column; norms of queries, keys and latents are always of this kind."""
    return gained(field, w, name, _over_root(field, spec, x, width))


def _over_root(
    field: Analytic[E],
    spec: Transformer,
    x: E,
    width: int,
    heads: int = 0,
    eps: Fraction | None = None,
) -> E:
    """Columns divided by their root mean square, taken over the given number of heads."""
    eps = spec.eps if eps is None else eps
    square = field.sum(field.mul(x, x), axis=-2)
    if heads:
        square = field.sum(field.sum(square, axis=-3), axis=-4)
    square = field.mul(square, field.fraction(Fraction(1, width * (heads or 1))))
    if eps:
        square = field.add(square, field.fraction(eps))
    return field.mul(x, field.reciprocal(field.sqrt(square)))


def gained(field: Analytic[E], w: Tensors, name: str, x: E) -> E:
    """Apply the gain and bias of a norm, if it has them."""
    out = field.mul(x, w[f"{name}.gain"]) if f"{name}.gain" in w else x
    return field.add(out, w[f"{name}.bias"]) if f"{name}.bias" in w else out


def tanh(field: Analytic[E], x: E) -> E:
    """2 sigmoid(2 x) - 1."""
    twice = field.sigmoid(field.add(x, x))
    return field.add(field.add(twice, twice), field.fraction(Fraction(-1)))


def capped(field: Analytic[E], x: E, cap: Fraction) -> E:
    """cap tanh(x / cap)."""
    return field.mul(tanh(field, field.mul(x, field.fraction(1 / cap))), field.fraction(cap))


def activate(field: Analytic[E], kind: str, x: E) -> E:
    """The activation of an MLP, or of its gate."""
    match kind:
        case "gelu" | "geglu":
            return field.mul(x, field.cdf(x))
        case "gelu-tanh" | "geglu-tanh":
            cube = field.mul(field.mul(x, x), x)
            inner = field.add(x, field.mul(cube, field.fraction(Fraction(44715, 10**6))))
            grown = tanh(field, field.mul(inner, field.surd(2, over_pi=True)))
            half = field.mul(x, field.fraction(Fraction(1, 2)))
            return field.add(half, field.mul(half, grown))
        case "gelu-quick" | "geglu-quick" | "clamped":
            return field.mul(x, field.sigmoid(field.mul(x, field.fraction(QUICK))))
        case "silu" | "swiglu":
            return field.mul(x, field.sigmoid(x))
        case "relu" | "reglu":
            return field.relu(x)
        case "relu2":
            kept = field.relu(x)
            return field.mul(kept, kept)
    return x


def rotate(field: Analytic[E], spec: Transformer, x: E, dims: int, t: int) -> E:
    """Rotate the first `rotary` of `dims` dimensions by the position, in the spec's layout."""
    planes = spec.rotary // 2
    first, second = plane_dimensions(spec)
    place = np.zeros((2, dims, planes), dtype=np.int64)
    place[0, first, range(planes)] = place[0, second, range(planes)] = 1
    place[1, first, range(planes)], place[1, second, range(planes)] = -1, 1
    swap = np.full(dims, -1)
    swap[first], swap[second] = second, first
    still = np.zeros((dims, t), dtype=np.int64)
    still[spec.rotary :] = 1
    cos, sin = field.turns(frequencies(spec), t)
    if spec.rescaling is not None and spec.rescaling.grows:
        grown = field.absorbed(*spec.rescaling.growth)
        cos, sin = field.mul(cos, grown), field.mul(sin, grown)
    along = field.add(field.matmul(field.constant(place[0]), cos), field.constant(still))
    across = field.matmul(field.constant(place[1]), sin)
    turned = field.mul(field.permuted(x, swap), across)
    return field.add(field.mul(x, along), turned)


def plane_dimensions(spec: Transformer) -> tuple[Array, Array]:
    """The two dimensions of each plane."""
    planes = np.arange(spec.rotary // 2)
    if spec.layout == "interleaved":
        return 2 * planes, 2 * planes + 1
    return planes, planes + spec.rotary // 2


def attention(
    field: Analytic[E], spec: Transformer, w: Tensors, x: E, layer: int, hook: Hook = unseen
) -> E:
    """The output of the heads of a layer (from 1) for tokens x, after a preceding norm."""
    spec = spec.at(layer)
    scores, values = (_latent if spec.latent else _plain)(field, spec, w, x, hook)
    for factor in _factors(field, spec, layer):
        scores = field.mul(scores, factor)
    if spec.cap:
        scores = capped(field, scores, spec.cap)
    if spec.sinks:  # relative to the sink's, which is then 0
        scores = field.add(scores, field.mul(w["sinks"], field.fraction(Fraction(-1))))
    used = _seen(spec, layer) if spec.causal or spec.sees(layer) < spec.t else None
    seen = None if used is None else field.constant(used)
    if slopes := spec.slopes(layer):
        seen = decays(
            field, replace(spec.mechanism, causal=True), spec.t, _rates(field, spec, slopes)
        )
    scores = hook("attn.hook_attn_scores", scores)
    weights = pattern(field, spec.mechanism, scores, seen, used, spec.sinks)
    weights = hook("attn.hook_pattern", weights)
    mixed = field.matmul(values, centred(field, spec.mechanism, weights, spec.t))
    if spec.mixnorm:
        alike = _over_root(field, spec, mixed, spec.dv, spec.heads, spec.mixing_eps)
        mixed = gained(field, w, "normo", alike)
    if spec.gate != "none":
        mixed = field.mul(mixed, field.sigmoid(linear(field, w, "G", x)))
    mixed = hook("attn.hook_z", mixed)
    written = field.joined(w["W_O"], mixed, (spec.group, spec.kv))
    return field.add(written, w["b_O"]) if "b_O" in w else written


def _seen(spec: Transformer, layer: int) -> Array:
    """Which keys (rows) a query (column) sees: within the window, and only earlier if causal."""
    near = np.triu(np.ones((spec.t, spec.t), dtype=np.int64))
    near = near - np.triu(near, spec.sees(layer))
    return near if spec.causal else near | near.T


def _rates(field: Analytic[E], spec: Transformer, slopes: tuple[Slope, ...]) -> E:
    """The decay of every head, on the axes of heads."""
    place = np.eye(spec.heads, dtype=np.int64).reshape(-1, spec.kv, spec.group, 1, 1)
    each = (
        field.mul(field.constant(one), field.slope(slope))
        for one, slope in zip(place, slopes, strict=True)
    )
    return reduce(field.add, each)


def _factors(field: Analytic[E], spec: Transformer, layer: int) -> Iterator[E]:
    """The factor of the scores that the query weights do not include."""
    if spec.sharpness(layer) != 1:
        yield field.absorbed(spec.sharpness(layer))
    if spec.latent and spec.rescaling is not None and spec.rescaling.all:
        by = spec.rescaling.all / 10  # twice, as DeepSeek does
        yield from [field.absorbed(Fraction(1), by, Fraction(0), spec.rescaling.factor)] * 2


def _plain(field: Analytic[E], spec: Transformer, w: Tensors, x: E, hook: Hook) -> tuple[E, E]:
    keys, queries, values = (
        hook(
            f"attn.hook_{name.lower()}", featured(field, spec.mechanism, linear(field, w, name, x))
        )
        for name in ("K", "Q", "V")
    )
    if spec.qknorm == "all":
        keys = gained(field, w, "normk", _over_root(field, spec, keys, spec.head, spec.kv))
        queries = gained(field, w, "normq", _over_root(field, spec, queries, spec.head, spec.heads))
    elif spec.qknorm:
        keys = root_mean_square(field, spec, w, "normk", keys, spec.head)
        queries = root_mean_square(field, spec, w, "normq", queries, spec.head)
    if spec.pos == "rope":
        keys = rotate(field, spec, keys, spec.head, spec.t)
        queries = rotate(field, spec, queries, spec.head, spec.t)
    return field.matmul(field.transpose(keys), queries), values


def _latent(field: Analytic[E], spec: Transformer, w: Tensors, x: E, hook: Hook) -> tuple[E, E]:
    asked = x
    if spec.qrank:
        asked = field.matmul(w["A_Q"], x)
        asked = root_mean_square(field, spec, w, "normq", asked, spec.qrank)
    latent = field.matmul(w["A_K"], x)
    latent = root_mean_square(field, spec, w, "normk", latent, spec.kvrank)
    keys = hook("attn.hook_k", field.matmul(w["W_K"], latent))
    queries = hook("attn.hook_q", field.matmul(w["W_Q"], asked))
    scores = field.matmul(field.transpose(keys), queries)
    if spec.rotary_dim:
        key = rotate(field, spec, field.matmul(w["R_K"], x), spec.rotary, spec.t)
        query = rotate(field, spec, field.matmul(w["R_Q"], asked), spec.rotary, spec.t)
        scores = field.add(scores, field.matmul(field.transpose(key), query))
    return scores, hook("attn.hook_v", field.matmul(w["W_V"], latent))


def mlp(field: Analytic[E], spec: Transformer, w: Tensors, x: E, hook: Hook = unseen) -> E:
    """The output of the MLP for tokens x, after a preceding norm."""
    if "W_R" in w:
        return _experts(field, spec, w, x, hook)
    hidden = linear(field, w, "up", x)
    if spec.gated:
        gate = hook("mlp.hook_pre", linear(field, w, "gate", x))
        hidden = product(field, spec, gate, hook("mlp.hook_pre_linear", hidden))
    else:
        hidden = activate(field, spec.mlp, hook("mlp.hook_pre", hidden))
    units: E = hook("mlp.hook_post", hidden)
    return linear(field, w, "down", units)


def _experts(field: Analytic[E], spec: Transformer, w: Tensors, x: E, hook: Hook) -> E:
    """The experts with the largest affinities, weighted by their shares, and the shared experts.

    A constant `b_R`, if there is one, is used only to choose experts.
    """

    def mapped(kind: str, name: str, y: E) -> E:
        out = field.matmul(w[f"{kind}_{name}"], y)
        return field.add(out, w[f"c_{name}"]) if kind == "W" and f"c_{name}" in w else out

    def expert(kind: str) -> E:
        gate, up = (mapped(kind, name, x) for name in ("gate", "up"))
        hidden: E = product(field, spec, gate, up)
        return mapped(kind, "down", hook("mlp.hook_post" if kind == "W" else SHARED, hidden))

    share = routing(field, spec, w, x)
    total = field.sum(field.mul(expert("W"), share), axis=-3)
    if "S_gate" not in w:
        return total
    shared = expert("S")
    if "S_R" in w:
        shared = field.mul(shared, field.sigmoid(field.matmul(w["S_R"], x)))
    return field.add(total, shared)


def product(field: Analytic[E], spec: Transformer, gate: E, up: E) -> E:
    """The units of a gated MLP: the activated gate times the other factor.

    mlp=clamped has a gate of at most `limit`, and a factor between -limit and limit, plus 1.
    """
    if spec.mlp == "clamped":
        less, minus = field.fraction(-spec.limit), field.fraction(Fraction(-1))

        def over(y: E) -> E:
            """By how much entries exceed the limit."""
            return field.relu(field.add(y, less))

        below = over(field.mul(up, minus))
        gate = field.add(gate, field.mul(over(gate), minus))
        up = field.add(field.add(up, below), field.mul(over(up), minus))
        up = field.add(up, field.fraction(Fraction(1)))
    return field.mul(activate(field, spec.mlp, gate), up)


def routing(field: Analytic[E], spec: Transformer, w: Tensors, x: E) -> E:
    """The shares of the experts, 0 for those that a token does not use."""
    router = w["W_R"]  # (experts, 1, d): one affinity per expert, on the axis of experts
    affinity = field.matmul(router, x)
    if "c_R" in w:
        affinity = field.add(affinity, w["c_R"])
    if not spec.softmax_router:
        affinity = field.sigmoid(affinity)
    ranked = field.add(affinity, w["b_R"]) if "b_R" in w else affinity
    chosen = field.largest(ranked, spec.active, spec.groups, spec.within)
    if spec.router == "softmax":
        return field.shares(affinity, chosen)
    if spec.softmax_router:
        affinity = field.shares(affinity)
    kept = field.mul(affinity, field.constant(chosen))
    if spec.router != "sigmoid":
        return kept
    return field.mul(kept, field.reciprocal(field.sum(kept, axis=-3)))
