"""How does gradient descent go, with key and query separate or merged into one matrix?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from segre.fields.interface import Array
from segre.reproduce.icl.loss import Quadratic


@dataclass(frozen=True)
class Start:
    """Weights of several runs at the start: v (runs, heads), k and q (runs, heads, D)."""

    v: Array
    k: Array
    q: Array

    @classmethod
    def drawn(cls, seeds: tuple[int, ...], heads: int, size: int, scale: float) -> Start:
        """Normal weights: |v| of a head is about `scale`, and so are the lengths of k and q."""
        every = [
            np.random.default_rng([seed, 16265]).standard_normal((heads, 1 + 2 * size))
            for seed in seeds
        ]
        numbers = scale * np.stack(every)
        k, q = np.split(numbers[..., 1:] / np.sqrt(size), 2, axis=-1)
        return cls(numbers[..., 0], k, q)


@dataclass(frozen=True)
class Path:
    """W at every step, as vectors (steps + 1, runs, D^2), and the last weights."""

    W: Array
    v: Array
    k: Array
    q: Array


def separate(loss: Quadratic, start: Start, steps: int, rate: float) -> Path:
    """Descent on v, k and q, where W is the sum of v k q^T over heads."""
    v, k, q = start.v, start.k, start.q
    runs, _, size = k.shape
    path = np.empty((steps + 1, runs, size * size))
    for step in range(steps + 1):
        W = np.matmul((v[..., None] * k).swapaxes(-1, -2), q).reshape(runs, -1)
        path[step] = W
        if step == steps:
            break
        G = rate * loss.gradient(W).reshape(runs, size, size)
        to_q = k @ G
        to_k = q @ G.swapaxes(-1, -2)
        pulled = v[..., None]
        v, k, q = v - (to_q * q).sum(axis=-1), k - pulled * to_k, q - pulled * to_q
    return Path(path, v, k, q)


def merged(loss: Quadratic, start: Start, steps: int, rate: float) -> Array:
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
