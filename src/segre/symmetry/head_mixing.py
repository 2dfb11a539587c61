"""Heads whose weights are the scores themselves: which combinations of them can mix?

Such heads compute sum_h V_h (x) A_h with A_h = K_h^T Q_h, on tokens B y. V_h gains a multiple of
V_k while A_k loses the same multiple of A_h, if that keeps the rank that A_k may have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from segre.errors import UnluckyError
from segre.fields.exchange import exchange
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.symmetry.reach import annihilator

Tangents = tuple[Array, Array, Array]  # of K, Q and V, head by head


@dataclass(frozen=True)
class BilinearHeads:
    """The maps of the heads, (heads, rows, columns), and a basis B of the tokens, in columns."""

    field: Prime
    K: Array
    Q: Array
    V: Array
    B: Array

    def zero(self) -> Tangents:
        """A change of nothing, to be filled."""
        return np.zeros_like(self.K), np.zeros_like(self.Q), np.zeros_like(self.V)

    def of_full_rank(self, parallel: bool) -> Iterator[Tangents]:
        """All of GL(heads), where A_k has any rank that the tokens allow.

        dQ_k = -R_k B^T A_h with (K_k B)^T R_k = 1. For parallel tokens only the symmetric part
        counts: with C = (K; Q) and J exchanging the two, C^T J C is twice it, and
        dC_k = -J R_k B^T (A_h + A_h^T) / 2 with (C_k B)^T R_k = 1.
        """
        F, (heads, a, _), r = self.field, self.K.shape, self.B.shape[1]
        A = F.matmul(F.transpose(self.K), self.Q)
        for h in range(heads):
            for k in range(heads):
                if h == k:
                    continue
                dK, dQ, dV = self.zero()
                dV[h] = self.V[k]
                if parallel:
                    C = np.concatenate([self.K[k], self.Q[k]])
                    halved = F.constant(np.array((F.p - 1) // 2)) * F.add(A[h], A[h].T)
                    dC = np.zeros_like(C)
                    right = F.matmul(self.B.T, F.reduce(halved))
                    dC[:r] = _solve(F, F.matmul(C[:r], self.B), right)
                    dK[k], dQ[k] = dC[a:], dC[:a]
                else:
                    right = F.matmul(self.B.T, A[h])
                    dQ[k, :r] = -_solve(F, F.matmul(self.K[k, :r], self.B), right)
                yield dK, dQ, dV

    def of_small_rank(self) -> Iterator[Tangents]:
        """dV_h = c_h V_k for all h other than k, and dA_k = -sum_h c_h A_h.

        On tokens B y a change X of A_k = K^T Q keeps the rank to first order if n^T X m = 0 for
        all n with K n = 0 and m with Q m = 0: so many equations for the c_h. Then
        X = dK^T Q + K^T dQ.
        """
        F, B = self.field, self.B
        K, Q = F.matmul(self.K, B), F.matmul(self.Q, B)
        A = F.matmul(F.transpose(K), Q)
        for k in range(len(K)):
            others = [h for h in range(len(K)) if h != k]
            left, right = annihilator(F, K[k]), annihilator(F, Q[k])
            seen = F.matmul(F.matmul(left[None], A[others]), right.T[None])
            for c in annihilator(F, np.ascontiguousarray(seen.reshape(len(others), -1).T)):
                dK, dQ, dV = self.zero()
                dV[others] = F.mul(c[:, None, None], self.V[k][None])
                flat = A[others].reshape(len(others), -1)
                X = -F.matmul(c[None], flat).reshape(A.shape[1:])
                dK[k], dQ[k] = _factored(F, X, K[k], Q[k], B)
                yield dK, dQ, dV


def _factored(F: Prime, X: Array, K: Array, Q: Array, B: Array) -> tuple[Array, Array]:
    """dK and dQ with dK^T Q + K^T dQ = X on tokens B y."""
    a, r = K.shape
    dQ = F.matmul(inverse(F, K[:, :a]).T, X[:a])
    rest = F.sub(X, F.matmul(K.T, dQ))
    dK = F.matmul(rest[:, :a], inverse(F, Q[:, :a])).T
    onto = np.zeros((r, len(B)))
    onto[:, :r] = inverse(F, B[:r])
    return F.matmul(dK, onto), F.matmul(dQ, onto)


def _solve(field: Prime, square: Array, right: Array) -> Array:
    """The solution Y of square^T Y = right."""
    return field.matmul(inverse(field, square.T), right)


def inverse(field: Prime, matrix: Array) -> Array:
    """The inverse of a square matrix; raises UnluckyError if it is singular."""
    tableau = np.array(matrix)
    rows, columns = exchange(field, tableau)
    if len(rows) < len(matrix):
        raise UnluckyError("a matrix to be inverted is singular at this point; try another seed")
    out = np.empty_like(tableau)
    out[np.ix_(columns, rows)] = tableau[np.ix_(rows, columns)]
    return out
