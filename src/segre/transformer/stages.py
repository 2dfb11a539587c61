"""A transformer as a sequence of stages: embedding, attention and MLP of each layer, head.

If attention and MLP of a layer are parallel, the layer is one stage.

Every stage maps tokens to tokens with some of the weight tensors. If tensors are tied or layers
share their weights, several stages name the same tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from segre.fields.interface import Analytic, E
from segre.stage import Slot, Stage
from segre.transformer.layers import (
    Hook,
    Tensors,
    activate,
    attention,
    capped,
    gained,
    linear,
    mlp,
    normalise,
    standardised,
    tanh,
    unseen,
)
from segre.transformer.spec import Transformer
from segre.transformer.tensors import of_mlp, tensors

AXES = 4  # key-value heads, query heads of each, rows, columns


@lru_cache(maxsize=64)
def stages(spec: Transformer) -> tuple[Stage, ...]:
    """The stages of a transformer, first to last."""
    every = tensors(spec)

    def of(part: str, chosen: Callable[[str], bool] = lambda _: True) -> dict[str, Slot]:
        return {name: x for (where, name), x in every.items() if where == part and chosen(name)}

    out = []
    if of("embed"):
        out.append(Stage("embed", of("embed"), partial(_embed, spec=spec), mixes=False, axes=AXES))
    for i in range(1, spec.layers + 1):
        part = "1" if spec.share else str(i)
        if spec.parallel:
            apply = partial(parallel_layer, spec=spec, layer=i)
            out.append(Stage(f"layer {i}", of(part), apply, axes=AXES))
            continue
        apply = partial(sublayer, spec=spec, layer=i)
        mine = of(part, lambda name: not of_mlp(name))
        out.append(Stage(f"attention {i}", mine, partial(apply, number=1), axes=AXES))
        if spec.mlp != "none":
            mine = of(part, of_mlp)
            out.append(Stage(f"mlp {i}", mine, partial(apply, number=2), mixes=False, axes=AXES))
    if spec.final or not spec.shows_stream or spec.pooler:
        last = of("head")
        if spec.tied:
            last["tokens"] = every["embed", "tokens"]
        out.append(Stage("head", last, partial(head, spec=spec), mixes=spec.pooler, axes=AXES))
    return tuple(out)


def _embed(field: Analytic[E], w: Tensors, x: E, *, spec: Transformer) -> E:
    """Embeddings of one-hot columns (or the given vectors), positions, types, norm."""
    if not spec.discrete:
        return embedded(field, spec, w, patched(field, spec, w, x) if spec.patch else x)
    token, kind = x, None
    if spec.types:
        rows = np.eye(spec.vocab, spec.vocab + spec.types, dtype=np.int64)
        token = field.matmul(field.constant(rows), x)
        rows = np.eye(spec.types, spec.vocab + spec.types, spec.vocab, dtype=np.int64)
        kind = field.matmul(w["types"], field.matmul(field.constant(rows), x))
    return embedded(field, spec, w, field.matmul(w["tokens"], token), kind)


def patched(field: Analytic[E], spec: Transformer, w: Tensors, x: E) -> E:
    """Tokens of patches; a class token replaces the first patch, which is not read."""
    out = linear(field, w, "P", x)
    if not spec.cls:
        return out
    kept = np.eye(spec.t, dtype=np.int64)
    kept[0] = 0
    first = field.constant(np.eye(1, spec.t, dtype=np.int64))
    return field.add(field.matmul(out, field.constant(kept)), field.matmul(w["cls"], first))


def embedded(
    field: Analytic[E], spec: Transformer, w: Tensors, words: E, types: E | None = None
) -> E:
    """The input of the layers: columns of the token and type tables, positions, norm."""
    out = field.mul(words, field.surd(spec.d)) if spec.embscale else words
    if spec.project:
        out = linear(field, w, "E", out)
    if "positions" in w:
        used = np.eye(spec.positions, spec.t, -spec.offset, dtype=np.int64)
        out = field.add(out, field.matmul(w["positions"], field.constant(used)))
    if types is not None:
        out = field.add(out, types)
    if spec.embnorm:
        out = normalise(field, spec, w, "norm", out, spec.embed or spec.d)
    return linear(field, w, "E", out) if spec.embed and not spec.project else out


def sublayer(
    field: Analytic[E],
    w: Tensors,
    x: E,
    *,
    spec: Transformer,
    layer: int,
    number: int,
    reads: E | None = None,
    hook: Hook = unseen,
) -> E:
    """Attention (number 1) or the MLP (2) of a layer, with its norms and its skip.

    `reads` is the stream that it reads, if it differs from the one to which it adds: for an MLP
    parallel to its attention.
    """
    normed = spec.norm != "none"
    read = x if reads is None else reads
    if spec.normed_at(layer, number):
        read = standardised(field, spec, read, spec.d)
    out = _written(field, w, read, spec, layer, number, hook)
    if spec.normed_inside:
        out = normalise(field, spec, w, f"post{number}", out, spec.d)
    out = hook("hook_attn_out" if number == 1 else "hook_mlp_out", out)
    if spec.residual or reads is not None:
        kept = x if spec.skip == 1 else field.mul(x, field.fraction(spec.skip))
        out = field.add(kept, out)
    if normed and spec.place == "post":
        out = normalise(field, spec, w, f"post{number}", out, spec.d)
    return out


def parallel_layer(field: Analytic[E], w: Tensors, x: E, *, spec: Transformer, layer: int) -> E:
    """A layer whose attention and MLP read the same tokens: their norms share one root."""
    read = x if spec.norm == "none" else standardised(field, spec, x, spec.d)
    for number in (1, 2):
        x = field.add(x, _written(field, w, read, spec, layer, number))
    return x


def _written(
    field: Analytic[E],
    w: Tensors,
    read: E,
    spec: Transformer,
    layer: int,
    number: int,
    hook: Hook = unseen,
) -> E:
    """The output of attention or the MLP, for tokens normed without gain and bias."""
    if spec.normed_before:
        read = gained(field, w, f"norm{number}", read)
    read = hook(f"ln{number}.hook_normalized", read)
    if number == 1:
        out = attention(field, spec, w, read, layer, hook)
    else:
        out = mlp(field, spec, w, read, hook)
    return field.mul(out, w[f"scale{number}"]) if f"scale{number}" in w else out


def head(field: Analytic[E], w: Tensors, x: E, *, spec: Transformer, hook: Hook = unseen) -> E:
    """Final norm, pooled token, transform, unembedding, cap and softmax, if the spec has them."""
    if spec.final:
        x = hook("ln_final.hook_normalized", normalise(field, spec, w, "norm", x, spec.d))
    if spec.project:
        x = linear(field, w, "D", x)
    pooled = None
    if spec.pooler:
        pooled = tanh(field, linear(field, w, "pool", _column(field, x, spec, 0)))
    if spec.labels:
        read = _chosen(field, x, spec) if pooled is None else pooled
        return _logits(field, w, _transformed(field, w, read, spec), spec)
    if spec.output == "hidden":
        return x if pooled is None else _beside(field, x, pooled, spec)
    words = _logits(field, w, _transformed(field, w, x, spec), spec)
    if pooled is None:
        return words
    related = _distribution(field, linear(field, w, "rel", pooled), spec)
    room = np.eye(spec.vocab, spec.relation, dtype=np.int64)
    return _beside(field, words, field.matmul(field.constant(room), related), spec)


def _transformed(field: Analytic[E], w: Tensors, x: E, spec: Transformer) -> E:
    """The input of the unembedding, after a dense layer, activation and norm if there are any."""
    if not spec.transform:
        return x
    x = activate(field, spec.mlp, linear(field, w, "T", x))
    return normalise(field, spec, w, "normT", x, spec.head_width) if spec.headnorm else x


def _chosen(field: Analytic[E], x: E, spec: Transformer) -> E:
    """The tokens from which labels are read."""
    if spec.read == "all":
        return x
    return _column(field, x, spec, 0 if spec.read == "first" else spec.t - 1)


def _column(field: Analytic[E], x: E, spec: Transformer, number: int) -> E:
    """One token."""
    return field.matmul(x, field.constant(np.eye(spec.t, 1, -number, dtype=np.int64)))


def _beside(field: Analytic[E], x: E, more: E, spec: Transformer) -> E:
    """All tokens, and one more column."""
    wide = field.matmul(x, field.constant(np.eye(spec.t, spec.t + 1, dtype=np.int64)))
    last = field.constant(np.eye(1, spec.t + 1, spec.t, dtype=np.int64))
    return field.add(wide, field.matmul(more, last))


def _logits(field: Analytic[E], w: Tensors, x: E, spec: Transformer) -> E:
    """The output over the vocabulary, or over labels."""
    table = field.transpose(w["tokens"]) if spec.tied else w["W_U"]
    logits = field.matmul(table, x)
    if spec.outbias:
        logits = field.add(logits, w["b_U"])
    if spec.logitcap:
        logits = capped(field, logits, spec.logitcap)
    return _distribution(field, logits, spec)


def _distribution(field: Analytic[E], logits: E, spec: Transformer) -> E:
    return field.softmax(logits) if spec.output == "softmax" else logits
