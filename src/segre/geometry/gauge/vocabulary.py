"""Symmetries of the vocabulary: constants between tables, and shifts of all logits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.fields.interface import Array
from segre.geometry.gauge.absorb import inverse_gain
from segre.geometry.gauge.piece import Holds, ModularWeights, Piece
from segre.geometry.gauge.wiring import (
    has,
    norm_at,
    norm_before,
    stream_places,
)
from segre.transformer.spec import Transformer
from segre.transformer.tensors import part_shapes


def vocabulary_pieces(spec: Transformer) -> Iterator[Piece]:
    """Rows that are not used, constants moved between tables, and shifts of all logits."""
    if spec.unused_positions:
        yield _unused_positions(spec)
    if spec.discrete:
        yield from _table_pieces(spec)
    if spec.patch:
        yield _placed("b_P", "the bias of patches", spec, range(int(spec.cls), spec.positions))
    if spec.masked:
        yield _unread(spec)
    if spec.cls:
        yield _placed("cls", "the class token", spec, range(1))
    if logits_may_shift(spec):
        yield from _logit_pieces(spec)


def _table_pieces(spec: Transformer) -> Iterator[Piece]:
    tables = [n for n in ("positions", "types") if has(spec, "embed", n)]
    if len(tables) == 2:
        yield _between_tables(spec, "positions", "types", "exact")
    softmax = logits_may_shift(spec)
    if tables and (not spec.tied or softmax):
        yield _between_tables(spec, "tokens", tables[0], "softmax" if spec.tied else "exact")
    elif tables and spec.norm == "layer":
        yield from _unseen_shift(spec, tables[0])
    elif has_tied_mean(spec):
        yield _tied_mean()


def _unread(spec: Transformer) -> Piece:
    """The token of masked patches, which no input has."""

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(spec.d)
        canvas("embed", "mask")[range(spec.d), range(spec.d), 0] = 1
        return canvas.rows

    name = "the token of masked patches, which no input has"
    return Piece("unread", name, "embedding", "shifts", "exact", spec.d, build)


def _placed(name: str, what: str, spec: Transformer, positions: range) -> Piece:
    """A constant in all tokens of a kind, or in all their positions."""

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(spec.d)
        canvas("embed", name)[range(spec.d), range(spec.d), 0] = 1
        for i in range(spec.d):
            canvas("embed", "positions")[i, i, list(positions)] = -1
        return canvas.rows

    title = f"a constant moved from the positions to {what}"
    return Piece("table-shift", title, "embedding", "shifts", "exact", spec.d, build)


def _logit_pieces(spec: Transformer) -> Iterator[Piece]:
    for map_, what in (("U", "unembedding"), ("rel", "map to the pooled token's labels")):
        if has(spec, "head", f"W_{map_}"):
            yield _logit_shift(spec, f"W_{map_}", what)
        if has(spec, "head", f"b_{map_}"):
            yield _bias_shift(f"b_{map_}", "logits'" if map_ == "U" else "pooled token's labels'")


def _unused_positions(spec: Transformer) -> Piece:
    """Positions before the first token, or after the last, change nothing."""
    rows = part_shapes(spec, "embed")["positions"][0]
    used = range(spec.offset, spec.offset + spec.t)
    unused = [column for column in range(spec.positions) if column not in used]
    count = rows * len(unused)

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(count)
        view = canvas("embed", "positions")
        for number, (row, column) in enumerate((r, c) for r in range(rows) for c in unused):
            view[number, row, column] = 1
        return canvas.rows

    name = "positions that no token has"
    return Piece("unused-positions", name, "embedding", "shifts", "exact", count, build)


def embeddings_centred(spec: Transformer) -> bool:
    """Whether nothing reads the mean of an embedding: a LayerNorm comes next."""
    if spec.norm != "layer":
        return False
    if spec.embnorm:
        return True
    if spec.embed or spec.place == "post":
        return False
    place = next(p for p in stream_places(spec) if ("embed", "") in p.producers)
    return all(end[0] != "output" and norm_before(spec, end) for end in place.consumers)


def _between_tables(spec: Transformer, first: str, second: str, holds: Holds) -> Piece:
    e = spec.embed or spec.d

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(e)
        scale = w.field.surd(spec.d)[0, 0] if spec.embscale and first == "tokens" else 1
        canvas("embed", first)[range(e), range(e)] = 1
        if spec.project:
            canvas("embed", second)[...] = -w("embed", "W_E").T[:, :, None]
        else:
            canvas("embed", second)[range(e), range(e)] = -scale
        return canvas.rows

    name = f"a constant moved from all {second} to all {first}"
    return Piece("table-shift", name, "embedding", "shifts", holds, e, build)


def _unseen_shift(spec: Transformer, table: str) -> Iterator[Piece]:
    """Before a tied table, a LayerNorm's output has one coordinate that is constant."""
    if not (spec.transform or spec.final) or spec.project:
        return
    name, width = ("normT", spec.embed or spec.d) if spec.transform else ("norm", spec.d)
    site = norm_at(spec, "head", name, width)
    if site.bias is not None and not spec.outbias:
        return

    def build(w: ModularWeights) -> Array:
        F, canvas = w.field, w.canvas(1)
        form = inverse_gain(w, site)
        scale = F.surd(spec.d) if spec.embscale else np.ones((1, 1))
        canvas("embed", "tokens")[0] = form
        canvas("embed", table)[0] = -F.mul(form, scale)
        if site.bias is not None:
            canvas("head", "b_U")[0] = -F.sum(F.mul(form, w("head", site.bias)), axis=-2)
        return canvas.rows

    title = f"a constant moved from all {table} to all tokens, which cancels in the logits"
    yield Piece("table-shift", title, "embedding", "shifts", "exact", 1, build)


def has_tied_mean(spec: Transformer) -> bool:
    """Whether a constant in all entries of the tied table, the only one, has no effect."""
    alone = not (has(spec, "embed", "positions") or has(spec, "embed", "types"))
    return alone and spec.tied and embeddings_centred(spec) and logits_may_shift(spec)


def _tied_mean() -> Piece:
    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(1)
        canvas("embed", "tokens")[0] = 1
        return canvas.rows

    name = "one constant in all entries of the tied table"
    return Piece("tied-mean", name, "embedding", "shifts", "softmax", 1, build)


def _logit_shift(spec: Transformer, weight: str, what: str) -> Piece:
    e = part_shapes(spec, "head")[weight][1]

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(e)
        view = canvas("head", weight)
        for i in range(e):
            view[i, :, i] = 1
        return canvas.rows

    name = f"one vector added to all rows of the {what}"
    return Piece("logit-shift", name, "head", "shifts", "softmax", e, build)


def _bias_shift(bias: str, what: str) -> Piece:
    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(1)
        canvas("head", bias)[0] = 1
        return canvas.rows

    name = f"one constant added to all {what} biases"
    return Piece("bias-shift", name, "head", "norms and biases", "softmax", 1, build)


def logits_may_shift(spec: Transformer) -> bool:
    """Whether a common shift of all logits has no effect."""
    return spec.output == "softmax" and not spec.logitcap
