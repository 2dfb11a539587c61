"""Constants in directions of the stream that patches and positions do not fill.

A constant u that is orthogonal to all tokens changes none of their norms,
to first order. The first attention reads it as a form of what it reads, and takes it back; so does
its bias in the stream.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.fields.interface import Array
from segre.symmetry.piece import ModularWeights, Piece
from segre.symmetry.reach import annihilator
from segre.symmetry.unreached import patch_columns
from segre.symmetry.wiring import layer_scale, norm_before, readers, sublayers
from segre.transformer.spec import Transformer


def patch_pieces(spec: Transformer) -> Iterator[Piece]:
    """What is free in each dimension that no token has; a constant but for a class token."""
    if not spec.patch:
        return
    room = spec.d - (spec.norm == "layer") - spec.patch - spec.t
    if room >= 0 and room + spec.cls and spec.output_bias:
        yield _constants(spec, room + spec.cls)


def _constants(spec: Transformer, count: int) -> Piece:
    d, mapped, layer = spec.d, spec.patch, spec.norm == "layer"
    first = sublayers(spec)[0]
    site = norm_before(spec, first)
    scale = layer_scale(spec, (first[0], "b_O"))

    def build(w: ModularWeights) -> Array:
        F, columns = w.field, patch_columns(w)
        others = np.delete(columns, mapped, axis=1) if spec.cls else columns
        ones = np.ones((d, int(layer)))
        shifts = annihilator(F, np.concatenate([others, ones], axis=1).T)
        form = _form(w, columns, np.arange(columns.shape[1]) >= mapped)
        gain = inverse = np.ones((d, 1))
        if site is not None and site.gain is not None:
            gain, inverse = w(site.part, site.gain), w.inverse(site.part, site.gain)
        canvas = w.canvas(len(shifts))
        for row, u in enumerate(shifts):
            M = F.matmul(u[:, None], form)
            if spec.cls:
                M = F.sub(M, _longer(w, columns, u, mapped))
            M = F.mul(F.mul(gain, M), inverse[:, 0])
            for reader in readers(spec, first):
                change = -F.matmul(w(reader.part, reader.weight), M)
                canvas(reader.part, reader.weight)[row] = change
                if site is not None and site.bias is not None and reader.bias is not None:
                    moved = F.matmul(change, w(site.part, site.bias))
                    canvas(reader.part, reader.bias)[row] = -moved
            canvas("embed", "positions")[row, :, : spec.t] = u[:, None]
            own = u[:, None] if scale is None else F.mul(u[:, None], w.inverse(first[0], scale))
            canvas(first[0], "b_O")[row] = -own
        return F.reduce(canvas.rows)

    name = "a constant in directions without tokens, subtracted by the first attention"
    return Piece("outside-shift", name, "embedding", "norms and biases", "exact", count, build)


def _longer(w: ModularWeights, columns: Array, u: Array, number: int) -> Array:
    """What the norm makes of the class token, whose length changes, and of it alone."""
    F, spec = w.field, w.transformer
    token = columns[:, number : number + 1]
    length = F.add(F.matmul(token.T, token), F.fraction(spec.d * spec.eps))
    share = F.mul(F.matmul(u[None], token), F.reciprocal(length))
    alone = _form(w, columns, np.arange(columns.shape[1]) == number)
    return F.mul(F.matmul(token, alone), share)


def _form(w: ModularWeights, columns: Array, values: Array) -> Array:
    """A row that has these values on independent columns."""
    rows = np.concatenate([columns.T, -values.astype(float)[:, None]], axis=1)
    found = annihilator(w.field, rows)
    chosen = next(form for form in found if form[-1])
    return w.field.mul(chosen[None, :-1], w.field.reciprocal(chosen[None, -1:]))
