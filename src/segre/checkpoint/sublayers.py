"""The gauge of attention and MLP of a layer: free choices of norms, readers and writers.

What a norm multiplies or adds, its readers can do. What lies along the one direction that a
LayerNorm does not see, writers need not write, and what its output never has (it is orthogonal to
1/gain) readers need not read. A norm between a sublayer and the stream keeps its gain, up to
signs, which what it norms can have instead.
"""

from __future__ import annotations

import numpy as np

from segre.checkpoint.ends import end_readers
from segre.checkpoint.flips import flip
from segre.checkpoint.latents import normed_readers
from segre.checkpoint.layout import Tensors
from segre.checkpoint.narrow import joint
from segre.checkpoint.norm_gauge import (
    NormGauge,
    Stream,
    away_from,
    fix_shift,
    restore_shift,
    usable,
)
from segre.checkpoint.planes import free_key_biases, still, turning
from segre.fields.interface import Array
from segre.symmetry.wiring import End, Reader, readers, writer_bias, writers
from segre.transformer.spec import Transformer
from segre.transformer.tensors import parts

SUBLAYERS = {"norm1": "attention", "norm2": "mlp"}  # by the norm before each


def sublayer_norms(spec: Transformer) -> list[str]:
    """Names of the norms before the sublayers of a layer; not all models have these norms."""
    return [norm for norm, kind in SUBLAYERS.items() if kind in sublayer_kinds(spec)]


def sublayer_kinds(spec: Transformer) -> list[str]:
    """Attention, and the MLP if there is one."""
    return ["attention"] if spec.mlp == "none" else ["attention", "mlp"]


def fix_sublayer(
    spec: Transformer, part: str, w: Tensors, gauge: NormGauge, stream: Stream, norm: str
) -> None:
    """Reduce one sublayer, named by the norm before it, in place."""
    end, last = (part, SUBLAYERS[norm]), part == parts(spec)[-2]
    normed = _normed(spec, w, norm)
    if spec.layerscale:
        _fix_scale(spec, end, w, gauge, _scale(norm))
    if not normed:
        gain, shift = None, stream.shift
    else:
        gain = gauge.gains[norm] = w[f"{norm}.gain"].copy()
        shift = fix_shift(w, gauge, norm) if spec.norm_bias else None
        w[f"{norm}.gain"] = np.ones_like(gain)
    unseen = _unseen(spec, stream, normed=normed)
    for reader in readers(spec, end):
        name, bias = reader.weight, reader.bias
        W = w[name]
        if shift is not None:
            assert bias is not None
            w[bias] = w[bias] + W @ shift
        if gain is not None:
            W = w[name] = W * gain.T
        gauge.measure(name, W)
        if stream.narrow is not None:
            _fix_narrow(w, gauge, stream, reader)
        if unseen is not None:
            gauge.reads[name] = gauge.component(W, unseen)
            w[name] = W - gauge.reads[name] * unseen.T
    stream.narrow = None
    if norm == "norm1":
        for latent, after in normed_readers(spec).items():
            own = gauge.gains[latent] = w[f"{latent}.gain"].copy()
            w[f"{latent}.gain"] = np.ones_like(own)
            w.update({name: w[name] * own.T for name in after if name in w})
        _fix_attention_biases(spec, w, gauge)
    if spec.place == "post" and stream.shift is not None:
        bias = writer_bias(spec, end)
        assert bias is not None
        w[bias] = w[bias] + stream.shift
    _fix_writer(spec, end, w, gauge, stream, last=last)
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
            stream.shift = w[f"{post}.bias"] if visible else fix_shift(w, gauge, post)
        if last and norm == "norm2" and end_readers(spec):
            stream.scale = gauge.gains[post] = stream.gain.copy()
            stream.gain = w[f"{post}.gain"] = np.ones_like(stream.gain)


def restore_sublayer(
    spec: Transformer, part: str, w: Tensors, gauge: NormGauge, stream: Stream, norm: str
) -> None:
    """Inverse of `fix_sublayer`, with given free choices."""
    end, last = (part, SUBLAYERS[norm]), part == parts(spec)[-2]
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
            stream.shift = w[f"{post}.bias"] if visible else restore_shift(w, gauge, post)
        if last and norm == "norm2" and end_readers(spec) and not joint(spec):
            stream.scale = w[f"{post}.gain"] = usable(gauge.gains[post])
    if spec.normed_inside:
        post = f"post{norm[-1]}"
        flip(spec, w, post, gauge.signs[post])
    _restore_writer(spec, end, w, gauge, stream, last=last)
    if spec.place == "post" and before is not None:
        bias = writer_bias(spec, end)
        assert bias is not None
        w[bias] = w[bias] - before
    if norm == "norm1":
        _restore_attention_biases(spec, w, gauge)
    gain = shift = None
    if not normed:
        shift = before
    else:
        gain = usable(gauge.gains[norm])
        w[f"{norm}.gain"] = gain.copy()
        shift = restore_shift(w, gauge, norm) if spec.norm_bias else None
    for reader in readers(spec, end):
        name, bias = reader.weight, reader.bias
        W = w[name]
        if unseen is not None:
            W = W + gauge.reads[name] * unseen.T
        if narrow is not None:
            W = narrow.read(W, gauge.outside.get(name))
            if stream.constant is not None:
                assert bias is not None
                w[bias] = w[bias] - (W - w[name]) @ stream.constant
        if gain is not None:
            W = W / gain.T
        w[name] = W
        if shift is not None:
            assert bias is not None
            w[bias] = w[bias] - W @ shift
    for latent, after in normed_readers(spec).items() if norm == "norm1" else ():
        own = w[f"{latent}.gain"] = usable(gauge.gains[latent])
        w.update({name: w[name] / own.T for name in after if name in w})
    if spec.layerscale:
        name, scale = _scale(norm), usable(gauge.scales[_scale(norm)])
        w[name] = scale.copy()
        w.update({key: w[key] / scale for key in written(spec, end)})


def _scale(norm: str) -> str:
    """The vector that multiplies the output of a sublayer."""
    return norm.replace("norm", "scale")


def written(spec: Transformer, end: End) -> list[str]:
    """The output tensors of a sublayer, with their bias."""
    bias = writer_bias(spec, end)
    return [*writers(spec, end), *([] if bias is None else [bias])]


def _fix_scale(spec: Transformer, end: End, w: Tensors, gauge: NormGauge, name: str) -> None:
    """The output weights absorb the output scale."""
    scale = gauge.scales[name] = w[name]
    w.update({key: w[key] * scale for key in written(spec, end)})
    w[name] = np.ones_like(scale)


def _fix_narrow(w: Tensors, gauge: NormGauge, stream: Stream, reader: Reader) -> None:
    """A reader of narrow embeddings, after the change of their map."""
    assert stream.narrow is not None
    name, bias = reader.weight, reader.bias
    W = w[name]
    outside = stream.narrow.outside(W, gauge)
    if outside is not None:
        gauge.outside[name] = outside
        w[name] = stream.narrow.read(W - outside, None)
        return
    w[name] = stream.narrow.read(W, None)
    if stream.constant is not None:
        assert bias is not None
        w[bias] = w[bias] - (w[name] - W) @ stream.constant


def _normed(spec: Transformer, w: Tensors, norm: str) -> bool:
    """Whether a sublayer has a norm before it; a first attention may not."""
    return spec.normed_before and f"{norm}.gain" in w


def _unseen(spec: Transformer, stream: Stream, *, normed: bool) -> Array | None:
    """The unit vector that is orthogonal to everything readers read (after the shift)."""
    if spec.norm != "layer":
        return None
    if not normed:  # the first layer may read embeddings without a norm
        return None if stream.gain is None else away_from(stream.gain)
    return np.full((spec.d, 1), spec.d**-0.5)


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
    """Whether the mean of the output is free: it has no effect, or a later bias compensates for it.

    It has no effect if every reader norms the stream, and the output is normed too. If the output
    is the stream itself, the means of biases can move to the bias of the `last` layer.
    """
    if spec.norm != "layer":
        return False
    if spec.place == "post" or spec.final:
        return True
    return key.startswith("b_") and not (last and key == _last_bias(spec))


def _last_bias(spec: Transformer) -> str:
    return "b_O" if spec.mlp == "none" else "b_down"


def _fix_writer(
    spec: Transformer, end: End, w: Tensors, gauge: NormGauge, stream: Stream, *, last: bool
) -> None:
    for key in written(spec, end):
        gauge.measure(key, w[key])
        if free_mean(spec, key, last=last):
            gauge.writes[key] = gauge.mean(w[key], -2)
            w[key] = w[key] - gauge.writes[key]
            if key.startswith("b_"):
                stream.means = stream.means + gauge.writes[key]
        elif spec.norm == "layer" and key == _last_bias(spec) and last:
            w[key] = w[key] + stream.means


def _restore_writer(
    spec: Transformer, end: End, w: Tensors, gauge: NormGauge, stream: Stream, *, last: bool
) -> None:
    for key in written(spec, end):
        if free_mean(spec, key, last=last):
            w[key] = w[key] + gauge.writes[key]
            if key.startswith("b_"):
                stream.means = stream.means + gauge.writes[key]
        elif spec.norm == "layer" and key == _last_bias(spec) and last:
            w[key] = w[key] - stream.means
