"""The weights of a transformer: which tensors there are, in which order, of which shapes.

Heads are a matrix of (key-value heads, query heads of each), so that grouped queries need no
copies. The vector of all weights lists the embeddings, the layers and the head, each tensor in
row-major order; docs/certificate.md has the same table. If layers share their weights, the tensors
are listed once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import NamedTuple

from segre.stage import Slot
from segre.transformer.by_layer import every
from segre.transformer.spec import Transformer

Shapes = dict[str, tuple[int, ...]]
_MLP_MAPS = ("gate", "up", "down")
_OF_MLP = {
    *("norm2", "post2", "scale2", "W_R", "c_R", "S_R"),
    *(f"{kind}_{name}" for kind in ("W", "b", "c", "S") for name in _MLP_MAPS),
}
CONSTANTS = ("b_R",)  # what an MLP may read beside its weights: how much each expert is preferred


class _Row(NamedTuple):
    """One tensor: its sizes by the names of choices, and which specs and layers have it."""

    name: str
    sizes: str
    when: Callable[[Transformer, int], object]


def _norm(name: str, width: str, when: Callable[[Transformer, int], object]) -> tuple[_Row, ...]:
    """A norm of the stream's kind: a gain, and with LayerNorm a bias."""
    return (
        _Row(f"{name}.gain", f"{width} 1", lambda s, i: when(s, i) and s.gain),
        _Row(f"{name}.bias", f"{width} 1", lambda s, i: when(s, i) and s.norm_bias),
    )


def _always(_: Transformer, __: int) -> bool:
    return True


def _posted(s: Transformer, _: int) -> bool:
    return s.norm != "none" and s.place != "pre"


# Sizes that are not choices themselves.
_SIZES: dict[str, Callable[[Transformer], int]] = {
    "table": lambda s: s.embed or s.d,
    "entering": lambda s: s.d if s.project or not s.discrete else s.embed or s.d,
    "querying": lambda s: s.qrank or s.d,
    "keying": lambda s: s.kvrank or s.d,
    "gates": lambda s: s.dv if s.gate == "element" else 1,
    "read": lambda s: s.head_width if s.transform else s.embed if s.project else s.d,
    "answers": lambda s: s.labels or s.vocab,
}
_EMBED = (
    _Row("W_P", "d patch", lambda s, _: s.patch),
    _Row("b_P", "d 1", lambda s, _: s.patch),
    _Row("cls", "d 1", lambda s, _: s.cls),
    _Row("mask", "d 1", lambda s, _: s.masked),
    _Row("tokens", "table vocab", lambda s, _: s.discrete),
    _Row("positions", "entering positions", lambda s, _: s.pos == "learned"),
    _Row("types", "table types", lambda s, _: s.types),
    *_norm("norm", "table", lambda s, _: s.embnorm),
    _Row("W_E", "d embed", lambda s, _: s.embed),
    _Row("b_E", "d 1", lambda s, _: s.embed and s.bias == "all" and not s.project),
)
_ATTENTION = (
    *_norm("norm1", "d", lambda s, i: s.normed_at(i, 1)),
    _Row("A_Q", "qrank d", lambda s, _: s.qrank),
    _Row("normq.gain", "qrank 1", lambda s, _: s.qrank and s.gain),
    _Row("W_Q", "kv group head querying", _always),
    _Row("b_Q", "kv group head 1", lambda s, _: s.query_bias),
    _Row("R_Q", "kv 1 rotary querying", lambda s, _: s.latent and s.rotary_dim),
    _Row("A_K", "kvrank d", lambda s, _: s.latent),
    _Row("normk.gain", "kvrank 1", lambda s, _: s.latent and s.gain),
    _Row("R_K", "rotary d", lambda s, _: s.latent and s.rotary_dim),
    _Row("W_K", "kv 1 head keying", _always),
    _Row("b_K", "kv 1 head 1", lambda s, _: s.query_bias),
    _Row("W_V", "kv 1 dv keying", _always),
    _Row("b_V", "kv 1 dv 1", lambda s, _: s.query_bias),
    _Row("normq.gain", "kv group head 1", lambda s, _: s.gain and s.qknorm == "all"),
    _Row("normk.gain", "kv 1 head 1", lambda s, _: s.gain and s.qknorm == "all"),
    _Row("normq.gain", "head 1", lambda s, _: s.gain and s.qknorm is True),
    _Row("normk.gain", "head 1", lambda s, _: s.gain and s.qknorm is True),
    _Row("W_G", "kv group gates d", lambda s, _: s.gate != "none"),
    _Row("b_G", "kv group gates 1", lambda s, _: s.gate != "none" and s.query_bias),
    _Row("sinks", "kv group 1 1", lambda s, _: s.sinks),
    _Row("normo.gain", "kv group dv 1", lambda s, _: s.mixnorm and s.gain),
    _Row("W_O", "kv group d dv", _always),
    _Row("b_O", "d 1", lambda s, _: s.output_bias),
    *_norm("post1", "d", _posted),
    _Row("scale1", "d 1", lambda s, _: s.layerscale),
)
_DENSE = (
    _Row("W_gate", "ff d", lambda s, _: s.gated),
    _Row("b_gate", "ff 1", lambda s, _: s.gated and s.mlp_bias),
    _Row("W_up", "ff d", _always),
    _Row("b_up", "ff 1", lambda s, _: s.mlp_bias),
    _Row("W_down", "d ff", _always),
    _Row("b_down", "d 1", lambda s, _: s.mlp_bias),
)
_ROUTED = (
    _Row("W_R", "experts 1 d", _always),
    _Row("c_R", "experts 1 1", lambda s, _: s.expbias),
    _Row("W_gate", "experts eff d", _always),
    _Row("c_gate", "experts eff 1", lambda s, _: s.expbias),
    _Row("W_up", "experts eff d", _always),
    _Row("c_up", "experts eff 1", lambda s, _: s.expbias),
    _Row("W_down", "experts d eff", _always),
    _Row("c_down", "experts d 1", lambda s, _: s.expbias),
    _Row("S_gate", "shared d", lambda s, _: s.shared),
    _Row("S_up", "shared d", lambda s, _: s.shared),
    _Row("S_down", "d shared", lambda s, _: s.shared),
    _Row("S_R", "1 d", lambda s, _: s.shared and s.sharedgate),
)
_HEAD = (
    *_norm("norm", "d", lambda s, _: s.final),
    _Row("W_pool", "d d", lambda s, _: s.pooler),
    _Row("b_pool", "d 1", lambda s, _: s.pooler),
    _Row("W_D", "embed d", lambda s, _: s.project),
)
_UNEMBEDDING = (
    _Row("W_T", "head_width d", lambda s, _: s.transform),
    _Row("b_T", "head_width 1", lambda s, _: s.transform and s.bias == "all"),
    *_norm("normT", "head_width", lambda s, _: s.transform and s.headnorm),
    _Row("W_U", "answers read", lambda s, _: not s.tied),
    _Row("b_U", "answers 1", lambda s, _: s.outbias),
    _Row("W_rel", "relation d", lambda s, _: s.relation),
    _Row("b_rel", "relation 1", lambda s, _: s.relation),
)


@lru_cache(maxsize=64)
def tensors(spec: Transformer) -> dict[tuple[str, str], Slot]:
    """All tensors by part (embed, 1, 2, ..., head) and name, in their order."""
    out: dict[tuple[str, str], Slot] = {}
    start = 0
    for part in parts(spec):
        for name, shape in part_shapes(spec, part).items():
            out[part, name] = Slot(name, start, shape)
            start += prod(shape)
    return out


def count(spec: Transformer) -> int:
    """Number of weights, computed without listing the tensors: equal layers are counted once."""
    ends = sum(prod(s) for part in ("embed", "head") for s in part_shapes(spec, part).values())
    if spec.share:
        return ends + _layer_size(spec, 1)
    if not spec.firstnorm:
        shapes = _shapes(spec, 1, _norm("norm1", "d", _always))
        return count(replace(spec, firstnorm=True)) - sum(map(prod, shapes.values()))
    if spec.by_mechanism or isinstance(spec.dense, tuple):
        return ends + sum(_layer_size(spec, i) * n for i, n in _alike(spec).items())
    first = min(spec.dense, spec.layers) if spec.experts else spec.layers
    rest = spec.layers - first
    return ends + first * _layer_size(spec, 1) + rest * _layer_size(spec, spec.layers)


def largest_stage(spec: Transformer) -> int:
    """Number of weights of the largest attention or MLP sublayer."""
    by_layer = spec.by_mechanism or isinstance(spec.dense, tuple)
    kinds = _alike(spec) if by_layer else (1, 1 if spec.share else spec.layers)
    layers = {part: part_shapes(spec, part) for part in map(str, kinds)}
    sizes = [
        sum(prod(shape) for name, shape in shapes.items() if of_mlp(name) == mlp)
        for shapes in layers.values()
        for mlp in (False, True)
    ]
    return max(sizes)


def of_mlp(name: str) -> bool:
    """Whether a tensor of a layer belongs to its MLP."""
    return name.split(".")[0] in _OF_MLP


def parts(spec: Transformer) -> list[str]:
    """The parts that have tensors of their own, in the order of the weights."""
    own = 1 if spec.share else spec.layers
    return ["embed", *(str(i) for i in range(1, own + 1)), "head"]


@lru_cache(maxsize=4096)
def part_shapes(spec: Transformer, part: str) -> Mapping[str, tuple[int, ...]]:
    """The tensors of one part and their shapes; kept, since they are asked for often."""
    if part == "embed":
        return _shapes(spec, 0, _EMBED)
    if part == "head":
        return _shapes(spec, 0, _HEAD if spec.output == "hidden" else _HEAD + _UNEMBEDDING)
    layer, own = int(part), spec.at(part) if spec.by_mechanism else spec
    return {**_shapes(own, layer, _ATTENTION), **_shapes(spec, layer, _mlp(spec, layer))}


def _mlp(spec: Transformer, layer: int) -> tuple[_Row, ...]:
    if spec.mlp == "none":
        return ()
    before = _norm("norm2", "d", lambda s, _: s.normed_before)
    after = (*_norm("post2", "d", _posted), _Row("scale2", "d 1", lambda s, _: s.layerscale))
    return (*before, *(_ROUTED if routed(spec, layer) else _DENSE), *after)


def _shapes(spec: Transformer, layer: int, rows: tuple[_Row, ...]) -> Shapes:
    return {
        row.name: tuple(_size(spec, name) for name in row.sizes.split())
        for row in rows
        if row.when(spec, layer)
    }


def _size(spec: Transformer, name: str) -> int:
    if name == "1":
        return 1
    own = _SIZES.get(name)
    size: int = own(spec) if own else getattr(spec, name)
    return size


def routed(spec: Transformer, layer: int) -> bool:
    """Whether the MLP of a layer (counted from 1) has experts."""
    if isinstance(spec.dense, tuple):
        return spec.experts > 0 and not spec.dense[(layer - 1) % len(spec.dense)]
    return spec.experts > 0 and layer > spec.dense


def _alike(spec: Transformer) -> dict[int, int]:
    """The kinds of layers: the first layer of each kind, and how many there are."""
    first: dict[tuple[str, bool], int] = {}
    out: dict[int, int] = {}
    for i, attn in enumerate(every(spec.attn, spec.layers), 1):
        at = first.setdefault((attn, routed(spec, i)), i)
        out[at] = out.get(at, 0) + 1
    return out


def _layer_size(spec: Transformer, layer: int) -> int:
    return sum(prod(shape) for shape in part_shapes(spec, str(layer)).values())
