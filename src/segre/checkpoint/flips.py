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
from segre.symmetry.compact import Elements
from segre.symmetry.orders import gain_orders
from segre.symmetry.reduction import unsure
from segre.transformer.spec import Transformer

NORMED = ("normq", "normk")
SUBLAYERS = ("post1", "post2")


# --- between a sublayer and the stream ----------------------------------------------------------


def written_flips(
    spec: Transformer, part: str, one: Tensors, two: Tensors, near: float
) -> Elements:
    """The signs for which the sublayer outputs of `two` are closest to those of `one`."""
    out: Elements = {}
    for norm in _inside(spec, part):
        free = _either(one, two, norm, near)
        if free.any():
            rows = np.flatnonzero(free[:, 0])
            pairs = zip(_written(norm, one, rows), _written(norm, two, rows), strict=True)
            signs = _signs(free, sum((a * b).sum(axis=1) for a, b in pairs))
            out[norm] = gain_orders(spec, part)[norm].of(signs=signs[:, 0])
    return out


def chosen_flips(spec: Transformer, part: str, w: Tensors, near: float) -> Elements:
    """The signs with which rows whose gain nearly vanishes have positive weighted sums."""
    out: Elements = {}
    for norm in _inside(spec, part):
        free = unsure(w[f"{norm}.gain"], near)
        if free.any():
            rows = np.concatenate(list(_written(norm, w, np.flatnonzero(free))), axis=1)
            signs = _signs(free, rows @ weights(rows.shape[1]))
            out[norm] = gain_orders(spec, part)[norm].of(signs=signs[:, 0])
    return out


def _either(one: Tensors, two: Tensors, norm: str, near: float) -> Array:
    return unsure(one[f"{norm}.gain"], near) | unsure(two[f"{norm}.gain"], near)


def _signs(free: Array, inner: Array | float) -> Array:
    out = np.ones(free.shape)
    out[free] = np.where(np.asarray(inner) < 0, -1.0, 1.0)
    return out


def _inside(spec: Transformer, part: str) -> list[str]:
    return [norm for norm in SUBLAYERS if norm in gain_orders(spec, part)]


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


def asked_flips(spec: Transformer, part: str, one: Tensors, two: Tensors, near: float) -> Elements:
    """The signs with which queries and keys of `two` are nearest, half turns of planes aside.

    The heads have the same order already. Rows that are sure say which planes have turned.
    """
    own = spec.at(part)
    free = {norm: _either(one, two, norm, near) for norm in NORMED}
    if not any(found.any() for found in free.values()):
        return {}
    rows = {"normq": queries, "normk": keys}
    inner = {norm: (of(one) * of(two)).sum(axis=-1, keepdims=True) for norm, of in rows.items()}
    sure = {norm: np.where(free[norm], 0.0, inner[norm]) for norm in NORMED}
    turned = sum(paired(own, sure[norm]).sum(axis=1, keepdims=True) for norm in NORMED)
    turned = np.where(turned == 0, first_of_pair(own, inner["normk"]), turned)
    half = np.where(turned < 0, -1.0, 1.0)
    out: Elements = {}
    for norm, found in free.items():
        if found.any():
            along = inner[norm] * half
            if found.ndim == 2:  # all heads have the same gains
                along = along.sum(axis=(0, 1))
            signs = np.where(found & (along < 0), -1.0, 1.0)
            out[norm] = gain_orders(spec, part)[norm].of(signs=signs[..., 0])
    return out
