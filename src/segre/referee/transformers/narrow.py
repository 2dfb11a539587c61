"""What is read where nothing lies? Families 35 to 37 of section 9."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flint import nmod_mat

from segre.referee.linear import annihilator, beside, identity, select
from segre.referee.transformers.stream import Actor, Norm
from segre.referee.transformers.tangents import Family, Point, Tangent
from segre.referee.transformers.weights import EMBED, turning


@dataclass(frozen=True, slots=True)
class Span:
    """a + span(A): what a consumer reads."""

    A: nmod_mat
    a: nmod_mat | None
    narrow: bool = True  # A is that of a producer

    @property
    def whole(self) -> nmod_mat:
        """[A, a]."""
        return self.A if self.a is None else beside([self.A, self.a])


def narrow(point: Point) -> Family:
    """Families 35 to 37."""
    stream = point.stream
    consumers = [*stream.sublayers, *(c for c in stream.consumers[-1:] if c.kind == "head")]
    for consumer in consumers:
        span = span_of(point, consumer)
        for tangent in unreached(point, consumer, span) if span.narrow else ():
            yield "unreached", tangent
        if consumer.kind != "attention":
            continue
        if point.spec.kvrank:
            for tangent in _latents(point, consumer.part, span):
                yield "unreached", tangent
            span = _latent_span(point, consumer.part, span)
        for tangent in _unmet(point, consumer.part, span):
            yield "unmet", tangent


def span_of(point: Point, consumer: Actor) -> Span:
    """The span of a consumer, as section 9 defines it."""
    spec, stream = point.spec, point.stream
    norm = stream.norm_before(consumer)
    layer = norm is not None and spec.norm == "layer"
    found = Span(identity(spec.d, point.p), None, narrow=False)
    producers = stream.producers_for(consumer)
    if spec.place == "post" and spec.norm == "layer" and len(producers) == 1:
        post = stream.norm_after(producers[0])
        if post is not None and producers[0].kind != "embedding":
            bias = point.matrices[*post.bias, 0] if point.has(post.bias) else None
            return Span(_normed(point, post, found.A), bias)
    if len(producers) == 1 and (producers[0].kind == "embedding" or not spec.residual):
        own = written(point, producers[0])
        if own is not None:
            m = own.A.ncols() + (own.a is not None and norm is not None)
            found = own if m < spec.d - layer else found
    return found if norm is None else normed_span(point, norm, found)


def normed_span(point: Point, norm: Norm, span: Span) -> Span:
    """What a norm makes of a span, with its bias."""
    bias = point.matrices[*norm.bias, 0] if point.has(norm.bias) else None
    return Span(_normed(point, norm, span.whole), bias, span.narrow)


def _normed(point: Point, norm: Norm, X: nmod_mat) -> nmod_mat:
    """N(X): what a norm makes of the span of columns."""
    d = norm.width
    if point.spec.norm != "layer" or X.ncols() < d:
        return normed(point, norm, X)
    return select(normed(point, norm, identity(d, point.p)), range(d), range(d - 1))


def normed(point: Point, norm: Norm, X: nmod_mat) -> nmod_mat:
    """What a norm makes of columns, up to scale and without its bias."""
    d = norm.width
    if point.spec.norm == "layer":
        X = X * d - point.field.ones(d, d) * X
    scaled: nmod_mat = point.gain(norm, d)[0] * X
    return scaled


def written(point: Point, producer: Actor) -> Span | None:
    """A_0 and a_0 of a producer; None if they are not known."""
    spec, part, matrices = point.spec, producer.part, point.matrices
    if producer.kind == "attention":
        outputs = point.keys([(part, "W_O")])
        blocks = [matrices[key] for key in outputs]
        if spec.kvrank and spec.kvrank < spec.dv:
            values = point.keys([(part, "W_V")])
            blocks = [B * matrices[key] for B, key in zip(blocks, values, strict=True)]
        return Span(beside(blocks), matrices.get((part, "b_O", 0)))
    if producer.kind == "mlp":
        names = ("W_down", "S_down", "c_down")
        blocks = [matrices[key] for key in point.keys((part, name) for name in names)]
        return Span(beside(blocks), matrices.get((part, "b_down", 0)))
    if producer.kind == "embedding" and (spec.patch or spec.project):
        return None if spec.place == "post" else Span(placed(point), None)  # post: family 29
    if producer.kind != "embedding" or spec.embed or spec.embscale or spec.types:
        return None
    span = written_by_words(point)
    if not spec.embnorm:
        return span
    A = _normed(point, Norm(EMBED, "norm", spec.d), span.whole)
    return Span(A, matrices.get((EMBED, "norm.bias", 0)))


def written_by_words(point: Point) -> Span:
    """A_0 and a_0 of the embedding, before its norm."""
    spec, matrices = point.spec, point.matrices
    words = _columns(matrices[EMBED, "tokens", 0], 0, spec.vocab)
    differences, first = [x - words[0] for x in words[1:]], words[0]
    if (EMBED, "positions", 0) in matrices:
        places = _columns(matrices[EMBED, "positions", 0], spec.offset, spec.t)
        differences += [x - places[0] for x in places[1:]]
        first = first + places[0]
    return Span(beside(differences) if differences else point.zero(spec.d, 0), first)


def placed(point: Point) -> nmod_mat:
    """Columns that span tokens which are mapped to the stream and get their positions there."""
    spec, matrices = point.spec, point.matrices
    places = _columns(matrices[EMBED, "positions", 0], spec.offset, spec.t)
    if spec.project:
        return beside([matrices[EMBED, "W_E", 0], *places])
    constants = [matrices[EMBED, "b_P", 0]] * spec.t
    if spec.cls:
        constants[0] = matrices[EMBED, "cls", 0]
    sums = [place + constant for place, constant in zip(places, constants, strict=True)]
    return beside([matrices[EMBED, "W_P", 0], *sums])


def _columns(table: nmod_mat, first: int, count: int) -> list[nmod_mat]:
    rows = range(table.nrows())
    return [select(table, rows, [c]) for c in range(first, first + count)]


def _forms(X: nmod_mat, what: str) -> list[nmod_mat]:
    """Rows f with f X = 0, if X has fewer columns than rows; its rank must be full."""
    if X.ncols() >= X.nrows():
        return []
    if not X.ncols():
        one = identity(X.nrows(), X.modulus())
        return [select(one, [i], range(X.nrows())) for i in range(X.nrows())]
    found = annihilator(X.transpose(), what)
    return [nmod_mat(1, len(f), f, X.modulus()) for f in found]


def unreached(point: Point, consumer: Actor, span: Span) -> Iterator[Tangent]:
    """Family 35, of one consumer with a given span."""
    for reader in point.stream.readers(consumer):
        forms = _forms(span.whole if reader.bias is None else span.A, f"what {consumer.kind} reads")
        for i, key in enumerate(point.keys([reader.weight])):
            size = point.matrices[key].nrows()
            for f in forms:
                value = 0 if span.a is None else (f * span.a)[0, 0]
                for row in range(size):
                    unit = point.field.unit(size, 1, row, 0)
                    tangent: Tangent = {key: unit * f}
                    if value and reader.bias is not None:
                        tangent[*reader.bias, i] = unit * -value
                    yield tangent


def _latents(point: Point, part: int, span: Span) -> Iterator[Tangent]:
    spec = point.spec
    chosen = [("A_K", "normk", ("W_K", "W_V"))]
    if spec.qrank:
        chosen.append(("A_Q", "normq", ("W_Q", "R_Q")))
    for source, name, readers in chosen:
        forms = _forms(_latent(point, part, source, name, span), f"the latent of {source}")
        for key in point.keys((part, reader) for reader in readers):
            size = point.matrices[key].nrows()
            for f in forms:
                for row in range(size):
                    yield {key: point.field.unit(size, 1, row, 0) * f}


def _latent(point: Point, part: int, source: str, name: str, span: Span) -> nmod_mat:
    """Gam A [A, a] of a latent."""
    A = point.matrices[part, source, 0]
    image: nmod_mat = point.gain(Norm(part, name, A.nrows()), A.nrows())[0] * A * span.whole
    return image


def _latent_span(point: Point, part: int, span: Span) -> Span:
    """The span of the key-value latent."""
    image = _latent(point, part, "A_K", "normk", span)
    full = image.ncols() >= image.nrows()
    return Span(identity(image.nrows(), point.p) if full else image, None)


def _unmet(point: Point, part: int, span: Span) -> Iterator[Tangent]:
    spec = point.spec.at(part)
    if spec.feature != "none":
        return
    G = spec.heads // spec.kv
    met = not spec.kvrank and (spec.qknorm or turning(spec) > 0)
    shifts = spec.attn == "softmax" and not spec.cap and not spec.sinks
    for g in range(spec.kv):
        heads = range(g * G, (g + 1) * G)
        keys = _image(point, part, "K", g, span, not shifts)
        for f in [] if met else _forms(keys, "what keys fill"):
            for key in (key for h in heads for key in point.with_bias(part, "Q", h)):
                size = point.matrices[key].ncols()
                for column in range(size):
                    yield {key: f.transpose() * point.field.unit(1, size, 0, column)}
        if spec.gate == "element":
            continue
        for f in _forms(_image(point, part, "V", g, span, True), "what values fill"):
            for output in point.keys([(part, "W_O")])[heads.start : heads.stop]:
                for row in range(spec.d):
                    yield {output: point.field.unit(spec.d, 1, row, 0) * f}


def _image(point: Point, part: int, letter: str, g: int, span: Span, constant: bool) -> nmod_mat:
    """What the keys, or the values, of a group fill: with the constant, or up to it."""
    W, b = point.matrices[part, f"W_{letter}", g], point.matrices.get((part, f"b_{letter}", g))
    image = W * span.A
    shift = b if span.a is None else W * span.a if b is None else W * span.a + b
    return beside([image, shift]) if constant and shift is not None else image
