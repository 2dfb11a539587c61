"""Rotations of the stream that are compatible with output norms or a tied table.

The stream turns by a skew X. A norm after a writer is compatible if its gain and a rotation of its
input compensate for X; a tied table is compatible if the gain of the last norm does. Both are
linear equations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from segre.fields.interface import Array
from segre.fields.rank import Echelon
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.stream import centred_skew, conjugated
from segre.geometry.gauge.turns import below_diagonal
from segre.geometry.gauge.vocabulary import logits_may_shift
from segre.geometry.gauge.wiring import (
    End,
    Norm,
    has,
    norm_after,
    norm_before,
    own_sublayers,
    readers,
    sublayers,
    writer_bias,
    writers,
)
from segre.transformer.spec import Transformer

EMBED: End = ("embed", "")
HEAD: End = ("head", "")


def outer_turn_pieces(spec: Transformer) -> Iterator[Piece]:
    """The turns of a stream whose readers all have norms, or that one sublayer writes and reads."""
    if not spec.discrete or spec.norm == "none" or not spec.residual or spec.output == "hidden":
        return
    if spec.embed or spec.transform or spec.pooler or spec.parallel or spec.logitcap:
        return
    if not spec.firstnorm or spec.labels or spec.layerscale:
        return
    inside = spec.place in ("pre", "sandwich") and spec.final
    if inside or (_once(spec) and not spec.embnorm):
        yield _piece(spec)


def _once(spec: Transformer) -> bool:
    """Whether one sublayer reads the embedding, and the norm after it is the last."""
    return spec.place == "post" and len(sublayers(spec)) == 1 and not spec.final


def _last_norm(spec: Transformer) -> Norm:
    site = norm_after(spec, sublayers(spec)[-1]) if _once(spec) else norm_before(spec, HEAD)
    assert site is not None
    return site


def _outer_norms(spec: Transformer) -> dict[End, Norm]:
    """The norms between what producers compute and the stream."""
    if _once(spec):
        return {}
    every = {end: norm_after(spec, end) for end in (EMBED, *own_sublayers(spec))}
    return {end: site for end, site in every.items() if site is not None}


@dataclass(frozen=True)
class Turn:
    """One unknown, or a solution: how the stream turns, what follows, and the table's means."""

    stream: Array  # X
    inner: dict[End, Array]  # of what norms after writers read
    gains: dict[Norm, Array]  # relative changes
    means: Array  # a: tokens move by 1 a^T tokens
    equations: list[Array] = field(default_factory=list)


def _unknowns(spec: Transformer) -> list[Turn]:
    d, layer = spec.d, spec.norm == "layer"
    outer = _outer_norms(spec)
    fixed = [end for end, site in outer.items() if site.gain is None]  # these turn with the stream
    none, zero = np.zeros((d, d)), np.zeros(d)
    skew = centred_skew(d) if layer else [_skew(d, pair) for pair in below_diagonal(d)]
    found = [Turn(S, dict.fromkeys(fixed, S), {}, zero) for S in skew]
    for end, site in outer.items():
        if site.gain is not None:
            found += [Turn(none, {end: S}, {}, zero) for S in skew]
            found += [Turn(none, {}, {site: unit}, zero) for unit in np.eye(d)]
    if spec.tied:
        last = _last_norm(spec)
        if last.gain is not None:
            found += [Turn(none, {}, {last: unit}, zero) for unit in np.eye(d)]
        if layer:
            found += [Turn(none, {}, {}, unit) for unit in np.eye(d)]
    return found


def _skew(d: int, pair: tuple[int, int]) -> Array:
    S = np.zeros((d, d))
    S[pair], S[pair[::-1]] = 1, -1
    return S


def _gain(w: ModularWeights, site: Norm) -> Array:
    return w(site.part, site.gain)[:, 0] if site.gain else np.ones(site.width)


def _equations(w: ModularWeights, turn: Turn) -> Array:
    """The residual of the equations for norms after writers and a tied table."""
    F, spec = w.field, w.transformer
    d, outer = spec.d, _outer_norms(spec)
    centre = np.eye(d)
    if spec.norm == "layer":
        centre = np.concatenate([np.eye(d - 1), -np.ones((1, d - 1))])
    rows = [np.zeros(0)]
    for end, site in outer.items():
        if site.gain is not None:
            g = _gain(w, site)
            found = np.diag(F.mul(turn.gains.get(site, np.zeros(d)), g))
            found = found + F.mul(g[:, None], turn.inner.get(end, np.zeros((d, d))))
            found = F.sub(F.reduce(found), F.mul(turn.stream, g))
            rows.append(F.matmul(centre.T, F.matmul(found, centre)).ravel())
    if spec.tied and spec.gain:
        site = _last_norm(spec)
        g, own = _gain(w, site), turn.inner.get(EMBED, np.zeros((d, d)))
        own = own if EMBED in outer else turn.stream
        found = np.diag(F.mul(turn.gains.get(site, np.zeros(d)), g))
        found = found + F.mul(g[:, None], turn.stream) - F.mul(own, g)
        found = F.reduce(found + F.mul(turn.means[:, None], g))
        seen = w("embed", "tokens").T
        if logits_may_shift(spec):
            seen = F.sub(seen[1:], seen[:1])
        seen = np.eye(d) if len(seen) >= d else seen
        rows.append(F.matmul(seen, F.matmul(found, centre)).ravel())
    return np.concatenate(rows)


def _solutions(w: ModularWeights) -> list[Turn]:
    """A basis of the unknowns that solve all equations, if these are independent."""
    F, every = w.field, _unknowns(w.transformer)
    if not every:
        return []
    table = np.stack([_equations(w, turn) for turn in every], axis=1)
    space = Echelon(len(every), F)
    if len(table):
        space.add(np.ascontiguousarray(F.reduce(table)))
    if space.rank < len(table):
        return []
    return [_combined(w, every, c) for c in F.reduce(space.kernel())]


def _combined(w: ModularWeights, every: list[Turn], c: Array) -> Turn:
    F, d = w.field, w.transformer.d
    total = Turn(np.zeros((d, d)), {}, {}, np.zeros(d))
    stream, means = total.stream, total.means
    for share, turn in zip(c, every, strict=True):
        if not share:
            continue
        stream, means = stream + share * turn.stream, means + share * turn.means
        for end, S in turn.inner.items():
            total.inner[end] = F.reduce(total.inner.get(end, 0) + share * S)
        for site, change in turn.gains.items():
            total.gains[site] = F.reduce(total.gains.get(site, 0) + share * change)
    return Turn(F.reduce(stream), total.inner, total.gains, F.reduce(means))


def _piece(spec: Transformer) -> Piece:
    def build(w: ModularWeights) -> Array:
        turns = _solutions(w)
        canvas = w.canvas(len(turns))
        for row, turn in enumerate(turns):
            for (part, name), tangent in _tangent(w, turn).items():
                canvas(part, name)[row] = tangent
        return w.field.reduce(canvas.rows)

    name = "rotations of the stream that commute with output norms or a tied table"
    n = spec.d - (spec.norm == "layer")
    # beside stream-turns; at generic sizes only where no gain is in the way
    free = (spec.embnorm and not spec.gain) or (_once(spec) and spec.gain and not spec.tied)
    count = n * (n - 1) // 2 if free else 0
    return Piece("outer-turns", name, "residual stream", "residual", "exact", count, build)


def _tangent(w: ModularWeights, turn: Turn) -> dict[tuple[str, str], Array]:
    F, spec = w.field, w.transformer
    X, outer, out = turn.stream, _outer_norms(spec), {}
    lifted = F.mul(np.ones((spec.d, 1)), turn.means)  # 1 a^T
    for end in (EMBED, *own_sublayers(spec)):
        S = turn.inner.get(end, np.zeros_like(X)) if end in outer else X
        if end == EMBED:
            S = F.add(S, lifted)
        bias = writer_bias(spec, end)
        for name in [*writers(spec, end), *([bias] if bias else [])]:
            out[end[0], name] = F.matmul(S, w(end[0], name))
        shift = outer[end].bias if end in outer else None
        if shift is not None:
            out[end[0], shift] = F.matmul(X, w(end[0], shift))
    for end in (*own_sublayers(spec), HEAD):
        site = _last_norm(spec) if end == HEAD else norm_before(spec, end)
        turned = conjugated(w, site, F.add(X, lifted) if site is None else X)
        for reader in readers(spec, end):
            out[reader.part, reader.weight] = -F.matmul(w(reader.part, reader.weight), turned)
        if site is not None and site.bias is not None:
            own = turned
            if end == HEAD and spec.tied:
                S = turn.inner.get(EMBED, np.zeros_like(X)) if EMBED in outer else X
                own = F.sub(S, lifted.T)
            out[site.part, site.bias] = F.matmul(own, w(site.part, site.bias))
    for site, change in turn.gains.items():
        assert site.gain is not None
        out[site.part, site.gain] = F.mul(change[:, None], w(site.part, site.gain))
    return {key: value for key, value in out.items() if has(spec, *key)}
