"""The weights of a transformer: which tensors there are, in which order, of which shapes.

Heads are a matrix of (key-value heads, query heads of each), so that grouped queries need no
copies. The vector of all weights lists the embeddings, the layers and the head, each tensor in
row-major order; docs/certificate.md has the same table. If layers share their weights, the tensors
are listed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from math import prod

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
        missing = sum(prod(shape) for shape in _norm(spec, "norm1", spec.d).values())
        return count(replace(spec, firstnorm=True)) - missing
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
        return _embed_shapes(spec)
    if part == "head":
        return _head_shapes(spec)
    own = spec.at(part) if spec.by_mechanism else spec
    return {**_attention_shapes(own, int(part)), **_mlp_shapes(spec, int(part))}


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


def _norm(spec: Transformer, name: str, width: int) -> Shapes:
    out: Shapes = {f"{name}.gain": (width, 1)} if spec.gain else {}
    if spec.norm_bias:
        out[f"{name}.bias"] = (width, 1)
    return out


def _embed_shapes(spec: Transformer) -> Shapes:
    if not spec.discrete:
        before: Shapes = {"W_P": (spec.d, spec.patch), "b_P": (spec.d, 1)} if spec.patch else {}
        before |= {"cls": (spec.d, 1)} if spec.cls else {}
        before |= {"mask": (spec.d, 1)} if spec.masked else {}
        return before | ({"positions": (spec.d, spec.positions)} if spec.pos == "learned" else {})
    e = spec.embed or spec.d
    out: Shapes = {"tokens": (e, spec.vocab)}
    if spec.pos == "learned":
        out["positions"] = (spec.d if spec.project else e, spec.positions)
    if spec.types:
        out["types"] = (e, spec.types)
    if spec.embnorm:
        out |= _norm(spec, "norm", e)
    if spec.embed:
        out["W_E"] = (spec.d, e)
        if spec.bias == "all" and not spec.project:
            out["b_E"] = (spec.d, 1)
    return out


def _attention_shapes(spec: Transformer, layer: int) -> Shapes:
    d, kv, group, k, v = spec.d, spec.kv, spec.group, spec.head, spec.dv
    biased = spec.query_bias
    out: Shapes = {}
    if spec.normed_at(layer, 1):
        out |= _norm(spec, "norm1", d)
    if spec.latent:
        r = spec.rotary_dim
        if spec.qrank:
            out |= {"A_Q": (spec.qrank, d), **_norm_gain(spec, "normq", spec.qrank)}
        reads = spec.qrank or d
        out["W_Q"] = (kv, 1, k, reads)
        if r:
            out["R_Q"] = (kv, 1, r, reads)
        out |= {"A_K": (spec.kvrank, d), **_norm_gain(spec, "normk", spec.kvrank)}
        if r:
            out["R_K"] = (r, d)
        out["W_K"] = (kv, 1, k, spec.kvrank)
        out["W_V"] = (kv, 1, v, spec.kvrank)
    else:
        out["W_Q"] = (kv, group, k, d)
        if biased:
            out["b_Q"] = (kv, group, k, 1)
        out["W_K"] = (kv, 1, k, d)
        if biased:
            out["b_K"] = (kv, 1, k, 1)
        out["W_V"] = (kv, 1, v, d)
        if biased:
            out["b_V"] = (kv, 1, v, 1)
        if spec.qknorm and spec.gain:
            one = spec.qknorm == "all"
            out["normq.gain"] = (kv, group, k, 1) if one else (k, 1)
            out["normk.gain"] = (kv, 1, k, 1) if one else (k, 1)
    if spec.gate != "none":
        rows = v if spec.gate == "element" else 1
        out["W_G"] = (kv, group, rows, d)
        if biased:
            out["b_G"] = (kv, group, rows, 1)
    if spec.sinks:
        out["sinks"] = (kv, group, 1, 1)
    if spec.mixnorm and spec.gain:
        out["normo.gain"] = (kv, group, v, 1)
    out["W_O"] = (kv, group, d, v)
    if spec.output_bias:
        out["b_O"] = (d, 1)
    if spec.norm != "none" and spec.place != "pre":
        out |= _norm(spec, "post1", d)
    if spec.layerscale:
        out["scale1"] = (d, 1)
    return out


def _norm_gain(spec: Transformer, name: str, width: int) -> Shapes:
    """The norm of a latent, always an RMSNorm."""
    return {f"{name}.gain": (width, 1)} if spec.gain else {}


def _mlp_shapes(spec: Transformer, layer: int) -> Shapes:
    if spec.mlp == "none":
        return {}
    d, out = spec.d, dict[str, tuple[int, ...]]()
    if spec.normed_before:
        out |= _norm(spec, "norm2", d)
    if routed(spec, layer):
        E, f = spec.experts, spec.eff
        out["W_R"] = (E, 1, d)
        if spec.expbias:
            out["c_R"] = (E, 1, 1)
        for name, shape in (("gate", (E, f, d)), ("up", (E, f, d)), ("down", (E, d, f))):
            out[f"W_{name}"] = shape
            if spec.expbias:
                out[f"c_{name}"] = (*shape[:2], 1)
        if spec.shared:
            s = spec.shared
            out |= {"S_gate": (s, d), "S_up": (s, d), "S_down": (d, s)}
            if spec.sharedgate:
                out["S_R"] = (1, d)
    else:
        biased = spec.mlp_bias
        for name in ["W_gate", "W_up"] if spec.gated else ["W_up"]:
            out[name] = (spec.ff, d)
            if biased:
                out[name.replace("W", "b")] = (spec.ff, 1)
        out["W_down"] = (d, spec.ff)
        if biased:
            out["b_down"] = (d, 1)
    if spec.norm != "none" and spec.place != "pre":
        out |= _norm(spec, "post2", d)
    if spec.layerscale:
        out["scale2"] = (d, 1)
    return out


def _head_shapes(spec: Transformer) -> Shapes:
    out: Shapes = _norm(spec, "norm", spec.d) if spec.final else {}
    if spec.pooler:
        out |= {"W_pool": (spec.d, spec.d), "b_pool": (spec.d, 1)}
    if spec.project:
        out["W_D"] = (spec.embed, spec.d)
    if spec.output == "hidden":
        return out
    e = spec.embed if spec.project else spec.d
    if spec.transform:
        e = spec.head_width
        out["W_T"] = (e, spec.d)
        if spec.bias == "all":
            out["b_T"] = (e, 1)
        if spec.headnorm:
            out |= _norm(spec, "normT", e)
    words = spec.labels or spec.vocab
    if not spec.tied:
        out["W_U"] = (words, e)
    if spec.outbias:
        out["b_U"] = (words, 1)
    if spec.relation:
        out |= {"W_rel": (spec.relation, spec.d), "b_rel": (spec.relation, 1)}
    return out
