"""Which input token made an output? Ways to say it, each for one target and all tokens.

Rollout multiplies patterns and knows no values. Relevance weighs patterns by gradients. The frozen
operator is the model with its patterns, gates and roots held as they were: it is affine in the
tokens, and its terms add up to the output. Paths split these terms by the number of heads on the
way. The gradient is the true derivative, which is another matrix than the operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from segre.collapse.passes import Pass
from segre.errors import TooLargeError
from segre.fields.interface import Array


def rollout(patterns: Sequence[Array]) -> Array:
    """(n, n): the product of (I + mean pattern) / 2 over the layers; rows sum to one.

    >>> rollout([np.full((2, 3, 3), 1 / 3)])[0].round(3).tolist()
    [0.667, 0.167, 0.167]
    """
    n = patterns[0].shape[-1]
    out = np.eye(n)
    for P in patterns:
        out = (np.eye(n) + P.mean(axis=0)) / 2 @ out
    return np.asarray(out)


def relevance(patterns: Sequence[Array], gradients: Sequence[Array]) -> Array:
    """(n, n): Chefer's rule R <- R + mean_h (dA * A)^+ R, from R = I."""
    R = np.eye(patterns[0].shape[-1])
    for P, G in zip(patterns, gradients, strict=True):
        R = R + np.maximum(G * P, 0).mean(axis=0) @ R
    return R


def normalised(R: Array) -> Array:
    """Rows of R - I, divided by their sums; a row of zeros stays one.

    >>> normalised(np.array([[1.0, 0.0], [3.0, 2.0]])).tolist()
    [[0.0, 0.0], [0.75, 0.25]]
    """
    rest = R - np.eye(len(R))
    total = rest.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(rest, total, out=np.zeros_like(rest), where=total != 0))


def pulled(done: Pass, target: Array) -> Array:
    """A covector (..., n, d) of the last stream, as one of the first: the operator's transpose."""
    for layer in reversed(done.layers):
        target = layer.pull(target)
    return target


def constants(done: Pass) -> Array:
    """What the operator gives for tokens that are all zero: (n, d)."""
    out = np.zeros_like(done.X)
    for layer in done.layers:
        out = layer.apply(out)
    return out


def by_length(done: Pass, target: Array, most: int = 3) -> Array:
    """(most + 2, n): terms of every token by the number of heads on the way, the last: more."""
    terms = np.zeros((most + 1, *target.shape))
    terms[0] = target
    for layer in reversed(done.layers):
        after = layer.pull_finish(terms)
        through = layer.pull_heads(after[:-1])
        past = np.zeros_like(after) if layer.past is None else layer.past.pull(after)
        terms = np.concatenate([past[:1], past[1:] + through])
    split = (terms * done.X).sum(axis=-1)
    whole = (pulled(done, target) * done.X).sum(axis=-1)
    return np.concatenate([split, (whole - split.sum(axis=0))[None]])


def dense(done: Pass, memory: int) -> Array:
    """The whole operator, (n d, n d): rows are numbers of the output, columns of the input."""
    n, d = done.X.shape
    size = 8 * (n * d) ** 2
    if 3 * size > memory:
        raise TooLargeError(
            f"dense: {n} tokens of width {d} have an operator of {n * d:,} x {n * d:,}, which "
            f"needs {3 * size / 2**30:,.1f} GiB; use fewer tokens, or raise --memory"
        )
    return np.concatenate(list(_rows(done, n, d)))


def _rows(done: Pass, n: int, d: int) -> Iterator[Array]:
    for token in range(n):
        units = np.zeros((d, n, d))
        units[np.arange(d), token, np.arange(d)] = 1
        yield pulled(done, units).reshape(d, n * d)
