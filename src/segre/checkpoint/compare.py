"""Differences of the invariants of two reduced parts, in one basis.

What is compared does not depend on free choices: products of queries and keys and of values and
outputs by head, units by unit, tables row by row, biases. Weights and biases are compared
separately, so that a large bias does not hide a matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from segre.checkpoint.layout import Tensors
from segre.checkpoint.planes import planes, rotary_key, still, turning
from segre.checkpoint.reduce import Reduced
from segre.checkpoint.sizes import row_blocks
from segre.checkpoint.units import SHARED, kinds
from segre.fields.interface import Array
from segre.fields.threads import threads_for
from segre.transformer.spec import Transformer

BY_COLUMN = ("tokens", "W_P", "positions", "types", "W_down", "S_down")  # whose columns have names
CANCELLED = 1e-9  # a sum of squares less than this fraction of its terms has lost digits
WORDS = {"tokens": "token", "W_P": "entry", "positions": "position", "types": "type"}


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
    seen: set[str] = set()
    if one.part not in ("embed", "head"):
        yield _values(spec, a, b)
        yield from _scores(spec.at(one.part), a, b)
        seen = {"W_V", "W_O", "b_V", "W_Q", "W_K", "b_Q", "b_K"}
        for name in (f"{kind}_{name}" for kind in kinds(a) for name in ("gate", "up", "down")):
            if name in a:
                word = "shared unit" if name.startswith(SHARED) else "unit"
                x, y = (_side_by_side(w[name], name) for w in (a, b))
                yield _rows(x, y, name, f"MLP {word} {{}}, {name}")
                seen.add(name)
        if spec.latent:
            yield from _latents(spec, a, b)
            seen |= {"A_Q", "A_K", "R_Q", "R_K"}
        if "W_R" in a:
            yield _rows(a["W_R"][:, 0], b["W_R"][:, 0], "W_R", "MLP expert {}, W_R")
            seen.add("W_R")
        if "b_V" in a and not spec.sums_to_one:
            yield _value_biases(spec, a, b)
        elif "b_V" in a and "b_O" not in a:
            sums = [(w["W_O"] @ w["b_V"]).sum(axis=(0, 1)) for w in (a, b)]
            yield _whole("sum of value biases", sums[0], sums[1])
    for name in a:
        if name in seen:
            continue
        if name in WORDS or name == "W_U":
            word = WORDS.get(name, "label" if spec.labels else "token")
            unused = spec.offset if name == "positions" else 0
            x, y = (table[:, unused:] for table in (a[name], b[name]))
            yield from _table(x, y, name, f"{name}, {word} {{}}")
        else:
            yield _whole(name, a[name], b[name])


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


def _by_head(
    spec: Transformer, kind: str, entries: int, found: Callable[[int, int], tuple[float, float]]
) -> Measure:
    both = np.array([found(i, j) for i in range(spec.kv) for j in range(spec.group)])
    return Measure(kind, f"head {{}}, {kind}", both[:, 0], both[:, 1], entries)


def _heads(kind: str, entries: int, found: tuple[Array, Array]) -> Measure:
    """Differences and sizes (kv, group), head by head."""
    return Measure(kind, f"head {{}}, {kind}", found[0].ravel(), found[1].ravel(), entries)


def _values(spec: Transformer, a: Tensors, b: Tensors) -> Measure:
    return _heads("OV", spec.dv * spec.d, products(a["W_O"], a["W_V"], b["W_O"], b["W_V"]))


def _value_biases(spec: Transformer, a: Tensors, b: Tensors) -> Measure:
    """The output of value biases, head by head."""

    def found(i: int, j: int) -> tuple[float, float]:
        return _distance(*(w["W_O"][i, j] @ w["b_V"][i, 0] for w in (a, b)))

    return _by_head(spec, "b_V", spec.d, found)


def _scores(spec: Transformer, a: Tensors, b: Tensors) -> Iterator[Measure]:
    if spec.qknorm:  # under norms, queries and keys themselves are invariant (up to half turns)
        for name in ("W_Q", "W_K", "b_Q", "b_K"):
            if name in a:
                yield _each_head(name, a[name], b[name])
        return
    if turning(spec):
        yield from _turning_scores(spec, a, b)
    if spec.still:
        yield from _still_scores(spec, a, b)


def _still_scores(spec: Transformer, a: Tensors, b: Tensors) -> Iterator[Measure]:
    """Products in the dimensions that are not rotary, and the contribution of biases."""
    names = [name for name in ("W_Q", "W_K", "b_Q", "b_K") if name in a]
    one, two = ({name: still(spec, w[name]) for name in names} for w in (a, b))
    where = " still" if turning(spec) else ""

    def asked(i: int, j: int) -> tuple[float, float]:
        return _distance(*(w["W_K"][i, 0].T @ w["b_Q"][i, j] for w in (one, two)))

    def met(i: int, j: int) -> tuple[float, float]:
        both = (np.concatenate([w["W_Q"][i, j], w["b_Q"][i, j]], axis=1) for w in (one, two))
        biases = (one["b_K"][i, 0], two["b_K"][i, 0])
        return _distance(*(q.T @ k for q, k in zip(both, biases, strict=True)))

    q1, q2 = (w["W_Q"].swapaxes(-1, -2) for w in (one, two))
    found = products(q1, one["W_K"], q2, two["W_K"])
    yield _heads(f"QK{where}", spec.still * spec.d, found)
    if "b_Q" in a:
        yield _by_head(spec, f"b_Q{where}", spec.d, asked)
        if not spec.ignores_shifts:
            yield _by_head(spec, f"b_K{where}", spec.d + 1, met)


def _distance(x: Array, y: Array) -> tuple[float, float]:
    return float(np.linalg.norm(x - y)), float(np.linalg.norm(x))


def _each_head(name: str, one: Array, two: Array) -> Measure:
    """(kv, group, rows, columns), head by head."""

    def norms(x: Array) -> Array:
        return np.asarray(np.sqrt((x**2).sum(axis=(-1, -2)))).ravel()

    entries = one.shape[-1] * one.shape[-2]
    return Measure(name, f"head {{}}, {name}", norms(one - two), norms(one), entries)


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


def _latents(spec: Transformer, a: Tensors, b: Tensors) -> Iterator[Measure]:
    """What writes latents, row by row; and products of the rotary key with the queries."""
    for name in ("A_Q", "A_K"):
        if name in a:
            word = "query" if name == "A_Q" else "key-value"
            yield _rows(a[name], b[name], name, f"{word} latent {{}}, {name}")
    if "R_K" not in a:
        return
    q1, q2, k1, k2 = (rotary_key(spec, w[name]) for name in ("R_Q", "R_K") for w in (a, b))

    def products(i: int, j: int) -> tuple[float, float]:
        q, k = (np.linalg.norm(x, axis=-1) for x in (q1[i, j], k2))
        apart = q * np.linalg.norm(k1 - k2, axis=-1)
        apart = apart + np.linalg.norm(q1[i, j] - q2[i, j], axis=-1) * k
        size = np.linalg.norm(q * np.linalg.norm(k1, axis=-1))
        return float(np.linalg.norm(apart)), float(size)

    yield _by_head(spec, "rotary QK", spec.rotary_dim * spec.d, products)


def _turning_scores(spec: Transformer, a: Tensors, b: Tensors) -> Iterator[Measure]:
    """Products of planes, conj(q) k, one for each, whose phases are matched already."""

    def norm(x: Array) -> Array:
        return np.asarray(np.linalg.norm(x, axis=-1))

    q1, q2, k1, k2 = (planes(spec, w[name]) for name in ("W_Q", "W_K") for w in (a, b))

    apart = norm(q1) * norm(k1 - k2) + norm(q1 - q2) * norm(k2)
    yield _heads("QK", turning(spec) * spec.d, (norm(apart), norm(norm(q1) * norm(k1))))
    for name in ("b_Q", "b_K"):
        if name in a:
            x, y = (planes(spec, w[name])[..., 0] for w in (a, b))
            by = norm(k1) if name == "b_Q" else np.sqrt((norm(q1) ** 2).sum(axis=1, keepdims=True))
            differences = np.linalg.norm(np.abs(x - y) * by, axis=-1).ravel()
            sizes = np.linalg.norm(np.abs(x) * by, axis=-1).ravel()
            yield Measure(name, f"head {{}}, {name}", differences, sizes, turning(spec))
