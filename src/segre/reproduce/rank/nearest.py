"""How well do heads of rank one find the nearest of two points? Optimal weights, in closed form.

x_1, x_2 and the query y are uniform on the unit sphere of R^d. The target is the x_i nearest to y.
A hard head of rank one with unit vectors k, q says the x_i with the larger (k.x_i)(q.y). A sum of
heads weighed by numbers alpha has the mean square error 1 - 2 b.alpha + alpha.C alpha, where

    C_ij = 1/2 + (2/pi^2) asin(k_i.k_j) asin(q_i.q_j),
    b_i  = 1/2 + 1/2 E[ sign(v.y) sign(v.k_i) sign(q_i.y) ].

The first is in the authors' code. The second depends on the angle t of k_i and q_i only, and is

    b(t) = 1/2 + (2/pi^2) int_t^{pi/2} E_r[ asin(r sin u) ] du,    P(r > s) = (1 - s^2)^{(d-2)/2},

where r is the length of y in the plane of k and q (derived here: the derivative by t of the mean of
asin(r cos u) sign(cos(u - t)) over a full turn is -(2/pi) asin(r sin t), and it vanishes at pi/2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from segre.attention.mechanism import SOFTMAX
from segre.fields.interface import Array
from segre.sequence.mix import mix

NODES = 64  # of a Gauss-Legendre rule


@dataclass(frozen=True)
class Heads:
    """Keys and queries of heads of rank one, unit vectors in rows: (heads, d)."""

    k: Array
    q: Array

    @classmethod
    def drawn(cls, rng: np.random.Generator, heads: int, d: int) -> Heads:
        """Uniform queries; keys at an angle with uniform cosine, as in the authors' code."""
        q = unit(rng.standard_normal((heads, d)))
        other = rng.standard_normal((heads, d))
        other = unit(other - (other * q).sum(axis=1, keepdims=True) * q)
        cosine = rng.uniform(-1, 1, (heads, 1))
        return cls(cosine * q + np.sqrt(1 - cosine**2) * other, q)

    def first(self, count: int) -> Heads:
        """The first heads."""
        return Heads(self.k[:count], self.q[:count])


def unit(x: Array) -> Array:
    """Rows divided by their norms."""
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))


def gram(heads: Heads) -> Array:
    """The matrix C: mean inner products of the outputs of two heads."""
    keys, queries = (np.arcsin((x @ x.T).clip(-1, 1)) for x in (heads.k, heads.q))
    return np.asarray(0.5 + 2 / np.pi**2 * keys * queries)


def agreement(heads: Heads) -> Array:
    """The vector b: mean inner products of a head's output and the target."""
    angle = np.arccos((heads.k * heads.q).sum(axis=1).clip(-1, 1))
    return at_angle(angle, heads.k.shape[1])


def at_angle(angle: Array, d: int) -> Array:
    """b(t), with both integrals by Gauss-Legendre rules; r is sin(w), so that all is smooth.

    >>> bool(abs(at_angle(np.array([np.pi / 2]), 8)[0] - 0.5) < 1e-12)
    True
    """
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    half = (np.pi / 2 - angle)[:, None] / 2
    u = angle[:, None] + half * (nodes + 1)
    w, by = np.pi / 4 * (nodes + 1), np.pi / 4 * weights
    s = np.sin(u)[..., None]
    inner = (s * np.cos(w) ** (d - 1) / np.sqrt(1 - (s * np.sin(w)) ** 2)) @ by
    return np.asarray(0.5 + 2 / np.pi**2 * (half * weights * inner).sum(axis=1))


def best_error(C: Array, b: Array) -> tuple[float, Array]:
    """The least mean square error of a weighted sum of heads, and the weights."""
    alpha = np.linalg.lstsq(C, b, rcond=None)[0]
    return float(1 - 2 * b @ alpha + alpha @ C @ alpha), alpha


# --- the same with segre's softmax, on drawn points ---------------------------------------------


def points(rng: np.random.Generator, count: int, tokens: int, d: int) -> tuple[Array, Array]:
    """Drawn tokens (count, tokens, d) and queries (count, 1, d)."""
    drawn = unit(rng.standard_normal((count, tokens + 1, d)))
    return drawn[:, :-1], drawn[:, -1:]


def nearest(x: Array, y: Array) -> Array:
    """The token that is nearest to the query: (count, d)."""
    place = (x * y).sum(axis=-1).argmax(axis=-1)
    return np.asarray(np.take_along_axis(x, place[:, None, None], axis=1)[:, 0])


def full_rank(x: Array, y: Array, sharpness: float) -> Array:
    """The output of one softmax head of full rank, with scores sharpness times x.y."""
    return mix(SOFTMAX, sharpness * y, x, x)[:, 0]


def rank_one(heads: Heads, alpha: Array, x: Array, y: Array, sharpness: float) -> Array:
    """The output of a weighted sum of softmax heads of rank one."""
    total = np.zeros((len(x), x.shape[-1]))
    for k, q, weight in zip(heads.k, heads.q, alpha, strict=True):
        total += weight * mix(SOFTMAX, sharpness * (y @ q[:, None]), x @ k[:, None], x)[:, 0]
    return total


def mean_square(said: Array, right: Array) -> float:
    """The mean square error; the target has length 1."""
    return float(((said - right) ** 2).sum(axis=-1).mean())
