"""Queries and keys of a layer: their rotary planes, and the other dimensions.

A plane is a complex row, whichever two rows of a head it lies in.
"""

from __future__ import annotations

import numpy as np

from segre.checkpoint.layout import Tensors
from segre.fields.interface import Array
from segre.transformer.layers import plane_dimensions
from segre.transformer.spec import Transformer


def turning(spec: Transformer) -> int:
    """Number of rotary rows of W_Q and W_K; latent attention has separate tensors for them."""
    return 0 if spec.latent else spec.rotary_dim


def _dimensions(spec: Transformer) -> tuple[Array, Array]:
    """The two rows of each plane of W_Q and W_K."""
    none = np.zeros(0, np.int64)
    return (none, none) if spec.latent else plane_dimensions(spec)


def queries(w: Tensors) -> Array:
    """(kv, group, k, d), and a column for the bias if there is one."""
    return np.concatenate([w["W_Q"], w["b_Q"]], axis=-1) if "b_Q" in w else w["W_Q"]


def keys(w: Tensors) -> Array:
    """(kv, 1, k, d), and a column for the bias if there is one."""
    return np.concatenate([w["W_K"], w["b_K"]], axis=-1) if "b_K" in w else w["W_K"]


def met_keys(spec: Transformer, w: Tensors) -> Array:
    """Keys in the dimensions that are not rotary, without biases that only shift all scores."""
    return w["W_K"] if spec.ignores_shifts else keys(w)


def free_key_biases(spec: Transformer, w: Tensors) -> bool:
    """Whether key biases shift all scores of a query equally, in dimensions that are not rotary."""
    return "b_K" in w and spec.still > 0 and spec.ignores_shifts and not spec.qknorm


def planes(spec: Transformer, rows: Array) -> Array:
    """The rows of a head (..., k, n) that turn, as complex rows (..., planes, n)."""
    first, second = _dimensions(spec)
    out = np.empty((*rows.shape[:-2], len(first), rows.shape[-1]), complex)
    out.real, out.imag = rows[..., first, :], rows[..., second, :]
    return out


def rotary_key(spec: Transformer, rows: Array) -> Array:
    """The rows of a rotary key or of its queries (..., rotary, n), as complex rows."""
    first, second = plane_dimensions(spec)
    return rows[..., first, :] + 1j * rows[..., second, :]


def paired(spec: Transformer, rows: Array) -> Array:
    """For every row of a head (..., k, n) that turns, the sum of the two rows of its plane."""
    first, second = _dimensions(spec)
    out = rows.copy()
    out[..., first, :] = out[..., second, :] = rows[..., first, :] + rows[..., second, :]
    return out


def first_of_pair(spec: Transformer, rows: Array) -> Array:
    """For every row of a head (..., k, n) that turns, the first row of its plane."""
    first, second = _dimensions(spec)
    out = rows.copy()
    out[..., second, :] = rows[..., first, :]
    return out


def still(spec: Transformer, rows: Array) -> Array:
    """The rows of a head (..., k, n) that do not turn."""
    return rows[..., turning(spec) :, :]


def free_planes(spec: Transformer, w: Tensors, near: float = 0.0) -> Array:
    """Under norms: planes with equal gains, whose queries and keys can turn together.

    (planes,), or (kv, planes) where every head has gains of its own.
    """
    first, second = _dimensions(spec)
    gains = (w["normq.gain"], w["normk.gain"])
    pairs = [(g[..., first, 0], g[..., second, 0]) for g in gains]
    same = [np.abs(x - y) <= near * np.maximum(np.abs(x), np.abs(y)) for x, y in pairs]
    if spec.qknorm == "all":
        same = [own.all(axis=1) for own in same]
    return np.asarray(same[0] & same[1])
