"""Where on the space of functions of one lightning layer does a point lie?

The functions X -> V X (X^T A X), rank A <= a, form a closed cone. Output o and query entry f hold
the product of the linear forms v_o (row of V) and a_f (column of A), and factorisation is unique,
so (docs/geometry.md has the proofs), for d >= 2 and d' >= 2 or a >= 2:

- the fiber of (V, A) is {(c V, A / c)}, and with rank V = rank A = 1, V = u w^T, A = k q^T, also
  the swapped pair (u k^T, w q^T);
- singular are the zero function, rank A < a where a < d, and rank V = rank A = 1: two sheets cross,
  or, if w is parallel to k, the sheet folds;
- on the boundary (of the real points of the Zariski closure) are the folds and the zero function.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from segre.errors import SegreError
from segre.fields.interface import Array
from segre.fields.linear import Floats, LinearAlgebra, Rationals
from segre.fields.rational import Rational
from segre.finding import Status, Unbounded
from segre.geometry.closed_form import closed_form
from segre.spec import Network

Reason = Literal["zero function", "rank drop of A", "crossing sheets", "fold"]


class KindOfPoint(Unbounded):
    """A point of a space of functions, smooth or singular."""

    singular: bool
    exact: bool

    @property
    def kind(self) -> str:
        """Smooth or singular."""
        return "singular" if self.singular else "smooth"

    @property
    def value(self) -> str:
        """The kind of point."""
        return self.kind

    @property
    def status(self) -> Status:
        """Exact for fractions; floats are measured."""
        return "exact" if self.exact else "measured"


@dataclass(frozen=True)
class Stratum(KindOfPoint):
    """What kind of point a function is, and the numbers behind it.

    `tangent` is the rank of the parametrisation at the given weights (or at one factorisation of
    A); `tangent_span` is the dimension spanned by its images at all weights with the same function.
    At a smooth point both equal `dimension`.
    """

    d: int
    d_out: int
    a: int
    rank_V: int
    rank_A: int
    singular: bool
    reasons: tuple[Reason, ...]
    boundary: bool
    fiber: tuple[str, ...]
    dimension: int
    tangent: int
    tangent_span: int
    exact: bool

    @property
    def how(self) -> str:
        """How it is known."""
        return f"ranks of V, of A and of tangents, in {'fractions' if self.exact else 'float64'}"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {"kind": self.kind, **asdict(self)}


def classify(V: Array, A: Array, a: int, weights: tuple[Array, Array] | None = None) -> Stratum:
    """The stratum of X -> V X (X^T A X) among all functions with rank A <= a, on t > 1 tokens.

    `V` and `A` are the matrices of the function, and `a` is the rank that the layer allows.
    `weights` are K and Q with K^T Q = A, if the point is given by weights. Entries are float64 or
    exact fractions; for fractions the answer is exact.

    >>> V, A = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> classify(V, A, a=2).kind
    'smooth'
    >>> w = np.array([[1.0, 2.0]])
    >>> at_fold = classify(np.ones((2, 1)) @ w, w.T @ np.ones((1, 2)), a=2)
    >>> at_fold.kind, at_fold.reasons, at_fold.boundary
    ('singular', ('fold',), True)
    """
    algebra, V, A = _checked(V, A, a)
    d_out, d = V.shape
    rank_V, rank_A = algebra.rank(V), algebra.rank(A)
    zero = rank_V == 0 or rank_A == 0
    one_one = rank_V == rank_A == 1
    fold = one_one and _parallel(algebra, V, A)
    reasons: list[Reason] = []
    if d > 1:
        swap_everywhere = d_out == 1 and min(a, d) == 1
        if zero:
            reasons.append("zero function")
        elif rank_A < min(a, d) and a < d:
            reasons.append("rank drop of A")
        if fold:
            # with d' = a = 1, d = 2 all quadratics are products over C: the closure is smooth there
            if not (swap_everywhere and d == 2):
                reasons.append("fold")
        elif one_one and not swap_everywhere:
            reasons.append("crossing sheets")
    spec = Network.parse({"kind": "lightning", "d": [d, d_out], "a": a, "t": 2})
    K, Q = weights if weights is not None else factor(algebra, A, a)
    span = [tangent_vectors(V, K, Q)]
    span += [tangent_vectors(*point) for point in _fiber_points(algebra, V, A, a)]
    return Stratum(
        d=d,
        d_out=d_out,
        a=a,
        rank_V=rank_V,
        rank_A=rank_A,
        singular=bool(reasons),
        reasons=tuple(reasons),
        boundary=(fold or zero) and d > 1,
        fiber=_components(zero, one_one and not fold, d),
        dimension=closed_form(spec).value,
        tangent=algebra.rank(span[0]),
        tangent_span=algebra.rank(np.concatenate(span)),
        exact=algebra.exact,
    )


def factor(algebra: LinearAlgebra, A: Array, a: int) -> tuple[Array, Array]:
    """K and Q (a x d) with K^T Q = A."""
    columns, coordinates = factor_through(algebra, A, a)
    return columns.T, coordinates


def factor_through(algebra: LinearAlgebra, matrix: Array, inner: int) -> tuple[Array, Array]:
    """A matrix of rank at most `inner` as (rows x inner) times (inner x columns).

    The first factor has pivot columns, and the second the matrix in terms of them.
    """
    columns = matrix[:, algebra.pivots(matrix)]
    rows = algebra.pivots(columns.T)
    coordinates = algebra.solve(columns[rows], matrix[rows])
    return padded(columns, len(matrix), inner), padded(coordinates, inner, matrix.shape[1])


def padded(matrix: Array, rows: int, columns: int) -> Array:
    """A matrix with zeros below and to the right."""
    blank = np.zeros((rows, columns))
    out = Rational().constant(blank) if matrix.dtype == object else blank
    out[: matrix.shape[0], : matrix.shape[1]] = matrix
    return out


def swapped(algebra: LinearAlgebra, V: Array, A: Array) -> tuple[Array, Array]:
    """The other pair with the same function: V = u w^T, A = k q^T gives (u k^T, w q^T)."""
    (u, w), (k, q) = _rank_one(algebra, V), _rank_one(algebra, A)
    return np.outer(u, k), np.outer(w, q)


def _checked(V: Array, A: Array, a: int) -> tuple[LinearAlgebra, Array, Array]:
    algebra: LinearAlgebra = Rationals() if V.dtype == A.dtype == object else Floats()
    if V.ndim != 2 or A.ndim != 2 or A.shape != (V.shape[1],) * 2 or not V.size:
        raise SegreError(
            f"V has shape {V.shape} and A has shape {A.shape}; allowed: d' x d for V and d x d "
            "for A"
        )
    if not algebra.exact and not (np.isfinite(V).all() and np.isfinite(A).all()):
        raise SegreError("V and A must be finite, but there is a NaN or an infinity among them")
    if a < 1 or algebra.rank(A) > a:
        raise SegreError(f"A has rank {algebra.rank(A)}, which is more than a = {a}")
    return algebra, V, A


def _rank_one(algebra: LinearAlgebra, matrix: Array) -> tuple[Array, Array]:
    """A matrix of rank one as (column, row)."""
    column = matrix[:, algebra.pivots(matrix)[0]]
    top = int(np.argmax(np.abs(column.astype(float)))) if not algebra.exact else _first(column)
    return column, matrix[top] / column[top]


def _first(column: Array) -> int:
    return next(i for i, entry in enumerate(column) if entry)


def _parallel(algebra: LinearAlgebra, V: Array, A: Array) -> bool:
    (_, w), (k, _) = _rank_one(algebra, V), _rank_one(algebra, A)
    if not algebra.exact:
        w, k = w / np.linalg.norm(w), k / np.linalg.norm(k)
    return algebra.rank(np.stack([w, k])) == 1


def _components(zero: bool, swap: bool, d: int) -> tuple[str, ...]:
    if zero:
        return ("{V = 0, A arbitrary}", "{A = 0, V arbitrary}")
    scaled = "{(c V, A / c): c != 0}"
    return (
        (scaled, "{(c V', A' / c): c != 0}, V' = u k^T, A' = w q^T")
        if swap and d > 1
        else (scaled,)
    )


def _fiber_points(
    algebra: LinearAlgebra, V: Array, A: Array, a: int
) -> list[tuple[Array, Array, Array]]:
    """Other weights with the same function, enough to see every sheet that passes through it."""
    d_out, d = V.shape
    rank_V, rank_A = algebra.rank(V), algebra.rank(A)
    pairs = [(V, A)]
    if rank_V == 0 or rank_A == 0:
        rng = np.random.default_rng(0)
        grid = [V - V + _integers(rng, (d_out, d), algebra) for _ in range(d_out * d)]
        some = factor(algebra, A - A, a)
        free = [(g, some[0], _integers(rng, (a, d), algebra)) for g in grid]
        free += [
            (V - V, _integers(rng, (a, d), algebra), _integers(rng, (a, d), algebra))
            for _ in range(d * d)
        ]
        return free
    if rank_V == rank_A == 1:
        pairs.append(swapped(algebra, V, A))
    points = []
    for pair_V, pair_A in pairs:
        K, Q = factor(algebra, pair_A, a)
        points.append((pair_V, K, Q))
        rank = algebra.rank(pair_A)
        for row in range(rank, a):  # rows that A does not need: one factor may be anything
            for i in range(d):
                for name in (0, 1):
                    moved = (K.copy(), Q.copy())
                    moved[name][row, i] = moved[name][row, i] + 1
                    points.append((pair_V, *moved))
    return points


def _integers(rng: np.random.Generator, shape: tuple[int, int], algebra: LinearAlgebra) -> Array:
    drawn = rng.integers(-9, 10, shape)
    return Rational().constant(drawn) if algebra.exact else drawn.astype(float)


# --- one lightning layer as a polynomial ----------------------------------------------------------


def coefficient_tensor(V: Array, A: Array) -> Array:
    """T of one head, or of several along the first axis of V and A.

    Output o at query x_q is sum_k v_o(x_k) a(x_k, x_q): for each output o and each entry f of the
    query a product of two linear forms, v_o (row o of V) and a_f (column f of A). Only the
    symmetrised product is visible, so with t > 1 tokens the function is the tensor

        T[o, i, j, f] = sum_h  V_h[o, i] A_h[j, f] + V_h[o, j] A_h[i, f].


    >>> V, A = np.array([[1, 2]]), np.array([[3, 0], [4, 0]])
    >>> coefficient_tensor(V, A)[0, :, :, 0]
    array([[ 6, 10],
           [10, 16]])
    """
    if V.ndim == 2:
        V, A = V[None], A[None]
    product = (V[:, :, :, None, None] * A[:, None, None, :, :]).sum(axis=0)
    return np.asarray(product + product.swapaxes(1, 2))


def scale_place(A: Array) -> int:
    """The entry of A (row-major) that fixing the scale of a lightning head makes 1.

    In fractions the first that is not zero; in floats the first of the largest, with some slack so
    that rounding does not choose between entries of equal size. A must have entries.
    """
    flat = A.reshape(-1)
    if A.dtype == object:
        return int(np.argmax(flat != 0))
    size = np.abs(flat)
    return int(np.argmax(size > size.max() * (1 - 1e-6)))


def tangent_vectors(V: Array, K: Array, Q: Array) -> Array:
    """Derivatives of T at weights (V, K, Q) of one head, by all weights: one per row.

    T is bilinear in V and A = K^T Q, so each is the tensor of a changed factor.
    """
    A = K.T @ Q
    rows = [coefficient_tensor(_unit(V, o, i), A) for o, i in np.ndindex(V.shape)]
    rows += [coefficient_tensor(V, _unit(K, r, j).T @ Q) for r, j in np.ndindex(K.shape)]
    rows += [coefficient_tensor(V, K.T @ _unit(Q, r, f)) for r, f in np.ndindex(Q.shape)]
    return np.stack([row.reshape(-1) for row in rows])


def _unit(like: Array, row: int, column: int) -> Array:
    """The matrix with a single one, in the numbers of `like`."""
    out = like - like
    out[row, column] = out[row, column] + 1
    return np.asarray(out)
