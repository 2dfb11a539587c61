"""One lightning layer from samples: a linear system, then a factorisation.

Output o at query q is sum_k v_o(x_k) a_f(x_k) x_qf, summed over f: linear in the tensor
T[o, i, j, f], the symmetric matrices of the quadratic forms v_o a_f (half of the tensor in
`segre.geometry.strata`). The system has the same matrix for every o. Then v_o and a_f are
found as the factors of the forms: they are unique up to one scale, and if V and A both have rank
one up to an exchange (docs/recovery.md has the proof).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from typing import NamedTuple

import numpy as np
from flint import fmpq, fmpz

from segre.errors import TooLargeError
from segre.fields.interface import Array
from segre.fields.linear import Floats, LinearAlgebra, Rationals
from segre.fields.prime import PRIMES, Prime
from segre.fields.rank import Echelon
from segre.fields.rational import Rational
from segre.geometry.recovery.samples import NotThisLayer, Samples, TooFewInputs
from segre.geometry.strata import coefficient_tensor


class Head(NamedTuple):
    """The two matrices of a head that its function can determine."""

    V: Array
    A: Array


@dataclass(frozen=True)
class Forms:
    """The tensor T (d', d, d, d), and what the samples leave over: squares and their number."""

    T: Array
    squares: float
    freedom: int


def unknowns(d: int) -> int:
    """The size of the linear system: quadratic forms times linear forms."""
    return d * d * (d + 1) // 2


def least_inputs(d: int, t: int) -> int:
    """No fewer inputs than this can determine the tensor: each gives min(t, d) equations."""
    return -(-unknowns(d) // min(t, d))


def require_room(shape: tuple[int, ...], memory: int) -> None:
    """Stop, saying what would be needed, if the system of inputs of this shape is too large."""
    count, d, t = shape
    needed = 8 * 3 * count * t * unknowns(d)
    if needed > memory:
        raise TooLargeError(
            f"{count:,} inputs of width {d} would need about {needed / 2**30:,.1f} GiB for "
            f"{unknowns(d):,} unknowns, over the limit of {memory / 2**30:,.1f} GiB; raise it with "
            "--memory"
        )


def quadratic_forms(samples: Samples, memory: int) -> Forms:
    """Solve for the tensor: exactly, or in least squares; refuse if it is not determined."""
    d, outputs = samples.X.shape[1], samples.Y.shape[1]
    n = unknowns(d)
    require_room(samples.X.shape, memory)
    design = _design(samples.X)
    targets = samples.Y.swapaxes(1, 2).reshape(-1, outputs)
    if samples.exact:
        rows = _independent_rows(design)
        _require_rank(len(rows), samples)
        flat = Rationals().solve(design[rows], targets[rows])
        squares = 0.0
    else:
        sizes = np.linalg.norm(design, axis=1, keepdims=True)
        kept = sizes[:, 0] > 0
        _require_rank(Floats().rank(design[kept] / sizes[kept]), samples)
        Q, R = np.linalg.qr(design)
        flat = np.linalg.solve(R, Q.T @ targets)
        squares = float(((design @ flat - targets) ** 2).sum())
    return Forms(_unpack(flat, d), squares, len(design) * outputs - n * outputs)


def factor(T: Array) -> list[Head]:
    """Heads whose tensor is T: one, or two if V and A can be exchanged; for floats the two best.

    The slice c^T T e = v_c a_e is a product of two linear forms, one of which is v_c. Either
    one gives A by division, and A gives V; each step is a linear least-squares problem of
    condition at most 2, so that it serves floats and fractions alike.
    """
    exact = T.dtype == object
    c, e = _strong_slice(T)
    slice_ = np.tensordot(c, np.tensordot(T, e, axes=1), axes=1)
    along = np.tensordot(c, T, axes=1)
    found = []
    for p in _split_exactly(slice_) if exact else _split(slice_):
        square = p @ p
        half = p @ along  # (d, f): S p for each S = sym(p (x) a_f)
        A = 2 * half / square - np.multiply.outer(p, p @ half) / (square * square)
        V = _other(T, A)
        if not exact:  # one round of averaging over all outputs
            A = _other(T.transpose(3, 1, 2, 0), V.T).T
        found.append(Head(V, A))
    return found


def miss(head: Head, T: Array) -> Array:
    """The tensor of a head minus T."""
    return coefficient_tensor(head.V, head.A) / 2 - T


def _other(T: Array, A: Array) -> Array:
    """V from A, by least squares: (|A|^2 + A A^T) v_o / 2 = sum_f T[o, :, :, f] a_f."""
    algebra: LinearAlgebra = Rationals() if T.dtype == object else Floats()
    identity = np.eye(len(A), dtype=int)
    if T.dtype == object:
        identity = Rational().constant(identity)
    right = np.tensordot(T, A, axes=([2, 3], [0, 1]))
    return algebra.solve(identity * (A * A).sum() + A @ A.T, 2 * right.T).T


def _strong_slice(T: Array) -> tuple[Array, Array]:
    """Combinations of outputs and of queries for which the product of forms is not small."""
    outputs, queries = len(T), T.shape[-1]
    if T.dtype == object:
        o, f = np.argwhere((T != 0).any(axis=(1, 2)))[0]
        c, e = (np.arange(outputs) == o).astype(int), (np.arange(queries) == f).astype(int)
        return Rational().constant(c), Rational().constant(e)
    c = np.linalg.svd(T.reshape(outputs, -1), full_matrices=False)[0][:, 0]
    e = np.linalg.svd(T.reshape(-1, queries), full_matrices=False)[2][0]
    return c, e


def _split(S: Array) -> list[Array]:
    """The two linear forms whose product is nearest to the form S."""
    values, vectors = np.linalg.eigh(S)
    plus = np.sqrt(max(values[-1], 0.0)) * vectors[:, -1]
    minus = np.sqrt(max(-values[0], 0.0)) * vectors[:, 0]
    return [plus + minus, plus - minus]


def _split_exactly(S: Array) -> list[Array]:
    """The linear forms whose product is S (one if it is a square), with rational coefficients.

    S is the symmetric part of p q^T. If a minor of S on rows and columns (i, j) is not zero,
    its negative is the square of the skew part's entry, and the skew part is a multiple of
    u w^T - w u^T, with u and w the two columns of S.
    """
    d = len(S)
    i, j = _minor(S)
    if i == j:
        return [S[:, i]]
    minor = S[i, i] * S[j, j] - S[i, j] * S[i, j]
    root = _root(-minor)
    if root is None:
        raise NotThisLayer(
            "the outputs are not those of one lightning head with rational weights: a quadratic "
            "form has no rational factors; give the data as floats to find real weights"
        )
    u, w = S[:, i], S[:, j]
    skew = (np.multiply.outer(u, w) - np.multiply.outer(w, u)) * (root / minor)
    product = S + skew
    column = next(k for k in range(d) if any(product[:, k]))
    row = next(k for k in range(d) if any(product[k]))
    return [product[:, column], product[row]]


def _minor(S: Array) -> tuple[int, int]:
    """Rows i, j of a 2 x 2 principal minor that is not zero; i = j if S has rank one."""
    d = len(S)
    for i in range(d):
        for j in range(i):
            if S[i, i] * S[j, j] != S[i, j] * S[i, j]:
                return i, j
    return (next(i for i in range(d) if S[i, i]),) * 2


def _root(x: fmpq) -> fmpq | None:
    """The rational square root, if there is one."""
    if x < 0:
        return None
    top, bottom = fmpz(x.p).isqrt(), fmpz(x.q).isqrt()
    root = fmpq(top, bottom)
    return root if root * root == x else None


def _design(X: Array) -> Array:
    """The matrix of the system: a row per input and query, a column per i <= j and f."""
    n, d, t = X.shape
    i, j = np.triu_indices(d)
    grams = np.matmul(X, X.swapaxes(1, 2))[:, i, j] * np.where(i < j, 2, 1)
    queries = X.swapaxes(1, 2)
    return np.asarray(grams[:, None, :, None] * queries[:, :, None, :]).reshape(n * t, -1)


def _unpack(flat: Array, d: int) -> Array:
    """The symmetric tensor from its entries with i <= j."""
    i, j = np.triu_indices(d)
    packed = flat.T.reshape(-1, len(i), d)
    T = np.empty((len(packed), d, d, d), dtype=flat.dtype)
    T[:, i, j] = packed
    T[:, j, i] = packed
    return T


def _independent_rows(design: Array) -> list[int]:
    """Rows that form a basis of the row space; found mod p, where rank can only be smaller."""
    most: list[int] = []
    for p in PRIMES[:3]:
        field = Prime(p)
        residues = []
        for row in design.tolist():
            common = lcm(*(int(x.q) for x in row))  # scaling a row changes no independence
            residues.append([int(x.p) * (common // int(x.q)) % p for x in row])
        space = Echelon(design.shape[1], field)
        space.add(field.constant(np.array(residues, dtype=np.int64)))
        most = max(most, sorted(space.pivot_rows), key=len)
        if len(most) == design.shape[1]:
            break
    return most


def _require_rank(rank: int, samples: Samples) -> None:
    _, d, t = samples.X.shape
    n = unknowns(d)
    if rank < n:
        more = -(-(n - rank) // min(t, d))
        raise TooFewInputs(
            f"too few inputs: {len(samples)} of {d} x {t} give {rank} independent equations for "
            f"{n} unknowns; give at least {more} more input{'s' * (more > 1)} in general position"
        )
