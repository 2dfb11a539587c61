"""The gauge of heads: balanced factors, and what is left of the freedom once they are.

Queries and keys matter through their product, values and outputs through theirs; the factors can
be changed by any invertible matrix (any complex number in each plane, where queries and keys
turn; one scale for each plane, where they are normed first). Balanced factors have equal Gram
matrices, so that only orthogonal matrices (phases, half turns) are left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from segre.checkpoint.frame import TIED, clusters
from segre.checkpoint.layout import Tensors
from segre.fields.interface import Array
from segre.fields.threads import threads_for
from segre.transformer.spec import Transformer

DEFICIENT = 1e-10  # singular values below this fraction of the largest count as none


@dataclass
class HeadGauge:
    """What balancing took off: stored factors are these matrices times the balanced ones."""

    vo: Array  # (kv, v, v): W_V = vo W_V', W_O = W_O' / vo
    qk: Array | None = None  # (kv, k, k) likewise for W_K; (kv, planes) factors, where they turn
    gains: Array | None = None  # (planes,) factors of the keys' gains, under norms
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
        if "b_O" not in w:
            bias = w["b_V"] - least_bias(w["W_O"], w["b_V"])
            if np.linalg.norm(bias) <= slack * np.linalg.norm(w["b_V"]):
                bias = np.zeros_like(bias)
            w["b_V"] = w["b_V"] - bias
    gauge = HeadGauge(vo, bias=bias)
    if spec.qknorm:
        gauge.signs = _positive_gains(w)
        gauge.gains = _balance_gains(w, slack)
        return gauge
    if spec.pos == "rope":
        gauge.qk = _plane_scales(w, slack)
        turned(w, 1 / gauge.qk)
        return gauge
    left = np.concatenate(list(queries(w).swapaxes(0, 1)), axis=2).swapaxes(1, 2)
    K0, left, gauge.qk = balanced_pair(w["W_K"][:, 0], left, slack)
    Q = np.stack(np.split(left.swapaxes(1, 2), spec.group, axis=2), axis=1)
    w["W_K"] = K0[:, None]
    set_queries(w, Q)
    return gauge


def unbalance(spec: Transformer, w: Tensors, gauge: HeadGauge) -> None:
    """Inverse of `balance`, for a gauge of one's own."""
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
        factor = np.tile(gauge.gains, 2)[:, None]
        for norm, letter, signs, by in (
            ("normq", "Q", gauge.signs[0], 1 / factor),
            ("normk", "K", gauge.signs[1], factor),
        ):
            w[f"{norm}.gain"] = w[f"{norm}.gain"] * by * signs
            w[f"W_{letter}"] = w[f"W_{letter}"] * signs
    elif spec.pos == "rope":
        assert gauge.qk is not None
        turned(w, gauge.qk)
    else:
        assert gauge.qk is not None
        qk = gauge.qk[:, None]
        w["W_K"] = qk @ w["W_K"]
        set_queries(w, np.linalg.inv(qk).swapaxes(-1, -2) @ queries(w))


def balanced_pair(right: Array, left: Array, slack: float = 0.0) -> tuple[Array, Array, Array]:
    """Factors of left @ right with equal, diagonal Gram matrices, largest first; and the gauge.

    right = gauge @ balanced right, left @ gauge = balanced left. Of a product that lacks rank the
    last rows and columns are zero; its gauge is the identity, for want of a better one.
    """
    n = right.shape[-2]
    with threads_for(n):
        q1, r1 = np.linalg.qr(right.swapaxes(-1, -2))
        q2, r2 = np.linalg.qr(left)
        a, sigma, bh = np.linalg.svd(r2 @ r1.swapaxes(-1, -2))
    a, bh, sigma = a[..., :n], bh[..., :n, :], sigma[..., :n]
    full = sigma[..., -1:] > DEFICIENT * sigma[..., :1]
    sigma = np.where(sigma > DEFICIENT * sigma[..., :1], sigma, 0.0)
    root = np.sqrt(sigma)
    new_right = root[..., None] * (bh @ q1.swapaxes(-1, -2))
    new_left = (q2 @ a) * root[..., None, :]
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    gauge = r1.swapaxes(-1, -2) @ bh.swapaxes(-1, -2) * inverse[..., None, :]
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


# --- queries and keys with their biases as one more column -------------------------------------


def queries(w: Tensors) -> Array:
    """(kv, group, k, d), and a column for the bias if there is one."""
    return np.concatenate([w["W_Q"], w["b_Q"]], axis=-1) if "b_Q" in w else w["W_Q"]


def keys(w: Tensors) -> Array:
    """(kv, 1, k, d), and a column for the bias if there is one."""
    return np.concatenate([w["W_K"], w["b_K"]], axis=-1) if "b_K" in w else w["W_K"]


def set_queries(w: Tensors, Q: Array) -> None:
    """Inverse of `queries`, in place."""
    if "b_Q" in w:
        w["b_Q"] = Q[..., -1:]
    w["W_Q"] = Q[..., : w["W_Q"].shape[-1]]


def planes(rows: Array) -> Array:
    """Rows (..., k, n) that turn in planes, as complex rows (..., k/2, n): half layout."""
    half = rows.shape[-2] // 2
    return rows[..., :half, :] + 1j * rows[..., half:, :]


def rows(complex_rows: Array) -> Array:
    """Inverse of `planes`."""
    return np.concatenate([complex_rows.real, complex_rows.imag], axis=-2)


def turned(w: Tensors, factors: Array) -> None:
    """Multiply the planes of keys by (kv, planes) factors, of queries by inverse conjugates.

    Scores are Re conj(q) k, whatever the angle between the tokens: they stay.
    """
    for letter, by in (("K", factors), ("Q", 1 / np.conj(factors))):
        for kind in "Wb":
            name = f"{kind}_{letter}"
            if name in w:
                w[name] = rows(planes(w[name]) * by[:, None, :, None])


def _plane_scales(w: Tensors, slack: float) -> Array:
    """Factors of the keys, by plane, over those with norms equal to the queries'.

    A plane without queries or without keys has no score: both are set to zero.
    """
    q, k = (np.sqrt((np.abs(planes(x)) ** 2).sum(axis=(1, 3))) for x in (queries(w), keys(w)))
    alive = (q > 0) & (k > 0)
    if not alive.all():
        mask = np.concatenate([alive, alive], axis=-1)[:, None, :, None]
        for name in ("W_Q", "b_Q", "W_K", "b_K"):
            if name in w:
                w[name] = w[name] * mask
    factor = np.sqrt(np.where(alive, k, 1) / np.where(alive, q, 1))
    return np.where(np.abs(factor - 1) <= slack, 1.0, factor).astype(complex)


def _positive_gains(w: Tensors) -> tuple[Array, Array]:
    out = []
    for norm, letter in (("normq", "Q"), ("normk", "K")):
        signs = np.where(w[f"{norm}.gain"] < 0, -1.0, 1.0)
        w[f"{norm}.gain"] = w[f"{norm}.gain"] * signs
        w[f"W_{letter}"] = w[f"W_{letter}"] * signs
        out.append(signs)
    return out[0], out[1]


def _balance_gains(w: Tensors, slack: float) -> Array:
    """Equal norms of the gains of queries and keys in each plane; factors of the keys' gains."""
    q, k = (np.abs(planes(w[f"{norm}.gain"]))[:, 0] for norm in ("normq", "normk"))
    factor: Array = np.where((q > 0) & (k > 0), np.sqrt(k / np.where(q > 0, q, 1)), 1.0)
    factor[np.abs(factor - 1) <= slack] = 1.0
    both = np.tile(factor, 2)[:, None]
    w["normk.gain"] = w["normk.gain"] / both
    w["normq.gain"] = w["normq.gain"] * both
    return factor


def free_planes(w: Tensors, near: float = 0.0) -> Array:
    """Under norms: planes with equal gains, whose queries and keys can turn together."""
    half = len(w["normq.gain"]) // 2
    pairs = [(g[:half, 0], g[half:, 0]) for g in (w["normq.gain"], w["normk.gain"])]
    same = [np.abs(x - y) <= near * np.maximum(np.abs(x), np.abs(y)) for x, y in pairs]
    return np.asarray(same[0] & same[1])
