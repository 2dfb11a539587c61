"""What LayerNorms do not see: the mean of their input."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import prod

from segre.symmetry.basis import Basis
from segre.symmetry.constants import Several, Slack, ones, outside
from segre.symmetry.norms import port_of, read_norms, title
from segre.symmetry.piece import Holds, Piece
from segre.symmetry.space import Port, writer
from segre.symmetry.special import CommonForm, Mean
from segre.symmetry.tables import has_tied_mean, logits_may_shift
from segre.symmetry.wiring import (
    End,
    Norm,
    Place,
    Reader,
    has,
    layer_scale,
    norm_after,
    norm_at,
    own_sublayers,
    producers,
    producers_of,
    readers,
    reads_norm,
    shift_source,
    stream_places,
    sublayers,
    where,
    writer_bias,
    writers,
)
from segre.transformer.spec import Transformer
from segre.transformer.tensors import part_shapes

TABLES = ["tokens", "W_P", "b_P", "cls", "positions", "types"]


def mean_pieces(spec: Transformer) -> Iterator[Piece]:
    """Reading and writing along the mean that LayerNorms remove."""
    if spec.norm != "layer":
        return
    yield from _read_centring(spec)
    yield from _write_centring(spec)
    yield from _carried_means(spec)
    yield from _mean_forms(spec)


def _read_centring(spec: Transformer) -> Iterator[Piece]:
    """LayerNorm outputs are orthogonal to 1 before the gain: readers may add 1^T G^-1."""
    done = list(read_norms(spec))
    if spec.place == "post":
        done = [(s, r) for s, r in done if not s.name.startswith("post")]
        for end, written_by in producers(spec).items():
            site = norm_after(spec, written_by[0]) if len(written_by) == 1 else None
            if site is None or (site.part == "embed" and spec.embed):
                continue
            if end[0] == "output":
                done.append((site, _pooling(spec)))
            elif end[0] != "head" or _head_reads(spec):
                done.append((site, readers(spec, end)))
    elif not spec.firstnorm:  # the first attention reads what the embeddings' norm puts out
        done.append((norm_at(spec, "embed", "norm", spec.d), readers(spec, sublayers(spec)[0])))
    elif spec.final and spec.pooler and spec.output == "hidden":
        done.append((norm_at(spec, "head", "norm", spec.d), _pooling(spec)))
    for site, read_by in done:
        for read in read_by:
            if site.bias is None or read.bias is not None:
                yield _centred_reader(spec, site, read)


def _pooling(spec: Transformer) -> list[Reader]:
    return [Reader("head", "W_pool", "b_pool")] if spec.pooler else []


def _head_reads(spec: Transformer) -> bool:
    """Whether an untied linear map reads the stream at the end."""
    return not spec.shows_stream and not spec.table_reads


def _centred_reader(spec: Transformer, site: Norm, read: Reader) -> Piece:
    rows = prod(part_shapes(spec, read.part)[read.weight][:-1])
    name = f"{read.weight} along the mean, which the {title(site)} norm removes"
    # the sum over all rows is a shift of all logits, or of all affinities: counted there
    doubled = read.weight == "W_U" and logits_may_shift(spec)
    doubled = doubled or (read.weight == "W_R" and spec.softmax_router)
    at, free = where(spec, read.part), Slack(port_of(read), outside(site))
    return Piece("read-centring", name, at, "norms and biases", "exact", rows - doubled, free)


def _write_centring(spec: Transformer) -> Iterator[Piece]:
    """What is written along 1 into a stream that only LayerNorms read."""
    if spec.place != "post":
        for place in stream_places(spec):
            for end in place.producers:
                if not seen_means(spec, place, end):
                    yield from _centred_writers(spec, end, inside=False)
    if spec.embnorm:
        yield from _centred_writers(spec, ("embed", ""), inside=True)
    for end in own_sublayers(spec):
        if norm_after(spec, end) is not None:
            yield from _centred_writers(spec, end, inside=True)


def seen_means(spec: Transformer, place: Place, end: End) -> bool:
    """Whether the mean of a producer's output has an effect: some consumer has no norm.

    A first attention without a norm reads the embeddings only.
    """
    bare = _without_norm(spec, place.consumers)
    if not spec.firstnorm and end[0] != "embed":
        bare -= {sublayers(spec)[0]}
    return bool(bare)


@lru_cache(maxsize=256)
def _without_norm(spec: Transformer, consumers: tuple[End, ...]) -> frozenset[End]:
    """The consumers that read the stream without a norm."""
    return frozenset(end for end in consumers if not reads_norm(spec, end))


def table_free(spec: Transformer) -> bool:
    """Whether the mean of a token's vector is free: untied, or read after a norm without gain."""
    return not spec.tied or (not spec.gain and (spec.final or spec.transform))


def _carried_means(spec: Transformer) -> Iterator[Piece]:
    """A mean that only the output depends on: it can be written anywhere, as a constant."""
    if spec.place == "post" or not spec.residual:
        return
    for place in stream_places(spec):
        sources = []
        for end in place.producers:
            if not seen_means(spec, place, end) or (end[0] == "embed" and not spec.firstnorm):
                continue
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
    last, times = sources[-1]
    every = (Mean(source, last, (often, times)) for source, often in sources[:-1])
    free = Several(tuple(every))
    name, count = "means, which no norm reads, moved from one bias to a later one", len(sources) - 1
    return Piece("carried-mean", name, "residual stream", "norms and biases", holds, count, free)


def _mean_forms(spec: Transformer) -> Iterator[Piece]:
    """The first sublayer before a skip and its LayerNorm may read x + 1 m(x) instead of x.

    The skip's norm takes 1 m(x) away, the readers take it back. Where layers share their weights
    these readers read the last norm's output too, so that m must be constant there.
    """
    first = sublayers(spec)[0]
    before = producers_of(spec, first)
    if spec.place != "post" or before[0][0] != "embed" or len(before) > 2:
        return
    if (spec.embnorm or spec.tied) and not spec.embed:
        return
    other = norm_after(spec, before[1]) if len(before) == 2 else None
    source = shift_source(spec, before[0])
    if other is not None and other.bias is not None and source is None:
        return
    name = "a linear form of the embedding added to its mean, which the next norm removes"
    count = spec.d if other is None else 1
    ports = (*written(spec, before[0]), *(port_of(r) for r in readers(spec, first)))
    free = Basis(spec.d, "shear", ports)
    build = free if other is None else CommonForm(free, other, source)
    yield Piece("mean-forms", name, "embedding", "norms and biases", "exact", count, build)


def written(spec: Transformer, end: End) -> list[Port]:
    """What a producer writes to the stream: its maps and its bias."""
    bias = writer_bias(spec, end)
    return [writer(end[0], n) for n in [*writers(spec, end), *([bias] if bias else [])]]


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
    names = TABLES if tables else writers(spec, end)
    for name in names:
        if has(spec, end[0], name) and (name != "tokens" or table_free(spec)):
            yield _centred(spec, (end[0], name))
    bias = None if tables else writer_bias(spec, end)
    if bias is not None:
        yield _centred(spec, (end[0], bias))


def _centred(spec: Transformer, tensor: tuple[str, str]) -> Piece:
    shape = part_shapes(spec, tensor[0])[tensor[1]]
    # constants along 1 may have been moved between the tables already
    free = spec.discrete and table_free(spec) and not spec.project
    moved = {
        "positions": spec.unused_positions + free + (spec.patch > 0) + spec.cls,
        "types": int(free or has(spec, "embed", "positions")),
        "tokens": int(has_tied_mean(spec)),
    }
    scale = layer_scale(spec, tensor)
    port = writer(*tensor, gain=None if scale is None else (tensor[0], scale))
    name = f"{tensor[1]} along the mean, which the next norm removes"
    at = where(spec, tensor[0])
    count = prod(shape) // shape[-2] - moved.get(tensor[1], 0)
    entries = Slack(port, ones(shape[-2]))
    return Piece("write-centring", name, at, "norms and biases", "exact", count, entries)
