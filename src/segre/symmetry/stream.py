"""The stream and the embeddings: their basis, their scale at eps = 0, and constant shifts."""

from __future__ import annotations

from collections.abc import Iterator

from segre.symmetry.basis import Basis, Scale
from segre.symmetry.constants import Constants
from segre.symmetry.means import written
from segre.symmetry.norms import norm_after_skips, port_of
from segre.symmetry.piece import Holds, Piece
from segre.symmetry.space import Bias, Port, Tensor, reader, writer
from segre.symmetry.tables import logits_may_shift
from segre.symmetry.wiring import (
    End,
    Norm,
    Place,
    has,
    layer_parts,
    norm_after,
    norm_at,
    norm_before,
    own_sublayers,
    places,
    readers,
    shift_source,
    shift_writers,
    stream_places,
    sublayers,
    where,
    writer_bias,
)
from segre.transformer.spec import Transformer

EMBED, HEAD = ("embed", ""), ("head", "")


def stream_pieces(spec: Transformer) -> Iterator[Piece]:
    """The basis and scale of the stream wherever it may be chosen, and constant shifts."""
    for place in stream_places(spec):
        if place.free:
            yield from _basis(spec, place)
            yield from _scale(spec, place)
    if spec.embed:
        yield from _embeddings(spec)
    if (spec.output_bias or spec.mlp_bias) and (spec.norm == "none" or spec.place == "post"):
        for place in places(spec, carried=False):
            if ("output", "") not in place.consumers:
                yield from _stream_shift(spec, place)
    elif spec.norm != "none" and not spec.final:
        yield from _last_shift(spec)


def parallel_pieces(spec: Transformer) -> Iterator[Piece]:
    """The function depends only on the sum of the output biases of parallel sublayers."""
    for part in layer_parts(spec) if spec.parallel else ():
        if has(spec, part, "b_O") and has(spec, part, "b_down"):
            name = "a constant moved from the attention bias to the MLP bias"
            # along the mean of a LayerNorm, constants have been moved already
            count = spec.d - (spec.norm == "layer")
            free = Constants(spec.d, (Bias((part, "b_O")),), takers=(Bias((part, "b_down")),))
            at = where(spec, part)
            yield Piece("parallel-bias", name, at, "norms and biases", "exact", count, free)


def _table(spec: Transformer, place: Place) -> tuple[bool, bool]:
    """Whether the table of tokens writes to this stream, and whether, tied, it reads it."""
    writes = EMBED in place.producers and not spec.embed
    return writes, HEAD in place.consumers and spec.table_reads


def _normed(spec: Transformer, place: Place) -> bool:
    return spec.norm != "none" and (
        spec.place == "post"
        or any(norm_before(spec, end) for end in place.consumers)
        or any(norm_after(spec, end) for end in place.producers if end[0] != "embed")
    )


def _basis(spec: Transformer, place: Place) -> Iterator[Piece]:
    if spec.shows_stream and HEAD in place.consumers:
        return  # the stream is seen, after its last norm
    outer = [norm_after(spec, end) for end in place.producers]
    if any(site is not None and (site.gain or site.part == "embed") for site in outer):
        return  # gains after the writers fix the axes
    writes, tied = _table(spec, place)
    if spec.tied and (writes != tied or (tied and spec.final and spec.gain)):
        return  # the table is in two bases, or a gain stands between them
    ports, normed = _ports(spec, place, tied), _normed(spec, place)
    centred = None if not normed and not tied else normed and spec.norm == "layer"
    yield _any_basis("stream", spec.d, ports, _whole(spec, place), centred)


def _any_basis(
    what: str, width: int, ports: tuple[Port, ...], at: str, centred: bool | None = None
) -> Piece:
    """Any basis; or, if it is said whether the mean is kept, any that keeps lengths."""
    kind = "stream" if what == "stream" else "embedding"
    if centred is None:
        name, free = f"basis GL({width}) of the {what}", Basis(width, "gl", ports)
        return Piece(f"{kind}-basis", name, at, "residual", "exact", width * width, free)
    n = width - centred
    name, count = f"rotations O({n}) of the {what}", n * (n - 1) // 2
    free = Basis(width, "o1" if centred else "o", ports)
    return Piece(f"{kind}-turns", name, at, "residual", "exact", count, free)


def _ports(spec: Transformer, place: Place, tied: bool) -> tuple[Port, ...]:
    """All that writes to the stream and reads it; gains stand between norms and readers."""
    out = [port for end in place.producers for port in written(spec, end)]
    for end in place.consumers:
        site = norm_before(spec, end)
        gain = (site.part, site.gain) if site is not None and site.gain else None
        if not (tied and end == HEAD):
            out += [port_of(read, gain=gain) for read in readers(spec, end)]
        if site is not None and site.bias is not None:
            out.append(writer(site.part, site.bias, gain=gain))
    return tuple(out)


def _scale(spec: Transformer, place: Place) -> Iterator[Piece]:
    """At eps = 0 norms are invariant under scaling of the stream; norms after skips come later."""
    if not spec.eps and spec.place != "post" and _normed(spec, place):
        for free in _of_stream(spec, place):
            at = _whole(spec, place)
            yield Piece("stream-scale", "scale of the stream", at, "residual", "eps=0", 1, free)


def _of_stream(spec: Transformer, place: Place) -> Iterator[Scale]:
    """What is written and, to a norm after a skip, carried changes scale, and what reads it."""
    up = _scaled(spec, place.producers)
    if up is None or (_table(spec, place)[1] and not spec.final):
        return  # a tied table reads the stream as it is
    down: list[Tensor] = []
    if spec.tied and ("embed", "tokens") in up:  # the table writes and reads
        last = _last_norm(spec)
        if last is None or last.gain is None:
            return
        down = [(last.part, n) for n in (last.gain, last.bias) if n]
    for end in place.consumers:
        if spec.place == "post" and end != HEAD:
            up += [port.tensor for port in written(spec, end)]
        if norm_before(spec, end) is None:
            down += [(r.part, r.weight) for r in readers(spec, end)]
    yield Scale(tuple(up), tuple(down))


def _scaled(spec: Transformer, producers: tuple[End, ...]) -> list[Tensor] | None:
    """The tensors that scale what producers write; None if a norm without a gain does."""
    out: list[Tensor] = []
    for end in producers:
        site = norm_after(spec, end)
        if site is None or (end[0] == "embed" and spec.embed):
            out += [port.tensor for port in written(spec, end)]
        elif site.gain is None:
            return None
        else:
            out += [(site.part, n) for n in (site.gain, site.bias) if n]
    return out


def scale_pieces(spec: Transformer) -> Iterator[Piece]:
    """At eps = 0 a norm is invariant under scaling of its input."""
    if spec.eps or spec.norm == "none":
        return
    for end in own_sublayers(spec) if spec.normed_inside else ():
        name = f"scale of the {end[1]} output, before its norm"
        free = Scale(tuple(port.tensor for port in written(spec, end)))
        yield _norm_scale(name, where(spec, end[0]), free)
    if spec.embnorm and not (spec.tied and not (spec.transform and spec.gain)):
        tables = (("embed", n) for n in ("tokens", "positions", "types") if has(spec, "embed", n))
        names = ("normT.gain", "normT.bias") if spec.tied else ()
        down = (("head", n) for n in names if has(spec, "head", n))
        free = Scale(tuple(tables), tuple(down))
        yield _norm_scale("scale of the embeddings, before their norm", "embedding", free)
    for place in places(spec, carried=False) if spec.place == "post" else ():
        if place.free and place.consumers != (HEAD,):
            for free in _of_stream(spec, place):
                at = where(spec, place.producers[0][0])
                name = "scale of the stream, before a skip and its norm"
                yield _norm_scale(name, at, free)


def _norm_scale(name: str, at: str, free: Scale) -> Piece:
    return Piece("norm-scale", name, at, "norms and biases", "eps=0", 1, free)


def _last_norm(spec: Transformer) -> Norm | None:
    """The norm through which a tied table reads the stream."""
    if spec.place != "post":
        return norm_at(spec, "head", "normT" if spec.transform else "norm", spec.d)
    return None if spec.transform else norm_after_skips(spec)


def _embeddings(spec: Transformer) -> Iterator[Piece]:
    """Embeddings of another width: their own basis, before the map to the stream."""
    e, site, place = spec.embed, norm_after(spec, EMBED), "embedding"
    names = ("tokens",) if spec.project else ("tokens", "positions", "types")
    tables = [writer("embed", n) for n in names if has(spec, "embed", n)]
    if spec.project:  # a tied table is in both bases: tokens A, W_E A^-1 and A^-T W_D
        back = [Port(("head", "W_D"), reads=True)] if spec.tied else []
        yield _any_basis("embeddings", e, (*tables, reader("embed", "W_E"), *back), place)
        if not spec.tied and spec.output != "hidden":
            outputs = writer("head", "W_D"), reader("head", "W_U")
            yield _any_basis("outputs before their table", e, outputs, "head")
    elif not spec.tied:
        gain = ("embed", site.gain) if site is not None and site.gain else None
        if site is not None and site.bias:
            tables.append(writer("embed", site.bias, gain=gain))
        centred = None if site is None else spec.norm == "layer"
        ports = (*tables, reader("embed", "W_E", gain=gain))
        yield _any_basis("embeddings", e, ports, place, centred)


def _stream_shift(spec: Transformer, place: Place) -> Iterator[Piece]:
    """A constant added to the stream: the biases of its readers and the next writer compensate."""
    last = norm_after(spec, sublayers(spec)[-1])
    last = last if spec.norm == "layer" else None
    ports = []
    for end in place.consumers:
        ports += _table_or_maps(spec, end, last if end == HEAD else None)
    if any(port.bias is None for port in ports):
        return  # a router and its experts have no biases
    takers = [end for end in place.consumers if end != HEAD and spec.residual]
    takers = takers[:1] if spec.parallel else takers  # one of two is enough
    biases = [(end[0], writer_bias(spec, end)) for end in takers]
    sources = [shift_source(spec, end) for end in shift_writers(spec, place.producers)]
    tied = spec.tied and ("embed", "tokens") in sources
    if (
        any(b is None for _, b in biases)
        or None in sources
        or (tied and not logits_may_shift(spec))
    ):
        return
    free = Constants(
        spec.d,
        tuple(Bias(source) for source in sources if source is not None),
        tuple(ports),
        tuple(Bias((part, bias)) for part, bias in biases if bias is not None),
    )
    name = "constant shifts of the stream, absorbed by biases"
    at, holds = f"after {_after(spec, place.producers[0])}", _holds(tied)
    yield Piece("stream-shift", name, at, "norms and biases", holds, spec.d, free)


def _table_or_maps(spec: Transformer, end: End, site: Norm | None) -> list[Port]:
    """The readers of a consumer; a tied table reads through the bias of the logits."""
    if end != HEAD or not spec.table_reads:
        return [port_of(read, site) for read in readers(spec, end)]
    bias = Bias(("head", "b_U")) if spec.outbias else None
    return [Port(("embed", "tokens"), -2, True, bias)]


def _last_shift(spec: Transformer) -> Iterator[Piece]:
    """Without a final norm, the last constant that is written goes into the head's bias."""
    (last,) = shift_writers(spec, sublayers(spec)[-2 if spec.parallel else -1 :])
    source = shift_source(spec, last)
    biased = has(spec, "head", "b_T") if spec.transform else spec.outbias or spec.pooler
    if spec.output == "hidden" or source is None or not biased or sublayers(spec).count(last) > 1:
        return
    free = Constants(spec.d, (Bias(source),), tuple(_table_or_maps(spec, HEAD, None)))
    name = "constant shifts of the stream, absorbed by biases"
    at = f"after {_after(spec, last)}"
    yield Piece("stream-shift", name, at, "norms and biases", "exact", spec.d, free)


def _holds(tied: bool) -> Holds:
    return "softmax" if tied else "exact"


def _whole(spec: Transformer, place: Place) -> str:
    if spec.residual:
        return "residual stream"
    return f"after {_after(spec, place.producers[0])}"


def _after(spec: Transformer, end: End) -> str:
    return "the embedding" if end[0] in ("embed", "input") else f"{end[1]} of {where(spec, end[0])}"
