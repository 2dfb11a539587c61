"""Gains, shifts, means and biases that the function does not see: taken off, and put back.

What a norm multiplies or adds, its readers can do. What lies along the one direction that a
LayerNorm does not see, writers need not write, and what its output never has (it is orthogonal to
1/gain) readers need not read. Biases of keys cancel in softmax where nothing turns; biases of
values pass through it unchanged. `fix_gauge` chooses the least of all these (docs/checkpoints.md);
`restore_gauge` is its inverse, for any choice. A norm between a sublayer and the stream keeps its
gain, up to signs, which what it norms can have instead.
"""

from __future__ import annotations

import numpy as np

from segre.checkpoint.ends import end_readers, fix_head, restore_head
from segre.checkpoint.flips import flip
from segre.checkpoint.latents import normed_readers
from segre.checkpoint.layout import Tensors
from segre.checkpoint.narrow import fix_embedding_map, joint, restore_embedding_map
from segre.checkpoint.norm_gauge import NormGauge, Stream, away_from, usable
from segre.checkpoint.planes import free_key_biases, still, turning
from segre.checkpoint.tables import (
    fix_common_position,
    fix_tables,
    restore_common_position,
    restore_tables,
    shifted_positions,
)
from segre.fields.interface import Array
from segre.geometry.gauge.wiring import readers
from segre.transformer.spec import Transformer
from segre.transformer.tensors import parts

READERS = {"norm1": ("Q", "K", "V"), "norm2": ("R", "gate", "up")}
SHARED = ("S_gate", "S_up")  # read what norm2 norms too
WRITERS = {"norm1": "O", "norm2": "down"}


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
            stream.shift = _fix_shift(w, gauge, "norm") if spec.norm_bias else None
        elif shifted_positions(spec):
            stream.shift = fix_common_position(spec, w, gauge)
    elif part == "head":
        fix_head(spec, w, gauge, stream)
    else:
        for norm in READERS:
            if norm == "norm2" and spec.mlp == "none":
                continue
            _fix_sublayer(spec, w, gauge, stream, norm, last=part == parts(spec)[-2])
        if _one_bias(spec, w):
            gauge.biases["b_O"] = w["b_O"]
            w["b_down"], w["b_O"] = w["b_down"] + w["b_O"], np.zeros_like(w["b_O"])
    return gauge


def restore_gauge(
    spec: Transformer, part: str, w: Tensors, gauge: NormGauge, stream: Stream
) -> None:
    """Inverse of `fix_gauge`, with free choices of one's own."""
    if part == "embed":
        if spec.embed:
            restore_embedding_map(spec, w, gauge, stream)
        elif spec.embnorm:
            stream.gain = w["norm.gain"]
            stream.shift = _restore_shift(w, gauge, "norm") if spec.norm_bias else None
        elif shifted_positions(spec):
            stream.shift = restore_common_position(spec, w, gauge)
        restore_tables(spec, w, gauge, stream.tables)
    elif part == "head":
        restore_head(spec, w, gauge, stream)
    else:
        if _one_bias(spec, w):
            w["b_down"], w["b_O"] = w["b_down"] - gauge.biases["b_O"], gauge.biases["b_O"]
        for norm in READERS:
            if norm == "norm2" and spec.mlp == "none":
                continue
            _restore_sublayer(spec, w, gauge, stream, norm, last=part == parts(spec)[-2])


# --- attention and MLP ------------------------------------------------------------------------


def others(spec: Transformer, norm: str) -> tuple[str, ...]:
    """What reads a norm beside `READERS`, or instead of them; only without LayerNorms."""
    if norm == "norm1" and spec.latent:
        return tuple(reader.weight for reader in readers(spec, ("1", "attention")))
    return SHARED if norm == "norm2" else ()


def _plain_readers(spec: Transformer, norm: str, w: Tensors) -> list[str]:
    if norm == "norm1" and spec.latent:
        return []
    return [name for name in READERS[norm] if f"W_{name}" in w]


def _fix_sublayer(
    spec: Transformer, w: Tensors, gauge: NormGauge, stream: Stream, norm: str, *, last: bool
) -> None:
    readers = _plain_readers(spec, norm, w)
    normed = _normed(spec, w, norm)
    if spec.layerscale:
        _fix_scale(w, gauge, norm)
    if not normed:
        gain, shift = None, stream.shift
    else:
        gain = gauge.gains[norm] = w[f"{norm}.gain"].copy()
        shift = _fix_shift(w, gauge, norm) if spec.norm_bias else None
        w[f"{norm}.gain"] = np.ones_like(gain)
    unseen = _unseen(spec, stream, normed=normed)
    for name in readers:
        W = w[f"W_{name}"]
        if shift is not None:
            w[f"b_{name}"] = w[f"b_{name}"] + W @ shift
        if gain is not None:
            W = w[f"W_{name}"] = W * gain.T
        gauge.measure(f"W_{name}", W)
        if stream.narrow is not None:
            _fix_narrow(w, gauge, stream, name)
        if unseen is not None:
            gauge.reads[name] = gauge.component(W, unseen)
            w[f"W_{name}"] = W - gauge.reads[name] * unseen.T
    for name in others(spec, norm):
        if name in w and gain is not None:
            w[name] = w[name] * gain.T
    stream.narrow = None
    if norm == "norm1":
        for latent, after in normed_readers(spec).items():
            own = gauge.gains[latent] = w[f"{latent}.gain"].copy()
            w[f"{latent}.gain"] = np.ones_like(own)
            w.update({name: w[name] * own.T for name in after if name in w})
        _fix_attention_biases(spec, w, gauge)
    if spec.place == "post" and stream.shift is not None:
        bias = f"b_{WRITERS[norm]}"
        w[bias] = w[bias] + stream.shift
    _fix_writer(spec, w, gauge, stream, WRITERS[norm], last=last)
    if spec.normed_inside:
        post = f"post{norm[-1]}"
        gauge.signs[post] = np.where(w[f"{post}.gain"] < 0, -1.0, 1.0)
        flip(spec, w, post, gauge.signs[post])
    if spec.place == "post":
        post = f"post{norm[-1]}"
        stream.gain = w[f"{post}.gain"]
        visible = last and norm == "norm2" and not end_readers(spec)
        if norm == "norm2" and joint(spec):
            stream.scale = np.ones_like(stream.gain)
            if not visible:  # taken off with the embeddings
                stream.shift = w[f"{post}.bias"]
                w[f"{post}.bias"] = np.zeros_like(stream.shift)
            else:
                stream.shift = w[f"{post}.bias"]
            return
        if spec.norm_bias:
            stream.shift = w[f"{post}.bias"] if visible else _fix_shift(w, gauge, post)
        if last and norm == "norm2" and end_readers(spec):
            stream.scale = gauge.gains[post] = stream.gain.copy()
            stream.gain = w[f"{post}.gain"] = np.ones_like(stream.gain)


def _restore_sublayer(
    spec: Transformer, w: Tensors, gauge: NormGauge, stream: Stream, norm: str, *, last: bool
) -> None:
    readers = _plain_readers(spec, norm, w)
    before, narrow = stream.shift, stream.narrow
    stream.narrow = None
    normed = _normed(spec, w, norm)
    unseen = _unseen(spec, stream, normed=normed)
    if spec.place == "post":
        post = f"post{norm[-1]}"
        stream.gain = w[f"{post}.gain"]
        visible = last and norm == "norm2" and not end_readers(spec)
        if norm == "norm2" and joint(spec):
            stream.scale = np.ones_like(stream.gain)
            if not visible:
                assert stream.last is not None
                w[f"{post}.bias"] = stream.last[1]
            stream.shift = w[f"{post}.bias"]
        elif spec.norm_bias:
            stream.shift = w[f"{post}.bias"] if visible else _restore_shift(w, gauge, post)
        if last and norm == "norm2" and end_readers(spec) and not joint(spec):
            stream.scale = w[f"{post}.gain"] = usable(gauge.gains[post])
    if spec.normed_inside:
        post = f"post{norm[-1]}"
        flip(spec, w, post, gauge.signs[post])
    _restore_writer(spec, w, gauge, stream, WRITERS[norm], last=last)
    if spec.place == "post" and before is not None:
        bias = f"b_{WRITERS[norm]}"
        w[bias] = w[bias] - before
    if norm == "norm1":
        _restore_attention_biases(spec, w, gauge)
    gain = shift = None
    if not normed:
        shift = before
    else:
        gain = usable(gauge.gains[norm])
        w[f"{norm}.gain"] = gain.copy()
        shift = _restore_shift(w, gauge, norm) if spec.norm_bias else None
    for name in readers:
        W = w[f"W_{name}"]
        if unseen is not None:
            W = W + gauge.reads[name] * unseen.T
        if narrow is not None:
            W = narrow.read(W, gauge.outside.get(name))
            if stream.constant is not None:
                w[f"b_{name}"] = w[f"b_{name}"] - (W - w[f"W_{name}"]) @ stream.constant
        if gain is not None:
            W = W / gain.T
        w[f"W_{name}"] = W
        if shift is not None:
            w[f"b_{name}"] = w[f"b_{name}"] - W @ shift
    for name in others(spec, norm):
        if name in w and gain is not None:
            w[name] = w[name] / gain.T
    for latent, after in normed_readers(spec).items() if norm == "norm1" else ():
        own = w[f"{latent}.gain"] = usable(gauge.gains[latent])
        w.update({name: w[name] / own.T for name in after if name in w})
    if spec.layerscale:
        name, scale = _scale(norm), usable(gauge.scales[_scale(norm)])
        w[name] = scale.copy()
        w.update({key: w[key] / scale for key in _written(norm)})


def _scale(norm: str) -> str:
    """The vector by which what a sublayer writes is multiplied."""
    return norm.replace("norm", "scale")


def _written(norm: str) -> tuple[str, str]:
    return f"W_{WRITERS[norm]}", f"b_{WRITERS[norm]}"


def _fix_scale(w: Tensors, gauge: NormGauge, norm: str) -> None:
    """What writes absorbs the scale of what is written."""
    name = _scale(norm)
    scale = gauge.scales[name] = w[name]
    w.update({key: w[key] * scale for key in _written(norm)})
    w[name] = np.ones_like(scale)


def _fix_narrow(w: Tensors, gauge: NormGauge, stream: Stream, name: str) -> None:
    """A reader of narrow embeddings, after the change of their map."""
    assert stream.narrow is not None
    W = w[f"W_{name}"]
    outside = stream.narrow.outside(W, gauge)
    if outside is not None:
        gauge.outside[name] = outside
        w[f"W_{name}"] = stream.narrow.read(W - outside, None)
        return
    w[f"W_{name}"] = stream.narrow.read(W, None)
    if stream.constant is not None:
        w[f"b_{name}"] = w[f"b_{name}"] - (w[f"W_{name}"] - W) @ stream.constant


def _normed(spec: Transformer, w: Tensors, norm: str) -> bool:
    """Whether a sublayer reads the stream through a norm of its own; a first attention may not."""
    return spec.normed_before and f"{norm}.gain" in w


def _unseen(spec: Transformer, stream: Stream, *, normed: bool) -> Array | None:
    """The direction, of length 1, to which all that readers read is orthogonal (once shifted)."""
    if spec.norm != "layer":
        return None
    if not normed:  # the first layer may read embeddings without a norm
        return None if stream.gain is None else away_from(stream.gain)
    return np.full((spec.d, 1), spec.d**-0.5)


def _one_bias(spec: Transformer, w: Tensors) -> bool:
    """Whether the biases of attention and MLP are added to the same stream."""
    return spec.parallel and "b_O" in w and "b_down" in w


def _fix_attention_biases(spec: Transformer, w: Tensors, gauge: NormGauge) -> None:
    if free_key_biases(spec, w):
        gauge.biases["b_K"] = still(spec, w["b_K"])
        w["b_K"] = np.concatenate(
            [w["b_K"][..., : turning(spec), :], np.zeros_like(gauge.biases["b_K"])], axis=-2
        )
    if "b_V" in w and "b_O" in w and spec.sums_to_one:
        gauge.biases["b_V"] = w["b_V"]
        w["b_O"] = w["b_O"] + (w["W_O"] @ w["b_V"]).sum(axis=(0, 1))
        w["b_V"] = np.zeros_like(w["b_V"])


def _restore_attention_biases(spec: Transformer, w: Tensors, gauge: NormGauge) -> None:
    if free_key_biases(spec, w):
        turns = w["b_K"][..., : turning(spec), :]
        w["b_K"] = np.concatenate([turns, gauge.biases["b_K"]], axis=-2)
    if "b_V" in w and "b_O" in w and spec.sums_to_one:
        w["b_V"] = gauge.biases["b_V"]
        w["b_O"] = w["b_O"] - (w["W_O"] @ w["b_V"]).sum(axis=(0, 1))


def free_mean(spec: Transformer, key: str, *, last: bool) -> bool:
    """Whether the mean of what is written is free: nobody sees it, or a later bias makes up for it.

    Nobody sees it where every reader norms the stream, and the output is normed too. Where the
    output is the stream itself, the means of biases can move to that of the `last` layer.
    """
    if spec.norm != "layer":
        return False
    if spec.place == "post" or spec.final:
        return True
    return key.startswith("b_") and not (last and key == _last_bias(spec))


def _last_bias(spec: Transformer) -> str:
    return "b_O" if spec.mlp == "none" else "b_down"


def _fix_writer(
    spec: Transformer, w: Tensors, gauge: NormGauge, stream: Stream, name: str, *, last: bool
) -> None:
    for key in (f"W_{name}", f"b_{name}"):
        if key in w:
            gauge.measure(key, w[key])
            if free_mean(spec, key, last=last):
                gauge.writes[key] = gauge.mean(w[key], -2)
                w[key] = w[key] - gauge.writes[key]
                if key.startswith("b_"):
                    stream.means = stream.means + gauge.writes[key]
            elif spec.norm == "layer" and key == _last_bias(spec) and last:
                w[key] = w[key] + stream.means


def _restore_writer(
    spec: Transformer, w: Tensors, gauge: NormGauge, stream: Stream, name: str, *, last: bool
) -> None:
    for key in (f"W_{name}", f"b_{name}"):
        if key in w and free_mean(spec, key, last=last):
            w[key] = w[key] + gauge.writes[key]
            if key.startswith("b_"):
                stream.means = stream.means + gauge.writes[key]
        elif key in w and spec.norm == "layer" and key == _last_bias(spec) and last:
            w[key] = w[key] - stream.means


def _fix_shift(w: Tensors, gauge: NormGauge, norm: str) -> Array:
    shift = gauge.shifts[norm] = w[f"{norm}.bias"]
    w[f"{norm}.bias"] = np.zeros_like(shift)
    return shift


def _restore_shift(w: Tensors, gauge: NormGauge, norm: str) -> Array:
    w[f"{norm}.bias"] = gauge.shifts[norm]
    return gauge.shifts[norm]
