"""Components of conditional-independence varieties with hidden variables: each as data.

A point is a d x k x l array: a vector x_ij of length d at every place of a k x l grid. A component
is irreducible and closed, knows its dimension, makes points of itself and says whether it contains
a point. docs/conditional-independence.md proves that these are the components.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from math import comb, factorial, prod
from typing import Any, Protocol

import numpy as np

from segre.fields.interface import Array
from segre.fields.linear import Rationals

Draw = Callable[[tuple[int, ...]], Array]  # an array of integers of a shape


class Component(Protocol):
    """One irreducible component."""

    @property
    def dimension(self) -> int:
        """Its dimension."""
        ...

    @property
    def says(self) -> str:
        """Its points in words."""
        ...

    def contains(self, x: Array) -> bool:
        """Whether a point of the variety, in fractions, lies on it."""
        ...

    def point(self, draw: Draw) -> Array:
        """A point of it, made of drawn integers."""
        ...


@dataclass(frozen=True)
class Dependent:
    """x_ij = a_ij v_j with linearly dependent v_1, ..., v_l (or any, if l > d)."""

    d: int
    k: int
    l: int  # noqa: E741

    @property
    def dimension(self) -> int:
        """Matrices (v_1 ... v_l) of rank below l, the a_ij, and a scale for each j."""
        rank = min(self.d, self.l - 1)
        return rank * (self.d + self.l - rank) + self.l * self.k - self.l

    @property
    def says(self) -> str:
        """Its points in words."""
        if self.l > self.d:
            return "parallel vectors in each grid column"
        return "parallel vectors in each grid column, and dependent directions"

    def contains(self, x: Array) -> bool:
        """A column of zeros may have any line, so that the lines are dependent then."""
        lines = directions(x)
        return len(lines) < self.l or Rationals().rank(np.stack(lines)) < self.l

    def point(self, draw: Draw) -> Array:
        """Random dependent lines and coefficients."""
        rank = min(self.d, self.l - 1)
        v = draw((self.d, rank)) @ draw((rank, self.l))
        return np.asarray(v[:, None, :] * draw((1, self.k, self.l)))


@dataclass(frozen=True)
class ZeroPattern:
    """x_ij = a_ij v_j with a_ij = 0 at one place of every grid row; not all in one column."""

    d: int
    k: int
    l: int  # noqa: E741
    zeros: tuple[int, ...]  # for each grid row, the grid column of its zero, from 0

    @property
    def dimension(self) -> int:
        """For each j a matrix of rank one, d x (k - zeros in column j)."""
        return self.l * (self.d - 1) + self.l * self.k - self.k

    @property
    def says(self) -> str:
        """Its points in words."""
        places = ", ".join(f"({i}, {j + 1})" for i, j in enumerate(self.zeros, 1))
        return f"parallel vectors in each grid column, and zero at {places}"

    def contains(self, x: Array) -> bool:
        """Whether the zeros are there."""
        return not nonzero(x)[range(self.k), list(self.zeros)].any()

    def point(self, draw: Draw) -> Array:
        """Random lines and coefficients."""
        out = draw((self.d, 1, self.l)) * draw((1, self.k, self.l))
        out[:, range(self.k), list(self.zeros)] *= 0
        return np.asarray(out)


@dataclass(frozen=True)
class Blocks:
    """x_ij = a_ij v_b where (i, j) lies in block b, rows x columns, and 0 outside all blocks."""

    d: int
    blocks: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]  # rows and columns, from 0

    @property
    def dimension(self) -> int:
        """For each block the matrices of rank one of its size."""
        return sum(self.d + len(rows) * len(columns) - 1 for rows, columns in self.blocks)

    @property
    def says(self) -> str:
        """Its points in words."""
        named = (f"{_set(rows)}x{_set(columns)}" for rows, columns in self.blocks)
        return f"parallel vectors in each block {' '.join(named)}, and zero outside"

    def contains(self, x: Array) -> bool:
        """Whether it is zero outside the blocks, and each of them spans a line at most."""
        left = x.copy()
        for rows, columns in self.blocks:
            place = np.ix_(range(self.d), rows, columns)
            if Rationals().rank(x[place].reshape(self.d, -1)) > 1:
                return False
            left[place] = left[place] * 0
        return not nonzero(left).any()

    def point(self, draw: Draw) -> Array:
        """Random lines and coefficients."""
        k = 1 + max(i for rows, _ in self.blocks for i in rows)
        l = 1 + max(j for _, columns in self.blocks for j in columns)  # noqa: E741
        out = draw((self.d, k, l)) * 0
        for rows, columns in self.blocks:
            values = draw((self.d, 1, 1)) * draw((1, len(rows), len(columns)))
            out[np.ix_(range(self.d), rows, columns)] = values
        return np.asarray(out)


def _set(numbers: tuple[int, ...]) -> str:
    return "{" + ",".join(str(number + 1) for number in numbers) + "}"


def nonzero(x: Array) -> Array:
    """The places of the grid at which a point is not zero."""
    return np.asarray((x != 0).astype(bool).any(axis=0))


def directions(x: Array) -> list[Array]:
    """A vector that is not zero from each grid column that has one."""
    seen = nonzero(x)
    return [x[:, int(np.argmax(seen[:, j])), j] for j in range(x.shape[2]) if seen[:, j].any()]


# --- which components contain a point -------------------------------------------------------------


def zero_patterns(d: int, k: int, l: int, x: Array | None = None) -> Iterator[ZeroPattern]:  # noqa: E741
    """The zero patterns; with a point of the variety, those that it has."""
    zero = np.ones((k, l), dtype=bool) if x is None else ~nonzero(x)
    free = [[j for j in range(l) if zero[i, j]] for i in range(k)]
    for zeros in product(*free):
        if len(set(zeros)) > 1:
            yield ZeroPattern(d, k, l, zeros)


def count_zero_patterns(x: Array) -> int:
    """How many of them contain a point."""
    zero = ~nonzero(x)
    return prod(int(row.sum()) for row in zero) - int(zero.all(axis=0).sum())


def block_partitions(d: int, x: Array) -> Iterator[Blocks]:
    """The block components that contain a point of the variety.

    Blocks are made of the point's own blocks (parallel ones may be joined), of grid rows that are
    zero, and of grid columns that are zero; every block needs a row and a column.
    """
    own, rows, columns = _parts(x)
    for groups in _joined(own):
        for choice in _filled(groups, rows, columns):
            yield Blocks(d, tuple(sorted(choice)))


def count_block_partitions(x: Array) -> int:
    """How many of them there are, without listing them."""
    own, rows, columns = _parts(x)
    total = 0
    for groups in _joined(own):
        g, m, n = len(groups), len(rows), len(columns)
        total += sum(
            comb(m, a) * comb(n, b) * g ** (m - a) * g ** (n - b) * _matchings(a, b)
            for a in range(m + 1)
            for b in range(n + 1)
        )
    return total


def _matchings(rows: int, columns: int) -> int:
    """Ways to make blocks of all of so many rows and columns."""
    return sum(
        factorial(c) * stirling(rows, c) * stirling(columns, c)
        for c in range(min(rows, columns) + 1)
    )


def stirling(n: int, parts: int) -> int:
    """In how many ways n things make so many non-empty sets.

    >>> [stirling(4, c) for c in range(5)]
    [0, 1, 7, 6, 1]
    """
    signed = sum((-1) ** (parts - j) * comb(parts, j) * j**n for j in range(parts + 1))
    return int(signed // factorial(parts))


def _parts(x: Array) -> tuple[list[Any], list[int], list[int]]:
    """Connected blocks with a direction each, and the rows and columns that are zero."""
    _, k, l = x.shape  # noqa: E741
    seen = nonzero(x)
    left = {i for i in range(k) if seen[i].any()}
    found = []
    while left:
        rows: set[int] = {left.pop()}
        columns: set[int] = set()
        while True:
            more = {j for i in rows for j in range(l) if seen[i, j]}
            again = {i for j in more for i in range(k) if seen[i, j]}
            if more == columns and again == rows:
                break
            rows, columns = again, more
        left -= rows
        i, j = next((i, j) for i in rows for j in columns if seen[i, j])
        found.append((tuple(sorted(rows)), tuple(sorted(columns)), x[:, i, j]))
    free = [j for j in range(l) if not seen[:, j].any()]
    return found, [i for i in range(k) if not seen[i].any()], free


def _joined(own: list[Any]) -> Iterator[list[Any]]:
    """All ways to join blocks that have parallel directions."""
    if not own:
        yield []
        return
    (rows, columns, line), rest = own[0], own[1:]
    for groups in _joined(rest):
        yield [(rows, columns, line), *groups]
        for n, (more, others, other) in enumerate(groups):
            if Rationals().rank(np.stack([line, other])) == 1:
                both = (tuple(sorted(rows + more)), tuple(sorted(columns + others)), line)
                yield [*groups[:n], both, *groups[n + 1 :]]


def _filled(groups: list[Any], rows: list[int], columns: list[int]) -> Iterator[list[Any]]:
    """All ways to give the free rows and columns to blocks, or make new blocks of them."""
    plain = [(set(own), set(others)) for own, others, *_ in groups]
    for with_rows in _placed(plain, rows, 0):
        for whole in _placed(with_rows, columns, 1):
            if all(own and others for own, others in whole):
                yield [(tuple(sorted(own)), tuple(sorted(others))) for own, others in whole]


def _placed(blocks: list[Any], free: list[int], side: int) -> Iterator[list[Any]]:
    if not free:
        yield blocks
        return
    first, rest = free[0], free[1:]
    for n, block in enumerate(blocks):
        grown = tuple(part | {first} if place == side else part for place, part in enumerate(block))
        yield from _placed([*blocks[:n], grown, *blocks[n + 1 :]], rest, side)
    if side == 0:  # a new block begins with its first row
        yield from _placed([*blocks, ({first}, set())], rest, side)
