"""Symmetries of the residual stream: its basis, its scale, constant shifts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.fields.interface import Array
from segre.geometry.gauge.absorb import absorb_shift, unit_shift
from segre.geometry.gauge.piece import Holds, ModularWeights, Piece
from segre.geometry.gauge.projection import projection_pieces
from segre.geometry.gauge.turns import below_diagonal, turn_columns, turn_rows
from segre.geometry.gauge.vocabulary import logits_may_shift
from segre.geometry.gauge.wiring import (
    End,
    Norm,
    Place,
    has,
    norm_after,
    norm_before,
    places,
    readers,
    shift_source,
    shift_writers,
    stream_places,
    sublayers,
    where,
    writer_bias,
    writers,
)
from segre.transformer.spec import Transformer


def stream_pieces(spec: Transformer) -> Iterator[Piece]:
    """The basis and scale of the stream wherever it may be chosen, and constant shifts."""
    for place in stream_places(spec):
        if place.free:
            yield from _basis(spec, place)
            yield from _scale(spec, place)
    if spec.project:
        yield from projection_pieces(spec)
    elif spec.embed and not spec.tied:
        yield from _embedding_basis(spec)
    written = spec.output_bias or spec.mlp_bias
    if written and (spec.norm == "none" or spec.place == "post"):
        for place in places(spec, carried=False):
            if ("output", "") not in place.consumers:
                yield from _stream_shift(spec, place)
    elif spec.norm != "none" and not spec.final:
        yield from _last_shift(spec)


def _table(spec: Transformer, place: Place) -> tuple[bool, bool]:
    """Whether the table of tokens writes to this stream, and whether, tied, it reads it."""
    writes = ("embed", "") in place.producers and not spec.embed
    reads = ("head", "") in place.consumers and spec.table_reads
    return writes, reads


def _writing(spec: Transformer, place: Place) -> list[tuple[str, str]]:
    """All tensors whose rows are in the stream's basis."""
    out = []
    for end in place.producers:
        bias = writer_bias(spec, end)
        out += [(end[0], n) for n in [*writers(spec, end), *([bias] if bias else [])]]
    return out


def _normed(spec: Transformer, place: Place) -> bool:
    return spec.norm != "none" and (
        spec.place == "post"
        or any(norm_before(spec, end) for end in place.consumers)
        or any(norm_after(spec, end) for end in place.producers if end[0] != "embed")
    )


def _basis(spec: Transformer, place: Place) -> Iterator[Piece]:
    if spec.shows_stream and ("head", "") in place.consumers:
        return  # the stream is seen, after its last norm
    outer = [norm_after(spec, end) for end in place.producers]
    if any(site is not None and (site.gain or site.part == "embed") for site in outer):
        return  # gains after the writers fix the axes
    writes, tied = _table(spec, place)
    if spec.tied and (writes != tied or (tied and spec.final and spec.gain)):
        return  # the table is in two bases, or a gain stands between them
    normed = _normed(spec, place)
    if normed or tied:
        centred = normed and spec.norm == "layer"
        yield _turns(spec, place, centred, tied)
    else:
        yield _general(spec, place)


def _turns(spec: Transformer, place: Place, centred: bool, tied: bool) -> Piece:
    """S skew; for LayerNorms S 1 = 0: S = E_jk - E_kj made orthogonal to 1 on both sides."""

    n = spec.d - centred

    def build(w: ModularWeights) -> Array:
        pairs = below_diagonal(n)
        F, canvas = w.field, w.canvas(len(pairs))
        skew = centred_skew(spec.d) if centred else None
        for tensor in _writing(spec, place):
            if skew is None:
                turn_rows(canvas, tensor, w(*tensor), pairs)
            else:
                for row, S in enumerate(skew):
                    canvas(*tensor)[row] = F.matmul(S, w(*tensor))
        for end in place.consumers:
            site = norm_before(spec, end)
            for reader in [] if tied and end == ("head", "") else readers(spec, end):
                tensor = (reader.part, reader.weight)
                if skew is None:
                    turn_columns(w, canvas, tensor, site, pairs)
                else:
                    _skew_columns(w, canvas(*tensor), w(*tensor), site, skew)
            if site is not None and site.bias is not None:
                assert skew is not None
                _skew_bias(w, canvas(site.part, site.bias), site, skew)
        return F.reduce(canvas.rows)

    name, count = f"rotations O({n}) of the stream", n * (n - 1) // 2
    return Piece("stream-turns", name, _whole(spec, place), "residual", "exact", count, build)


def centred_skew(d: int) -> list[Array]:
    """A basis of the skew matrices that vanish on 1, with whole numbers: C^T (E_jk - E_kj) C.

    C maps R^d to R^{d-1}, x to (x_j - x_{d-1})_j.
    """
    C = np.concatenate([np.eye(d - 1), -np.ones((d - 1, 1))], axis=1)
    out = []
    for j, k in below_diagonal(d - 1):
        S = np.outer(C[j], C[k])
        out.append(S - S.T)
    return out


def conjugated(w: ModularWeights, site: Norm | None, S: Array) -> Array:
    """G S G^-1 for the gain G of a norm."""
    if site is None or site.gain is None:
        return S
    F = w.field
    g, inverse = w(site.part, site.gain), w.inverse(site.part, site.gain)
    return F.mul(F.mul(g, S), inverse[:, 0])


def _skew_columns(
    w: ModularWeights, view: Array, value: Array, site: Norm | None, skew: list[Array]
) -> None:
    for row, S in enumerate(skew):
        view[row] = -w.field.matmul(value, conjugated(w, site, S))


def _skew_bias(w: ModularWeights, view: Array, site: Norm, skew: list[Array]) -> None:
    assert site.bias is not None
    for row, S in enumerate(skew):
        view[row] = w.field.matmul(conjugated(w, site, S), w(site.part, site.bias))


def _general(spec: Transformer, place: Place) -> Piece:
    """Without norms: any basis."""
    d = spec.d

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(d * d)
        for tensor in _writing(spec, place):
            value, tangent = w(*tensor), canvas(*tensor)
            for j in range(d):
                for k in range(d):
                    tangent[j * d + k, ..., j, :] = value[..., k, :]
        for end in place.consumers:
            for reader in readers(spec, end):
                value, tangent = w(reader.part, reader.weight), canvas(reader.part, reader.weight)
                for j in range(d):
                    for k in range(d):
                        tangent[j * d + k, ..., k] = -value[..., j]
        return canvas.rows

    name = f"basis GL({d}) of the stream"
    return Piece("stream-basis", name, _whole(spec, place), "residual", "exact", d * d, build)


def _scale(spec: Transformer, place: Place) -> Iterator[Piece]:
    """At eps = 0 norms are invariant under scaling of the stream."""
    if spec.eps or not _normed(spec, place) or spec.place == "post":
        return
    if _table(spec, place)[1] and not spec.final:
        return  # a tied table reads the stream as it is
    written: list[tuple[str, str]] = []
    for end in place.producers:
        site = norm_after(spec, end)
        if site is None or (end[0] == "embed" and spec.embed):
            alone = Place((end,), ())
            written += _writing(spec, alone)
        elif site.gain is None:
            return
        else:
            written += [(site.part, n) for n in (site.gain, site.bias) if n]
    twice = spec.tied and ("embed", "tokens") in written  # the table writes and reads
    reading = "normT" if spec.transform else "norm"
    if twice and not has(spec, "head", f"{reading}.gain"):
        return

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(1)
        for tensor in written:
            canvas(*tensor)[0] = w(*tensor)
        if twice:
            for name in (f"{reading}.gain", f"{reading}.bias"):
                if has(spec, "head", name):
                    canvas("head", name)[0] = -w("head", name)
        for end in place.consumers:
            if norm_before(spec, end) is None:
                for reader in readers(spec, end):
                    canvas(reader.part, reader.weight)[0] = -w(reader.part, reader.weight)
        return canvas.rows

    name = "scale of the stream"
    yield Piece("stream-scale", name, _whole(spec, place), "residual", "eps=0", 1, build)


def _embedding_basis(spec: Transformer) -> Iterator[Piece]:
    """Embeddings of another width: their own basis, before the map to the stream."""
    e = spec.embed
    site = norm_after(spec, ("embed", ""))
    tables = [("embed", n) for n in ("tokens", "positions", "types") if has(spec, "embed", n)]
    if site is None:

        def general(w: ModularWeights) -> Array:
            canvas = w.canvas(e * e)
            for j in range(e):
                for k in range(e):
                    for tensor in tables:
                        canvas(*tensor)[j * e + k, j] = w(*tensor)[k]
                    canvas("embed", "W_E")[j * e + k, :, k] = -w("embed", "W_E")[:, j]
            return canvas.rows

        name = f"basis GL({e}) of the embeddings"
        yield Piece("embedding-basis", name, "embedding", "residual", "exact", e * e, general)
        return
    centred = spec.norm == "layer"
    n = e - centred

    def turns(w: ModularWeights) -> Array:
        skew = centred_skew(e) if centred else [skew_unit(e, p) for p in below_diagonal(e)]
        F, canvas = w.field, w.canvas(len(skew))
        for row, S in enumerate(skew):
            for tensor in tables:
                canvas(*tensor)[row] = F.matmul(S, w(*tensor))
            turned = conjugated(w, site, S)
            canvas("embed", "W_E")[row] = -F.matmul(w("embed", "W_E"), turned)
            if site.bias is not None:
                canvas("embed", site.bias)[row] = F.matmul(turned, w("embed", site.bias))
        return F.reduce(canvas.rows)

    name = f"rotations O({n}) of the embeddings"
    count = n * (n - 1) // 2
    yield Piece("embedding-turns", name, "embedding", "residual", "exact", count, turns)


def skew_unit(d: int, pair: tuple[int, int]) -> Array:
    """E_jk - E_kj."""
    S = np.zeros((d, d))
    S[pair], S[pair[::-1]] = 1, -1
    return S


def _stream_shift(spec: Transformer, place: Place) -> Iterator[Piece]:
    """A constant added to the stream: the biases of its readers and the next writer compensate."""
    d, head = spec.d, ("head", "")
    last = norm_after(spec, sublayers(spec)[-1])
    table = spec.table_reads
    unread = not spec.outbias if table else any(r.bias is None for r in readers(spec, head))
    unbiased = head in place.consumers and unread
    if unbiased and (table or last is None or last.bias is None or spec.norm != "layer"):
        return
    for end in place.consumers:
        if end != head and any(reader.bias is None for reader in readers(spec, end)):
            return  # a router and its experts have no biases
    takers = [end for end in place.consumers if end != head and spec.residual]
    takers = takers[:1] if spec.parallel else takers  # one of two is enough
    if any(writer_bias(spec, end) is None for end in takers):
        return
    sources: list[tuple[str, str]] = []
    for end in shift_writers(spec, place.producers):
        source = shift_source(spec, end)
        if source is None or (spec.tied and source[1] == "tokens" and not logits_may_shift(spec)):
            return
        sources.append(source)

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(d)
        for source in sources:
            canvas(*source)[range(d), range(d)] = unit_shift(w, source)
        for end in place.consumers:
            if end == head and spec.table_reads:
                canvas("head", "b_U")[:, :, 0] = -w("embed", "tokens")
                continue
            for reader in readers(spec, end):
                absorb_shift(w, canvas, reader, last if end == head else None)
            bias = writer_bias(spec, end)
            if end in takers and bias is not None:
                canvas(end[0], bias)[range(d), range(d), 0] -= 1
        return canvas.rows

    holds: Holds = "softmax" if ("embed", "tokens") in sources and spec.tied else "exact"
    name = "constant shifts of the stream, absorbed by biases"
    at = f"after {_after(spec, place.producers[0])}"
    yield Piece("stream-shift", name, at, "norms and biases", holds, d, build)


def _last_shift(spec: Transformer) -> Iterator[Piece]:
    """Without a final norm, the last constant that is written goes into the head's bias."""
    head = ("head", "")
    (last,) = shift_writers(spec, sublayers(spec)[-2 if spec.parallel else -1 :])
    source = shift_source(spec, last)
    biased = has(spec, "head", "b_T") if spec.transform else spec.outbias or spec.pooler
    if spec.output == "hidden" or source is None or not biased or sublayers(spec).count(last) > 1:
        return
    d = spec.d

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(d)
        canvas(*source)[range(d), range(d)] = 1
        if spec.table_reads:
            canvas("head", "b_U")[:, :, 0] = -w("embed", "tokens")
        else:
            for reader in readers(spec, head):
                absorb_shift(w, canvas, reader, None)
        return canvas.rows

    name = "constant shifts of the stream, absorbed by biases"
    at = f"after {_after(spec, last)}"
    yield Piece("stream-shift", name, at, "norms and biases", "exact", d, build)


def _whole(spec: Transformer, place: Place) -> str:
    if spec.residual:
        return "residual stream"
    return f"after {_after(spec, place.producers[0])}"


def _after(spec: Transformer, end: End) -> str:
    return "the embedding" if end[0] in ("embed", "input") else f"{end[1]} of {where(spec, end[0])}"
