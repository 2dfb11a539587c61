"""The turn that brings one reduced checkpoint closest to another: stream, heads, units.

The basis of the stream comes from the tables of tokens, whose columns have names; then heads are
assigned to heads by the inner products of what they compute, and their bases turned (Procrustes);
then units to units. For copies of one function every step is exact. For other models each step is
the best of its kind, given the steps before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from segre.checkpoint.alignment import (
    Freedom,
    LayerAlignment,
    StreamAlignment,
    embedding_freedom,
    stream_freedom,
)
from segre.checkpoint.assignment import assignment, copied_rows
from segre.checkpoint.flips import asked_flips, flip, written_flips
from segre.checkpoint.frame import centred_basis
from segre.checkpoint.latents import LatentTurn
from segre.checkpoint.layout import Tensors
from segre.checkpoint.likeness import head_likeness
from segre.checkpoint.match_units import match_units
from segre.checkpoint.model import Model
from segre.checkpoint.planes import free_planes, keys, met_keys, planes, queries, still, turning
from segre.checkpoint.sizes import apart, inner
from segre.fields.interface import Array
from segre.fields.threads import threads_for
from segre.symmetry.wiring import stream_readers, stream_writers
from segre.transformer.spec import Transformer

OPEN = 1e-9  # singular values below this fraction of the largest determine nothing
WEAK = 1e-2  # and below this one little


def match_stream(
    spec: Transformer, one: Tensors, two: Tensors, unembedded: Array | None = None
) -> StreamAlignment:
    """The basis in which the table `two` is nearest to `one`.

    `unembedded` has the inner products of the columns of the unembeddings, which have names too.
    """
    if spec.embed:
        return _match_embedded(spec, one, two)
    if stream_freedom(spec) == "none":
        return StreamAlignment()
    if unembedded is None and (copied := _copied_axes(spec, one, two)) is not None:
        return copied
    return best_stream(spec, _named_products(one, two, unembedded))


def _copied_axes(spec: Transformer, one: Tensors, two: Tensors) -> StreamAlignment | None:
    """The order and signs of the axes of the stream, if tables are copies of each other."""
    if stream_freedom(spec) == "orthogonal":
        return None
    table = _named(one)
    found = copied_rows(one[table], two[table], signed=True)
    if found is None or (stream_freedom(spec) == "order and sign" and np.ptp(found[1])):
        return None
    return StreamAlignment(*found)


def _named(w: Tensors) -> str:
    """The table whose columns have names: of tokens or patches."""
    return "tokens" if "tokens" in w else "W_P"


def match_sign(spec: Transformer, one: Tensors, two: Tensors) -> StreamAlignment:
    """For files in the same basis: the identity, up to the common sign of the stream."""
    out = StreamAlignment.identity(spec)
    if stream_freedom(spec) == "order and sign" and not spec.embed and out.signs is not None:
        out.signs *= -1.0 if float((one["tokens"] * two["tokens"]).sum()) < 0 else 1.0
    return out


def _match_embedded(spec: Transformer, one: Tensors, two: Tensors) -> StreamAlignment:
    """Match embeddings of another width by the tables, then the stream by the part they fill."""
    tokens = one["tokens"] @ two["tokens"].T
    embed = _best(embedding_freedom(spec), tokens, centred=spec.norm == "layer")
    inner = one["W_E"] @ embed.read(two["W_E"]).T
    out = StreamAlignment() if stream_freedom(spec) == "none" else best_stream(spec, inner)
    return replace(out, embed=embed)


def _named_products(one: Tensors, two: Tensors, unembedded: Array | None) -> Array:
    """Inner products (d, d) over what has names: tokens or patches, positions if those are few."""
    table = _named(one)
    inner: Array = one[table] @ two[table].T
    if unembedded is None:
        return inner
    more = [unembedded]
    if "positions" in one:
        more.append(one["positions"] @ two["positions"].T)
    size = np.linalg.norm(inner)
    for other in more:  # each table counts by its size
        inner = inner + other * (size / max(float(np.linalg.norm(other)), 1e-300))
    return inner


def undetermined(spec: Transformer, one: Tensors, two: Tensors, unembedded: Array | None) -> bool:
    """Whether tables leave a part of the basis of the stream open."""
    if "orthogonal" not in (stream_freedom(spec), embedding_freedom(spec)):
        return False
    sigma = np.linalg.svd(_named_products(one, two, unembedded), compute_uv=False)
    kept = sigma[:-1] if spec.norm == "layer" else sigma
    return bool(kept[-1] < OPEN * kept[0])


def settled(spec: Transformer, one: Tensors, two: Tensors, near: float) -> bool:
    """Whether tables, in one basis, are copies of each other to within `near`, and determine it."""
    table = _named(one)
    if spec.embed or (spec.vocab or spec.patch) < 2 * spec.d:
        return False
    size = inner(one[table], one[table])
    if apart(one[table], two[table]) > near**2 * size:
        return False
    if stream_freedom(spec) != "orthogonal":
        return _copied_axes(spec, one, two) is not None and bool(one[table].any(axis=1).all())
    spectrum = np.linalg.eigvalsh(one[table] @ one[table].T)
    return bool(spectrum[int(spec.norm == "layer")] > WEAK**2 * spectrum[-1])


def unembedding_products(one: Model, two: Model) -> Array | None:
    """Inner products (d, d) of what two unembeddings read, if a table of tokens is too short.

    Twice as many tokens as coordinates determine a basis well; then this is None.
    """
    spec = one.spec
    if stream_freedom(spec) != "orthogonal" or (spec.vocab or spec.patch) >= 2 * spec.d:
        return None
    return np.asarray(_unembedding(one).T @ _unembedding(two))


def _unembedding(model: Model) -> Array:
    """The unembedding with the preceding gain, restricted to what the norm passes on."""
    w = model.part("head", ["norm.gain", "W_U"])
    out = w["W_U"] * w["norm.gain"].T
    return out - out.mean(axis=1, keepdims=True) if model.spec.norm == "layer" else out


def best_stream(spec: Transformer, inner: Array) -> StreamAlignment:
    """The basis for inner products (d, d) of what two models write to the stream or read."""
    return _best(stream_freedom(spec), inner, centred=spec.norm == "layer")


def _best(freedom: Freedom, inner: Array, *, centred: bool) -> StreamAlignment:
    """The nearest basis, of those that are free; `centred` if the mean stays what it is."""
    width = len(inner)
    if freedom == "orthogonal":
        if not centred:
            return StreamAlignment(matrix=nearest_orthogonal(inner))
        basis = centred_basis(width)
        matrix = basis @ nearest_orthogonal(basis.T @ inner @ basis) @ basis.T + 1 / width
        return StreamAlignment(matrix=matrix)
    if freedom == "order and signs":
        order = assignment(np.abs(inner))
        return StreamAlignment(order, np.where(inner[np.arange(width), order] < 0, -1.0, 1.0))
    best = max(
        ((sign, assignment(sign * inner)) for sign in (1.0, -1.0)),
        key=lambda found: found[0] * inner[np.arange(width), found[1]].sum(),
    )
    return StreamAlignment(best[1], np.full(width, best[0]))


def stream_rows(
    spec: Transformer, one: Tensors, two: Tensors, *, gains: bool = True
) -> Iterator[tuple[Array, Array]]:
    """What two parts write to the stream and read from it, as rows (n, d)."""
    for name in one:
        if ("W_E" in one and name not in ("W_E", "b_E")) or (name == "W_U" and "W_T" in one):
            continue  # not of the stream
        normed = name.startswith(("norm.", "norm1.", "norm2.", "post"))
        if (normed and gains) or name in stream_writers(spec):
            a, b = (w[name].swapaxes(-1, -2) for w in (one, two))
        elif name in stream_readers(spec):
            a, b = one[name], two[name]
        else:
            continue
        yield a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1])


def stream_products(spec: Transformer, one: Tensors, two: Tensors) -> Array:
    """Inner products of all that two parts write to the stream and read from it, (d, d)."""
    out: Array = np.zeros(())
    for a, b in stream_rows(spec, one, two):
        out = out + a.T @ b
    return out


def match_transform(one: Tensors, two: Tensors) -> Array:
    """The order in which the units of an untied transform are nearest."""
    return assignment(one["W_T"] @ two["W_T"].T + one["W_U"].T @ two["W_U"])


def match_pooled(one: Tensors, two: Tensors) -> tuple[Array, Array]:
    """The order and signs in which the units of a pooler are nearest."""
    reader = "W_rel" if "W_rel" in one else "W_U"
    inner = one["W_pool"] @ two["W_pool"].T + one["b_pool"] @ two["b_pool"].T
    inner = inner + one[reader].T @ two[reader]
    order = assignment(np.abs(inner))
    return order, np.where(inner[np.arange(len(order)), order] < 0, -1.0, 1.0)


def match_layer(spec: Transformer, one: Tensors, two: Tensors, near: float = 0.0) -> LayerAlignment:
    """Order and bases of heads and units in which the layer `two` is nearest to `one`."""
    out = LayerAlignment.identity(spec, routed="W_R" in one)
    out.flips = written_flips(spec, one, two, near)
    same = dict(two)
    for norm, signs in out.flips.items():
        flip(spec, same, norm, signs)
    if spec.latent:
        out.latents = LatentTurn.nearest(spec, one, two)
        out.latents.apply(spec, same)
    likeness = head_likeness(spec, one, same)  # (kv, kv, group, group)
    within = np.array([[assignment(pair) for pair in row] for row in likeness])
    best = np.take_along_axis(likeness, within[..., None], axis=-1).sum(axis=(-1, -2))
    out.heads = assignment(best)
    out.queries = within[np.arange(spec.kv), out.heads]
    _flip_asked(spec, out, one, two, near)
    out.apply(spec, two := dict(two))
    out.vo = nearest_orthogonal(
        one["W_V"][:, 0] @ two["W_V"][:, 0].swapaxes(-1, -2)
        + (one["W_O"].swapaxes(-1, -2) @ two["W_O"]).sum(axis=1)
    )
    if turning(spec):
        free = [free_planes(spec, w, near) for w in (one, two)] if spec.qknorm else None
        out.planes = _match_planes(spec, one, two, None if free is None else free[0] & free[1])
    if spec.still:
        out.basis = _match_still(spec, one, two)
    match_units(spec, out, one, two)
    return out


def rematched(
    spec: Transformer, one: Tensors, two: Tensors, known: LayerAlignment | None, near: float
) -> LayerAlignment:
    """The turn of a layer whose orders are known; phases of rotary planes are matched again."""
    out = LayerAlignment.identity(spec, routed="W_R" in one)
    if known is not None:
        out = replace(out, heads=known.heads, queries=known.queries)
        out = replace(out, vo=known.vo, basis=known.basis)
        out = replace(out, units=known.units, signs=known.signs, experts=known.experts)
        out = replace(out, shared=known.shared, shared_signs=known.shared_signs)
    if spec.latent:
        out.latents = LatentTurn.nearest(spec, one, two)
    out.flips = written_flips(spec, one, two, near)
    if turning(spec):
        _flip_asked(spec, out, one, two, near)
        _of_heads(out).apply(spec, two := dict(two))
        free = free_planes(spec, one, near) if spec.qknorm else None
        out.planes = _match_planes(spec, one, two, free)
    return out


def _flip_asked(
    spec: Transformer, out: LayerAlignment, one: Tensors, two: Tensors, near: float
) -> None:
    """Add the signs of queries and keys, for the order of heads that was found."""
    if spec.qknorm:
        _of_heads(out).apply(spec, two := dict(two))
        out.flips |= asked_flips(spec, one, two, near)


def _of_heads(turn: LayerAlignment) -> LayerAlignment:
    """A turn of the heads of a layer alone."""
    return replace(turn, units=None, experts=None, shared=None)


def nearest_orthogonal(inner: Array) -> Array:
    """The orthogonal matrix G with the largest trace of G' inner: nearest to take two to one."""
    with threads_for(inner.shape[-1]):
        a, _, bh = np.linalg.svd(inner)
        return np.asarray(a @ bh)


def _match_still(spec: Transformer, one: Tensors, two: Tensors) -> Array:
    """The bases in which what does not turn is nearest."""
    k1, k2 = (still(spec, met_keys(spec, w))[:, 0] for w in (one, two))
    q1, q2 = (still(spec, queries(w)) for w in (one, two))
    return nearest_orthogonal(k1 @ k2.swapaxes(-1, -2) + (q1 @ q2.swapaxes(-1, -2)).sum(axis=1))


def _match_planes(spec: Transformer, one: Tensors, two: Tensors, free: Array | None) -> Array:
    """The phases with which planes are nearest."""
    inner = sum(
        (planes(spec, x) * np.conj(planes(spec, y))).sum(axis=(1, 3))
        for x, y in ((queries(one), queries(two)), (keys(one), keys(two)))
    )
    size = np.abs(inner)
    phases = np.where(size > 0, inner / np.where(size > 0, size, 1), 1)
    if free is not None:  # under norms, half turns only, unless the gains let planes turn
        half = np.where(inner.real < 0, -1.0, 1.0)
        phases = np.where(free, phases, half)
    return np.asarray(phases, complex)
