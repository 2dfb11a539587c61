"""Gains, shifts, means and biases without effect on the function: removed and restored.

Part by part: tables, sublayers, the head. Biases of keys cancel in softmax where nothing turns;
biases of values pass through it unchanged. `fix_gauge` chooses the least of all that is free
(docs/checkpoints.md); `restore_gauge` is its inverse, for any choice.
"""

from __future__ import annotations

import numpy as np

from segre.checkpoint.ends import fix_head, restore_head
from segre.checkpoint.layout import Tensors
from segre.checkpoint.narrow import fix_embedding_map, restore_embedding_map
from segre.checkpoint.norm_gauge import NormGauge, Stream, fix_shift, restore_shift
from segre.checkpoint.sublayers import fix_sublayer, restore_sublayer, sublayer_norms
from segre.checkpoint.tables import (
    fix_common_position,
    fix_tables,
    restore_common_position,
    restore_tables,
    shifted_positions,
)
from segre.transformer.spec import Transformer


def fix_gauge(
    spec: Transformer,
    part: str,
    w: Tensors,
    stream: Stream,
    slack: float = 0.0,
) -> NormGauge:
    """Reduce a part in place; `stream` is carried from part to part.

    Means and components that are less than `slack` times what they are of count as none.
    """
    gauge = NormGauge(slack=slack)
    if part == "embed":
        fix_tables(spec, w, gauge, stream.tables)
        if spec.embed:
            fix_embedding_map(spec, w, gauge, stream)
        elif spec.embnorm:
            stream.gain = w["norm.gain"]
            stream.shift = fix_shift(w, gauge, "norm") if spec.norm_bias else None
        elif shifted_positions(spec):
            stream.shift = fix_common_position(spec, w, gauge)
    elif part == "head":
        fix_head(spec, w, gauge, stream)
    else:
        for norm in sublayer_norms(spec):
            fix_sublayer(spec, part, w, gauge, stream, norm)
        if _one_bias(spec, w):
            gauge.biases["b_O"] = w["b_O"]
            w["b_down"], w["b_O"] = w["b_down"] + w["b_O"], np.zeros_like(w["b_O"])
    return gauge


def restore_gauge(
    spec: Transformer, part: str, w: Tensors, gauge: NormGauge, stream: Stream
) -> None:
    """Inverse of `fix_gauge`, with given free choices."""
    if part == "embed":
        if spec.embed:
            restore_embedding_map(spec, w, gauge, stream)
        elif spec.embnorm:
            stream.gain = w["norm.gain"]
            stream.shift = restore_shift(w, gauge, "norm") if spec.norm_bias else None
        elif shifted_positions(spec):
            stream.shift = restore_common_position(spec, w, gauge)
        restore_tables(spec, w, gauge, stream.tables)
    elif part == "head":
        restore_head(spec, w, gauge, stream)
    else:
        if _one_bias(spec, w):
            w["b_down"], w["b_O"] = w["b_down"] - gauge.biases["b_O"], gauge.biases["b_O"]
        for norm in sublayer_norms(spec):
            restore_sublayer(spec, part, w, gauge, stream, norm)


def _one_bias(spec: Transformer, w: Tensors) -> bool:
    """Whether the biases of attention and MLP are added to the same stream."""
    return spec.parallel and "b_O" in w and "b_down" in w
