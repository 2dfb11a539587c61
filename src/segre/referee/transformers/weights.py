"""Which weight tensors does a transformer have? Section 2."""

from __future__ import annotations

from collections.abc import Iterator

from segre.referee.transformers.tensors import Key, Place, Shape, Tensor, Tensors, laid_out
from segre.transformer.spec import Transformer

__all__ = [
    "EMBED",
    "HEAD",
    "Key",
    "Layout",
    "Place",
    "Tensor",
    "has_norm_bias",
    "parts",
    "routed",
    "shows_stream",
    "table_reads",
    "turning",
]

EMBED, HEAD = 0, -1


def routed(spec: Transformer, layer: int) -> bool:
    """Whether the MLP of a layer (of weights) chooses experts."""
    if isinstance(spec.dense, tuple):
        return spec.experts > 0 and spec.dense[(layer - 1) % len(spec.dense)] == 0
    return spec.experts > 0 and layer > spec.dense


def turning(spec: Transformer) -> int:
    """How many dimensions turn with the position."""
    return spec.rotary if spec.pos == "rope" else 0


def has_norm_bias(spec: Transformer) -> bool:
    """Whether norms have biases."""
    biased = spec.bias in ("norm", "mlp-norm", "all")
    return spec.norm == "layer" and spec.gain and biased


def parts(spec: Transformer) -> list[int]:
    """The numbers of the parts that are layers."""
    return [1] if spec.share else list(range(1, spec.layers + 1))


class Layout(Tensors):
    """All tensors of a transformer; parts are EMBED, HEAD and the numbers of layers."""

    def __init__(self, spec: Transformer) -> None:
        super().__init__(laid_out(_shapes(spec)))
        self.spec = spec


def _shapes(spec: Transformer) -> Iterator[tuple[int, Shape]]:
    yield from ((EMBED, shape) for shape in _embed(spec))
    for layer in parts(spec):
        yield from ((layer, shape) for shape in _attention(spec, layer))
        yield from ((layer, shape) for shape in _mlp(spec, layer))
    yield from ((HEAD, shape) for shape in _head(spec))


def head_width(spec: Transformer) -> int:
    """The width of what the transform of the head puts out."""
    return spec.d if spec.labels or not spec.embed else spec.embed


def table_reads(spec: Transformer) -> bool:
    """Whether a tied table reads the stream itself."""
    return spec.tied and not (spec.transform or spec.project)


def shows_stream(spec: Transformer) -> bool:
    """Whether the output is the stream at its end."""
    return spec.output == "hidden" and not spec.project


def _norm(spec: Transformer, name: str, width: int) -> Iterator[Shape]:
    if spec.gain:
        yield f"{name}.gain", 1, width, 1
    if has_norm_bias(spec):
        yield f"{name}.bias", 1, width, 1


def _embed(spec: Transformer) -> Iterator[Shape]:
    d, e = spec.d, spec.embed or spec.d
    if spec.vocab == 0:
        if spec.patch:
            yield "W_P", 1, d, spec.patch
            yield "b_P", 1, d, 1
        if spec.cls:
            yield "cls", 1, d, 1
        if spec.masked:
            yield "mask", 1, d, 1
        if spec.pos == "learned":
            yield "positions", 1, d, spec.positions
        return
    yield "tokens", 1, e, spec.vocab
    if spec.pos == "learned":
        yield "positions", 1, d if spec.project else e, spec.positions
    if spec.types:
        yield "types", 1, e, spec.types
    if spec.embnorm:
        yield from _norm(spec, "norm", e)
    if spec.embed:
        yield "W_E", 1, d, e
        if spec.bias == "all" and not spec.project:
            yield "b_E", 1, d, 1


def _attention(spec: Transformer, layer: int) -> Iterator[Shape]:
    spec = spec.at(layer)
    d, k, v, kv, heads = spec.d, spec.head, spec.dv, spec.kv, spec.heads
    normed = spec.norm != "none"
    if normed and spec.place in ("pre", "sandwich") and (spec.firstnorm or layer > 1):
        yield from _norm(spec, "norm1", d)
    if spec.kvrank:
        yield from _latent(spec)
    else:
        for name, count, rows in (("Q", heads, k), ("K", kv, k), ("V", kv, v)):
            yield f"W_{name}", count, rows, d
            if spec.bias in ("qkv", "attn", "all"):
                yield f"b_{name}", count, rows, 1
        if spec.qknorm and spec.gain:
            yield "normq.gain", heads if spec.qknorm == "all" else 1, k, 1
            yield "normk.gain", kv if spec.qknorm == "all" else 1, k, 1
    if spec.gate != "none":
        rows = v if spec.gate == "element" else 1
        yield "W_G", heads, rows, d
        if spec.bias in ("qkv", "attn", "all"):
            yield "b_G", heads, rows, 1
    if spec.sinks:
        yield "sinks", heads, 1, 1
    if spec.mixnorm and spec.gain:
        yield "normo.gain", heads, v, 1
    yield "W_O", heads, d, v
    if spec.bias in ("attn", "all"):
        yield "b_O", 1, d, 1
    if normed and spec.place != "pre":
        yield from _norm(spec, "post1", d)
    if spec.layerscale:
        yield "scale1", 1, d, 1


def _latent(spec: Transformer) -> Iterator[Shape]:
    d, k, v, heads = spec.d, spec.head, spec.dv, spec.heads
    turned, source = turning(spec), spec.qrank or d
    if spec.qrank:
        yield "A_Q", 1, spec.qrank, d
        if spec.gain:
            yield "normq.gain", 1, spec.qrank, 1
    yield "W_Q", heads, k, source
    if turned:
        yield "R_Q", heads, turned, source
    yield "A_K", 1, spec.kvrank, d
    if spec.gain:
        yield "normk.gain", 1, spec.kvrank, 1
    if turned:
        yield "R_K", 1, turned, d
    yield "W_K", heads, k, spec.kvrank
    yield "W_V", heads, v, spec.kvrank


def _mlp(spec: Transformer, layer: int) -> Iterator[Shape]:
    d, f, E, eff, shared = spec.d, spec.ff, spec.experts, spec.eff, spec.shared
    if spec.mlp == "none":
        return
    normed = spec.norm != "none"
    if normed and spec.place in ("pre", "sandwich"):
        yield from _norm(spec, "norm2", d)
    if routed(spec, layer):
        of_router, of_units = ("R", 1, d), (("gate", eff, d), ("up", eff, d), ("down", d, eff))
        for name, rows, columns in (of_router, *of_units):
            yield f"W_{name}", E, rows, columns
            if spec.expbias:
                yield f"c_{name}", E, rows, 1
        if shared:
            yield from (("S_gate", 1, shared, d), ("S_up", 1, shared, d), ("S_down", 1, d, shared))
            if spec.sharedgate:
                yield "S_R", 1, 1, d
    else:
        for name, rows, columns in (("gate", f, d), ("up", f, d), ("down", d, f)):
            if name == "gate" and not spec.gated:
                continue
            yield f"W_{name}", 1, rows, columns
            if spec.bias in ("mlp", "mlp-norm", "all"):
                yield f"b_{name}", 1, rows, 1
    if normed and spec.place != "pre":
        yield from _norm(spec, "post2", d)
    if spec.layerscale:
        yield "scale2", 1, d, 1


def _head(spec: Transformer) -> Iterator[Shape]:
    d, e, V = spec.d, spec.embed or spec.d, spec.vocab
    if spec.final:
        yield from _norm(spec, "norm", d)
    if spec.pooler:
        yield "W_pool", 1, d, d
        yield "b_pool", 1, d, 1
    if spec.project:
        yield "W_D", 1, e, d
    if spec.output == "hidden":
        return
    if spec.transform:
        e = head_width(spec)
        yield "W_T", 1, e, d
        if spec.bias == "all":
            yield "b_T", 1, e, 1
        if spec.headnorm:
            yield from _norm(spec, "normT", e)
    if not spec.tied:
        yield "W_U", 1, spec.labels or V, e if spec.transform or spec.project else d
    if spec.outbias:
        yield "b_U", 1, spec.labels or V, 1
    if spec.relation:
        yield "W_rel", 1, spec.relation, d
        yield "b_rel", 1, spec.relation, 1
