"""The symmetries of an architecture as maps of weights: apply one, draw one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from segre.fields.interface import Array
from segre.fields.linear import LinearAlgebra
from segre.geometry.normal_form import stacked
from segre.weights import Weights


@dataclass(frozen=True)
class HeadMove:
    """What makes a head of another head of the layer: G, D (where values are factored), and c.

    Q = G Q' C^-1 / c, K = G^-T K' C^-1, V = c C' V' C^-1 (or W_V = D W_V' C^-1, W_O = c C' W_O'
    D^-1), where C, C' are the bases before and after the layer and c is 1 for softmax.
    """

    source: int
    query_key: Array
    value_output: Array | None
    scale: Any


@dataclass(frozen=True)
class GroupElement:
    """A symmetry: bases of the tokens between layers (1 at both ends), and the heads it makes."""

    bases: tuple[Array, ...]
    heads: tuple[tuple[HeadMove, ...], ...]

    @property
    def order(self) -> tuple[tuple[int, ...], ...]:
        """Which head each head is made of, layer by layer."""
        return tuple(tuple(head.source for head in layer) for layer in self.heads)

    def apply(self, weights: Weights) -> Weights:
        """The moved weights."""
        algebra = weights.algebra
        layers = []
        for own, moves, before, after in zip(
            weights.layers, self.heads, self.bases, self.bases[1:], strict=False
        ):
            heads = []
            for move in moves:
                h, G, D, c = move.source, move.query_key, move.value_output, move.scale
                Q = _right_divide(algebra, G @ own.W_Q[h], before) / c
                K = _right_divide(algebra, algebra.solve(G.T, own.W_K[h]), before)
                V = _right_divide(algebra, own.W_V[h], before)
                if own.W_O is None or D is None:
                    heads.append((K, Q, c * (after @ V), None))
                else:
                    out = c * (after @ _right_divide(algebra, own.W_O[h], D))
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

    first, *inner, last = spec.widths
    bases = [identity(weights, first), *map(regular, inner), identity(weights, last)]
    order = [rng.permutation(layer.heads).tolist() for layer in spec.layers]
    query_key = [[regular(layer.a) for _ in range(layer.heads)] for layer in spec.layers]
    value_output = [
        [None if layer.dv is None else regular(layer.dv) for _ in range(layer.heads)]
        for layer in spec.layers
    ]
    scales = [[scale() for _ in range(layer.heads)] for layer in spec.layers]
    layers = zip(order, query_key, value_output, scales, strict=True)
    heads = (tuple(map(HeadMove, *layer)) for layer in layers)
    return GroupElement(tuple(bases), tuple(heads))


def identity(weights: Weights, n: int) -> Array:
    """The identity matrix, in the numbers of `weights`."""
    return weights.field.constant(np.eye(n, dtype=int))
