"""Differences of the invariants of two reduced parts, in one basis.

What is compared does not depend on free choices: products of queries and keys and of values and
outputs by head, units by unit, tables row by row, biases. Weights and biases are compared
separately, so that a large bias does not hide a matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from segre.checkpoint.layout import Tensors
from segre.checkpoint.planes import planes, rotary_key, still, turning
from segre.checkpoint.reduce import Reduced
from segre.checkpoint.sizes import row_blocks
from segre.fields.interface import Array
from segre.fields.threads import threads_for
from segre.transformer.spec import Transformer

BY_COLUMN = ("tokens", "W_P", "positions", "types", "W_down", "S_down")  # whose columns have names
CANCELLED = 1e-9  # a sum of squares less than this fraction of its terms has lost digits
WORDS = {"tokens": "token", "W_P": "entry", "positions": "position", "types": "type"}
MEMBERS = {  # of tensors that are compared row by row: how a row is called
    **{f"W_{name}": f"MLP unit {{}}, W_{name}" for name in ("gate", "up", "down")},
    **{f"S_{name}": f"MLP shared unit {{}}, S_{name}" for name in ("gate", "up", "down")},
    "A_Q": "query latent {}, A_Q",
    "A_K": "key-value latent {}, A_K",
    "W_R": "MLP expert {}, W_R",
}
IN_PRODUCTS = {"W_V", "W_O", "b_V", "W_Q", "W_K", "b_Q", "b_K", "R_Q", "R_K"}


@dataclass(frozen=True)
class Measure:
    """Differences of one kind of invariant, member by member: heads, units, rows of a table."""

    kind: str
    member: str  # how a member is called: "head {}, OV"
    differences: Array
    sizes: Array
    entries: int  # numbers in one member
    first: int = 1  # the number of the first member; tokens and positions count from 0


def measures(spec: Transformer, one: Reduced, two: Reduced) -> Iterator[Measure]:
    """All invariants compared in a part; `two` is in the basis of `one`."""
    a, b = one.tensors, two.tensors
    if one.part not in ("embed", "head"):
        yield _heads("OV", spec.dv * spec.d, *products(a["W_O"], a["W_V"], b["W_O"], b["W_V"]))
        yield from _scores(spec.at(one.part), a, b)
        for name in (name for name in MEMBERS if name in a):
            x, y = (_side_by_side(w[name], name) for w in (a, b))
            yield _rows(x, y, name, MEMBERS[name])
            if name == "A_K" and "R_K" in a:
                asked, met = ([rotary_key(spec, w[x]) for w in (a, b)] for x in ("R_Q", "R_K"))
                yield _plane_products("rotary QK", spec.rotary_dim * spec.d, asked, met)
        yield from _written_biases(spec, a, b)
    for name in a:
        if name in WORDS or name == "W_U":
            word = WORDS.get(name, "label" if spec.labels else "token")
            unused = spec.offset if name == "positions" else 0
            x, y = (table[:, unused:] for table in (a[name], b[name]))
            yield from _table(x, y, name, f"{name}, {word} {{}}")
        elif name not in MEMBERS and name not in IN_PRODUCTS:
            yield _whole(name, a[name], b[name])


def _written_biases(spec: Transformer, a: Tensors, b: Tensors) -> Iterator[Measure]:
    """What biases of values write through the outputs."""
    if "b_V" in a:
        written = [w["W_O"] @ w["b_V"] for w in (a, b)]
        if not spec.sums_to_one:
            yield _by_head("b_V", *written)
        elif "b_O" not in a:  # only the sum over heads matters
            yield _whole("sum of value biases", *(x.sum(axis=(0, 1)) for x in written))


def _side_by_side(units: Array, name: str) -> Array:
    """The units of all experts, one after the other, as those of a dense layer."""
    if units.ndim == 2:
        return units
    if name in BY_COLUMN:
        return np.moveaxis(units, 1, 0).reshape(units.shape[1], -1)
    return units.reshape(-1, units.shape[-1])


def _whole(name: str, one: Array, two: Array) -> Measure:
    """A vector, or the matrix of a pooler or transform, as one member."""
    difference, size = np.linalg.norm(one - two), np.linalg.norm(one)
    return Measure(name, name, np.array([difference]), np.array([size]), one.size)


def _table(one: Array, two: Array, name: str, member: str) -> Iterator[Measure]:
    """A table row by row, and what all rows share: rounding of gains shifts them together."""
    axis = 1 if name in BY_COLUMN else 0
    means = [table.mean(axis=axis, keepdims=True) for table in (one, two)]
    yield replace(_rows(one, two, name, member, means[0] - means[1]), first=0)
    shift = _whole(f"{name}, common shift", *means)
    rows = float(np.linalg.norm(one)) / one.shape[axis] ** 0.5  # the shift may be next to nothing
    yield replace(shift, sizes=np.array([rows]))


def _rows(one: Array, two: Array, name: str, member: str, shift: Array | float = 0.0) -> Measure:
    """Units, tokens or positions, one by one, after their common shift is removed."""
    if name in BY_COLUMN:
        one, two, shift = one.T, two.T, np.transpose(shift)
    squares = np.zeros((2, len(one)))
    across = not one.flags.c_contiguous  # then entries are taken together that lie together
    for start, stop in row_blocks(one.shape[int(across)], one.size):
        some = np.s_[:, start:stop] if across else np.s_[start:stop]
        own = np.s_[:] if across else some
        apart = one[some] - two[some]
        if np.any(shift):
            apart -= np.broadcast_to(shift, one.shape)[some]
        for total, x in zip(squares, (apart, one[some]), strict=True):
            total[own] += np.einsum("ij,ij->i", x, x)
    differences, sizes = np.sqrt(squares)
    return Measure(name, member, differences, sizes, one.shape[1])


# --- heads ------------------------------------------------------------------------------------


def _heads(kind: str, entries: int, differences: Array, sizes: Array) -> Measure:
    """Differences and sizes (kv, group), head by head."""
    return Measure(kind, f"head {{}}, {kind}", differences.ravel(), sizes.ravel(), entries)


def _by_head(kind: str, one: Array, two: Array) -> Measure:
    """Matrices (kv, group, rows, columns)."""
    both = (np.sqrt((x**2).sum(axis=(-1, -2))) for x in (one - two, one))
    return _heads(kind, one.shape[-1] * one.shape[-2], *both)


def _scores(spec: Transformer, a: Tensors, b: Tensors) -> Iterator[Measure]:
    if spec.qknorm:  # under norms, queries and keys themselves are invariant (up to half turns)
        for name in ("W_Q", "W_K", "b_Q", "b_K"):
            if name in a:
                yield _by_head(name, a[name], b[name])
        return
    if turning(spec):
        yield from _turning_scores(spec, a, b)
    if spec.still:
        yield from _still_scores(spec, a, b)


def _still_scores(spec: Transformer, a: Tensors, b: Tensors) -> Iterator[Measure]:
    """Products in the dimensions that are not rotary, and the contribution of biases."""
    names = [name for name in ("W_Q", "W_K", "b_Q", "b_K") if name in a]
    both = [{name: still(spec, w[name]) for name in names} for w in (a, b)]
    where = " still" if turning(spec) else ""
    q1, q2 = (w["W_Q"].swapaxes(-1, -2) for w in both)
    found = products(q1, both[0]["W_K"], q2, both[1]["W_K"])
    yield _heads(f"QK{where}", spec.still * spec.d, *found)
    if "b_Q" in a:
        yield _by_head(f"b_Q{where}", *(w["W_K"].swapaxes(-1, -2) @ w["b_Q"] for w in both))
        if not spec.ignores_shifts:
            queries = (np.concatenate([w["W_Q"], w["b_Q"]], axis=-1) for w in both)
            met = (q.swapaxes(-1, -2) @ w["b_K"] for q, w in zip(queries, both, strict=True))
            yield _by_head(f"b_K{where}", *met)


def products(left1: Array, right1: Array, left2: Array, right2: Array) -> tuple[Array, Array]:
    """|left1 right1 - left2 right2| and |left1 right1| of (..., d, n) and (..., n, d).

    Without large matrices: the difference is (left1 - left2) right1 + left2 (right1 - right2), and
    its norm follows from inner products, unless the two terms cancel.
    """
    left, right = left1 - left2, right1 - right2

    def inner(a: Array, b: Array, c: Array, d: Array) -> Array:
        found = (a.swapaxes(-1, -2) @ b) * (c @ d.swapaxes(-1, -2))
        return np.asarray(found.sum(axis=(-1, -2)))

    one = inner(left, left, right1, right1)
    two = inner(left2, left2, right, right)
    squares = one + two + 2 * inner(left, left2, right1, right)
    differences = np.sqrt(squares.clip(0))
    sizes = np.sqrt(inner(left1, left1, right1, right1).clip(0))
    for at in zip(*np.nonzero(squares < CANCELLED * (one + two)), strict=True):
        factors = (
            np.broadcast_to(x, (*squares.shape, *x.shape[-2:]))[at]
            for x in (left1, right1, left2, right2)
        )
        differences[at], sizes[at] = _product(*factors)
    return differences, sizes


def _product(left1: Array, right1: Array, left2: Array, right2: Array) -> tuple[float, float]:
    """The same for one pair, by orthogonal bases, which is accurate under cancellation."""
    n = left1.shape[1]
    with threads_for(n):
        r1 = np.linalg.qr(np.concatenate([left1, left2], axis=1))[1]
        r2 = np.linalg.qr(np.concatenate([right1, right2]).T)[1]
    size = float(np.linalg.norm(r1[:, :n] @ r2[:, :n].T))
    difference = r1[:, :n] @ r2[:, :n].T - r1[:, n:] @ r2[:, n:].T
    return float(np.linalg.norm(difference)), size


def _turning_scores(spec: Transformer, a: Tensors, b: Tensors) -> Iterator[Measure]:
    """Products of planes, and the contributions of biases, seen plane by plane."""
    q, k = ([planes(spec, w[name]) for w in (a, b)] for name in ("W_Q", "W_K"))
    yield _plane_products("QK", turning(spec) * spec.d, q, k)
    for name, by in (("b_Q", _norm(k[0])), ("b_K", _norm(_norm(q[0]).swapaxes(1, 2))[:, None])):
        if name in a:
            x, y = (planes(spec, w[name])[..., 0] for w in (a, b))
            yield _heads(name, turning(spec), _norm(np.abs(x - y) * by), _norm(np.abs(x) * by))


def _plane_products(kind: str, entries: int, q: list[Array], k: list[Array]) -> Measure:
    """Products of planes, conj(q) k, one for each, whose phases are matched already."""
    apart = _norm(q[0]) * _norm(k[0] - k[1]) + _norm(q[0] - q[1]) * _norm(k[1])
    return _heads(kind, entries, _norm(apart), _norm(_norm(q[0]) * _norm(k[0])))


def _norm(x: Array) -> Array:
    return np.asarray(np.linalg.norm(x, axis=-1))
