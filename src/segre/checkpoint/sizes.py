"""Norms and inner products of tensors, a block at a time: tables are large, and need no copies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.fields.interface import Array

BLOCK = 1 << 15  # numbers at a time: these stay in the cache


def blocks(*tensors: Array) -> Iterator[tuple[Array, ...]]:
    """The entries of tensors of one shape, block by block, each as a vector."""
    if all(x.ndim == 2 and x.flags.f_contiguous for x in tensors):
        tensors = tuple(x.T for x in tensors)
    first = tensors[0]
    if first.size > BLOCK and len(first) == 1:
        yield from blocks(*(x[0] for x in tensors))
        return
    step = max(1, BLOCK * len(first) // max(first.size, 1))
    for start in range(0, len(first), step):
        yield tuple(x[start : start + step].ravel() for x in tensors)


def inner(one: Array, two: Array) -> float:
    """The sum of products of entries."""
    return float(sum(np.vdot(a, b) for a, b in blocks(one, two)))


def apart(one: Array, two: Array) -> float:
    """The sum of squares of differences of entries."""
    return float(sum(np.vdot(d, d) for d in (a - b for a, b in blocks(one, two))))
