"""One lightning layer as a polynomial: its coefficients, and their derivatives.

Output o at query x_q is sum_k v_o(x_k) a(x_k, x_q): for each output o and each entry f of the query
a product of two linear forms, v_o (row o of V) and a_f (column f of A). Only the symmetrised
product is visible, so with t > 1 tokens the function is the tensor

    T[o, i, j, f] = sum_h  V_h[o, i] A_h[j, f] + V_h[o, j] A_h[i, f].
"""

from __future__ import annotations

import numpy as np

from segre.fields.interface import Array


def coefficient_tensor(V: Array, A: Array) -> Array:
    """T of one head, or of several along the first axis of V and A.

    >>> V, A = np.array([[1, 2]]), np.array([[3, 0], [4, 0]])
    >>> coefficient_tensor(V, A)[0, :, :, 0]
    array([[ 6, 10],
           [10, 16]])
    """
    if V.ndim == 2:
        V, A = V[None], A[None]
    product = (V[:, :, :, None, None] * A[:, None, None, :, :]).sum(axis=0)
    return np.asarray(product + product.swapaxes(1, 2))


def scale_place(A: Array) -> int:
    """The entry of A (row-major) that fixing the scale of a lightning head makes 1.

    In fractions the first that is not zero; in floats the first of the largest, with some slack so
    that rounding does not choose between entries of equal size. A must have entries.
    """
    flat = A.reshape(-1)
    if A.dtype == object:
        return int(np.argmax(flat != 0))
    size = np.abs(flat)
    return int(np.argmax(size > size.max() * (1 - 1e-6)))


def tangent_vectors(V: Array, K: Array, Q: Array) -> Array:
    """Derivatives of T at weights (V, K, Q) of one head, by all weights: one per row.

    T is bilinear in V and A = K^T Q, so each is the tensor of a changed factor.
    """
    A = K.T @ Q
    rows = [coefficient_tensor(_unit(V, o, i), A) for o, i in np.ndindex(V.shape)]
    rows += [coefficient_tensor(V, _unit(K, r, j).T @ Q) for r, j in np.ndindex(K.shape)]
    rows += [coefficient_tensor(V, K.T @ _unit(Q, r, f)) for r, f in np.ndindex(Q.shape)]
    return np.stack([row.reshape(-1) for row in rows])


def _unit(like: Array, row: int, column: int) -> Array:
    """The matrix with a single one, in the numbers of `like`."""
    out = like - like
    out[row, column] = out[row, column] + 1
    return np.asarray(out)
