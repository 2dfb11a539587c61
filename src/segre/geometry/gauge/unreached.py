"""Symmetries of narrow streams: weights on directions that no vector ever has.

What a consumer reads lies in `constant + span(columns)`: few tokens span little, without a skip a
narrow sublayer fills little, and a LayerNorm takes the mean away. A form that vanishes on the span
may be added to every row of a reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from segre.fields.interface import Array
from segre.geometry.gauge.piece import Group, ModularWeights, Piece
from segre.geometry.gauge.wiring import (
    End,
    Norm,
    has,
    norm_after,
    norm_at,
    norm_before,
    own_sublayers,
    producers_of,
    readers,
    where,
)
from segre.geometry.reach import annihilator
from segre.transformer.spec import Transformer
from segre.transformer.tensors import part_shapes


@dataclass(frozen=True)
class Span:
    """The affine space constant + span(columns), as matrices."""

    columns: Array
    constant: Array

    @property
    def whole(self) -> Array:
        """Columns that span all of it."""
        return np.concatenate([self.columns, self.constant], axis=1)

    def through(self, w: ModularWeights, matrix: Array) -> Span:
        """Its image under a linear map."""
        return Span(w.field.matmul(matrix, self.columns), w.field.matmul(matrix, self.constant))


def unreached_pieces(spec: Transformer) -> Iterator[Piece]:
    """Weights of consumers on directions without vectors, including latents and heads."""
    for end in (*own_sublayers(spec), ("head", "")):
        if _narrow(spec, end) and readers(spec, end):
            yield _unread_forms(spec, end)
        if end[1] == "attention":
            if spec.latent:
                yield from _latents(spec, end)
            yield from _unmet(spec, end)


def pooled_pieces(spec: Transformer) -> Iterator[Piece]:
    """What is read of attention to a single token, whose heads are one linear map."""
    if spec.t > 1 or not spec.sums_to_one or spec.residual or pooled_width(spec) >= _fills(spec):
        return
    if spec.gate != "none":
        return
    for end in (*own_sublayers(spec), ("head", "")):
        producer = sole_producer(spec, end)
        attended = producer is not None and producer[1] == "attention" and readers(spec, end)
        if attended and _narrow(spec, end, pooled=True):
            yield _unread_forms(spec, end, pooled=True)


def _fills(spec: Transformer) -> int:
    """How many dimensions the heads of attention fill, each on its own."""
    return spec.heads * min(spec.dv, spec.kvrank or spec.dv)


def pooled_width(spec: Transformer) -> int:
    """How many dimensions they fill together, if all mixing weights are 1."""
    inner = spec.kv * spec.dv
    return min(inner, spec.kvrank) if spec.latent else inner


def sole_producer(spec: Transformer, end: End) -> End | None:
    """The one producer that writes what a consumer reads; None if there are several."""
    found = producers_of(spec, end)
    if len(found) != 1 or (spec.residual and ("embed", "") not in found):
        return None
    return found[0]


def post_norm(spec: Transformer, end: End) -> Norm | None:
    """The LayerNorm whose output a consumer reads as it is, if it is one."""
    if spec.norm != "layer" or spec.place != "post":
        return None
    found = producers_of(spec, end)
    return norm_after(spec, found[0]) if len(found) == 1 and found[0][1] else None


def read_dimension(spec: Transformer, end: End, pooled: bool = False) -> int:
    """Of the space that a consumer reads, if columns are generic; without the constant."""
    if post_norm(spec, end) is not None:
        return spec.d - 1
    producer = sole_producer(spec, end)
    site = norm_before(spec, end)
    centred = site is not None and spec.norm == "layer"
    if producer is None or producer[0] == "input":
        return spec.d - centred
    part, kind = producer
    shapes = part_shapes(spec, part)
    if kind == "attention":
        size = pooled_width(spec) if pooled else _fills(spec)
        size += has(spec, part, "b_O") * (site is not None)
    elif kind == "mlp":
        size = sum(prod(shapes[n]) // spec.d for n in ("W_down", "S_down", "c_down") if n in shapes)
        size += has(spec, part, "b_down") * (site is not None)
    elif spec.patch or (spec.project and site is not None):
        size = (spec.patch or spec.embed) + spec.t
    elif spec.embed or spec.embscale or spec.types:
        return spec.d - centred
    else:
        size = spec.vocab + (spec.t - 1) * (spec.pos == "learned")
        if spec.embnorm:
            size += spec.norm_bias and site is not None
            return min(size, spec.d - (spec.norm == "layer"))
        size -= site is None
    return min(size, spec.d - centred)


def read_span(w: ModularWeights, end: End, pooled: bool = False) -> Span:
    """What a consumer reads, after the norm before it."""
    spec = w.transformer
    producer, site = sole_producer(spec, end), norm_before(spec, end)
    none = np.zeros((spec.d, 0))
    found = Span(np.eye(spec.d), none)
    post = post_norm(spec, end)
    if post is not None:
        constant = none if post.bias is None else w(post.part, post.bias)
        return Span(_normed(w, post, found.columns), constant)
    if producer is not None and _narrow(spec, end, pooled):
        found = _written(w, producer, pooled)
    if site is None:
        return found
    columns = _normed(w, site, found.whole)
    return Span(columns, none if site.bias is None else w(site.part, site.bias))


def _narrow(spec: Transformer, end: End, pooled: bool = False) -> bool:
    """Whether what a consumer reads does not fill the stream, but for the mean."""
    centred = norm_before(spec, end) is not None and spec.norm == "layer"
    return read_dimension(spec, end, pooled) < spec.d - centred


def normed_columns(w: ModularWeights, site: Norm, columns: Array) -> Array:
    """The image of columns under a norm, up to scale and without its bias."""
    F, d = w.field, site.width
    if w.transformer.norm == "layer":
        mean = F.sum(columns, axis=-2)
        columns = F.sub(F.mul(columns, F.constant(np.array([[d]]))), mean)
    return F.mul(columns, w(site.part, site.gain)) if site.gain else columns


def _normed(w: ModularWeights, site: Norm, columns: Array) -> Array:
    """The span of what a norm makes of a space, without its bias."""
    if w.transformer.norm != "layer" or columns.shape[1] < site.width:
        return normed_columns(w, site, columns)
    return normed_columns(w, site, np.eye(site.width))[:, :-1]


def _written(w: ModularWeights, producer: End, pooled: bool = False) -> Span:
    """What a producer writes, where the skip adds nothing."""
    F, spec, (part, kind) = w.field, w.transformer, producer
    none = np.zeros((spec.d, 0))
    if kind == "attention":
        out = w(part, "W_O")
        if spec.latent and pooled:
            out = F.matmul(out, w(part, "W_V"))
            out = F.reduce(out.sum(axis=(0, 1), keepdims=True))
        elif pooled:
            out = F.reduce(out.sum(axis=1, keepdims=True))
        elif spec.latent and spec.kvrank < spec.dv:
            out = F.matmul(out, w(part, "W_V"))
        blocks = np.moveaxis(out, 2, 0).reshape(spec.d, -1)
        return Span(blocks, w(part, "b_O") if has(spec, part, "b_O") else none)
    if kind == "mlp":
        every = [w(part, n) for n in ("W_down", "S_down", "c_down") if has(spec, part, n)]
        blocks = np.concatenate([np.moveaxis(m, -2, 0).reshape(spec.d, -1) for m in every], axis=1)
        return Span(blocks, w(part, "b_down") if has(spec, part, "b_down") else none)
    if spec.patch or spec.project:
        return Span(placed_columns(w), none)
    words = w("embed", "tokens")
    columns = F.sub(words[:, 1:], words[:, :1])
    first = words[:, :1]
    if spec.pos == "learned":
        used = w("embed", "positions")[:, spec.offset : spec.offset + spec.t]
        columns = np.concatenate([columns, F.sub(used[:, 1:], used[:, :1])], axis=1)
        first = F.add(first, used[:, :1])
    if not spec.embnorm:
        return Span(columns, first)
    site = norm_at(spec, "embed", "norm", spec.d)
    normed = _normed(w, site, np.concatenate([columns, first], axis=1))
    return Span(normed, none if site.bias is None else w("embed", site.bias))


def placed_columns(w: ModularWeights) -> Array:
    """Columns that span the tokens that are mapped to the stream and get positions there."""
    F, spec = w.field, w.transformer
    used = w("embed", "positions")[:, spec.offset : spec.offset + spec.t]
    if spec.project:
        return np.concatenate([w("embed", "W_E"), used], axis=1)
    patches = F.add(used, w("embed", "b_P"))
    if spec.cls:
        first = F.add(used[:, :1], w("embed", "cls"))
        patches = np.concatenate([first, patches[:, 1:]], axis=1)
    return np.concatenate([w("embed", "W_P"), patches], axis=1)


def _unread_forms(spec: Transformer, end: End, pooled: bool = False) -> Piece:
    def build(w: ModularWeights) -> Array:
        span = read_span(w, end, pooled)
        rows = [np.zeros((0, spec.parameters))]
        for reader in readers(spec, end):
            forms = _outside(w, span.whole if reader.bias is None else span.columns)
            rows += _added(w, reader.part, reader.weight, forms)
            if reader.bias is not None and span.constant.shape[1]:
                values = w.field.matmul(forms, span.constant)
                rows[-1] += sum(_added(w, reader.part, reader.bias, -values))
        return w.field.reduce(np.concatenate(rows))

    name = f"weights of the {end[1] or 'head'} on directions that its input never has"
    count = 0  # of sizes for which there are formulas
    if spec.patch or spec.project:
        shapes = [part_shapes(spec, r.part)[r.weight] for r in readers(spec, end)]
        free = spec.d - (spec.norm == "layer") - read_dimension(spec, end)
        count = free * sum(prod(shape[:-1]) for shape in shapes)
    return Piece("unreached", name, where(spec, end[0]), "residual", "exact", count, build)


def _added(w: ModularWeights, part: str, name: str, forms: Array) -> list[Array]:
    """Each form added to each row of a tensor; empty if there are no forms."""
    if not len(forms):
        return []
    count = prod(part_shapes(w.transformer, part)[name][:-1])
    canvas = w.canvas(count * len(forms))
    view = canvas(part, name).reshape(count, len(forms), count, -1)
    view[range(count), :, range(count)] = forms
    return [canvas.rows]


def _outside(w: ModularWeights, columns: Array) -> Array:
    """Forms that vanish on columns."""
    rows, count = columns.shape
    if count >= rows:
        return np.zeros((0, rows))
    return annihilator(w.field, columns.T)


def _latents(spec: Transformer, end: End) -> Iterator[Piece]:
    """A latent wider than what it is made of: its readers, where it never lies."""
    part, read = end[0], read_dimension(spec, end)
    chosen = [("A_K", "normk", ["W_K", "W_V"], spec.kvrank, "key-value")]
    if spec.qrank:
        names = [name for name in ("W_Q", "R_Q") if has(spec, part, name)]
        chosen.append(("A_Q", "normq", names, spec.qrank, "query"))
    for source, norm, names, width, what in chosen:
        if width > read:
            yield _latent(spec, end, norm_at(spec, part, norm, width), source, names, what)


def _latent(
    spec: Transformer, end: End, site: Norm, source: str, names: list[str], what: str
) -> Piece:
    part = end[0]

    def build(w: ModularWeights) -> Array:
        forms = _outside(w, _latent_span(w, part, read_span(w, end), site, source).columns)
        rows = [own for name in names for own in _added(w, part, name, forms)]
        return np.concatenate([np.zeros((0, spec.parameters)), *rows])

    name = f"weights on directions that the {what} latent never has"
    return Piece("unreached", name, where(spec, part), "QK", "exact", 0, build)


def _latent_span(w: ModularWeights, part: str, span: Span, site: Norm, source: str) -> Span:
    """What a latent fills: all of it, or the image of what it is made of."""
    image, none = w.field.matmul(w(part, source), span.whole), np.zeros((site.width, 0))
    if image.shape[1] >= site.width:
        return Span(np.eye(site.width), none)
    return Span(w.field.mul(image, w(part, site.gain)) if site.gain else image, none)


def _unmet(spec: Transformer, end: End) -> Iterator[Piece]:
    """Heads wider than what they read: what queries ask and no key meets, what no value reaches."""
    read = read_dimension(spec, end)
    if spec.latent:
        read = min(spec.kvrank, read)
    spec = spec.at(end[0])
    if spec.feature != "none":
        return
    turned = not spec.latent and (spec.qknorm or spec.rotary_dim)
    if spec.head > read and not turned:
        yield _unmet_side(spec, end, "K", "directions of queries orthogonal to all keys")
    if spec.dv > read and spec.gate != "element":
        yield _unmet_side(spec, end, "V", "outputs that no value reaches")


def _unmet_side(spec: Transformer, end: End, letter: str, name: str) -> Piece:
    part, keys = end[0], letter == "K"
    asking = ["W_Q", "b_Q"] if keys else ["W_O"]

    def build(w: ModularWeights) -> Array:
        rows = [np.zeros((0, w.spec.parameters))]
        span = read_span(w, end)
        if spec.latent:
            span = _latent_span(w, part, span, norm_at(spec, part, "normk", spec.kvrank), "A_K")
        for g in range(spec.kv):
            image = span.through(w, w(part, f"W_{letter}")[g, 0])
            columns = image.columns
            if not (keys and spec.ignores_shifts):
                constant = image.constant
                if has(spec, part, f"b_{letter}"):
                    own = w(part, f"b_{letter}")[g, 0]
                    constant = w.field.add(constant, own) if constant.shape[1] else own
                columns = np.concatenate([columns, constant], axis=1)
            forms = _outside(w, columns)
            for tensor in (n for n in asking if has(spec, part, n)):
                shape = w(part, tensor).shape
                size = shape[-1 if keys else -2]
                canvas = w.canvas(spec.group * len(forms) * size)
                view = canvas(part, tensor)
                view = view if keys else view.swapaxes(-1, -2)
                for row, (q, n, c) in enumerate(np.ndindex(spec.group, len(forms), size)):
                    view[row, g, q, :, c] = forms[n]
                rows.append(canvas.rows)
        return np.concatenate(rows)

    group: Group = "QK" if keys else "VO"
    return Piece("unmet", name, where(spec, part), group, "exact", 0, build)
