"""Signs that rounding can lose: of rows whose gain is almost zero.

A gain after a sublayer, or one of queries or keys, has its sign in common with the rows that its
norm is of: both can change it. Reduced gains are positive, unless they are nearly zero. Then
rounding may have changed their sign, or lost it, and the rows themselves say which it was.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.checkpoint.frame import weights
from segre.checkpoint.layout import Tensors
from segre.checkpoint.planes import first_of_pair, keys, paired, queries
from segre.fields.interface import Array
from segre.symmetry.wiring import writer_bias, writers
from segre.transformer.spec import Transformer

Flips = dict[str, Array]  # by norm, a sign for each of its gains

NORMED = {"normq": ("W_Q", "b_Q"), "normk": ("W_K", "b_K")}
SUBLAYERS = {"post1": "attention", "post2": "mlp"}


def rows_of(spec: Transformer, norm: str) -> tuple[str, ...]:
    """The tensors whose rows a norm is of, which has signs in common with them."""
    if norm in NORMED:
        return NORMED[norm]
    end = ("1", SUBLAYERS[norm])
    names = [*writers(spec, end), writer_bias(spec, end)]
    return tuple(name for name in names if name is not None)


def flip(spec: Transformer, w: Tensors, norm: str, signs: Array) -> None:
    """Change signs of gains and of the rows that they are gains of, in place: both cancel."""
    for name in (f"{norm}.gain", *rows_of(spec, norm)):
        if name in w:
            w[name] = w[name] * signs


def unsure(gain: Array, near: float) -> Array:
    """Which gains are so small that rounding may have changed their sign.

    Some files have a gain less 1, so that the error is at least that of numbers like 1.
    """
    return np.asarray(np.abs(gain) <= near * max(1.0, float(np.abs(gain).max(initial=0.0))))


# --- between a sublayer and the stream ----------------------------------------------------------


def written_flips(spec: Transformer, one: Tensors, two: Tensors, near: float) -> Flips:
    """The signs for which the sublayer outputs of `two` are closest to those of `one`."""
    out: Flips = {}
    for norm in _inside(spec, one):
        free = _either(one, two, norm, near)
        if free.any():
            rows = np.flatnonzero(free[:, 0])
            pairs = zip(_written(norm, one, rows), _written(norm, two, rows), strict=True)
            out[norm] = _signs(free, sum((a * b).sum(axis=1) for a, b in pairs))
    return out


def chosen_flips(spec: Transformer, w: Tensors, near: float) -> Flips:
    """The signs with which rows whose gain nearly vanishes have positive weighted sums."""
    out: Flips = {}
    for norm in _inside(spec, w):
        free = unsure(w[f"{norm}.gain"], near)
        if free.any():
            rows = np.concatenate(list(_written(norm, w, np.flatnonzero(free))), axis=1)
            out[norm] = _signs(free, rows @ weights(rows.shape[1]))
    return out


def _either(one: Tensors, two: Tensors, norm: str, near: float) -> Array:
    return unsure(one[f"{norm}.gain"], near) | unsure(two[f"{norm}.gain"], near)


def _signs(free: Array, inner: Array | float) -> Array:
    out = np.ones(free.shape)
    out[free] = np.where(np.asarray(inner) < 0, -1.0, 1.0)
    return out


def _inside(spec: Transformer, w: Tensors) -> list[str]:
    return [norm for norm in SUBLAYERS if spec.normed_inside and f"{norm}.gain" in w]


def _written(norm: str, w: Tensors, rows: Array) -> Iterator[Array]:
    """Rows of the linear maps of a sublayer: the same for all orders and bases within it."""
    if norm == "post1":
        yield np.einsum("hgdv,hvn->dn", w["W_O"][:, :, rows], w["W_V"][:, 0], optimize=True)
    else:
        yield w["W_down"][rows] @ w["W_up"]
    bias = "b_O" if norm == "post1" else "b_down"
    if bias in w:
        yield w[bias][rows]


# --- queries and keys -----------------------------------------------------------------------------


def asked_flips(spec: Transformer, one: Tensors, two: Tensors, near: float) -> Flips:
    """The signs with which queries and keys of `two` are nearest, half turns of planes aside.

    The heads have the same order already. Rows that are sure say which planes have turned.
    """
    if not spec.qknorm:
        return {}
    free = {norm: _either(one, two, norm, near) for norm in NORMED}
    if not any(found.any() for found in free.values()):
        return {}
    rows = {"normq": queries, "normk": keys}
    inner = {norm: (of(one) * of(two)).sum(axis=-1, keepdims=True) for norm, of in rows.items()}
    sure = {norm: np.where(free[norm], 0.0, inner[norm]) for norm in NORMED}
    turned = sum(paired(spec, sure[norm]).sum(axis=1, keepdims=True) for norm in NORMED)
    turned = np.where(turned == 0, first_of_pair(spec, inner["normk"]), turned)
    half = np.where(turned < 0, -1.0, 1.0)
    out: Flips = {}
    for norm, found in free.items():
        if found.any():
            along = inner[norm] * half
            if found.ndim == 2:  # all heads have the same gains
                along = along.sum(axis=(0, 1))
            out[norm] = np.where(found & (along < 0), -1.0, 1.0)
    return out
