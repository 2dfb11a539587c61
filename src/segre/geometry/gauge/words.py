"""Symmetries that only discrete token sequences have: each word separately."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np

from segre.fields.interface import Array
from segre.fields.rank import Echelon
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.unreached import normed_columns
from segre.geometry.gauge.wiring import (
    has,
    norm_at,
    norm_before,
    producers_of,
    readers,
    sublayers,
    where,
)
from segre.transformer.spec import Transformer


def word_pieces(spec: Transformer) -> Iterator[Piece]:
    """If a norm reads only the directions of few words, or of few vectors made from them."""
    if not spec.discrete:
        return
    alone = not spec.tied and spec.pos != "learned" and not spec.types
    if alone and spec.embnorm and not spec.eps:
        yield _word_scales(spec)
    first = sublayers(spec)[0]
    only = producers_of(spec, first) == (("embed", ""),)
    if not only or spec.embed or spec.embscale or spec.types or spec.norm_bias:
        return
    if alone and not (spec.residual or spec.embnorm) and spec.eps and spec.normed_before:
        yield _word_basis(spec)
    count = spec.vocab * (spec.t if spec.pos == "learned" else 1)
    biased = has(spec, first[0], "b_Q")
    if biased and (spec.embnorm or norm_before(spec, first) is not None):
        return  # the bias is seen beside the root
    chosen: list[tuple[str, int]] = []
    if spec.qknorm is True and not spec.eps:
        chosen = [("W_Q", spec.head), ("W_K", spec.head)]
    elif spec.latent:
        chosen = [("A_K", spec.kvrank), *([("A_Q", spec.qrank)] if spec.qrank else [])]
    for name, width in chosen:
        if not spec.eps and width * (spec.d + biased) + count > width * count + 1:
            yield _directions(spec, first[0], name)
        if spec.latent and width * (width + 1) // 2 > count:
            yield _forms(spec, first[0], name, width)


def _word_scales(spec: Transformer) -> Piece:
    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(spec.vocab)
        for word in range(spec.vocab):
            canvas("embed", "tokens")[word, :, word] = w("embed", "tokens")[:, word]
        return canvas.rows

    name = "scale of the embedding of each word, before its norm"
    # all of them together are the scale of the embeddings
    count = spec.vocab - 1
    return Piece(
        "word-scale", name, "embedding", "norms and biases", "eps=0", count, build, hard=True
    )


def _word_basis(spec: Transformer) -> Piece:
    """Words that are read through a norm with eps alone: any table, in any basis.

    n' = S n if x' = S x + x (x^T S x) / (d eps); readers undo it. For a LayerNorm S 1 = S^T 1 = 0.
    """
    first, d = sublayers(spec)[0], spec.d
    site = norm_before(spec, first)
    assert site is not None

    def build(w: ModularWeights) -> Array:
        F, x = w.field, w("embed", "tokens")
        units = np.eye(d)
        if spec.norm == "layer":
            units = units[:-1] - units[-1]
            x = F.sub(x, F.mul(F.sum(x, axis=-2), F.fraction(Fraction(1, d))))
        every = [np.outer(a, b) for a in units for b in units]
        canvas, share = w.canvas(len(every)), F.fraction(1 / (d * spec.eps))
        gain = w(site.part, site.gain) if site.gain else np.ones((d, 1))
        inverse = F.reciprocal(gain)
        for row, S in enumerate(every):
            moved = F.matmul(S, x)
            size = F.mul(F.sum(F.mul(x, moved), axis=-2), share)
            canvas("embed", "tokens")[row] = F.add(moved, F.mul(x, size))
            turned = F.mul(F.mul(gain, S), inverse[:, 0])
            for reader in readers(spec, first):
                changed = F.matmul(w(reader.part, reader.weight), turned)
                canvas(reader.part, reader.weight)[row] = -changed
        return canvas.rows

    name = "basis of words that are read only through a norm"
    return Piece("word-basis", name, "embedding", "residual", "exact", 0, build, hard=True)


def word_columns(w: ModularWeights) -> Array:
    """What the first attention reads of every word, in every position if there are; up to scale."""
    F, spec = w.field, w.transformer
    out = w("embed", "tokens")
    if spec.pos == "learned":
        used = w("embed", "positions")[:, spec.offset : spec.offset + spec.t]
        out = F.add(out[:, :, None], used[:, None, :]).reshape(spec.d, -1)
    if spec.embnorm:
        out = normed_columns(w, norm_at(spec, "embed", "norm", spec.d), out)
    site = norm_before(spec, sublayers(spec)[0])
    return out if site is None else normed_columns(w, site, out)


def _directions(spec: Transformer, part: str, name: str) -> Piece:
    """Changes of a map by which every word's vector moves along itself: dW y = s W y."""

    def build(w: ModularWeights) -> Array:
        F, values = w.field, word_columns(w)
        bias = name.replace("W_", "b_")
        biased = bias != name and has(spec, part, bias)
        if biased:
            values = np.concatenate([values, np.ones((1, values.shape[1]))])
        (D, N), rows = values.shape, [np.zeros((0, spec.parameters))]
        maps = w(part, name).reshape(-1, *w(part, name).shape[-2:])
        for number, W in enumerate(maps):
            k = len(W)
            whole = W
            if biased:
                whole = np.concatenate([W, w(part, bias).reshape(-1, k, 1)[number]], axis=1)
            images = F.matmul(whole, values)
            table = np.zeros((N, k, k * D + N))
            for j in range(k):
                table[:, j, j * D : (j + 1) * D] = values.T
                table[range(N), j, range(k * D, k * D + N)] = -images[j]
            space = Echelon(k * D + N, F)
            space.add(table.reshape(N * k, -1))
            if space.rank < N * k:
                continue
            found = F.reduce(space.kernel())[:, : k * D].reshape(-1, k, D)
            canvas = w.canvas(len(found))
            canvas(part, name).reshape(len(found), -1, k, spec.d)[:, number] = found[:, :, : spec.d]
            if biased:
                canvas(part, bias).reshape(len(found), -1, k, 1)[:, number] = found[:, :, spec.d :]
            rows.append(canvas.rows)
        return np.concatenate(rows)

    title = f"{name}, read through a norm only in the directions of few words"
    return Piece("word-directions", title, where(spec, part), "QK", "eps=0", 0, build, hard=True)


def _forms(spec: Transformer, part: str, name: str, width: int) -> Piece:
    """Symmetric R with z^T R z = 0 for the latents z of all words, before their norm: dA = R A."""
    norm, readers = ("normk", ["W_K", "W_V"]) if name == "A_K" else ("normq", ["W_Q", "R_Q"])

    def build(w: ModularWeights) -> Array:
        pairs = list(combinations_with_replacement(range(width), 2))
        F, A = w.field, w(part, name)
        z = F.matmul(A, word_columns(w))
        table = np.stack([F.mul(z[i], z[j]) for i, j in pairs], axis=1)
        space = Echelon(len(pairs), F)
        space.add(table)
        if space.rank < len(table):
            return np.zeros((0, spec.parameters))
        kernel = F.reduce(space.kernel())
        half = (F.p + 1) // 2
        R = np.zeros((len(kernel), width, width))
        for n, (i, j) in enumerate(pairs):
            R[:, i, j] = R[:, j, i] = (
                kernel[:, n] if i == j else F.mul(kernel[:, n], F.constant(np.array(half)))
            )
        site = norm_at(spec, part, norm, width)
        canvas = w.canvas(len(kernel))
        canvas(part, name)[...] = F.matmul(R, A[None])
        turned = R
        if site.gain:
            turned = F.mul(F.mul(w(part, site.gain), R), w.inverse(part, site.gain)[:, 0])
        for reader in (r for r in readers if has(spec, part, r)):
            for row, S in enumerate(turned):
                canvas(part, reader)[row] = -F.matmul(w(part, reader), S)
        return canvas.rows

    title = f"linear forms that vanish on the latents of all words, {name}"
    return Piece("word-forms", title, where(spec, part), "QK", "exact", 0, build, hard=True)
