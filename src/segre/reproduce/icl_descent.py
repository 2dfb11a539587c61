"""What is the loss of one layer of linear attention that regresses in context, and its descent?

A sequence holds N pairs (x_n, y_n) with y_n = w . x_n, and a query x. Inputs are normal with
covariance Lambda, tasks w are standard normal. The layer predicts

    sum_h v_h b^T (k_h q_h^T) x = b^T W x,     b = (1/N) sum_n y_n x_n,

so its loss is a quadratic function of the D x D matrix W, known from three moments. They are known
in closed form (`population`, also in exact fractions), or are means over drawn sequences (`drawn`).

Training stands still at 2^D fixed points, which are exact fractions. With key and query separate
(rank one), every set S of eigenvectors gives a fixed point

    W_S = sum over d in S of  e_d e_d^T / (lam_d (1 + 1/N) + tr/N),

with one head for each d in S and all other weights zero.
With merged key and query the derivatives are v G and U . G, with G the gradient by W. They vanish
only if G = 0, the optimum, or if every v = 0, so that W = 0: two functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
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


@dataclass(frozen=True)
class Weights:
    """Heads, perhaps of several runs: v (..., heads), k and q (..., heads, D)."""

    v: Array
    k: Array
    q: Array

    @classmethod
    def drawn(cls, seeds: tuple[int, ...], heads: int, size: int, scale: float) -> Weights:
        """Normal weights: |v| of a head is about `scale`, and so are the lengths of k and q."""
        every = [
            np.random.default_rng([seed, 16265]).standard_normal((heads, 1 + 2 * size))
            for seed in seeds
        ]
        numbers = scale * np.stack(every)
        k, q = np.split(numbers[..., 1:] / np.sqrt(size), 2, axis=-1)
        return cls(numbers[..., 0], k, q)

    @property
    def W(self) -> Array:
        """The sum of v k q^T over heads, as vectors (..., D^2)."""
        W = (self.v[..., None] * self.k).swapaxes(-1, -2) @ self.q
        return np.asarray(W.reshape(*W.shape[:-2], -1))

    def slopes(self, G: Array) -> Weights:
        """The derivatives by v, k and q, where those by W are G (..., D, D)."""
        to_q, to_k, v = self.k @ G, self.q @ G.swapaxes(-1, -2), self.v[..., None]
        return Weights((to_q * self.q).sum(axis=-1), v * to_k, v * to_q)


@dataclass(frozen=True)
class FixedPoint:
    """A set of learned directions (numbered from the largest eigenvalue, 1), exactly."""

    directions: tuple[int, ...]
    W: tuple[Fraction, ...]
    loss: Fraction
    slope: Fraction  # the largest derivative by a weight, key and query separate
    merged_slope: Fraction  # the same, at the same function, with key and query merged


def fixed_points(eigenvalues: Sequence[Fraction], context: int) -> list[FixedPoint]:
    """All 2^D, by how many directions are learned; eigenvalues from the largest on.

    >>> found = fixed_points([Fraction(3, 4), Fraction(1, 4)], 3)
    >>> [str(one.loss) for one in found], {one.slope for one in found}
    (['1', '37/64', '29/32', '31/64'], {Fraction(0, 1)})
    """
    loss = population(eigenvalues, context)
    size = len(eigenvalues)
    sets = [one for count in range(size + 1) for one in combinations(range(size), count)]
    return [_point(loss, eigenvalues, context, chosen) for chosen in sets]


def _point(
    loss: Quadratic, lam: Sequence[Fraction], context: int, chosen: tuple[int, ...]
) -> FixedPoint:
    size, total = len(lam), sum(lam)
    v = np.array([Fraction(d in chosen) for d in range(size)], dtype=object)
    k = np.array([[v[d] * (e == d) for e in range(size)] for d in range(size)], dtype=object)
    best = [1 / (value * (1 + Fraction(1, context)) + total / context) for value in lam]
    heads = Weights(v, k, k * np.array(best, dtype=object)[:, None])
    G = loss.gradient(heads.W).reshape(size, size)
    by = heads.slopes(G)
    slope = max(abs(value) for part in (by.v, by.k, by.q) for value in part.flat)
    merged_slope = max(
        abs(value) for part in (by.v, np.multiply.outer(v, G)) for value in part.flat
    )
    directions, W = tuple(d + 1 for d in chosen), heads.W
    return FixedPoint(directions, tuple(W), Fraction(loss.value(W)), slope, merged_slope)


def steps_by_point(path: Array, points: Sequence[FixedPoint], within: float = 0.05) -> Array:
    """How many steps each run spends near each fixed point: (points, runs).

    Near: the distance of W is at most a share of the length of the optimum.
    """
    centres = np.array([[float(value) for value in point.W] for point in points])
    radius = within * np.linalg.norm(centres[-1])
    counts = [(((path - centre) ** 2).sum(axis=-1) <= radius**2).sum(axis=0) for centre in centres]
    return np.array(counts)


def separate(loss: Quadratic, start: Weights, steps: int, rate: float) -> tuple[Array, Weights]:
    """Descent on v, k and q: W at every step (steps + 1, runs, D^2), and the last weights."""
    runs, _, size = start.k.shape
    now, path = start, np.empty((steps + 1, runs, size * size))
    path[0] = now.W
    for step in range(steps):
        by = now.slopes(rate * loss.gradient(path[step]).reshape(runs, size, size))
        now = Weights(now.v - by.v, now.k - by.k, now.q - by.q)
        path[step + 1] = now.W
    return path, now


def merged(loss: Quadratic, start: Weights, steps: int, rate: float) -> Array:
    """Descent on v and a D x D matrix U for each head, from the same function: U = k q^T.

    W is the sum of v U; the result is W at every step.
    """
    runs, heads, size = start.k.shape
    v = start.v
    U = (start.k[..., :, None] * start.q[..., None, :]).reshape(runs, heads, -1)
    path = np.empty((steps + 1, runs, size * size))
    for step in range(steps + 1):
        W = np.matmul(v[:, None, :], U)[:, 0]
        path[step] = W
        G = rate * loss.gradient(W)
        v, U = v - np.matmul(U, G[..., None])[..., 0], U - v[..., None] * G[:, None, :]
    return path


def steps_near(losses: Array, level: float, within: float = 0.05) -> list[int]:
    """For each run: at how many steps is the loss within a share of a level?"""
    return [int(count) for count in (abs(losses - level) <= within * level).sum(axis=0)]
