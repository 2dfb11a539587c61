"""One softmax layer from a black box: which inputs show V and A directly?

Tokens that are all equal to x give V x. Two kinds of tokens, x and y, are mixed with weights
s and 1 - s, so that V shows s, and log(s / (1 - s)) shows (x - y)^T A z for the query z: linear
in A. Scores should be of the order of one, where neither s nor 1 - s is lost to rounding; the size
of the inputs is adjusted until they are.
"""

from __future__ import annotations

import numpy as np

from segre.fields.interface import Array
from segre.geometry.recovery.lightning import Head
from segre.geometry.recovery.samples import BlackBox, NotDetermined, Samples

_ROUNDS = 40
_CERTAIN = 1e-6  # shares nearer to 0 or 1 than this are cut off: their scores are not readable
_NOISY = 0.6  # shares farther than this from 1/2 are neither 0, 1 nor between
_LARGEST, _SMALLEST = 4.0, 0.25  # largest score among the queries
_NEAREST, _FARTHEST = 1e-6, 1e6  # inputs smaller or larger than this are not tried


def probe(box: BlackBox, d: int, outputs: int, t: int) -> tuple[Head, Samples, float, int]:
    """V and A, the samples they were read from, the size of inputs, and how often we asked."""
    equal = np.repeat(np.eye(d)[:, :, None], t, axis=2)
    first = Samples.ask(box, equal, outputs)
    V = first.Y.mean(axis=2).T
    if not V.any():
        raise NotDetermined("zero function: V = 0, so A has no effect and is not determined")
    differences, means = _directions(V)
    size, asked = 1.0, d
    for _ in range(_ROUNDS):
        X = size * _two_kinds(differences, means, t)
        samples = Samples.ask(box, X, outputs)
        asked += len(X)
        shares = _shares(V, size * differences, samples, t)
        scores = _scores(shares, t)
        largest = float(np.abs(scores).max())
        if np.abs(shares - 0.5).max() > _NOISY:
            break  # no mixture at all: noise, which smaller inputs would make worse
        if largest > _LARGEST and size > _NEAREST:
            size *= np.sqrt(1 / largest)
        elif largest < _SMALLEST and size < _FARTHEST:
            size *= min(16.0, np.sqrt(1 / max(largest, 1e-30)))
        else:
            break
    A = _bilinear(scores / size**2, differences, means)
    return Head(V, A), first.joined(samples), size, asked


def _directions(V: Array) -> tuple[Array, Array]:
    """A basis of differences x - y (rows) that V sees well, and for each d - 1 means (x + y) / 2.

    The first singular vector is seen best; adding it to the others makes all of them seen.
    """
    d = V.shape[1]
    rows = np.linalg.svd(V)[2]
    differences = rows + rows[0] * (np.arange(d) > 0)[:, None]
    differences /= np.linalg.norm(differences, axis=1, keepdims=True)
    if d == 1:
        return differences, np.zeros((1, 1, 1))
    means = np.stack([np.linalg.svd(row[None])[2][1:] for row in differences])
    return differences, means


def _two_kinds(differences: Array, means: Array, t: int) -> Array:
    """Inputs whose first tokens are mean + difference / 2, and the others mean - difference / 2."""
    sign = np.where(np.arange(t) < (t + 1) // 2, 0.5, -0.5)
    X = np.asarray(means[..., None] + differences[:, None, :, None] * sign)
    return X.reshape(-1, differences.shape[1], t)


def _shares(V: Array, differences: Array, samples: Samples, t: int) -> Array:
    """The share of x in the mixture, for queries x and y: shape (differences, means, 2)."""
    first = (t + 1) // 2
    seen = differences @ V.T
    # the output minus V x is V (x - y) times the share minus 1; minus V y it is times the share
    moved = (samples.Y - V @ samples.X).reshape(len(seen), -1, len(V), t)
    share = np.einsum("io,ijoq->ijq", seen, moved) / (seen**2).sum(axis=1)[:, None, None]
    share += np.arange(t) < first
    return np.stack([share[..., :first].mean(axis=-1), share[..., first:].mean(axis=-1)], axis=-1)


def _scores(shares: Array, t: int) -> Array:
    """(x - y)^T A z from the shares of x: x has (t + 1) // 2 of the tokens."""
    shares = shares.clip(_CERTAIN, 1 - _CERTAIN)
    first = (t + 1) // 2
    return np.asarray(np.log(shares / (1 - shares)) - np.log(first / (t - first)))


def _bilinear(scores: Array, differences: Array, means: Array) -> Array:
    """A from (x - y)^T A z at z = mean + difference / 2 and z = mean - difference / 2."""
    d = len(differences)
    known = np.empty((d, d))
    for i in range(d):
        at_means = scores[i].mean(axis=1)
        itself = (scores[i, :, 0] - scores[i, :, 1]).mean()
        basis = np.concatenate([means[i], differences[i : i + 1]])[-d:]
        known[i] = np.linalg.solve(basis, np.append(at_means, itself)[-d:])
    return np.linalg.solve(differences, known)
