"""Pivot exchange over F_p: which rows and columns of a block are pivots, and the inverse there.

Exchanging rows R with columns J turns the tableau T of y = T x into that of the same relation
solved for x_J: on (R, J) it becomes T[R, J]^-1, elsewhere in R the inverse times T[R], and in
the other rows what is left after eliminating x_J. It is done for halves of the rows
recursively, so that nearly all arithmetic is matrix products.
"""

from __future__ import annotations

import threading

import numpy as np

from segre.fields.interface import Array
from segre.fields.prime import Prime

_LEAF = 32
_SLACK = 8
_TILE = (512, 1024)
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
    if size < 4096:
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
    """The same for a few rows: exchange in a narrow window of columns, then carry over."""
    R: list[int] = []
    J: list[int] = []
    rows = list(range(start, stop))
    while rows:
        # columns that depend on pivots have become zero; they must not fill the window
        live = free & T[span(rows)].any(axis=0)
        window = np.flatnonzero(live)[: len(rows) + _SLACK].tolist()
        if not window:
            break
        small = T[span(rows)][:, span(window)].copy()
        local_rows, local_columns = _exchange_window(field, small)
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
        free[new_columns] = False
        R += new_rows
        J += new_columns
        rows = [i for i in rows if i not in taken]
    return R, J


def _exchange_window(field: Prime, M: Array) -> tuple[list[int], list[int]]:
    """Exchange one pivot at a time, in place, fraction-free: M is kept times the pivots' product.

    Scaling by the last pivot instead of dividing by it saves one inverse and one reduction
    per pivot; a single division at the end restores the tableau.
    """
    p, half = field.p, field.p // 2
    rows, columns = M.shape
    R: list[int] = []
    J: list[int] = []
    free = [True] * columns
    scratch = np.empty_like(M)
    scale, guess = 1, 0
    for i in range(rows):
        j = guess
        if j >= columns or not free[j] or M.item(i, j) == 0:
            entries = M[i].tolist()
            j = next((k for k in range(columns) if free[k] and entries[k]), -1)
            if j < 0:
                continue
        pivot = M.item(i, j)
        row, column = M[i].copy(), M[:, j].copy()
        np.multiply(M, pivot, out=M)
        np.multiply(column[:, None], row, out=scratch)
        np.subtract(M, scratch, out=M)
        np.multiply(row, scale, out=M[i])
        np.multiply(column, -scale, out=M[:, j])
        M[i, j] = scale * scale
        field.reduce_with(M, scratch)
        free[j] = False
        R.append(i)
        J.append(j)
        guess = j + 1
        scale = scale * int(pivot) % p
        scale -= p if scale > half else 0
    if R:
        inverse = pow(scale, -1, p)
        np.multiply(M, inverse - p if inverse > half else inverse, out=M)
        field.reduce_with(M, scratch)
    return R, J
