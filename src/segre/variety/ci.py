"""Which components has a conditional-independence variety with hidden variables?

V(s, t) are the d x kl matrices, a column x_ij for every place of a k x l grid, for which the k
vectors of every grid column have rank below s, and the l vectors of every grid row rank below t.
Its components are known here for s = 2, t = l (and for the transposed grid: s = k, t = 2) and for
s = t = 2; docs/conditional-independence.md has the proofs. Everything else is refused.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import factorial, prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from segre.errors import SegreError, UnsupportedError, WeightsError
from segre.fields.draw import Stream
from segre.fields.interface import Array
from segre.fields.linear import Rationals
from segre.fields.prime import Prime
from segre.fields.rank import Echelon
from segre.files import read_given
from segre.finding import Status
from segre.shown import Tabular
from segre.values import parse_failure, quote
from segre.variety.ci_components import (
    Blocks,
    Component,
    Dependent,
    ZeroPattern,
    block_partitions,
    count_block_partitions,
    count_zero_patterns,
    zero_patterns,
)
from segre.weights.arrays import number_array

LISTED = 20
LARGEST_GRID = 8
LARGEST_D = 100
LONGEST_FILE = 1 << 22
ENDINGS = (".csv", ".json")


@dataclass(frozen=True)
class Kind:
    """Components that differ only by the order of the grid's rows and columns."""

    count: int
    example: Component

    @property
    def dimension(self) -> int:
        """The dimension of each."""
        return self.example.dimension


@dataclass(frozen=True)
class Membership:
    """Where a matrix lies: on how many components, and the first of them; or why on none."""

    count: int
    components: tuple[Component, ...]
    reason: str = ""


@dataclass(frozen=True)
class Decomposition(Tabular):
    """The irreducible components of V(s, t), by kind."""

    grid: Grid
    kinds: tuple[Kind, ...]
    membership: Membership | None = None
    tangents: tuple[int, ...] | None = None  # of V, at a random point mod p of each kind
    seed: int = 0
    status: ClassVar[Status] = "proved"  # the decomposition is a theorem

    @property
    def value(self) -> int:
        """How many components there are."""
        return sum(kind.count for kind in self.kinds)

    lower = upper = value

    @property
    def how(self) -> str:
        """Which theorem."""
        name = {"blocks": "s = t = 2", "zeros": "s = 2, t = l"}.get(
            self.grid.family, "s = k, t = 2: the transposed grid"
        )
        return f"the components for {name} (docs/conditional-independence.md)"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        tangents = self.tangents or (None,) * len(self.kinds)
        grid = self.grid
        found: dict[str, Any] = {
            **{"k": grid.k, "l": grid.l, "d": grid.d, "s": grid.s, "t": grid.t},
            "components": self.value,
            "status": self.status,
            "how": self.how,
            "seed": self.seed,
            "kinds": [
                {
                    "count": kind.count,
                    "dimension": kind.dimension,
                    "example": said(grid, kind.example),
                    "tangent": tangent,
                }
                for kind, tangent in zip(self.kinds, tangents, strict=True)
            ],
        }
        if self.membership is not None:
            one = self.membership
            found["matrix"] = {
                "in_variety": not one.reason,
                "reason": one.reason or None,
                "components": one.count,
                "listed": [
                    {"dimension": c.dimension, "says": said(grid, c)} for c in one.components
                ],
            }
        return found


def components(
    grid: tuple[int, int],
    *,
    s: int,
    t: int,
    d: int,
    matrix: Array | None = None,
    check: bool = False,
    seed: int = 0,
) -> Decomposition:
    """The components of V(s, t) for d x kl matrices on a k x l grid.

    `matrix` is a d x kl array of exact fractions, its columns in the order (1, 1), (1, 2), ...,
    (k, l): which components contain it? `check` computes the tangent space of V at a random point
    mod p of each kind of component.

    >>> found = components((3, 3), s=2, t=2, d=3)
    >>> found.value, [(kind.dimension, kind.count) for kind in found.kinds]
    (25, [(11, 1), (9, 9), (9, 6), (8, 9)])
    """
    sizes = Grid(*grid, d=d, s=s, t=t)
    kinds = sorted(_kinds(sizes), key=lambda kind: -kind.dimension)
    return Decomposition(
        grid=sizes,
        kinds=tuple(kinds),
        membership=None if matrix is None else membership(sizes, matrix),
        tangents=tuple(tangent(sizes, kind.example, seed) for kind in kinds) if check else None,
        seed=seed,
    )


def _kinds(grid: Grid) -> Iterator[Kind]:
    d, k, l = grid.d, grid.k, grid.l  # noqa: E741
    if grid.family == "blocks":
        yield from _block_kinds(d, k, l)
        return
    if grid.family == "zeros, transposed":
        k, l = l, k  # noqa: E741
    yield Kind(1, Dependent(d, k, l))
    if d >= l and k > 1:  # otherwise the lines are dependent, or all zeros are in one column
        yield Kind(l**k - l, ZeroPattern(d, k, l, (1, *[0] * (k - 1))))


def _block_kinds(d: int, k: int, l: int) -> Iterator[Kind]:  # noqa: E741
    """One kind for each multiset of block sizes."""
    for sizes in _sizes(k, l, (k, l)):
        if len(sizes) > 1 and d == 1:
            continue  # all vectors of length one are parallel
        alike = [sizes.count(one) for one in set(sizes)]
        count = factorial(k) * factorial(l)
        count //= prod(factorial(a) * factorial(b) for a, b in sizes) * prod(map(factorial, alike))
        blocks, row, column = [], 0, 0
        for a, b in sizes:
            blocks.append((tuple(range(row, row + a)), tuple(range(column, column + b))))
            row, column = row + a, column + b
        yield Kind(count, Blocks(d, tuple(blocks)))


def _sizes(k: int, l: int, most: tuple[int, int]) -> Iterator[list[tuple[int, int]]]:  # noqa: E741
    """Multisets of pairs of positive numbers that add up to (k, l), largest first."""
    if k == l == 0:
        yield []
    for a in range(min(k, most[0]), 0, -1):
        for b in range(l, 0, -1):
            if (a, b) <= most:
                for rest in _sizes(k - a, l - b, (a, b)):
                    yield [(a, b), *rest]


def membership(grid: Grid, matrix: Array) -> Membership:
    """Which components contain a matrix of exact fractions."""
    if matrix.shape != (grid.d, grid.k * grid.l):
        given = " x ".join(map(str, matrix.shape))
        raise SegreError(
            f"the matrix is {given}; a {grid.k}x{grid.l} grid with d={grid.d} needs "
            f"{grid.d} x {grid.k * grid.l}"
        )
    x = matrix.reshape(grid.d, grid.k, grid.l)
    if reason := _outside(grid, x):
        return Membership(0, (), reason)
    if grid.family == "blocks":
        if grid.d == 1:
            return Membership(1, (next(_block_kinds(1, grid.k, grid.l)).example,))
        count, some = count_block_partitions(x), block_partitions(grid.d, x)
        return Membership(count, tuple(islice(some, LISTED)))
    if grid.family == "zeros, transposed":
        x = x.swapaxes(1, 2)
    d, k, l = x.shape  # noqa: E741
    own = Dependent(d, k, l)
    found: list[Component] = [own] if own.contains(x) else []
    count = len(found) + (count_zero_patterns(x) if d >= l else 0)
    if d >= l:
        found += islice(zero_patterns(d, k, l, x), LISTED - len(found))
    return Membership(count, tuple(found))


def _outside(grid: Grid, x: Array) -> str:
    """Why a point is not in the variety at all; empty if it is."""
    for name, count, lines, most in (
        ("column", grid.l, [x[:, :, j] for j in range(grid.l)], grid.s - 1),
        ("row", grid.k, [x[:, i] for i in range(grid.k)], grid.t - 1),
    ):
        for n in range(count):
            rank = Rationals().rank(lines[n])
            if rank > most:
                return f"grid {name} {n + 1} has rank {rank}; allowed: at most {most}"
    return ""


def said(grid: Grid, component: Component) -> str:
    """The points of a component in words, on the grid as it was given."""
    words = component.says
    if grid.family != "zeros, transposed":
        return words
    if isinstance(component, ZeroPattern):
        places = ", ".join(f"({j + 1}, {i})" for i, j in enumerate(component.zeros, 1))
        return f"parallel vectors in each grid row, and zero at {places}"
    return words.replace("grid column", "grid row")


# --- sizes, tangents, and matrices from files -----------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """The sizes: k x l places, vectors of length d, ranks below s in columns and t in rows.

    They say which theorem is about the variety: its `family`.
    """

    k: int
    l: int  # noqa: E741
    d: int
    s: int
    t: int

    def __post_init__(self) -> None:
        for name, value, most in (
            *(("k", self.k, LARGEST_GRID), ("l", self.l, LARGEST_GRID), ("d", self.d, LARGEST_D)),
            *(("s", self.s, LARGEST_D + 1), ("t", self.t, LARGEST_D + 1)),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise SegreError(f"{name}={value} is not allowed; allowed: 1 to {most}")

    @property
    def family(self) -> str:
        """`blocks` (s = t = 2), `zeros` (s = 2, t = l) or `zeros, transposed` (s = k, t = 2)."""
        if self.s == self.t == 2:
            return "blocks"
        if self.s == 2 and self.t == self.l > 1:
            return "zeros"
        if self.t == 2 and self.s == self.k > 1:
            return "zeros, transposed"
        raise UnsupportedError(
            f"s={self.s}, t={self.t} on a {self.k}x{self.l} grid is not supported; supported: s=2 "
            f"with t={self.l}, t=2 with s={self.k}, and s=t=2"
        )


def read_matrix(path: Path) -> Array:
    """The rows of an untrusted .csv or .json file: whole numbers, 3/7 or 0.5 (JSON: as strings)."""
    name = f"matrix {quote(str(path))}"
    if path.suffix.lower() not in ENDINGS:
        raise SegreError(f"{name}: unknown file type; allowed: {' and '.join(ENDINGS)} files")
    try:
        data = read_given(path, LONGEST_FILE).decode()
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "not text in UTF-8"
        raise SegreError(f"{name}: {said}") from None
    rows = _of_csv(data, name) if path.suffix.lower() == ".csv" else _of_json(data, name)
    try:
        found = number_array(rows, "rows")
    except WeightsError as error:
        raise SegreError(f"{name}: {error}") from None
    if found.dtype != object:
        raise SegreError(f'{name}: floats are not exact; write fractions as strings, such as "1/2"')
    if found.ndim != 2 or not found.size:
        raise SegreError(f"{name} has {found.ndim} axes; allowed: a list of rows of equal length")
    return found


def _of_csv(text: str, name: str) -> list[list[str]]:
    try:
        rows = [row for row in csv.reader(io.StringIO(text)) if row]
    except csv.Error as error:
        raise SegreError(f"{name}: {error}") from None
    if len({len(row) for row in rows}) != 1:
        raise SegreError(f"{name} has no rows, or rows of different lengths")
    return rows


def _of_json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SegreError(f"{name}: not a JSON document ({parse_failure(error)})") from None


def tangent(grid: Grid, component: Component, seed: int = 0) -> int:
    """Dimension of the tangent space of V at a random point mod p of a component.

    The gradients of the r-minors of a matrix A of rank r - 1 span the matrices u v^T with u^T A = 0
    and A v = 0; at a matrix of smaller rank they are zero.
    """
    field = Prime(seed=seed)
    drawn = 0

    def draw(shape: tuple[int, ...]) -> Array:
        nonlocal drawn
        found = field.residues(field.draw(Stream.WEIGHTS, drawn, shape))
        drawn += found.size
        return found.astype(object)

    x = component.point(draw) % field.p
    if grid.family == "zeros, transposed":
        x = x.swapaxes(1, 2)
    x = field.constant(x.astype(np.int64))
    places = np.arange(x.size).reshape(x.shape)
    space = Echelon(x.size, field)
    for r, lines in (
        (grid.s, [(slice(None), slice(None), j) for j in range(grid.l)]),
        (grid.t, [(slice(None), i, slice(None)) for i in range(grid.k)]),
    ):
        for line in lines:
            left, right = _kernel(field, x[line].T), _kernel(field, x[line])
            if len(x[line]) - len(left) == r - 1 and left.size and right.size:
                rows = np.zeros((len(left) * len(right), x.size))
                products = field.mul(left[:, None, :, None], right[None, :, None, :])
                rows[:, places[line].reshape(-1)] = products.reshape(len(rows), -1)
                space.add(rows)
    return int(x.size - space.rank)


def _kernel(field: Prime, matrix: Array) -> Array:
    space = Echelon(matrix.shape[1], field)
    space.add(np.ascontiguousarray(matrix))
    return field.reduce(space.kernel())
