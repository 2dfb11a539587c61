"""Symmetries of lightning stacks with many heads of small rank: some combinations of heads mix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.stack import inverse, place
from segre.geometry.reach import annihilator, parallel_tokens, reached
from segre.spec import Network


def mixing_pieces(spec: Network) -> Iterator[Piece]:
    """From the last layer to the first, as other pieces."""
    if not spec.mechanism.bilinear:
        return
    arrives, parallel = reached(spec), parallel_tokens(spec)
    for i in reversed(range(spec.depth)):
        head = spec.layers[i].attention
        free = arrives[i] - head.a
        if head.dv is None and not parallel[i] and free > 0 and head.heads - 1 > free * free:
            yield _mix_some(spec, i)


def _mix_some(spec: Network, i: int) -> Piece:
    """dV_h = c_h V_k for all h other than k, and dA_k = -sum_h c_h A_h, a rank a at most.

    On tokens B y a change X of A_k = K^T Q keeps the rank to first order if n^T X m = 0 for all n
    with K n = 0 and m with Q m = 0: so many equations for the c_h. Then X = dK^T Q + K^T dQ.
    """
    part, heads = str(i + 1), spec.layers[i].attention.heads

    def build(w: ModularWeights) -> Array:
        F, B = w.field, w.passage.images[i]
        K, Q = (F.matmul(w(part, name), B) for name in ("W_K", "W_Q"))
        V, A = w(part, "W_V"), F.matmul(F.transpose(K), Q)
        rows = []
        for k in range(heads):
            others = [h for h in range(heads) if h != k]
            left, right = annihilator(F, K[k]), annihilator(F, Q[k])
            seen = F.matmul(F.matmul(left[None], A[others]), right.T[None])
            for c in annihilator(F, np.ascontiguousarray(seen.reshape(len(others), -1).T)):
                canvas = w.canvas(1)
                canvas(part, "W_V")[0, others] = F.mul(c[:, None, None], V[k][None])
                flat = A[others].reshape(len(others), -1)
                X = -F.matmul(c[None], flat).reshape(A.shape[1:])
                dK, dQ = _factored(F, X, K[k], Q[k], B)
                canvas(part, "W_K")[0, k], canvas(part, "W_Q")[0, k] = dK, dQ
                rows.append(canvas.rows)
        return np.concatenate([np.zeros((0, spec.parameters)), *rows])

    name, where = "mixing of some heads", place(spec, "mix-some-heads", i + 1, None)
    return Piece("mix-some-heads", name, where, "", "exact", None, build, i + 1, None)


def _factored(F: Prime, X: Array, K: Array, Q: Array, B: Array) -> tuple[Array, Array]:
    """dK and dQ with dK^T Q + K^T dQ = X on tokens B y."""
    a, r = K.shape
    dQ = F.matmul(inverse(F, K[:, :a]).T, X[:a])
    rest = F.sub(X, F.matmul(K.T, dQ))
    dK = F.matmul(rest[:, :a], inverse(F, Q[:, :a])).T
    onto = np.zeros((r, len(B)))
    onto[:, :r] = inverse(F, B[:r])
    return F.matmul(dK, onto), F.matmul(dQ, onto)
