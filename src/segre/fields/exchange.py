"""Pivot exchange over F_p: which rows and columns of a block are pivots, and the inverse there.

Exchanging rows R with columns J turns the tableau T of y = T x into that of the same relation
solved for x_J: on (R, J) it becomes T[R, J]^-1, elsewhere in R the inverse times T[R], and in
the other rows what is left after eliminating x_J. It is done for halves of the rows
recursively, so that nearly all arithmetic is matrix products.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from segre.fields.interface import Array
from segre.fields.prime import Prime

_LEAF = 32
_SLACK = 8
_NARROW = 64
_TILE = (512, 1024)
FEW = 4096  # entries of a matrix for which looking for zeros takes longer than computing with them
Index = list[int] | slice


def span(index: list[int]) -> Index:
    """`index` as a slice if it is a run i, i+1, ..., which NumPy need not copy."""
    first, count = index[0], len(index)
    if index[-1] - first == count - 1 and index == list(range(first, first + count)):
        return slice(first, first + count)
    return index


def subtract_product(field: Prime, C: Array, X: Array, Y: Array, out: Array | None = None) -> None:
    """out <- C - X Y mod p (in place by default), in tiles so that reductions happen in cache."""
    out = C if out is None else out
    m, n = C.shape
    if not C.size:
        return
    inner = field.inner - 1  # room for C itself
    if C.size <= FEW and X.shape[1] <= inner:
        difference = np.matmul(X, Y)
        np.subtract(C, difference, out=difference)
        out[...] = field.reduce(difference)
        return
    tall, wide = min(_TILE[0], m), min(_TILE[1], n)
    product, scratch = _tiles(tall * wide)
    for j in range(0, n, wide):
        for i in range(0, m, tall):
            source = C[i : i + tall, j : j + wide]
            tile = out[i : i + tall, j : j + wide]
            P = product[: tile.size].reshape(tile.shape)
            quotient = scratch[: tile.size].reshape(tile.shape)
            for k in range(0, X.shape[1], inner):
                np.matmul(X[i : i + tall, k : k + inner], Y[k : k + inner, j : j + wide], out=P)
                np.subtract(source, P, out=P)
                field.reduce_with(P, quotient)
                tile[...] = P
                source = tile


_thread = threading.local()


def _tiles(size: int) -> tuple[Array, Array]:
    """Two tiles of working memory, kept by each thread: fresh pages would cost more than sums."""
    if size <= FEW:
        return np.empty(size), np.empty(size)
    if not hasattr(_thread, "tiles"):
        _thread.tiles = np.empty((2, _TILE[0] * _TILE[1]))
    return _thread.tiles[0], _thread.tiles[1]


def exchange(field: Prime, T: Array) -> tuple[list[int], list[int]]:
    """Exchange as many rows and columns of T as its rank, in place; returns (rows, columns)."""
    free = np.ones(T.shape[1], dtype=bool)
    return _exchange(field, T, 0, len(T), free)


def _exchange(
    field: Prime, T: Array, start: int, stop: int, free: Array
) -> tuple[list[int], list[int]]:
    if stop - start <= _LEAF:
        return _exchange_few(field, T, start, stop, free)
    leaves = -(-(stop - start) // _LEAF)
    middle = start + _LEAF * ((leaves + 1) // 2)
    R1, J1 = _exchange(field, T, start, middle, free)
    _eliminate(field, T, T[middle:stop], R1, J1)
    R2, J2 = _exchange(field, T, middle, stop, free)
    _eliminate(field, T, T[start:middle], R2, J2)
    return R1 + R2, J1 + J2


def _eliminate(field: Prime, T: Array, rows: Array, R: list[int], J: list[int]) -> None:
    """Apply the exchange of rows R and columns J of T to other rows of it."""
    if R and len(rows):
        columns = span(J)
        coefficients = rows[:, columns].copy()
        rows[:, columns] = 0
        subtract_product(field, rows, coefficients, T[span(R)])


def _exchange_few(
    field: Prime, T: Array, start: int, stop: int, free: Array
) -> tuple[list[int], list[int]]:
    """The same for a few rows: exchange in a narrow window of columns, then carry over.

    A small tableau that has no other rows is exchanged as a whole: carrying over takes longer.
    """
    whole = stop - start == len(T) and T.shape[1] <= _NARROW
    R: list[int] = []
    J: list[int] = []
    rows = list(range(start, stop))
    while rows:
        # columns that depend on pivots have become zero; they must not fill the window
        live = free & T[span(rows)].any(axis=0)
        window = np.flatnonzero(live)[: len(rows) + _SLACK].tolist()
        if not window:
            break
        if whole:
            new_rows, new_columns = _exchange_window(field, T, rows, window)
        else:
            new_rows, new_columns = _exchange_and_carry(field, T, start, stop, rows, window)
        free[new_columns] = False
        R += new_rows
        J += new_columns
        taken = set(new_rows)
        rows = [i for i in rows if i not in taken]
    return R, J


def _exchange_and_carry(
    field: Prime, T: Array, start: int, stop: int, rows: list[int], window: list[int]
) -> tuple[list[int], list[int]]:
    """Exchange rows in a window of columns; then do the same to their other columns, and rows."""
    small = T[span(rows)][:, span(window)].copy()
    local_rows, local_columns = _exchange_window(field, small, range(len(rows)), range(len(window)))
    new_rows = [rows[i] for i in local_rows]
    new_columns = [window[j] for j in local_columns]
    inverse = small[:, span(local_columns)][span(local_rows)]
    pivots = field.matmul(inverse, T[span(new_rows)])
    pivots[:, span(new_columns)] = inverse
    T[span(new_rows)] = pivots
    taken = set(new_rows)
    others = [i for i in range(start, stop) if i not in taken]
    if others:
        rest = T[others]
        _eliminate(field, T, rest, new_rows, new_columns)
        T[others] = rest
    return new_rows, new_columns


def _exchange_window(
    field: Prime, M: Array, rows: Sequence[int], window: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Exchange one pivot at a time, in place, fraction-free: M is kept times the pivots' product.

    Pivots are taken in the given rows and columns. Scaling by the last pivot instead of dividing
    by it saves one inverse and one reduction per pivot; a single division at the end restores
    the tableau.
    """
    p, half = field.p, field.p // 2
    R: list[int] = []
    J: list[int] = []
    columns, free = np.asarray(window), np.ones(len(window))
    scratch = np.empty_like(M)
    scale, guess = 1, 0
    for i in rows:
        k = guess
        if k >= len(window) or not free.item(k) or not M.item(i, window[k]):
            left = (M[i].take(columns) * free).nonzero()[0]
            if not left.size:
                continue
            k = left.item(0)
        j = window[k]
        pivot = M.item(i, j)
        # pivot M - column row is right everywhere with these two entries for the row and the column
        row, column = M[i].copy(), M[:, j : j + 1].copy()
        row[j], column[i, 0] = pivot + scale, pivot - scale
        np.multiply(M, pivot, out=M)
        np.multiply(column, row, out=scratch)
        np.subtract(M, scratch, out=M)
        field.reduce_with(M, scratch)
        free[k] = 0
        R.append(i)
        J.append(j)
        guess = k + 1
        scale = scale * int(pivot) % p
        scale -= p if scale > half else 0
    if R:
        inverse = pow(scale, -1, p)
        np.multiply(M, inverse - p if inverse > half else inverse, out=M)
        field.reduce_with(M, scratch)
    return R, J
