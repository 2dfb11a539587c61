"""The gauge of the head: gains, shifts and means that its maps absorb, removed and restored.

The stream ends with a norm. If hidden states are the output, the norm stays unchanged, and a pooler
reads it; otherwise a transform, a pooler or the unembedding absorbs it.
"""

from __future__ import annotations

import numpy as np

from segre.checkpoint.layout import Tensors
from segre.checkpoint.narrow import joint
from segre.checkpoint.norm_gauge import TINY, NormGauge, Stream, away_from, usable
from segre.fields.interface import Array
from segre.transformer.spec import Transformer


def end_readers(spec: Transformer) -> tuple[str, ...]:
    """The maps that read the end of the stream and absorb its norm."""
    if spec.output == "hidden":
        return ()
    if spec.transform:
        return ("T", "pool") if spec.pooler else ("T",)
    if spec.pooler:
        return ("pool",)
    return () if spec.tied else ("U",)


def fix_head(spec: Transformer, w: Tensors, gauge: NormGauge, stream: Stream) -> None:
    """Reduce the head in place."""
    if spec.output == "hidden":
        if spec.pooler:
            _fix_visible(spec, w, gauge, stream)
        return
    gain, shift = stream.scale, stream.shift
    if spec.place != "post":
        gain, shift = _taken(spec, w, gauge)
    for name in end_readers(spec):
        assert gain is not None
        W, bias = w[f"W_{name}"], f"b_{name}"
        offset = None if shift is None else W @ shift
        if offset is not None and bias in w:
            w[bias] = w[bias] + offset
        w[f"W_{name}"] = W * gain.T
        _fix_mean(spec, w, gauge, name, _kept_gain(spec, stream))
        if offset is not None and bias not in w:  # the mean column carries it
            w["norm.bias"] = np.ones_like(gain)
            w[f"W_{name}"] = w[f"W_{name}"] + offset / spec.d
    if spec.transform:
        _fix_transform(spec, w, gauge)


def restore_head(spec: Transformer, w: Tensors, gauge: NormGauge, stream: Stream) -> None:
    """Inverse of `fix_head`, with given free choices."""
    if spec.output == "hidden":
        if spec.pooler:
            _restore_visible(spec, w, gauge, stream)
        return
    if spec.transform:
        _restore_transform(spec, w, gauge)
    gain, shift = stream.scale, stream.shift
    if spec.place != "post" and end_readers(spec):
        gain = usable(gauge.gains["norm"])
        shift = gauge.shifts.get("norm")
        w["norm.gain"] = gain.copy()
        if shift is not None:
            w["norm.bias"] = shift
    for name in end_readers(spec):
        assert gain is not None
        bias = f"b_{name}"
        if shift is not None and bias not in w:
            _restore_carried(spec, w, name, gain, shift)
            continue
        _restore_mean(w, gauge, name, _kept_gain(spec, stream))
        W = w[f"W_{name}"] = w[f"W_{name}"] / gain.T
        if shift is not None:
            w[bias] = w[bias] - W @ shift


def _taken(spec: Transformer, w: Tensors, gauge: NormGauge) -> tuple[Array | None, Array | None]:
    """The gain and bias of the last norm, if maps absorb them."""
    if not end_readers(spec):
        return None, None
    gain = gauge.gains["norm"] = w["norm.gain"].copy()
    w["norm.gain"] = np.ones_like(gain)
    if not spec.norm_bias:
        return gain, None
    shift = gauge.shifts["norm"] = w["norm.bias"]
    w["norm.bias"] = np.zeros_like(shift)
    return gain, shift


def _restore_carried(spec: Transformer, w: Tensors, name: str, gain: Array, shift: Array) -> None:
    """A map without a bias: the contribution of its mean column goes back into the norm's bias."""
    W = w[f"W_{name}"]
    offset = W.sum(axis=1, keepdims=True)
    W = W - offset / spec.d
    total = float((shift / gain).sum())
    if abs(total) < TINY * spec.d:  # cannot carry the offset: the plain choice
        shift, total = gain.copy(), float(spec.d)
        w["norm.bias"] = shift
    w[f"W_{name}"] = (W + (offset - W @ (shift / gain)) / total) / gain.T


def _kept_gain(spec: Transformer, stream: Stream) -> Array | None:
    """The gain of the last norm where it stays: layers that share their weights read it too."""
    return stream.gain if joint(spec) else None


def _fix_mean(
    spec: Transformer, w: Tensors, gauge: NormGauge, name: str, kept: Array | None = None
) -> None:
    """Remove from readers the direction that a LayerNorm with a fixed gain never has."""
    key = f"W_{name}"
    gauge.measure(key, w[key])
    if spec.norm == "layer":
        unseen = _unseen(w[key].shape[1], kept)
        gauge.reads[key] = gauge.component(w[key], unseen)
        w[key] = w[key] - gauge.reads[key] * unseen.T


def _restore_mean(w: Tensors, gauge: NormGauge, name: str, kept: Array | None = None) -> None:
    key = f"W_{name}"
    if key in gauge.reads:
        w[key] = w[key] + gauge.reads[key] * _unseen(w[key].shape[1], kept).T


def _unseen(width: int, gain: Array | None) -> Array:
    return np.full((width, 1), width**-0.5) if gain is None else away_from(gain)


# --- a transform --------------------------------------------------------------------------------


def _fix_transform(spec: Transformer, w: Tensors, gauge: NormGauge) -> None:
    """The norm after a transform: its bias goes to that of the words, its gain to their map."""
    if "normT.bias" in w:
        table = w["W_U"] if "W_U" in w else w["tokens"].T
        shift = gauge.shifts["normT"] = w["normT.bias"]
        w["normT.bias"] = np.zeros_like(shift)
        w["b_U"] = w["b_U"] + table @ shift
    if not spec.tied and spec.headnorm:
        gain = gauge.gains["normT"] = w["normT.gain"].copy()
        w["normT.gain"] = np.ones_like(gain)
        w["W_U"] = w["W_U"] * gain.T
        _fix_mean(spec, w, gauge, "U")


def _restore_transform(spec: Transformer, w: Tensors, gauge: NormGauge) -> None:
    if not spec.tied and spec.headnorm:
        gain = usable(gauge.gains["normT"])
        _restore_mean(w, gauge, "U")
        w["W_U"] = w["W_U"] / gain.T
        w["normT.gain"] = gain.copy()
    if "normT.bias" in w:
        table = w["W_U"] if "W_U" in w else w["tokens"].T
        w["normT.bias"] = gauge.shifts["normT"]
        w["b_U"] = w["b_U"] - table @ w["normT.bias"]


# --- a pooler beside hidden states ----------------------------------------------------------------


def _fix_visible(spec: Transformer, w: Tensors, gauge: NormGauge, stream: Stream) -> None:
    gauge.measure("W_pool", w["W_pool"])
    if spec.norm != "layer":
        return
    unseen, constant = _end(spec, w, stream)
    seen = gauge.reads["W_pool"] = gauge.component(w["W_pool"], unseen)
    w["W_pool"] = w["W_pool"] - seen * unseen.T
    w["b_pool"] = w["b_pool"] + seen * constant


def _restore_visible(spec: Transformer, w: Tensors, gauge: NormGauge, stream: Stream) -> None:
    if spec.norm == "layer":
        unseen, constant = _end(spec, w, stream)
        w["W_pool"] = w["W_pool"] + gauge.reads["W_pool"] * unseen.T
        w["b_pool"] = w["b_pool"] - gauge.reads["W_pool"] * constant


def _end(spec: Transformer, w: Tensors, stream: Stream) -> tuple[Array, Array | float]:
    """The direction of hidden states that a pooler sees only as a constant, and the constant."""
    gain, shift = stream.gain, stream.shift
    if spec.place != "post":
        gain, shift = w["norm.gain"], w.get("norm.bias")
    assert gain is not None
    unseen = away_from(gain)
    return unseen, 0.0 if shift is None else unseen.T @ shift
