"""The normal form of a checkpoint: one point of each fiber, the same for all copies.

After the free continuous choices are removed (`reduced`), the basis of the stream is chosen from
the token table, that of each head from its balanced factors, and heads and units are sorted by
size. Weights that already satisfy the conditions up to rounding stay unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import fsum

import numpy as np

from segre.checkpoint.alignment import (
    Freedom,
    LayerAlignment,
    StreamAlignment,
    embedding_freedom,
    free_pooler,
    stream_freedom,
)
from segre.checkpoint.experts import by_size, reordered
from segre.checkpoint.flips import chosen_flips, flip
from segre.checkpoint.frame import centred_basis, chosen_basis, chosen_frame, descending, weights
from segre.checkpoint.latents import LatentTurn
from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model
from segre.checkpoint.planes import free_planes, keys, met_keys, planes, still, turning
from segre.checkpoint.reduce import reduced
from segre.checkpoint.units import SHARED, UNITS, biased, signed, unit_sizes
from segre.fields.interface import Array
from segre.transformer.spec import Transformer

SLACK = 8  # in units of the rounding error of the storage type


def canonical_parts(model: Model) -> Iterator[tuple[str, Tensors]]:
    """The parts of a checkpoint in normal form."""
    spec, slack = model.spec, SLACK * model.roundoff()
    stream = StreamAlignment()
    for found in reduced(model, slack):
        w = found.tensors
        if found.part == "embed":
            stream = _stream_alignment(spec, w, slack)
        if found.part == "head" and spec.transform and not spec.tied:
            stream.transform = descending(np.linalg.norm(w["W_T"], axis=1), slack)
        if found.part == "head" and free_pooler(spec):
            _choose_pooled(stream, w, slack)
        stream.apply(spec, found.part, w)
        if found.part not in ("embed", "head"):
            own = spec.at(found.part)
            layer_turn(own, w, slack).apply(own, w)
        yield found.part, w


def _stream_alignment(spec: Transformer, embed: Tensors, slack: float) -> StreamAlignment:
    table = embed["tokens"] if spec.discrete else _named(embed)
    if not spec.embed:
        return _chosen(stream_freedom(spec), table, spec.norm == "layer", slack)
    inner = _chosen(embedding_freedom(spec), table, spec.norm == "layer", slack)
    rows = inner.read(embed["W_E"]) * weights(spec.embed)  # whose sums are 0 without weights
    return replace(_chosen(stream_freedom(spec), rows, True, slack), embed=inner)


def _named(embed: Tensors) -> Array:
    """Columns of the stream that have names: entries of a patch, and positions."""
    return np.concatenate([embed["W_P"], embed["positions"]], axis=1)


def _chosen(freedom: Freedom, table: Array, centred: bool, slack: float) -> StreamAlignment:
    """The basis determined by rows, among the free ones."""
    width = len(table)
    if freedom == "none":
        return StreamAlignment()
    if freedom == "orthogonal":
        if not centred:
            return StreamAlignment(matrix=chosen_basis(table, slack))
        basis = centred_basis(width)
        inner = chosen_basis(basis.T @ table, slack)
        return StreamAlignment(matrix=basis @ inner @ basis.T + 1 / width)
    order = descending(np.array([np.linalg.norm(row) for row in np.ascontiguousarray(table)]))
    sums = np.array([fsum(table[i]) for i in order])  # exact, so that signs are
    if freedom == "order and signs":
        return StreamAlignment(order, np.where(sums < 0, -1.0, 1.0))
    return StreamAlignment(order, np.full(width, -1.0 if fsum(sums * weights(width)) < 0 else 1.0))


def _choose_pooled(stream: StreamAlignment, head: Tensors, slack: float) -> None:
    """Units of a pooler in order of size, each with a positive weighted sum."""
    stream.pooled = descending(np.linalg.norm(head["W_pool"], axis=1), slack)
    rows = stream.read(head["W_pool"])[stream.pooled]
    sums = rows @ weights(rows.shape[1]) + head["b_pool"][stream.pooled, 0]
    stream.pooled_signs = np.where(sums < 0, -1.0, 1.0)


def layer_turn(spec: Transformer, w: Tensors, slack: float) -> LayerAlignment:
    """The order and bases of heads and units of a reduced layer, the stream's basis being fixed."""
    flips = chosen_flips(spec, w, slack)
    w = dict(w)
    for norm, signs in flips.items():
        flip(spec, w, norm, signs)
    latents = None
    if spec.latent:
        latents = LatentTurn.chosen(spec, w, slack)
        latents.apply(spec, w)
    V = w["W_V"][:, 0]
    vo = np.stack([chosen_frame(head, slack) for head in V])
    gram = V @ V.swapaxes(1, 2)
    # norms of the products of every query head: |O V|^2 is the inner product of O'O and VV'
    sizes = np.sqrt(np.einsum("hgdv,hgdw,hvw->hg", w["W_O"], w["W_O"], gram, optimize=True).clip(0))
    queries = np.stack([descending(own, slack) for own in sizes])
    heads = descending(np.linalg.norm(sizes, axis=1), slack)
    out = LayerAlignment(heads, queries[heads], vo[heads], latents=latents, flips=flips)
    if turning(spec):
        out.planes = _phases(spec, w, slack)[heads]
    if spec.still:
        met = still(spec, met_keys(spec, w))[heads, 0]
        out.basis = np.stack([chosen_frame(head, slack) for head in met])
    if "W_R" in w:
        out.experts = by_size(spec, w, slack)
        reordered(w := dict(w), out.experts)
    if "W_up" in w:
        out.units, out.signs = _unit_order(spec, w, UNITS, slack)
    if "S_up" in w:
        out.shared, out.shared_signs = _unit_order(spec, w, SHARED, slack)
    return out


def _unit_order(spec: Transformer, w: Tensors, kind: str, slack: float) -> tuple[Array, Array]:
    """Units by size, those of each expert by themselves, and their signs."""
    sizes = unit_sizes(w, kind)
    rows = sizes.reshape(-1, sizes.shape[-1])
    order = np.stack([descending(row, slack) for row in rows]).reshape(sizes.shape)
    if not signed(spec):
        return order, np.ones(sizes.shape)
    sums = np.take_along_axis(_signed_sums(w, kind), order, axis=-1)
    return order, np.where(sums < 0, -1.0, 1.0)


def _signed_sums(w: Tensors, kind: str) -> Array:
    up = w[f"{kind}_up"]
    sums = up @ weights(up.shape[-1])
    bias = biased(w, kind, "up")
    return sums + w[bias][..., 0] if bias else sums


def _phases(spec: Transformer, w: Tensors, slack: float) -> Array:
    """By plane, the phase with which a weighted sum of its keys is positive."""
    K = planes(spec, keys(w)[:, 0])
    sums = K @ weights(K.shape[-1])
    size = np.abs(sums)
    phases = np.where(size > 0, np.conj(sums) / np.where(size > 0, size, 1), 1)
    if spec.qknorm:  # half turns only, unless the gains let planes turn
        half = np.where(sums.real < 0, -1.0, 1.0) + 0j
        phases = np.where(free_planes(spec, w), phases, half)
    near = np.abs(phases - 1) * size <= slack * np.linalg.norm(K, axis=-1)
    return np.where(near, 1.0, phases)
