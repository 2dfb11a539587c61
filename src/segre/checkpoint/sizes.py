"""Norms and inner products of tensors, a block at a time: tables are large, and need no copies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.fields.interface import Array

BLOCK = 1 << 15  # numbers at a time: these stay in the cache


def row_blocks(rows: int, size: int, block: int = BLOCK) -> Iterator[tuple[int, int]]:
    """The first and last rows of the blocks of a tensor with this many rows and entries."""
    step = max(1, block * rows // max(size, 1))
    return ((start, min(start + step, rows)) for start in range(0, rows, step))


def blocks(*tensors: Array) -> Iterator[tuple[Array, ...]]:
    """The entries of tensors of one shape, block by block, each as a vector."""
    if all(x.ndim == 2 and x.flags.f_contiguous for x in tensors):
        tensors = tuple(x.T for x in tensors)
    first = tensors[0]
    if first.size > BLOCK and len(first) == 1:
        yield from blocks(*(x[0] for x in tensors))
        return
    for start, stop in row_blocks(len(first), first.size):
        yield tuple(x[start:stop].ravel() for x in tensors)


def inner(one: Array, two: Array) -> float:
    """The sum of products of entries."""
    return float(sum(np.vdot(a, b) for a, b in blocks(one, two)))


def apart(one: Array, two: Array) -> float:
    """The sum of squares of differences of entries."""
    return float(sum(np.vdot(d, d) for d in (a - b for a, b in blocks(one, two))))
