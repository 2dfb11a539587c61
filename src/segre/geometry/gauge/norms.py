"""Symmetries around norms: gains and biases that readers absorb, means that nobody sees."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from segre.fields.interface import Array
from segre.geometry.gauge.heads import gain_piece
from segre.geometry.gauge.piece import Canvas, Holds, Piece, Weights
from segre.geometry.gauge.wiring import (
    End,
    Norm,
    Reader,
    ends,
    has,
    norm_after,
    norm_at,
    norm_before,
    own_sublayers,
    places,
    points,
    readers,
    shift_source,
    stream_places,
    sublayers,
    where,
    writer_bias,
    writers,
)
from segre.transformer.spec import Transformer
from segre.transformer.tensors import part_shapes

_TITLES = {
    "norm1": "attention",
    "norm2": "MLP",
    "norm": "final",
    "normT": "head's",
    "post1": "post-attention",
    "post2": "post-MLP",
}


def title(site: Norm) -> str:
    """A norm in words."""
    return "embedding" if site.part == "embed" else _TITLES[site.name]


def read_norms(spec: Transformer) -> Iterator[tuple[Norm, list[Reader]]]:
    """The norms whose outputs only linear maps read, with these; a tied table reads none."""
    for end in own_sublayers(spec):
        site = norm_before(spec, end)
        if site is not None:
            yield site, readers(spec, end)
    if spec.embnorm and spec.embed:
        bias = "b_E" if has(spec, "embed", "b_E") else None
        yield norm_at(spec, "embed", "norm", spec.embed), [Reader("embed", "W_E", bias)]
    if spec.output != "hidden":
        if spec.final and (spec.transform or not spec.tied):
            yield norm_at(spec, "head", "norm", spec.d), readers(spec, ("head", ""))
        if spec.transform and not spec.tied:
            yield norm_at(spec, "head", "normT", spec.embed or spec.d), [_unembedding(spec)]
    yield from _post_norms(spec)


def _unembedding(spec: Transformer) -> Reader:
    return Reader("head", "W_U", "b_U" if spec.outbias else None)


def _last_norm(spec: Transformer) -> Norm | None:
    """The norm after the last skip, if the head alone reads it: directly, by a tied table."""
    for place in places(spec, carried=False):
        if place.consumers == (("head", ""),) and len(place.producers) == 1:
            return None if spec.transform else norm_after(spec, place.producers[0])
    return None


def _post_norms(spec: Transformer) -> Iterator[tuple[Norm, list[Reader]]]:
    """Norms after a skip are carried on by the next one; but for the last, before the head."""
    if spec.norm == "none" or spec.place != "post" or spec.output == "hidden":
        return
    for place in places(spec, carried=False):
        if (
            place.consumers == (("head", ""),)
            and len(place.producers) == 1
            and not (spec.tied and not spec.transform)
        ):
            site = norm_after(spec, place.producers[0])
            assert site is not None
            yield site, readers(spec, ("head", ""))


def norm_pieces(spec: Transformer) -> Iterator[Piece]:
    """Gains and biases that are absorbed, and the mean that LayerNorms take away."""
    for site, read_by in read_norms(spec):
        at = where(spec, site.part)
        tensors = [(r.part, r.weight) for r in read_by]
        if site.gain:
            yield gain_piece(site.part, at, site, tensors, title(site))
        if site.bias and not (spec.place == "post" and site.name.startswith("post")):
            yield _absorbed_bias(spec, site, read_by)
    yield from _tied_bias(spec)
    if spec.norm == "layer":
        yield from _read_centring(spec)
        yield from _write_centring(spec)
        yield from _carried_means(spec)
        yield from _mean_forms(spec)
    if not spec.eps and spec.norm != "none":
        yield from _scales(spec)


def unit_shift(w: Weights, source: tuple[str, str]) -> Array:
    """What to add to a source so that the stream moves by one: embeddings may be scaled."""
    if source == ("embed", "tokens") and w.spec.embscale:
        return np.asarray(w.field.reciprocal(w.field.surd(w.spec.d))[0])
    return np.ones(1)


def absorb_shift(w: Weights, canvas: Canvas, reader: Reader, site: Norm | None) -> None:
    """What a reader does against unit shifts of what it reads: generator i is against shift i.

    Its bias takes them back. A reader without a bias does so too, after a LayerNorm with a bias:
    what a LayerNorm writes is orthogonal to 1 before its gain, so that the form 1^T G^-1 reads
    its bias alone.
    """
    F, shifted = w.field, -np.moveaxis(w(reader.part, reader.weight), -1, 0)
    if reader.bias is not None:
        canvas(reader.part, reader.bias)[..., 0] = shifted
        return
    assert site is not None
    assert site.bias is not None
    inverse = inverse_gain(w, site)
    total = F.sum(F.mul(inverse, w(site.part, site.bias)), axis=-2)
    form = F.mul(inverse[:, 0], F.reciprocal(total)[0])
    canvas(reader.part, reader.weight)[...] = F.mul(shifted[..., None], form)


def _absorbed_bias(spec: Transformer, site: Norm, read_by: list[Reader]) -> Piece:
    """The bias of a norm goes into its readers."""

    def build(w: Weights) -> Array:
        assert site.bias is not None
        canvas = w.canvas(site.width)
        canvas(site.part, site.bias)[range(site.width), range(site.width), 0] = 1
        for reader in read_by:
            absorb_shift(w, canvas, reader, site)
        return canvas.rows

    name = f"bias of the {title(site)} norm, absorbed by what reads it"
    at = where(spec, site.part)
    return Piece("norm-bias", name, at, "norms and biases", "exact", site.width, build)


def inverse_gain(w: Weights, site: Norm) -> Array:
    """1 / gain, as a column."""
    return w.inverse(site.part, site.gain) if site.gain else np.ones((site.width, 1))


def _tied_bias(spec: Transformer) -> Iterator[Piece]:
    """Before a tied table, a norm's bias goes into the bias of the logits."""
    if not (spec.tied and spec.outbias):
        return
    name = "normT" if spec.transform else "norm"
    site = norm_at(spec, "head", name, spec.embed or spec.d)
    if site.bias is None or not (spec.transform or spec.final):
        return
    bias = site.bias

    def build(w: Weights) -> Array:
        canvas = w.canvas(site.width)
        canvas("head", bias)[range(site.width), range(site.width), 0] = 1
        canvas("head", "b_U")[:, :, 0] = -w("embed", "tokens")
        return canvas.rows

    name = f"bias of the {title(site)} norm, absorbed by the logits' bias"
    yield Piece("norm-bias", name, "head", "norms and biases", "exact", site.width, build)


def _read_centring(spec: Transformer) -> Iterator[Piece]:
    """LayerNorm outputs are orthogonal to 1 before the gain: readers may add 1^T G^-1."""
    done = list(read_norms(spec))
    if spec.place == "post":
        done = [(s, r) for s, r in done if not s.name.startswith("post")]
        for end, producers in _producers(spec).items():
            site = norm_after(spec, producers[0]) if len(producers) == 1 else None
            if site is None or (site.part == "embed" and spec.embed):
                continue
            if end[0] == "output":
                done.append((site, _pooling(spec)))
            elif end[0] != "head" or _head_reads(spec):
                done.append((site, readers(spec, end)))
    elif spec.final and spec.pooler:
        done.append((norm_at(spec, "head", "norm", spec.d), _pooling(spec)))
    for site, read_by in done:
        for reader in read_by:
            if site.bias is None or reader.bias is not None:
                yield _centred_reader(spec, site, reader)


def _producers(spec: Transformer) -> dict[End, list[End]]:
    """Who writes what a consumer reads: several, where layers share their weights."""
    out: dict[End, list[End]] = {}
    for producer, consumer in points(spec):
        if producer not in out.setdefault(consumer, []):
            out[consumer].append(producer)
    return out


def _pooling(spec: Transformer) -> list[Reader]:
    return [Reader("head", "W_pool", "b_pool")] if spec.pooler else []


def _head_reads(spec: Transformer) -> bool:
    """Whether an untied linear map reads the stream at the end."""
    return spec.output != "hidden" and (spec.transform or not spec.tied)


def _centred_reader(spec: Transformer, site: Norm, reader: Reader) -> Piece:
    shape = part_shapes(spec, reader.part)[reader.weight]
    rows = prod(shape[:-1])

    def build(w: Weights) -> Array:
        canvas = w.canvas(rows)
        inverse = inverse_gain(w, site)
        view = canvas(reader.part, reader.weight).reshape(rows, rows, -1)
        view[range(rows), range(rows)] = inverse[:, 0]
        if site.bias is not None and reader.bias is not None:
            F = w.field
            moved = F.sum(F.mul(inverse, w(site.part, site.bias)), axis=-2)[0, 0]
            bias = canvas(reader.part, reader.bias).reshape(rows, rows)
            bias[range(rows), range(rows)] = -moved
        return canvas.rows

    name = f"{reader.weight} on the mean that the {title(site)} norm takes away"
    # the sum over all rows of an unembedding is a shift of all logits, counted there
    doubled = reader.weight == "W_U" and logits_may_shift(spec)
    at = where(spec, reader.part)
    return Piece("read-centring", name, at, "norms and biases", "exact", rows - doubled, build)


def logits_may_shift(spec: Transformer) -> bool:
    """Whether all logits may be shifted alike."""
    return spec.output == "softmax" and not spec.logitcap


def _write_centring(spec: Transformer) -> Iterator[Piece]:
    """What is written along 1 into a stream that only LayerNorms read."""
    if spec.place != "post":
        for place in stream_places(spec):
            if all(end[0] != "output" and norm_before(spec, end) for end in place.consumers):
                for end in place.producers:
                    yield from _centred_writers(spec, end, inside=False)
    if spec.embnorm:
        yield from _centred_writers(spec, ("embed", ""), inside=True)
    for end in own_sublayers(spec):
        if norm_after(spec, end) is not None:
            yield from _centred_writers(spec, end, inside=True)


def table_free(spec: Transformer) -> bool:
    """Whether the mean of a token's vector is free: untied, or read after a norm without gain."""
    return not spec.tied or (not spec.gain and (spec.final or spec.transform))


def _carried_means(spec: Transformer) -> Iterator[Piece]:
    """A mean that the norms do not see but the output does: written anywhere, as a constant."""
    if spec.place == "post" or not spec.residual:
        return
    for place in stream_places(spec):
        if all(end[0] != "output" and norm_before(spec, end) for end in place.consumers):
            continue
        sources = []
        for end in place.producers:
            source = shift_source(spec, end)
            if source is not None and (source != ("embed", "tokens") or _table_shifts(spec)):
                sources.append((source, max(1, sublayers(spec).count(end))))
        if len(sources) > 1:
            tied = spec.tied and sources[0][0] == ("embed", "tokens")
            yield _carried(sources, "softmax" if tied else "exact")


def _table_shifts(spec: Transformer) -> bool:
    """Whether one vector may be added to all tokens, as far as the output is concerned."""
    return not spec.tied or logits_may_shift(spec)


def _carried(sources: list[tuple[tuple[str, str], int]], holds: Holds) -> Piece:
    def build(w: Weights) -> Array:
        canvas = w.canvas(len(sources) - 1)
        (last, times), rest = sources[-1], sources[:-1]
        for row, (source, often) in enumerate(rest):
            canvas(*source)[row] = w.field.reduce(times * unit_shift(w, source))
            canvas(*last)[row] = -often
        return canvas.rows

    name = "means that no norm sees, from one bias to a later one"
    count = len(sources) - 1
    return Piece("carried-mean", name, "residual stream", "norms and biases", holds, count, build)


def _mean_forms(spec: Transformer) -> Iterator[Piece]:
    """The first sublayer before a skip and its LayerNorm may read x + 1 m(x) instead of x.

    The skip's norm takes 1 m(x) away, the readers take it back. Where layers share their weights
    these readers read the last norm's output too, so that m must be constant there.
    """
    if spec.place == "pre":
        yield from _seen_mean_forms(spec)
    first = sublayers(spec)[0]
    producers = _producers(spec)[first]
    if spec.place != "post" or producers[0][0] != "embed" or len(producers) > 2:
        return
    if (spec.embnorm or spec.tied) and not spec.embed:
        return
    other = norm_after(spec, producers[1]) if len(producers) == 2 else None
    source = shift_source(spec, producers[0])
    if other is not None and other.bias is not None and source is None:
        return
    bias = writer_bias(spec, producers[0])
    written = [*writers(spec, producers[0]), *([bias] if bias else [])]

    def build(w: Weights) -> Array:
        F = w.field
        forms = np.eye(spec.d) if other is None else inverse_gain(w, other).T
        canvas = w.canvas(len(forms))
        for name in written:
            value = w("embed", name)
            canvas("embed", name)[...] = F.matmul(forms, value)[:, None, :]
        for reader in readers(spec, first):
            sums = F.sum(w(reader.part, reader.weight), axis=-1)
            for row, m in enumerate(forms):
                canvas(reader.part, reader.weight)[row] = -F.mul(sums, m)
                if other is not None and other.bias is not None and reader.bias is not None:
                    kappa = F.matmul(m[None], w(other.part, other.bias))
                    canvas(reader.part, reader.bias)[row] = F.mul(sums, kappa)
        if other is not None and other.bias is not None and source is not None:
            kappa = F.mul(F.matmul(forms, w(other.part, other.bias)), unit_shift(w, source))
            canvas(*source)[...] = F.sub(canvas(*source), kappa[..., None])
        return F.reduce(canvas.rows)

    name = "a form of the embedding added to its mean, which the next norm takes away"
    count = spec.d if other is None else 1
    yield Piece("mean-forms", name, "embedding", "norms and biases", "exact", count, build)


def _seen_mean_forms(spec: Transformer) -> Iterator[Piece]:
    """LayerNorms, but none before the head: x + 1 m(x) everywhere, which the head takes back."""
    table = spec.tied and not spec.embed
    if not (spec.residual and spec.discrete) or spec.final or spec.output == "hidden" or table:
        return
    if spec.embnorm and not spec.embed:
        return
    d = spec.d
    written = []
    for end in [("embed", ""), *own_sublayers(spec)]:
        bias = writer_bias(spec, end)
        written += [(end[0], n) for n in [*writers(spec, end), *([bias] if bias else [])]]

    def build(w: Weights) -> Array:
        canvas = w.canvas(d)
        for tensor in written:
            view, value = canvas(*tensor), w(*tensor)
            for i in range(d):
                view[i] = value[..., i : i + 1, :]
        for reader in readers(spec, ("head", "")):
            sums = w.field.sum(w(reader.part, reader.weight), axis=-1)
            for i in range(d):
                canvas(reader.part, reader.weight)[i, ..., i] = -sums[..., 0]
        return canvas.rows

    name = "a form of the stream added to its mean, which the head takes back"
    yield Piece("mean-forms", name, "residual stream", "norms and biases", "exact", d, build)


def _centred_writers(spec: Transformer, end: End, inside: bool) -> Iterator[Piece]:
    """`inside`: the writers before the producer's own norm; else what reaches the stream."""
    if end[0] == "input":
        if has(spec, "embed", "positions"):
            yield _centred(spec, ("embed", "positions"))
        return
    site = norm_after(spec, end)
    tables = end[0] == "embed" and (inside or not spec.embed)
    if not inside and site is not None and not (end[0] == "embed" and spec.embed):
        if site.bias is not None:
            yield _centred(spec, (end[0], site.bias))
        return
    names = ["tokens", "positions", "types"] if tables else writers(spec, end)
    for name in names:
        if has(spec, end[0], name) and (name != "tokens" or table_free(spec)):
            yield _centred(spec, (end[0], name))
    bias = None if tables else writer_bias(spec, end)
    if bias is not None:
        yield _centred(spec, (end[0], bias))


def _centred(spec: Transformer, tensor: tuple[str, str]) -> Piece:
    shape = part_shapes(spec, tensor[0])[tensor[1]]
    count = prod(shape) // shape[-2]
    # constants along 1 may have been moved between the tables already
    free = spec.discrete and table_free(spec)
    moved = {"positions": free, "types": free or has(spec, "embed", "positions")}

    def build(w: Weights) -> Array:
        canvas = w.canvas(count)
        columns = (*shape[:-2], shape[-1])
        for row, (*outer, c) in enumerate(np.ndindex(*columns)):
            canvas(*tensor)[(row, *outer, slice(None), c)] = 1
        return canvas.rows

    name = f"{tensor[1]} along the mean, which the next norm takes away"
    at = where(spec, tensor[0])
    added = count - moved.get(tensor[1], False)
    return Piece("write-centring", name, at, "norms and biases", "exact", added, build)


def _scales(spec: Transformer) -> Iterator[Piece]:
    """At eps = 0 a norm does not see the scale of what it reads."""
    if spec.place == "sandwich":
        for end in own_sublayers(spec):
            yield _writer_scale(spec, end)
    if spec.embnorm and not (spec.tied and not (spec.transform and spec.gain)):
        yield _embedding_scale(spec)
    if spec.transform and spec.mlp in ("relu", "relu2"):
        yield _transform_scale(spec)
    if spec.place == "post":
        for place in places(spec, carried=False):
            if place.free and place.consumers != (("head", ""),):
                yield from _post_scale(spec, place.producers, place.consumers)


def _writer_scale(spec: Transformer, end: End) -> Piece:
    bias = writer_bias(spec, end)
    names = [*writers(spec, end), *([bias] if bias else [])]

    def build(w: Weights) -> Array:
        canvas = w.canvas(1)
        for name in names:
            canvas(end[0], name)[0] = w(end[0], name)
        return canvas.rows

    name = f"scale of what the {end[1]} writes, before its norm"
    return Piece("norm-scale", name, where(spec, end[0]), "norms and biases", "eps=0", 1, build)


def _embedding_scale(spec: Transformer) -> Piece:
    def build(w: Weights) -> Array:
        canvas = w.canvas(1)
        for name in ("tokens", "positions", "types"):
            if has(spec, "embed", name):
                canvas("embed", name)[0] = w("embed", name)
        if spec.tied:
            for name in ("normT.gain", "normT.bias"):
                if has(spec, "head", name):
                    canvas("head", name)[0] = -w("head", name)
        return canvas.rows

    name = "scale of the embeddings, before their norm"
    return Piece("norm-scale", name, "embedding", "norms and biases", "eps=0", 1, build)


def _transform_scale(spec: Transformer) -> Piece:
    def build(w: Weights) -> Array:
        canvas = w.canvas(1)
        for name in ("W_T", "b_T"):
            if has(spec, "head", name):
                canvas("head", name)[0] = w("head", name)
        return canvas.rows

    name = "scale of the head's dense layer, before its norm"
    return Piece("norm-scale", name, "head", "norms and biases", "eps=0", 1, build)


def _post_scale(
    spec: Transformer, producers: tuple[End, ...], consumers: tuple[End, ...]
) -> Iterator[Piece]:
    """The stream before a skip and its norm: what is written, read and carried changes scale."""
    head = ("head", "")
    if head in consumers and spec.tied and not spec.transform:
        return
    written: list[tuple[str, str]] = []
    for end in producers:
        site = norm_after(spec, end)
        if site is None or (end[0] == "embed" and spec.embed):
            bias = writer_bias(spec, end)
            written += [(end[0], n) for n in [*writers(spec, end), *([bias] if bias else [])]]
        elif site.gain is None:
            return
        else:
            written += [(end[0], n) for n in (site.gain, site.bias) if n]
    lowered: list[tuple[str, str]] = []
    if spec.tied and ("embed", "tokens") in written:  # the table reads too
        last = _last_norm(spec)
        if last is None or last.gain is None:
            return
        lowered = [(last.part, n) for n in (last.gain, last.bias) if n]
    for end in consumers:
        if end != head:
            bias = writer_bias(spec, end)
            written += [(end[0], n) for n in [*writers(spec, end), *([bias] if bias else [])]]
    read = lowered + [(r.part, r.weight) for end in consumers for r in readers(spec, end)]

    def build(w: Weights) -> Array:
        canvas = w.canvas(1)
        for tensor in written:
            canvas(*tensor)[0] = w(*tensor)
        for tensor in read:
            canvas(*tensor)[0] = -w(*tensor)
        return canvas.rows

    name = "scale of the stream before a skip and its norm"
    at = where(spec, ends(spec)[0][0] if producers[0][0] == "embed" else producers[0][0])
    yield Piece("norm-scale", name, at, "norms and biases", "eps=0", 1, build)
