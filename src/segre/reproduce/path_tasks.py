"""What the paper's small networks learn: sorting, convex hulls, and random labels of words.

A label belongs to each token. Everything is drawn from a seed.

>>> train, test = sorting(train=2, test=1, length=4, seed=0)
>>> bool((np.sort(train.inputs) == train.labels).all())
True
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from segre.fields.interface import Array
from segre.reproduce.sentences import sentences, vocabulary


@dataclass(frozen=True)
class Examples:
    """Sequences of tokens (count, n), or of points (count, n, 2), and a label for each."""

    inputs: Array
    labels: Array  # (count, n)

    def first(self, count: int) -> Examples:
        """The first of them."""
        return Examples(self.inputs[:count], self.labels[:count])

    def majority(self) -> float:
        """The accuracy of always giving the most frequent label."""
        return float(np.bincount(self.labels.ravel()).max() / self.labels.size)


def sorting(
    train: int = 1000, test: int = 200, length: int = 8, alphabet: int = 10, seed: int = 0
) -> tuple[Examples, Examples]:
    """Random letters; the label of a place is the letter there after sorting."""
    rng = np.random.default_rng([seed, 1])

    def some(count: int) -> Examples:
        letters = rng.integers(alphabet, size=(count, length))
        return Examples(letters, np.sort(letters, axis=-1))

    return some(train), some(test)


def convex_hull(
    train: int = 10000, test: int = 300, length: int = 10, seed: int = 0
) -> tuple[Examples, Examples]:
    """Points of a randomly shifted square of side 10; the label: is it on the hull?"""
    rng = np.random.default_rng([seed, 2])

    def some(count: int) -> Examples:
        shift = rng.normal(scale=3.3, size=(count, 1, 2))
        points = rng.uniform(high=10, size=(count, length, 2)) + shift
        return Examples(points, on_hull(points).astype(np.int64))

    return some(train), some(test)


def on_hull(points: Array) -> Array:
    """Whether each point (..., n, 2) is a corner of their convex hull.

    It is if all others are on one side of a line through it: if there is a gap of more than half
    a turn between the directions in which they are.
    """
    n = points.shape[-2]
    others = points[..., None, :, :] - points[..., :, None, :]  # [i, j]: from i to j
    others = others[..., ~np.eye(n, dtype=bool), :].reshape(*points.shape[:-1], n - 1, 2)
    angles = np.sort(np.arctan2(others[..., 1], others[..., 0]), axis=-1)
    gaps = np.diff(angles, axis=-1, append=angles[..., :1] + 2 * np.pi)
    return np.asarray(gaps.max(axis=-1) > np.pi)


def memorising(count: int = 500, length: int = 128, seed: int = 0) -> tuple[Examples, Examples]:
    """Sentences with a random label 0 or 1 for each word; the test is what was learned."""
    place = {word: token for token, word in enumerate(vocabulary())}
    tokens = [[place[word] for word in words] for words in sentences(count, length, seed)]
    labels = np.random.default_rng([seed, 3]).integers(2, size=(count, length))
    found = Examples(np.array(tokens), labels)
    return found, found
