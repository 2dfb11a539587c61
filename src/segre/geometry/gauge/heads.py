"""Symmetries inside attention: bases of queries and keys, of values and outputs, their biases."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.attention.symmetries import SCALE, query_key, value_output
from segre.fields.interface import Array
from segre.geometry.gauge.absorb import inverse_gain
from segre.geometry.gauge.latents import latent_pieces, latent_planes
from segre.geometry.gauge.mixed_norm import mixed_norm_pieces
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.wiring import End, Norm, has, norm_after, norm_before, producers_of, where
from segre.geometry.reach import annihilator
from segre.transformer.layers import plane_dimensions
from segre.transformer.spec import Transformer


def head_pieces(spec: Transformer, part: str) -> Iterator[Piece]:
    """The pieces of one attention layer."""
    at, spec = where(spec, part), spec.at(part)
    if spec.mixnorm:
        yield from mixed_norm_pieces(spec, part, at)
    if spec.feature != "none":  # which no basis and no scale passes
        return
    if spec.qknorm:
        yield from _normed_queries(spec, part, at)
    else:
        yield from _queries(spec, part, at)
    if not spec.mixnorm:
        yield _values(spec, part, at)
    if not spec.latent:
        site = _biased_norm(spec, part)
        if has(spec, part, "b_K") or site is not None:
            yield from _key_bias(spec, part, at, site)
            yield from _value_bias(spec, part, at, site)
    if spec.mechanism.scales and not spec.mixnorm:
        yield _scale(spec, part, at)
    if spec.latent:
        yield from latent_pieces(spec, part, at)


def _still(spec: Transformer) -> range:
    """Dimensions of a head's W_Q, W_K that no rotation touches."""
    return range(0 if spec.latent else spec.rotary_dim, spec.head)


def _plane_pairs(spec: Transformer) -> list[tuple[int, int]]:
    """The two dimensions of each plane that turns."""
    if not spec.rotary_dim:
        return []
    first, second = plane_dimensions(spec)
    return list(zip(first.tolist(), second.tolist(), strict=True))


def _names(spec: Transformer, part: str, weight: str) -> list[str]:
    bias = weight.replace("W_", "b_")
    return [name for name in (weight, bias) if has(spec, part, name)]


def _queries(spec: Transformer, part: str, at: str) -> Iterator[Piece]:
    n = spec.still
    if n:
        name = query_key(n).name
        count = spec.kv * n * n

        def basis(w: ModularWeights) -> Array:
            still = _still(spec)
            canvas = w.canvas(spec.kv * n * n)
            for query, key in zip(
                _names(spec, part, "W_Q"), _names(spec, part, "W_K"), strict=True
            ):
                Q, K = w(part, query), w(part, key)
                dQ, dK = canvas(part, query), canvas(part, key)
                row = 0
                for g in range(spec.kv):
                    for j in still:
                        for k in still:
                            dQ[row, g, :, j] = Q[g, :, k]
                            dK[row, g, :, k] = -K[g, :, j]
                            row += 1
            return canvas.rows

        yield Piece("query-key", name, at, "QK", "exact", count, basis)
    if spec.rotary_dim:
        count = spec.rotary_dim if spec.latent else spec.kv * spec.rotary_dim
        build = (
            (lambda w: latent_planes(spec, part, w))
            if spec.latent
            else (lambda w: _planes(spec, part, w))
        )
        name = "scaled rotations of the rotary planes"
        yield Piece("rotary", name, at, "QK", "exact", count, build)


def _planes(spec: Transformer, part: str, w: ModularWeights) -> Array:
    """Per key-value head and plane: scale queries against keys; turn both."""
    first, second = plane_dimensions(spec)
    canvas = w.canvas(spec.kv * spec.rotary_dim)
    for name, sign in (("W_Q", 1), ("W_K", -1)):
        for tensor in _names(spec, part, name):
            value, tangent = w(part, tensor), canvas(part, tensor)
            row = 0
            for g in range(spec.kv):
                for a, b in zip(first, second, strict=True):
                    tangent[row, g, :, [a, b]] = sign * value[g][:, [a, b]].swapaxes(0, 1)
                    tangent[row + 1, g, :, a] = -value[g, :, b]
                    tangent[row + 1, g, :, b] = value[g, :, a]
                    row += 2
    return canvas.rows


def _normed_queries(spec: Transformer, part: str, at: str) -> Iterator[Piece]:
    planes, n = spec.rotary_dim // 2, spec.still
    if spec.gain:
        groups = spec.kv if spec.qknorm == "all" else 1  # with gains of their own

        def gains(w: ModularWeights) -> Array:
            units = [*map(list, _plane_pairs(spec)), *([j] for j in _still(spec))]
            canvas = w.canvas(groups * len(units))
            for name, sign in (("normq.gain", 1), ("normk.gain", -1)):
                value = w(part, name).reshape(groups, -1, spec.head)
                tangent = canvas(part, name).reshape(len(canvas.rows), *value.shape)
                for row, (g, dims) in enumerate((g, u) for g in range(groups) for u in units):
                    tangent[row, g][:, dims] = sign * value[g][:, dims]
            return canvas.rows

        name = "gains of queries against gains of keys"
        count = groups * (planes + n)
        yield Piece("query-key-gains", name, at, "QK", "exact", count, gains)
    else:
        count = spec.kv * (planes + n * (n - 1) // 2)

        def turns(w: ModularWeights) -> Array:
            still = _still(spec)
            pairs = [*_plane_pairs(spec), *((j, k) for j in still for k in still if k < j)]
            canvas = w.canvas(spec.kv * len(pairs))
            for weight in ("W_Q", "W_K"):
                for tensor in _names(spec, part, weight):
                    value, tangent = w(part, tensor), canvas(part, tensor)
                    rows = ((g, p) for g in range(spec.kv) for p in pairs)
                    for row, (g, (a, b)) in enumerate(rows):
                        tangent[row, g, :, a] = -value[g, :, b]
                        tangent[row, g, :, b] = value[g, :, a]
            return canvas.rows

        if count:
            name = "rotations of normed queries and keys"
            yield Piece("query-key-turns", name, at, "QK", "exact", count, turns)
    if not spec.eps and spec.qknorm == "all":

        def both(w: ModularWeights) -> Array:
            canvas = w.canvas(2)
            for row, weight in enumerate(("W_Q", "W_K")):
                for tensor in _names(spec, part, weight):
                    canvas(part, tensor)[row] = w(part, tensor)
            return canvas.rows

        name = "scale of all queries, and of all keys"
        yield Piece("query-key-scale", name, at, "QK", "eps=0", 2, both)
    elif not spec.eps:

        def scales(w: ModularWeights) -> Array:
            canvas = w.canvas(spec.heads + spec.kv)
            row = 0
            for weight, inner in (("W_Q", spec.group), ("W_K", 1)):
                for g in range(spec.kv):
                    for q in range(inner):
                        for tensor in _names(spec, part, weight):
                            canvas(part, tensor)[row, g, q] = w(part, tensor)[g, q]
                        row += 1
            return canvas.rows

        name = "scale of every query and key head"
        yield Piece("query-key-scale", name, at, "QK", "eps=0", spec.heads + spec.kv, scales)


def _values(spec: Transformer, part: str, at: str) -> Piece:
    """(W_V, W_O) -> (G W_V, W_O G^-1), one G for each key-value head.

    With a gate for every entry G is diagonal.
    """
    v, single = spec.dv, spec.gate == "element"
    count = spec.kv * (v if single else v * v)

    def build(w: ModularWeights) -> Array:
        pairs = [(j, k) for j in range(v) for k in range(v) if j == k or not single]
        canvas = w.canvas(count)
        out, dO = w(part, "W_O"), canvas(part, "W_O")
        values = [(w(part, n), canvas(part, n)) for n in _names(spec, part, "W_V")]
        row = 0
        for g in range(spec.kv):
            for j, k in pairs:
                for V, dV in values:
                    dV[row, g, 0, j] = V[g, 0, k]
                dO[row, g, :, :, k] = -out[g, :, :, j]
                row += 1
        return canvas.rows

    name = "scale of every value, against outputs" if single else value_output(v).name
    return Piece("value-output", name, at, "VO", "exact", count, build)


def _biased_norm(spec: Transformer, part: str) -> Norm | None:
    """The norm with a bias that keys and values without biases read.

    They read its bias by the form 1^T G^-1, as if it were their own.
    """
    end = (part, "attention")
    site = None if has(spec, part, "b_K") else norm_before(spec, end) or _post_norm(spec, end)
    return None if site is None or site.bias is None else site


def _post_norm(spec: Transformer, end: End) -> Norm | None:
    """The LayerNorm whose output a consumer reads as it is, if it is one."""
    if spec.norm != "layer" or spec.place != "post":
        return None
    found = producers_of(spec, end)
    return norm_after(spec, found[0]) if len(found) == 1 and found[0][1] else None


def _key_bias(spec: Transformer, part: str, at: str, site: Norm | None) -> Iterator[Piece]:
    """A key bias shifts all scores of a query equally, which cancels in the softmax."""
    if not spec.ignores_shifts or spec.qknorm or not spec.still:
        return

    def build(w: ModularWeights) -> Array:
        still = _still(spec)
        canvas = w.canvas(spec.kv * len(still))
        view = canvas(part, "b_K" if site is None else "W_K")
        form = 1 if site is None else inverse_gain(w, site)[:, 0]
        for row, (g, j) in enumerate((g, j) for g in range(spec.kv) for j in still):
            view[row, g, 0, j] = form
        return canvas.rows

    name = "key biases, which cancel in the softmax"
    count = spec.kv * spec.still
    yield Piece("key-bias", name, at, "norms and biases", "exact", count, build)


def _value_bias(spec: Transformer, part: str, at: str, site: Norm | None) -> Iterator[Piece]:
    """Softmax columns sum to one: value biases write a constant, if no gate is in between."""
    if not spec.sums_to_one or spec.gate != "none":
        return
    inner, d = spec.kv * spec.dv, spec.d
    centred = norm_centres(spec)
    values = "b_V" if site is None else "W_V"
    taker = "b_down" if site is not None and spec.parallel else "b_O"
    if has(spec, part, taker):

        def absorbed(w: ModularWeights) -> Array:
            canvas = w.canvas(inner)
            dV, dO = canvas(part, values), canvas(part, taker)
            written = w.field.reduce(w(part, "W_O").sum(axis=1))  # (kv, d, v)
            form = np.ones(1) if site is None else inverse_gain(w, site)[:, 0]
            if site is not None:
                read = w.field.mul(form[:, None], w(site.part, str(site.bias)))
                written = w.field.mul(written, w.field.sum(read, axis=-2)[0])
            for row, (g, j) in enumerate((g, j) for g in range(spec.kv) for j in range(spec.dv)):
                dV[row, g, 0, j] = form
                dO[row, :, 0] = -written[g, :, j]
            return w.field.reduce(canvas.rows)

        name = "value biases, absorbed by the output bias"
        yield Piece("value-bias", name, at, "norms and biases", "exact", inner, absorbed)
        return
    free = inner - min(inner, d - centred)
    if not free:
        return

    def unwritten(w: ModularWeights) -> Array:
        written = w.field.reduce(w(part, "W_O").sum(axis=1))
        joint = written.swapaxes(0, 1).reshape(d, inner)
        if centred:
            joint = w.field.reduce(joint[1:] - joint[:1])
        forms = annihilator(w.field, joint)
        canvas, shape = w.canvas(len(forms)), (-1, spec.kv, spec.dv, 1)
        form = np.ones(1) if site is None else inverse_gain(w, site)[:, 0]
        canvas(part, values)[:, :, 0] = w.field.mul(forms.reshape(shape), form)
        return canvas.rows

    name = "value biases that write nothing"
    yield Piece("value-bias", name, at, "norms and biases", "exact", free, unwritten)


def norm_centres(spec: Transformer) -> bool:
    """Whether the mean of the attention output has no effect: only LayerNorms follow."""
    if spec.norm != "layer":
        return False
    return spec.final or spec.place != "pre"


def _scale(spec: Transformer, part: str, at: str) -> Piece:
    """Lightning: scores scaled against outputs, head by head."""

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(spec.heads)
        for row, (g, q) in enumerate((g, q) for g in range(spec.kv) for q in range(spec.group)):
            canvas(part, "W_O")[row, g, q] = w(part, "W_O")[g, q]
            for tensor in _names(spec, part, "W_Q"):
                canvas(part, tensor)[row, g, q] = -w(part, tensor)[g, q]
        return canvas.rows

    return Piece(*SCALE, at, "QK", "exact", spec.heads, build)
