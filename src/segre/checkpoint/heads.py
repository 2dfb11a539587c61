"""The gauge of heads: balanced factors, and the freedom that remains.

Queries and keys matter through their product, values and outputs through theirs; the factors can
be changed by any invertible matrix (any complex number in each plane, where queries and keys
turn; one scale for each plane, where they are normed first). Where a part of a head turns, planes
and the rest have each their own. Balanced factors have equal Gram
matrices, so that only orthogonal matrices (phases, half turns) are left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from segre.checkpoint.flips import NORMED, flip
from segre.checkpoint.frame import TIED, clusters
from segre.checkpoint.layout import Tensors
from segre.checkpoint.planes import (
    both_rows,
    keys,
    met_keys,
    planes,
    queries,
    set_planes,
    set_still,
    still,
    turned,
    turning,
)
from segre.fields.interface import Array
from segre.fields.threads import threads_for
from segre.transformer.spec import Transformer

DEFICIENT = 1e-10  # singular values below this fraction of the largest count as none


@dataclass
class HeadGauge:
    """What balancing took off: stored factors are these matrices times the balanced ones."""

    vo: Array  # (kv, v, v): W_V = vo W_V', W_O = W_O' / vo
    planes: Array | None = None  # (kv, planes) factors of what turns: of keys, against queries
    basis: Array | None = None  # (kv, s, s) likewise for the s dimensions of W_K that do not turn
    gains: Array | None = None  # (planes,) or (kv, planes) factors of the keys' gains, under norms
    signs: tuple[Array, Array] | None = None  # of the gains of queries and keys
    bias: Array | None = None  # (kv, 1, v, 1): part of the value biases that writes nothing


def balance(spec: Transformer, w: Tensors, slack: float = 0.0) -> HeadGauge:
    """Balance the heads of a layer in place; what is balanced to within `slack` stays."""
    V = w["W_V"][:, 0]
    left = np.concatenate(list(w["W_O"].swapaxes(0, 1)), axis=1)  # (kv, group * d, v)
    V, left, vo = balanced_pair(V, left, slack)
    bias = None
    w["W_V"] = V[:, None]
    w["W_O"] = np.stack(np.split(left, spec.group, axis=1), axis=1)
    if "b_V" in w:
        w["b_V"] = np.linalg.solve(vo, w["b_V"][:, 0])[:, None]
        if "b_O" not in w and spec.sums_to_one:
            bias = w["b_V"] - least_bias(w["W_O"], w["b_V"])
            if np.linalg.norm(bias) <= slack * np.linalg.norm(w["b_V"]):
                bias = np.zeros_like(bias)
            w["b_V"] = w["b_V"] - bias
    gauge = HeadGauge(vo, bias=bias)
    if spec.qknorm:
        gauge.signs = _positive_gains(spec, w)
        gauge.gains = _balance_gains(spec, w, slack)
        return gauge
    if turning(spec):
        gauge.planes = _plane_scales(spec, w, slack)
        turned(spec, w, 1 / gauge.planes)
    if spec.still:
        asked = still(spec, queries(w))
        left = np.concatenate(list(asked.swapaxes(0, 1)), axis=2).swapaxes(1, 2)
        K, left, gauge.basis = balanced_pair(still(spec, met_keys(spec, w))[:, 0], left, slack)
        Q = np.stack(np.split(left.swapaxes(1, 2), spec.group, axis=2), axis=1)
        set_still(spec, w, Q, K[:, None])
    return gauge


def unbalance(spec: Transformer, w: Tensors, gauge: HeadGauge) -> None:
    """Inverse of `balance`, for a given gauge."""
    vo = gauge.vo[:, None]
    if "b_V" in w:
        if gauge.bias is not None:
            w["b_V"] = w["b_V"] + gauge.bias - least_bias(w["W_O"], gauge.bias)
        w["b_V"] = vo @ w["b_V"]
    w["W_V"] = vo @ w["W_V"]
    w["W_O"] = w["W_O"] @ np.linalg.inv(vo)
    if spec.qknorm:
        assert gauge.gains is not None
        assert gauge.signs is not None
        factor = both_rows(spec, gauge.gains)
        for norm, signs, by in zip(NORMED, gauge.signs, (1 / factor, factor), strict=True):
            w[f"{norm}.gain"] = w[f"{norm}.gain"] * by
            flip(spec, w, norm, signs)
        return
    if gauge.planes is not None:
        turned(spec, w, gauge.planes)
    if gauge.basis is not None:
        by = gauge.basis[:, None]
        asked = np.linalg.inv(by).swapaxes(-1, -2) @ still(spec, queries(w))
        set_still(spec, w, asked, by @ still(spec, met_keys(spec, w)))


def balanced_pair(right: Array, left: Array, slack: float = 0.0) -> tuple[Array, Array, Array]:
    """Factors of left @ right with equal, diagonal Gram matrices, largest first; and the gauge.

    right = gauge @ balanced right, left @ gauge = balanced left. Of a product that lacks rank the
    last rows and columns are zero; its gauge is the identity, for want of a better one.
    """
    n = right.shape[-2]
    with threads_for(n):
        r1 = np.asarray(np.linalg.qr(right.swapaxes(-1, -2), mode="r")).swapaxes(-1, -2)
        r2 = np.asarray(np.linalg.qr(left, mode="r"))
        a, sigma, bh = np.linalg.svd(r2 @ r1)
    a, bh, sigma = a[..., :n], bh[..., :n, :], sigma[..., :n]
    full = sigma[..., -1:] > DEFICIENT * sigma[..., :1]
    sigma = np.where(sigma > DEFICIENT * sigma[..., :1], sigma, 0.0)
    root = np.sqrt(sigma)
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    gauge = r1 @ bh.swapaxes(-1, -2) * inverse[..., None, :]
    new_right = (inverse[..., None] * (a.swapaxes(-1, -2) @ r2)) @ right
    new_left = left @ gauge
    gauge = np.where(full[..., None], gauge, np.eye(n))
    if slack:
        stays = _balanced(right, left, sigma, slack)[..., None, None]
        new_right, new_left = np.where(stays, right, new_right), np.where(stays, left, new_left)
        gauge = np.where(stays, np.eye(n), gauge)
    return new_right, new_left, gauge


def _balanced(right: Array, left: Array, sigma: Array, slack: float) -> Array:
    """Which pairs have equal Gram matrices, diagonal up to ties of singular values."""
    one, two = right @ right.swapaxes(-1, -2), left.swapaxes(-1, -2) @ left
    near = slack * sigma.sum(axis=-1)
    group = clusters(sigma)
    apart = group[..., :, None] != group[..., None, :]
    off = np.where(apart, np.abs(one), 0.0).max(axis=(-1, -2))
    sorts = np.abs(np.diagonal(one, axis1=-1, axis2=-2) - sigma).max(axis=-1)
    spread = near + sigma.shape[-1] * TIED * sigma[..., 0]
    return np.asarray(
        (np.abs(one - two).max(axis=(-1, -2)) <= near) & (off <= near) & (sorts <= spread)
    )


def least_bias(W_O: Array, b_V: Array) -> Array:
    """The smallest value biases that write the same sum, where several do."""
    kv, _, d, v = W_O.shape
    if kv * v <= d:
        return b_V
    joined = W_O.sum(axis=1).swapaxes(0, 1).reshape(d, kv * v)
    _, sigma, rows = np.linalg.svd(joined, full_matrices=False)
    rows = rows[sigma > DEFICIENT * sigma[0]]
    return np.asarray((rows.T @ (rows @ b_V.reshape(kv * v, 1))).reshape(b_V.shape))


# --- queries and keys -----------------------------------------------------------------------------


def _plane_scales(spec: Transformer, w: Tensors, slack: float) -> Array:
    """Factors of the keys, by plane, over those with norms equal to the queries'.

    A plane without queries or without keys has no score: both are set to zero.
    """
    q, k = (np.sqrt((np.abs(planes(spec, x)) ** 2).sum(axis=(1, 3))) for x in (queries(w), keys(w)))
    alive = (q > 0) & (k > 0)
    if not alive.all():
        for name in ("W_Q", "b_Q", "W_K", "b_K"):
            if name in w:
                set_planes(spec, w, name, planes(spec, w[name]) * alive[:, None, :, None])
    factor = np.sqrt(np.where(alive, k, 1) / np.where(alive, q, 1))
    return np.where(np.abs(factor - 1) <= slack, 1.0, factor).astype(complex)


def _positive_gains(spec: Transformer, w: Tensors) -> tuple[Array, Array]:
    out = []
    for norm in NORMED:
        signs = np.where(w[f"{norm}.gain"] < 0, -1.0, 1.0)
        flip(spec, w, norm, signs)
        out.append(signs)
    return out[0], out[1]


def _plane_gains(spec: Transformer, gain: Array) -> Array:
    """Norms of the gains by plane: (planes,), or (kv, planes) where every head has its own."""
    sizes = np.abs(planes(spec, gain))[..., 0]
    return sizes if sizes.ndim == 1 else np.asarray(np.linalg.norm(sizes, axis=1))


def _balance_gains(spec: Transformer, w: Tensors, slack: float) -> Array:
    """Equal norms of the gains of queries and keys in each plane; factors of the keys' gains.

    A plane without gains of queries or of keys has no score: both are set to zero.
    """
    q, k = (_plane_gains(spec, w[f"{norm}.gain"]) for norm in NORMED)
    alive = (q > 0) & (k > 0)
    if not alive.all():
        for norm in NORMED:
            w[f"{norm}.gain"] = w[f"{norm}.gain"] * both_rows(spec, alive)
    factor: Array = np.sqrt(np.where(alive, k, 1) / np.where(alive, q, 1))
    factor[np.abs(factor - 1) <= slack] = 1.0
    both = both_rows(spec, factor)
    w["normk.gain"] = w["normk.gain"] / both
    w["normq.gain"] = w["normq.gain"] * both
    return factor
