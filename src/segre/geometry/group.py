"""The symmetries of an architecture as maps of weights: apply one, draw one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from segre.fields.interface import Array
from segre.fields.linear import LinearAlgebra
from segre.geometry.normal_form import Head, stacked
from segre.weights import Weights


@dataclass(frozen=True)
class GroupElement:
    """A symmetry: bases of the tokens between layers, and per layer and head (G, D, scale), order.

    New layer i has, for its head h, with h' = order[h]: Q = G Q_h' C^-1 / c, K = G^-T K_h' C^-1,
    V = c C' V_h' C^-1 (or W_V = D W_V C^-1, W_O = c C' W_O D^-1), where C, C' are the bases before
    and after the layer (1 at both ends) and c is 1 for softmax.
    """

    bases: tuple[Array, ...]
    order: tuple[tuple[int, ...], ...]
    query_key: tuple[tuple[Array, ...], ...]
    value_output: tuple[tuple[Array, ...] | None, ...]
    scales: tuple[tuple[Any, ...], ...]

    def apply(self, weights: Weights) -> Weights:
        """The moved weights."""
        algebra = weights.algebra
        layers = []
        for i, own in enumerate(weights.layers):
            before, after = self.bases[i], self.bases[i + 1]
            heads: list[Head] = []
            for h, source in enumerate(self.order[i]):
                G, c = self.query_key[i][h], self.scales[i][h]
                Q = _right_divide(algebra, G @ own.W_Q[source], before) / c
                K = _right_divide(algebra, algebra.solve(G.T, own.W_K[source]), before)
                V = _right_divide(algebra, own.W_V[source], before)
                inner = self.value_output[i]
                if own.W_O is None or inner is None:
                    heads.append((K, Q, c * (after @ V), None))
                else:
                    D = inner[h]
                    out = c * (after @ _right_divide(algebra, own.W_O[source], D))
                    heads.append((K, Q, D @ V, out))
            layers.append(stacked(heads))
        return Weights.of_layers(weights.spec, layers)


def _right_divide(algebra: LinearAlgebra, matrix: Array, base: Array) -> Array:
    """matrix base^-1."""
    return np.asarray(algebra.solve(base.T, matrix.T).T)


def random_element(weights: Weights, seed: int = 0) -> GroupElement:
    """A random symmetry of the architecture, well conditioned, in the numbers of `weights`."""
    rng = np.random.default_rng(seed)
    spec = weights.network

    def regular(n: int) -> Array:
        if weights.exact:  # unit triangular times unit triangular: integers, determinant 1
            lower = np.tril(rng.integers(-2, 3, (n, n)), -1) + np.eye(n, dtype=int)
            upper = np.triu(rng.integers(-2, 3, (n, n)), 1) + np.eye(n, dtype=int)
            return weights.field.constant(lower @ upper)
        left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
        return np.asarray(left @ np.diag(rng.uniform(0.5, 2, n)) @ right)

    def scale() -> Any:
        if not spec.mechanism.scales:
            return 1
        if weights.exact:
            top, bottom = rng.integers(1, 6, 2).tolist()
            return weights.field.constant(np.array([top]))[0] / bottom
        return float(rng.uniform(0.5, 2) * rng.choice([-1, 1]))

    identity = [
        weights.field.constant(np.eye(n, dtype=int)) for n in (spec.widths[0], spec.widths[-1])
    ]
    bases = [identity[0], *(regular(n) for n in spec.widths[1:-1]), identity[1]]
    heads = list(spec.layers)
    return GroupElement(
        bases=tuple(bases),
        order=tuple(tuple(rng.permutation(head.heads).tolist()) for head in heads),
        query_key=tuple(tuple(regular(x.a) for _ in range(x.heads)) for x in heads),
        value_output=tuple(
            None if x.dv is None else tuple(regular(x.dv) for _ in range(x.heads)) for x in heads
        ),
        scales=tuple(tuple(scale() for _ in range(x.heads)) for x in heads),
    )
