"""How does one softmax head compute a function? By interpolating between anchors.

The head has fixed keys, the anchors a_k, with values f(a_k). A query z gives anchor k the score
beta (2 z.a_k - |a_k|^2), which is -beta |z - a_k|^2 up to a number that a softmax does not notice.
So the head says the mean of f at anchors near z. On [0, 1] the anchors are the midpoints of p equal
cells, and beta = 4 p^2; in several dimensions they are the product of such grids.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import nextafter

import numpy as np

from segre.attention.mechanism import SOFTMAX
from segre.attention.pattern import pattern
from segre.fields.ball import Ball
from segre.fields.interface import Array
from segre.fields.real import Real
from segre.network import forward
from segre.sequence.mix import mix
from segre.spec import Network

APART = 60  # how far below the anchors' scores those of input tokens are
CELLS = 64  # of a certified bound, between two anchors
Function = Callable[[Array], Array]  # points (n, D) to values (n, m)


def grid(p: int, size: int = 1) -> Array:
    """Anchors (p^size, size): midpoints of p cells of [0, 1] in every dimension.

    >>> grid(2).tolist()
    [[0.25], [0.75]]
    """
    line = (np.arange(p) + 0.5) / p
    return np.array(list(product(line, repeat=size)))


def sharpness(p: int) -> float:
    """The factor beta of the scores."""
    return 4.0 * p**2


def head(points: Array, anchors: Array, values: Array, beta: float) -> Array:
    """The head's outputs at points (n, D): means of values (anchors, m), by segre's softmax."""
    ones = np.ones((len(points), 1))
    queries = beta * np.concatenate([2 * points, -ones], axis=1)
    keys = np.concatenate([anchors, (anchors**2).sum(axis=1, keepdims=True)], axis=1)
    return mix(SOFTMAX, queries, keys, values)


def self_attention(points: Array, anchors: Array, values: Array, beta: float) -> Array:
    """The same by self-attention: one layer on a sequence of input tokens and anchor tokens.

    A token is (z, a, |a|^2, 1, s, f): inputs have z and s = 1, anchors the rest. Scores of keys
    that are inputs are far below those of all anchors near a query.
    """
    n, size = points.shape
    count, wide = values.shape
    tokens = np.zeros((n + count, 2 * size + 3 + wide))
    tokens[:n, :size], tokens[:n, 2 * size + 2] = points, 1
    tokens[n:, size : 2 * size], tokens[n:, 2 * size] = anchors, (anchors**2).sum(axis=1)
    tokens[:, 2 * size + 1], tokens[n:, 2 * size + 3 :] = 1, values
    width, a = tokens.shape[1], size + 2
    W_K, W_Q, W_V = np.zeros((a, width)), np.zeros((a, width)), np.zeros((wide, width))
    W_K[:size, size : 2 * size] = np.eye(size)
    W_K[size, 2 * size] = W_K[size + 1, 2 * size + 2] = 1
    W_Q[:size, :size] = 2 * beta * np.eye(size)
    W_Q[size, 2 * size + 1], W_Q[size + 1, 2 * size + 1] = -beta, -(APART + size)
    W_V[:, 2 * size + 3 :] = np.eye(wide)
    spec = Network.parse(f"softmax/d={width},{wide}/a={a}/t={n + count}")
    weights = np.concatenate([part.reshape(-1) for part in (W_K, W_Q, W_V)])
    return forward(Real(), spec, weights, tokens.T)[:, :n].T


def certified_error(p: int, beta: float | None = None) -> tuple[float, float]:
    """Bounds of sup |F(z) - z| over [0, 1] for the head F with values a_k: proved, in balls.

    F is increasing (its derivative is 2 beta times a variance), so on a cell [u, v] the error is at
    most the larger of F(v) - u and v - F(u). It is at least |F(u) - u| at every u. The error at
    1 - z is that at z with the other sign, so that half of the interval is enough.
    """
    field = Ball(96)
    factor = int(sharpness(p) if beta is None else beta)
    cells = -(-CELLS * p // 2)
    with field.precision():
        at = field.constant(np.arange(cells + 1)[None]) / (CELLS * p)
        anchors = field.constant(2 * np.arange(p)[:, None] + 1) / (2 * p)
        scores = factor * (2 * anchors * at - anchors * anchors)
        said = (pattern(field, SOFTMAX, scores) * anchors).sum(axis=0)
        at = at[0]
        above = [(said[i + 1] - at[i]).max(at[i + 1] - said[i]) for i in range(cells)]
        below = [abs(one - z) for one, z in zip(said, at, strict=True)]
        upper = max(float(one.upper()) for one in above)
        lower = max(float(one.abs_lower()) for one in below)
    return nextafter(lower, 0), nextafter(upper, 1)


def waves(rng: np.random.Generator, size: int, outputs: int) -> Function:
    """Random functions on [0, 1]^size that change by at most |x - y|_1: triangle waves.

    Each output is a triangle wave of slope 1 of a random combination of the coordinates, with
    coefficients from -1 to 1, one of them being 1.
    """
    directions = rng.uniform(-1, 1, (size, outputs))
    directions[rng.integers(size, size=outputs), np.arange(outputs)] = 1
    period, phase = rng.uniform(0.3, 1.5, outputs), rng.uniform(0, 1, outputs)

    def value(x: Array) -> Array:
        turn = x @ directions / period + phase
        return np.asarray(period * abs(turn - np.floor(turn + 0.5)))

    return value
