"""The named points of a pass: what hooks see, by the names of TransformerLens.

Blocks are counted from 0 in these names, while layers are counted from 1 elsewhere. A recorded
value has tokens first: streams are (tokens, width), queries (tokens, heads, rows), units
(tokens, units), and with experts (tokens, experts, units). Scores and patterns are
(heads, queries, keys).

>>> from segre.models import architecture
>>> every = points(architecture("gpt2/d=8/layers=2/heads=2/ff=12/vocab=9/t=4"), 3)
>>> every["blocks.1.attn.hook_pattern"], every["blocks.0.mlp.hook_post"], every["hook_embed"]
((2, 3, 3), (3, 12), (3, 8))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np

from segre.fields.interface import Array
from segre.transformer.layers import SHARED
from segre.transformer.spec import Transformer
from segre.transformer.tensors import part_shapes

SQUARE = ("attn.hook_attn_scores", "attn.hook_pattern")
OF_HEADS = ("attn.hook_q", "attn.hook_k", "attn.hook_v", "attn.hook_z")
Shape = tuple[int, ...]


def points(spec: Transformer, tokens: int) -> dict[str, Shape]:
    """All points of a pass on so many tokens, in order, and the shapes of their values."""
    out: dict[str, Shape] = {}
    if spec.discrete:
        out["hook_embed"] = (tokens, spec.embed or spec.d)
    if spec.positions:
        out["hook_pos_embed"] = (tokens, part_shapes(spec, "embed")["positions"][0])
    for layer in range(1, spec.layers + 1):
        shapes = part_shapes(spec, "1" if spec.share else str(layer))
        for name, shape in _of_block(spec, shapes, tokens):
            out[f"blocks.{layer - 1}.{name}"] = shape
    if spec.final:
        out["ln_final.hook_normalized"] = (tokens, spec.d)
    return out


def _of_block(
    spec: Transformer, shapes: Mapping[str, Shape], n: int
) -> Iterator[tuple[str, Shape]]:
    """The points of a layer, given the shapes of its tensors."""
    stream = (n, spec.d)
    yield "hook_resid_pre", stream
    yield "ln1.hook_normalized", stream
    for name, read in zip(OF_HEADS, ("W_Q", "W_K", "W_V"), strict=False):
        yield name, (n, prod(shapes[read][:-2]), shapes[read][-2])
    for name in SQUARE:
        yield name, (spec.heads, n, n)
    yield "attn.hook_z", (n, spec.heads, spec.dv)
    yield "hook_attn_out", stream
    if spec.mlp != "none":
        yield "hook_resid_mid", stream
        yield "ln2.hook_normalized", stream
        if "W_R" in shapes:
            yield "mlp.hook_post", (n, spec.experts, shapes["W_down"][-1])
            if "S_down" in shapes:
                yield SHARED, (n, shapes["S_down"][-1])
        else:
            yield "mlp.hook_pre", (n, spec.ff)
            if spec.gated:
                yield "mlp.hook_pre_linear", (n, spec.ff)
            yield "mlp.hook_post", (n, spec.ff)
        yield "hook_mlp_out", stream
    yield "hook_resid_post", stream


def tokens_first(name: str, value: Array) -> Array:
    """The value at a point for one input (1, kv, group, rows, tokens), in the shape of `points`."""
    each: Array = value.reshape(-1, *value.shape[-2:])
    if name in SQUARE:
        return each.swapaxes(-1, -2)
    if name in OF_HEADS or len(each) > 1:
        return each.transpose(2, 0, 1)
    return np.asarray(each[0].T)
