"""Symmetries of few words: the first attention's view of each word is free separately.

If there are no more words than dimensions, every word has a form that is 1 on it and 0 on all
others, and there is a form that is 1 on all of them: a bias of the readers, where they have none.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.fields.interface import Array
from segre.geometry.gauge.head_mixing import inverse
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.vocabulary import logits_may_shift
from segre.geometry.gauge.wiring import (
    End,
    has,
    norm_before,
    producers_of,
    readers,
    sublayers,
    where,
)
from segre.geometry.gauge.words import word_columns
from segre.transformer.spec import Transformer


def free_word_pieces(spec: Transformer) -> Iterator[Piece]:
    """Scales of words under lightning; constants of what is read without a norm."""
    if not spec.discrete or spec.embed or spec.embscale or spec.types or spec.latent:
        return
    first = sublayers(spec)[0]
    if producers_of(spec, first) != (("embed", ""),):
        return
    spec = spec.at(first[0])
    plain = not spec.embnorm and norm_before(spec, first) is None
    biased = has(spec, first[0], "b_K")
    centred = not plain and spec.norm == "layer"
    most = spec.d + (1 if plain and biased else -centred)
    few = spec.vocab <= most and (plain or not (spec.norm_bias or biased))
    if spec.mechanism.bilinear and not spec.qknorm and spec.pos != "learned" and few:
        yield _scales(spec, first)
    dimension = spec.vocab + (spec.t - 1) * (spec.pos == "learned")
    if plain and not biased and dimension <= spec.d:
        yield from _constants(spec, first)


def _scales(spec: Transformer, first: End) -> Piece:
    """Each word's key times a number, and its value divided by it."""
    part, V = first[0], spec.vocab

    def build(w: ModularWeights) -> Array:
        F, canvas, words = w.field, w.canvas(spec.kv * V), word_columns(w)
        if spec.vocab > spec.d:  # as many as rows [W, b] have entries
            words = np.concatenate([words, np.ones((1, V))])
        forms = np.zeros((V, spec.d + 1))
        forms[:, :V] = inverse(F, words[:V])
        for name, sign in (("W_K", 1), ("W_V", -1)):
            for g in range(spec.kv):
                table = F.matmul(w(part, name)[g, 0], words[: spec.d])
                bias = name.replace("W_", "b_")
                if has(spec, part, bias):
                    table = F.add(table, w(part, bias)[g, 0])
                for v in range(V):
                    moved = sign * np.outer(table[:, v], forms[v])
                    canvas(part, name)[g * V + v, g, 0] = moved[:, : spec.d]
                    if has(spec, part, bias):
                        canvas(part, bias)[g * V + v, g, 0] = moved[:, spec.d :]
        return F.reduce(canvas.rows)

    name = "scales of the key and value of each word"
    return Piece("word-weights", name, where(spec, part), "VO", "exact", 0, build, hard=True)


def _form_of_ones(w: ModularWeights) -> Array:
    """A form that is 1 on all words, in all positions."""
    F, spec = w.field, w.transformer
    words = w("embed", "tokens")
    parts = [words[:, :1], F.sub(words[:, 1:], words[:, :1])]
    if spec.pos == "learned":
        used = w("embed", "positions")[:, spec.offset : spec.offset + spec.t]
        parts = [F.add(parts[0], used[:, :1]), parts[1], F.sub(used[:, 1:], used[:, :1])]
    columns = np.concatenate(parts, axis=1)
    n = columns.shape[1]
    out = np.zeros(spec.d)
    out[:n] = inverse(F, columns[:n])[0]
    return out


def _constants(spec: Transformer, first: End) -> Iterator[Piece]:
    still = [] if spec.qknorm else range(spec.rotary_dim, spec.head)
    if spec.ignores_shifts and len(still):
        yield _keys(spec, first, list(still))
    if spec.gate != "none":
        return
    carried = spec.residual and spec.skip == 1
    if spec.sums_to_one and carried and (not spec.tied or logits_may_shift(spec)):
        yield _values(spec, first)
    last = sublayers(spec) == (first,) and spec.residual and spec.output != "hidden"
    bare = spec.norm == "none" and not (spec.transform or spec.pooler or spec.logitcap)
    if last and bare and spec.outbias and spec.sums_to_one:
        yield _to_logits(spec, first)


def _keys(spec: Transformer, first: End, still: list[int]) -> Piece:
    part = first[0]

    def build(w: ModularWeights) -> Array:
        canvas, form = w.canvas(spec.kv * len(still)), _form_of_ones(w)
        for row, (g, j) in enumerate((g, j) for g in range(spec.kv) for j in still):
            canvas(part, "W_K")[row, g, 0, j] = form
        return canvas.rows

    name = "one vector added to the keys of all words"
    return Piece("word-constants", name, where(spec, part), "QK", "exact", 0, build, hard=True)


def _written(w: ModularWeights, part: str) -> Array:
    """Columns: what attention writes if a value is 1 for all words."""
    spec = w.transformer
    out = w.field.reduce(w(part, "W_O").sum(axis=1))
    return np.moveaxis(out, 1, 0).reshape(spec.d, -1)


def _values(spec: Transformer, first: End) -> Piece:
    """Constants of the embedding, compensated by the attention output common to all words."""
    part, inner = first[0], spec.kv * spec.dv

    def build(w: ModularWeights) -> Array:
        F, canvas, form = w.field, w.canvas(inner), _form_of_ones(w)
        written = _written(w, part)
        canvas("embed", "tokens")[...] = -written.T[:, :, None]
        for reader in readers(spec, first):
            moved = F.matmul(w(part, reader.weight), written)  # (..., rows, inner)
            canvas(part, reader.weight)[...] = np.moveaxis(moved, -1, 0)[..., None] * form
        own = canvas(part, "W_V").reshape(inner, inner, spec.d)
        own[range(inner), range(inner)] += form
        return F.reduce(canvas.rows)

    name = "constants of the embedding, subtracted by the values of all words"
    return Piece("word-constants", name, where(spec, part), "VO", "exact", 0, build, hard=True)


def _to_logits(spec: Transformer, first: End) -> Piece:
    """Constants in the attention output of all words, compensated by the bias of the logits."""
    part, inner = first[0], spec.kv * spec.dv

    def build(w: ModularWeights) -> Array:
        F, canvas, form = w.field, w.canvas(inner), _form_of_ones(w)
        table = w("embed", "tokens").T if spec.tied else w("head", "W_U")
        canvas("head", "b_U")[..., 0] = -F.matmul(table, _written(w, part)).T
        own = canvas(part, "W_V").reshape(inner, inner, spec.d)
        own[range(inner), range(inner)] = form
        return F.reduce(canvas.rows)

    name = "constants written by the values of all words, subtracted by the bias of the logits"
    return Piece("word-constants", name, where(spec, part), "VO", "exact", 0, build, hard=True)
