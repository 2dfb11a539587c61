"""Signs that rounding can lose: of rows whose gain is almost zero.

A gain after a sublayer, or one of queries or keys, has its sign in common with the rows that its
norm is of: both can change it. Reduced gains are positive, unless they are nearly zero. Then
rounding may have changed their sign, or lost it, and the rows themselves say which it was.
"""

from __future__ import annotations

import numpy as np

from segre.checkpoint.elements import signs_of, weights
from segre.checkpoint.layout import Tensors
from segre.checkpoint.planes import first_of_pair, keys, paired, queries
from segre.fields.interface import Array
from segre.symmetry.compact import Elements
from segre.symmetry.orders import gain_orders
from segre.symmetry.reduction import unsure
from segre.transformer.spec import Transformer

NORMED = {"normq": queries, "normk": keys}  # by norm, the rows that it is of
SUBLAYERS = ("post1", "post2")


def _free(norm: str, near: float, *models: Tensors) -> Array:
    """The gains that have either sign in one of two models."""
    return np.asarray(np.any([unsure(w[f"{norm}.gain"], near) for w in models], axis=0))


def written_flips(
    spec: Transformer, part: str, w: Tensors, near: float, like: Tensors | None = None
) -> Elements:
    """The signs for which the sublayer outputs of `w` are closest to those of `like`.

    Without another model, those with which they have positive weighted sums.
    """
    out: Elements = {}
    for norm, group in gain_orders(spec, part).items():
        if norm not in SUBLAYERS:
            continue
        rows = np.flatnonzero(_free(norm, near, w, w if like is None else like)[:, 0])
        if len(rows):
            own = _written(norm, w, rows)
            other = weights(own.shape[1]) if like is None else _written(norm, like, rows)
            signs = np.ones(spec.d)
            signs[rows] = signs_of((own * other).sum(axis=1))
            out[norm] = group.of(signs=signs)
    return out


def _written(norm: str, w: Tensors, rows: Array) -> Array:
    """Rows of the linear maps of a sublayer: the same for all orders and bases within it."""
    if norm == "post1":
        linear = np.einsum("hgdv,hvn->dn", w["W_O"][:, :, rows], w["W_V"][:, 0], optimize=True)
    else:
        linear = w["W_down"][rows] @ w["W_up"]
    bias = "b_O" if norm == "post1" else "b_down"
    return np.concatenate([linear, w[bias][rows]], axis=1) if bias in w else np.asarray(linear)


def asked_flips(spec: Transformer, part: str, one: Tensors, two: Tensors, near: float) -> Elements:
    """The signs with which queries and keys of `two` are nearest, half turns of planes aside.

    The heads have the same order already. Rows that are sure say which planes have turned.
    """
    own, group = spec.at(part), gain_orders(spec, part)
    free = {norm: _free(norm, near, one, two) for norm in NORMED}
    if not any(found.any() for found in free.values()):
        return {}
    inner = {n: (of(one) * of(two)).sum(axis=-1, keepdims=True) for n, of in NORMED.items()}
    sure = {norm: np.where(free[norm], 0.0, inner[norm]) for norm in NORMED}
    turned = sum(paired(own, sure[norm]).sum(axis=1, keepdims=True) for norm in NORMED)
    half = signs_of(np.where(turned == 0, first_of_pair(own, inner["normk"]), turned))
    out: Elements = {}
    for norm, found in free.items():
        if found.any():
            along = inner[norm] * half
            if found.ndim == 2:  # all heads have the same gains
                along = along.sum(axis=(0, 1))
            out[norm] = group[norm].of(signs=np.where(found, signs_of(along), 1.0)[..., 0])
    return out
