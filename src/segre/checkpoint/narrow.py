"""Embeddings of another width: their norm, their map to the stream, and the first to read it.

What the norm multiplies and adds, the map can do. The stream that the map writes may be changed
along 1, which the norm after the first skip takes away, by any linear form that the first readers
take back; and these see nothing outside of what the map fills. Where layers share their weights,
they also read what the last norm of a layer puts out: then one form is free, constant on that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from segre.checkpoint.layout import Tensors
from segre.checkpoint.norm_gauge import NormGauge, Stream, usable
from segre.fields.interface import Array
from segre.transformer.spec import Transformer

DEFICIENT = 1e-10  # singular values below this fraction of the largest count as none
FORM = "form"  # by how much the free form of layers that share their weights grows


@dataclass
class Narrow:
    """How readers of the stream follow a change of the map that fills it."""

    before: Array  # (d, e)
    after: Array
    factor: float | None = None  # of layers that share their weights
    form: Array | None = None  # (1, d)

    def read(self, W: Array, outside: Array | None) -> Array:
        """A reader after the change of the map; `outside` is its part outside the embeddings."""
        if self.form is not None:
            assert self.factor is not None
            by = (1 - 1 / self.factor) / float(self.form.sum())
            return np.asarray(W - by * (W.sum(axis=-1, keepdims=True) @ self.form))
        if self.after is not self.before:
            W = (W @ self.before) @ np.linalg.pinv(self.after, rcond=DEFICIENT)
        return W if outside is None else W + outside - outside @ _projection(self.after)

    def outside(self, W: Array, gauge: NormGauge) -> Array | None:
        """The part of a reader on directions that the map did not fill before the change."""
        if self.form is not None:
            return None
        found = W - W @ _projection(self.before)
        none = np.linalg.norm(found, axis=-1, keepdims=True)
        size = np.linalg.norm(W, axis=-1, keepdims=True)
        return np.where(none <= gauge.slack * size, 0.0, found)


def _projection(table: Array) -> Array:
    left, sigma, _ = np.linalg.svd(table, full_matrices=False)
    left = left[:, sigma > DEFICIENT * sigma[0]]
    return np.asarray(left @ left.T)


def joint(spec: Transformer) -> bool:
    """Whether the first readers are those of all layers."""
    return spec.share and spec.layers > 1


def fix_embedding_map(spec: Transformer, w: Tensors, gauge: NormGauge, stream: Stream) -> None:
    """Reduce norm and map in place, and say in `stream` how readers follow."""
    gain = gauge.gains["norm"] = w["norm.gain"].copy()
    beta = gauge.shifts["norm"] = w["norm.bias"]
    shift = w["b_E"] + w["W_E"] @ beta
    w["norm.gain"], w["norm.bias"] = np.ones_like(gain), np.zeros_like(beta)
    before = w["W_E"] * gain.T
    gauge.measure("W_E", before)
    gauge.reads["W_E"] = gauge.mean(before, 1)
    before = before - gauge.reads["W_E"]
    if joint(spec):
        _fix_joint(spec, w, gauge, stream, before, shift)
        return
    gauge.shifts["E"] = stream.shift = shift
    gauge.writes["W_E"] = gauge.mean(before, 0)
    after = before - gauge.writes["W_E"] if gauge.writes["W_E"].any() else before
    w["W_E"], w["b_E"] = after, np.zeros_like(shift)
    stream.narrow = Narrow(before, after)


def restore_embedding_map(spec: Transformer, w: Tensors, gauge: NormGauge, stream: Stream) -> None:
    """Inverse of `fix_embedding_map`, with given choices."""
    before = w["W_E"]
    if joint(spec):
        after, shift = _restore_joint(spec, w, gauge, stream, before)
    else:
        row = gauge.writes["W_E"]
        after = before + (row - row.mean())
        shift = stream.shift = gauge.shifts["E"]
        stream.narrow = Narrow(before, after)
    gain = usable(gauge.gains["norm"])
    w["norm.gain"], w["norm.bias"] = gain.copy(), gauge.shifts["norm"]
    w["W_E"] = (after + gauge.reads["W_E"]) / gain.T
    w["b_E"] = shift - w["W_E"] @ w["norm.bias"]


# --- layers that share their weights ----------------------------------------------------------


def _fix_joint(
    spec: Transformer, w: Tensors, gauge: NormGauge, stream: Stream, before: Array, shift: Array
) -> None:
    """The last norm's bias is taken off both; the form of the map becomes as large as the map."""
    assert stream.last is not None
    gain, bias = stream.last
    if spec.output != "hidden":
        stream.shift = gauge.shifts["last"] = bias
        shift, bias = shift - bias, np.zeros_like(bias)
    form = (1 / usable(gain)).T
    factor = _grown(before, form, gauge.slack)
    by = (factor - 1) / float(form.sum())
    gauge.gains[FORM] = np.array([[1 / factor]])
    w["W_E"], w["b_E"] = _changed(before, shift, bias, form, by)
    stream.narrow = Narrow(before, w["W_E"], factor, form)
    stream.constant = bias


def _grown(table: Array, form: Array, slack: float) -> float:
    """The factor that makes the form of a map as large as the map is beside its mean.

    Of the two signs the one with the smaller mean.
    """
    seen, mean = form @ table, table.mean(axis=0, keepdims=True)
    size = float(np.linalg.norm(seen))
    if size == 0:
        return 1.0
    factor = float(np.linalg.norm(table - mean)) / size
    means = {f: np.linalg.norm(mean + (f - 1) / form.sum() * seen) for f in (factor, -factor)}
    best = min(means, key=lambda f: float(means[f]))
    return 1.0 if abs(best - 1) <= slack else best


def _restore_joint(
    spec: Transformer, w: Tensors, gauge: NormGauge, stream: Stream, before: Array
) -> tuple[Array, Array]:
    assert stream.last is not None
    gain, bias = stream.last
    form = (1 / usable(gain)).T
    factor = float(gauge.gains[FORM][0, 0])
    constant = bias if spec.output == "hidden" else np.zeros_like(bias)
    by = (factor - 1) / float(form.sum())
    after, shift = _changed(before, w["b_E"], constant, form, by)
    stream.narrow, stream.constant = Narrow(before, after, factor, form), constant
    if spec.output != "hidden":
        stream.shift = gauge.shifts["last"]
        stream.last = (gain, stream.shift)
        shift = shift + stream.shift
    return after, shift


def _changed(W: Array, b: Array, last: Array, form: Array, by: float) -> tuple[Array, Array]:
    """The map and its bias with a form added along 1: none of what the last norm puts out."""
    return W + by * (form @ W), b + by * (form @ (b - last))
