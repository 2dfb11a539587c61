"""Rank, pivots and kernel over F_p, for rows that arrive in batches.

After r pivots the row space seen so far is spanned by [I_r | B], in an order of the columns
that puts pivots first. A batch of rows a becomes W = a_free - a_pivot B; new pivots are found
in the front columns of W by pivot exchange, and B is updated by one matrix product. There is
no triangular solve, the input is never modified, and rows can be fed as they are sampled.

The design follows FFLAS-FFPACK's observation that a float64 BLAS is the fastest exact
arithmetic there is, if reductions are delayed (Dumas, Giorgi, Pernet 2008).
"""

from __future__ import annotations

import numpy as np

from segre.fields.draw import Stream
from segre.fields.exchange import FEW, exchange, span, subtract_product
from segre.fields.interface import Array
from segre.fields.prime import Prime

_SLACK = 16
_PROBES = 16


class Echelon:
    """The row space of all rows added so far.

    >>> F = Prime()
    >>> space = Echelon(3, F)
    >>> space.add(F.constant(np.array([[1, 2, 3], [2, 4, 6]])))
    1
    >>> space.rank, space.pivot_rows, F.residues(space.kernel() @ [1, 2, 3] % F.p).tolist()
    (1, [0], [0, 0])
    """

    def __init__(self, columns: int, field: Prime, capacity: int | None = None) -> None:
        self.field = field
        self.columns = columns
        self.rank = 0
        self.order = np.arange(columns)
        self.pivot_rows: list[int] = []
        self._seen = 0
        self._in_order = True
        # B is rank x (columns - rank); as the rank grows it moves between two buffers
        rows = min(columns // 2, columns if capacity is None else capacity)
        self._held, self._spare = (np.empty(rows * (columns - rows)) for _ in range(2))
        self._B = np.empty((0, columns))
        self._free = np.empty(0)

    @property
    def pivot_columns(self) -> list[int]:
        """The columns of a non-zero minor whose rows are `pivot_rows`."""
        return [int(c) for c in self.order[: self.rank]]

    def residual(self, rows: Array) -> Array:
        """What of `rows` lies outside the row space, in the free columns; valid until the next."""
        r = self.rank
        size = len(rows) * (self.columns - r)
        if self._free.size < size:  # kept, since asking for fresh pages again is not free
            self._free = np.empty(size)
        free = self._free[:size].reshape(len(rows), self.columns - r)
        if self._in_order:
            pivot, free[...] = rows[:, :r], rows[:, r:]
        else:
            pivot = rows[:, self.order[:r]]
            np.take(rows, self.order[r:], axis=1, out=free, mode="clip")
        if r:
            if self._B.size <= FEW or _mostly(used := pivot.any(axis=0)):
                subtract_product(self.field, free, pivot, self._B)
            elif used.any():
                subtract_product(self.field, free, pivot[:, used], self._B[used])
        return free

    def add(self, rows: Array) -> int:
        """Add a batch of balanced rows; returns how many new pivots they gave."""
        before = self.rank
        index = np.arange(self._seen, self._seen + len(rows))
        self._seen += len(rows)
        W = self.residual(rows)
        while True:
            alive = W.any(axis=1)
            if not alive.all():
                W, index = W[alive], index[alive]
            if not len(W):
                return self.rank - before
            W, index = self._absorb(W, index)

    def kernel(self) -> Array:
        """A basis of the vectors orthogonal to every row, one per row: [-B^T | I]."""
        r, n = self.rank, self.columns
        basis = np.zeros((n - r, n))
        basis[:, self.order[:r]] = -self._B.T
        basis[np.arange(n - r), self.order[r:]] = 1
        return basis

    def _absorb(self, W: Array, index: Array) -> tuple[Array, Array]:
        """Take the pivots in the front columns of W; returns what is left of W."""
        r, rows = self.rank, len(W)
        front = min(W.shape[1], rows + _SLACK)
        if front < W.shape[1]:
            self._fill_front(W, front)
        tableau = W[:, :front].copy()
        chosen, pivots = exchange(self.field, tableau)
        s = len(chosen)
        inverse = tableau[:, span(pivots)][span(chosen)]
        self._bring_forward(W, pivots)
        B = self._grown(r + s, W.shape[1] - s)
        new = B[r:]
        if new.size <= FEW and s <= self.field.inner:
            new[...] = self.field.matmul(inverse, W[span(chosen), s:])
        else:
            new[...] = 0
            subtract_product(self.field, new, -inverse, W[span(chosen), s:])
        if r:
            self._clear(B[:r], new)
        self._held, self._spare, self._B = self._spare, self._held, B
        self.rank += s
        self.pivot_rows += index[chosen].tolist()
        if s == rows:
            return W[:0, s:], index[:0]
        left = np.ones(rows, dtype=bool)
        left[chosen] = False
        rest = W[left, s:]
        if len(rest):
            subtract_product(self.field, rest, W[left, :s], new)
        return rest, index[left]

    def _grown(self, rows: int, columns: int) -> Array:
        """Room for the next B in the spare buffer."""
        size = rows * columns
        if self._spare.size < size:
            self._spare = np.empty(max(size, 2 * self._spare.size))
        return self._spare[:size].reshape(rows, columns)

    def _clear(self, out: Array, new: Array) -> None:
        """out <- the old rows without their new pivot columns: B[:, s:] - B[:, :s] new.

        Symmetry generators are mostly zero: then only the part that changes is computed.
        """
        s = len(new)
        coefficients, rest = self._B[:, :s], self._B[:, s:]
        if rest.size <= FEW:
            subtract_product(self.field, rest, coefficients, new, out)
            return
        rows, columns = coefficients.any(axis=1), new.any(axis=0)
        if _mostly(rows) and _mostly(columns):
            subtract_product(self.field, rest, coefficients, new, out)
            return
        out[...] = rest
        if rows.any():
            block = np.ix_(rows, columns)
            part = rest[block]
            subtract_product(self.field, part, coefficients[rows], new[:, columns])
            out[block] = part

    def _fill_front(self, W: Array, front: int) -> None:
        """Exchange zero columns at the front for non-zero ones from the back."""
        zero = np.flatnonzero(~W[:, :front].any(axis=0))
        if len(zero):
            full = np.flatnonzero(W[:, front:].any(axis=0))[::-1][: len(zero)] + front
            self._swap(W, zero[: len(full)], full)

    def _bring_forward(self, W: Array, pivots: list[int]) -> None:
        """Reorder the free columns so that `pivots` come first, in this order."""
        s = len(pivots)
        if pivots[0] == 0 and isinstance(span(pivots), slice):
            return
        taken = set(pivots)
        source = [j for j in pivots if j >= s]
        target = [j for j in range(s) if j not in taken]
        self._swap(W, np.array(source, dtype=int), np.array(target, dtype=int))
        moved = dict(zip(source, target, strict=True))
        final = [moved.get(j, j) for j in pivots]
        if not isinstance(span(final), slice):
            r = self.rank
            self._in_order = False
            for matrix in (W, self._B):
                matrix[:, :s] = matrix[:, final]
            self.order[r : r + s] = self.order[r:][final]

    def _swap(self, W: Array, x: Array, y: Array) -> None:
        """Exchange free columns x and y, disjoint lists."""
        if not len(x):
            return
        r = self.rank
        self._in_order = False
        for matrix in (W, self._B):
            kept = matrix[:, x]
            matrix[:, x] = matrix[:, y]
            matrix[:, y] = kept
        free = self.order[r:]
        free[x], free[y] = free[y], free[x]


def _mostly(mask: Array | np.bool) -> bool:
    return 2 * int(np.count_nonzero(mask)) > np.size(mask)


def rank(matrix: Array, field: Prime, *, block: int | None = None) -> int:
    """The rank over F_p of a matrix of integers below 2^53.

    Stops before the last row when random combinations of all remaining rows reduce to zero.
    If the remaining rows still had something to add, each of the 16 combinations would be
    non-zero with probability 1 - 1/p: the answer is never too large, and too small with
    probability p^-16.

    >>> rank(np.array([[1, 2], [2, 4], [3, 6]]), Prime())
    1
    """
    if matrix.shape[1] > matrix.shape[0]:
        matrix = matrix.T
    m, n = matrix.shape
    size = block or max(64, min(field.inner + 1 & ~31, 512, 32 * round(n / 320)))
    space = Echelon(n, field)
    buffer = np.empty((size, n))
    probe_at, gap, seen = 0, size, 0
    while seen < m and space.rank < n:
        batch = buffer[: min(size, m - seen)]
        batch[...] = matrix[seen : seen + size]
        field.reduce(batch)
        seen += len(batch)
        gained = space.add(batch)
        if gained < len(batch) and probe_at <= seen and m - seen > 4 * _PROBES:
            if not space.residual(_combinations(matrix[seen:], field, size)).any():
                break
            probe_at, gap = seen + gap, 2 * gap
    return space.rank


def _combinations(rows: Array, field: Prime, size: int) -> Array:
    """Random combinations of all `rows`."""
    total = np.zeros((_PROBES, rows.shape[1]))
    for start in range(0, len(rows), size):
        batch = field.constant(rows[start : start + size])
        coefficients = field.draw(Stream.COMBINATIONS, start * _PROBES, (_PROBES, len(batch)))
        subtract_product(field, total, coefficients, batch)
    return total
