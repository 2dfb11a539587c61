"""What is the loss of one layer of linear attention that regresses in context?

A sequence holds N pairs (x_n, y_n) with y_n = w . x_n, and a query x. Inputs are normal with
covariance Lambda, tasks w are standard normal. The layer predicts

    sum_h v_h b^T (k_h q_h^T) x = b^T W x,     b = (1/N) sum_n y_n x_n,

so its loss is a quadratic function of the D x D matrix W, known from three moments. They are known
in closed form (`population`, also in exact fractions), or are means over drawn sequences (`drawn`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from segre.fields.interface import Array
from segre.fields.real import Real
from segre.network import forward
from segre.spec import Network


@dataclass(frozen=True)
class Quadratic:
    """constant - 2 linear . W + W . square W, with W as a vector of length D^2, row by row.

    Entries are floats or exact fractions. There may be one function for each of several runs: the
    arrays then have one more axis, the first.
    """

    constant: Any
    linear: Array
    square: Array

    def value(self, W: Array) -> Any:
        """The loss at one or several W."""
        slope = self._squared(W) - 2 * self.linear
        return self.constant + (W * slope).sum(axis=-1)

    def gradient(self, W: Array) -> Array:
        """Its derivatives by the entries of W."""
        return 2 * (self._squared(W) - self.linear)

    def _squared(self, W: Array) -> Array:
        if self.square.ndim == 2:  # one function for all W: one product
            return np.asarray(W @ self.square.T)
        return np.asarray(np.matmul(self.square, W[..., None])[..., 0])


def population(eigenvalues: Sequence[Any], context: int) -> Quadratic:
    """The expected loss, exactly, in the numbers that the eigenvalues of Lambda are.

    E[b w^T] = Lambda and E[b b^T] = (1 + 1/N) Lambda^2 + (tr Lambda / N) Lambda, both diagonal in
    the eigenbasis of Lambda, which is the basis here.

    >>> population([Fraction(1, 4), Fraction(3, 4)], 3).constant
    Fraction(1, 1)
    """
    lam = np.array(list(eigenvalues), dtype=object)
    total, inverse = lam.sum(), Fraction(1, context)
    moments = (1 + inverse) * lam**2 + total * inverse * lam
    square = np.diag(np.outer(moments, lam).reshape(-1))
    linear = np.diag(lam**2).reshape(-1)
    if all(isinstance(value, Fraction) for value in lam):
        return Quadratic(total, linear, square)
    return Quadratic(float(total), linear.astype(float), square.astype(float))


def levels(eigenvalues: Sequence[Any], context: int) -> list[Any]:
    """The loss after the m largest directions are learned: tr - sum lam / (1 + (1 + tr/lam)/N)."""
    lam = sorted(eigenvalues, reverse=True)
    total = sum(lam)
    found = [total]
    for value in lam:
        found.append(found[-1] - value / (1 + (1 + total / value) / context))
    return found


def sequences(
    eigenvalues: Sequence[float], context: int, count: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Drawn sequences as matrices (count, D + 1, N + 1), tokens in columns, and their labels.

    The last token is the query, with a zero in place of its label.
    """
    size = len(eigenvalues)
    roots = np.sqrt(np.array(eigenvalues, dtype=float))
    x = roots[:, None] * rng.standard_normal((count, size, context + 1))
    w = rng.standard_normal((count, 1, size))
    y = w @ x
    tokens = np.concatenate([x, y], axis=1)
    tokens[:, -1, -1] = 0
    return tokens, y[:, 0, -1]


def drawn(tokens: Array, labels: Array) -> Quadratic:
    """The mean loss over drawn sequences."""
    context = tokens.shape[-1] - 1
    x, y = tokens[:, :-1, :-1], tokens[:, -1, :-1]
    b = np.einsum("sdn,sn->sd", x, y) / context
    features = (b[:, :, None] * tokens[:, None, :-1, -1]).reshape(len(tokens), -1)
    mean = len(tokens)
    return Quadratic(
        float((labels**2).mean()), features.T @ labels / mean, features.T @ features / mean
    )


def predicted(v: Array, k: Array, q: Array, tokens: Array) -> Array:
    """The layer's predictions on drawn sequences, by segre's forward map of lightning attention.

    v is (heads,), k and q are (heads, D). W_K is [k/N 0], W_Q is [q 0], W_V is [0 v].
    """
    heads, size = k.shape
    context = tokens.shape[-1] - 1
    none = np.zeros((heads, 1))
    maps = [
        np.concatenate([k / context, none], axis=1),
        np.concatenate([q, none], axis=1),
        np.concatenate([np.zeros((heads, size)), v[:, None]], axis=1),
    ]
    spec = Network.parse(f"lightning/d={size + 1},1/a=1/heads={heads}/t={context + 1}")
    weights = np.concatenate([each.reshape(-1) for each in maps])
    return forward(Real(), spec, weights, tokens)[:, 0, -1]
