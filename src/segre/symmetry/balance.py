"""Factors of a product with equal Gram matrices, and the changes of basis that lead there."""

from __future__ import annotations

import numpy as np

from segre.fields.interface import Array
from segre.fields.threads import threads_for

DEFICIENT = 1e-10  # singular values below this fraction of the largest count as none
TIED = 1e-3  # singular values closer than this fraction of the largest count as equal


def balancing(right: Array, left: Array, slack: float = 0.0) -> tuple[Array, Array]:
    """P and G such that P @ right and left @ G have equal, diagonal Gram matrices, largest first.

    They are inverse to each other, unless the product lacks rank: then its last rows and columns
    are zero. Factors that are balanced to within `slack` stay as they are.
    """
    n = right.shape[-2]
    with threads_for(n):
        r1 = np.asarray(np.linalg.qr(right.swapaxes(-1, -2), mode="r")).swapaxes(-1, -2)
        r2 = np.asarray(np.linalg.qr(left, mode="r"))
        a, sigma, bh = np.linalg.svd(r2 @ r1)
    a, bh, sigma = a[..., :n], bh[..., :n, :], sigma[..., :n]
    if sigma.shape[-1] < n:  # wider than what it reads or writes
        more = [(0, 0)] * (a.ndim - 2), (0, n - sigma.shape[-1])
        sigma = np.pad(sigma, [*more[0], more[1]])
        a = np.pad(a, [*more[0], (0, 0), (0, n - a.shape[-1])])
        bh = np.pad(bh, [*more[0], (0, n - bh.shape[-2]), (0, 0)])
    sigma = np.where(sigma > DEFICIENT * sigma[..., :1], sigma, 0.0)
    root = np.sqrt(sigma)
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    G = r1 @ bh.swapaxes(-1, -2) * inverse[..., None, :]
    P = inverse[..., None] * (a.swapaxes(-1, -2) @ r2)
    if not slack:
        return P, G
    stays = _balanced(right, left, sigma, slack)[..., None, None]
    return np.where(stays, np.eye(n), P), np.where(stays, np.eye(n), G)


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


def clusters(sigma: Array) -> Array:
    """Numbers of groups of singular values (..., n), descending, that tie.

    >>> clusters(np.array([3.0, 2.0, 1.9999, 1.0])).tolist()
    [0, 1, 1, 2]
    """
    gaps = sigma[..., :-1] - sigma[..., 1:] > TIED * sigma[..., :1]
    return np.concatenate([np.zeros_like(gaps[..., :1], int), gaps.cumsum(axis=-1)], axis=-1)
