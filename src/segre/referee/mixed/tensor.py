"""Which weights of alike heads change their trilinear map? Family 20: all but a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, permutations, product

from flint import nmod_mat

from segre.referee.linear import beside
from segre.referee.meter import RESIDUES, charge
from segre.referee.mixed.alike import Alike
from segre.referee.mixed.heads import Head
from segre.referee.mixed.spans import kernel
from segre.referee.transformers.point import Tangent
from segre.referee.transformers.point import product as times
from segre.referee.transformers.tensors import Key

Place = tuple[int, int, int, int]


def coefficient_count(width_out: int, rank: int, joint: bool) -> int:
    """N: how many entries the tensor has."""
    r = rank
    return width_out * (r * (r + 1) * (r + 2) // 6 if joint else r * r * (r + 1) // 2)


def moved(head: Head) -> list[Key]:
    """The weights that make the tensor."""
    names = ["W_K", "W_Q", "W_V"] + ["W_O"] * (head.dv is not None)
    return [head.key(name) for name in names]


def tensor_kernel(group: Alike) -> Iterator[Tangent]:
    """Family 20."""
    point, r, width = group.point, group.B.ncols(), group.heads[0].width_out
    keys = [key for head in group.heads for key in moved(head)]
    sizes = [point.matrices[key].nrows() * point.matrices[key].ncols() for key in keys]
    N = coefficient_count(width, r, group.joint)
    if group.bias != "none" or sum(sizes) <= N:
        return
    slots = list(_slots(width, r, group.joint))
    derivative = beside([part for head in group.heads for part in _derivatives(group, head, slots)])
    for vector in _full_kernel(derivative):
        tangent, start = {}, 0
        charge(len(vector) * RESIDUES.entry)
        for key, size in zip(keys, sizes, strict=True):
            T = point.matrices[key]
            part = vector[start : start + size]
            tangent[key] = nmod_mat(T.nrows(), T.ncols(), part, point.p)
            start += size
        yield tangent


def _full_kernel(derivative: nmod_mat) -> list[list[int]]:
    """The kernel, if the rank is the number of rows, of which there are fewer than columns."""
    return kernel(derivative) or []


def _slots(width: int, r: int, joint: bool) -> Iterator[list[Place]]:
    """The places (o, p, q, s) that are added up in each entry."""
    if joint:
        for o, three in product(range(width), combinations_with_replacement(range(r), 3)):
            yield [(o, p, q, s) for p, q, s in permutations(three)]
        return
    for o, (p, q), s in product(range(width), combinations_with_replacement(range(r), 2), range(r)):
        yield [(o, p, q, s), (o, q, p, s)]


def _derivatives(group: Alike, head: Head, slots: list[list[Place]]) -> Iterator[nmod_mat]:
    """Of all entries by W_K, W_Q, W_V and W_O of one head."""
    point, B, r = group.point, group.B, group.B.ncols()
    K, Q, V = (times(point.matrices[head.key(name)], B) for name in ("W_K", "W_Q", "W_V"))
    out = None if head.dv is None else point.matrices[head.key("W_O")]
    W, A = V if out is None else times(out, V), times(K.transpose(), Q)
    charge((W.nrows() + r) * r * len(slots) * RESIDUES.copy + 12 * len(slots) * RESIDUES.entry)
    by_values, by_scores = point.zero(len(slots), W.nrows() * r), point.zero(len(slots), r * r)
    for i, places in enumerate(slots):
        for o, p, q, s in places:
            by_values[i, o * r + p] += A[q, s]
            by_scores[i, q * r + s] += W[o, p]
    # A[q, s] = sum K[a, q] Q[a, s], and K[a, q] = sum W_K[a, b] B[b, q].
    yield times(by_scores, _spread(Q, B, first=True))
    yield times(by_scores, _spread(K, B, first=False))
    if out is None:
        yield times(by_values, _placed(B, W.nrows()))
        return
    yield times(by_values, _through(out, B))
    yield times(by_values, _placed(V, W.nrows()))


def _spread(other: nmod_mat, B: nmod_mat, *, first: bool) -> nmod_mat:
    """Of A[q, s] by W[a, b]: B[b, q] other[a, s], or B[b, s] other[a, q] if it is the second."""
    a, d, r = other.nrows(), B.nrows(), B.ncols()
    charge(a * d * r * r * RESIDUES.entry)
    result = nmod_mat(r * r, a * d, B.modulus())
    for i, b, q, s in product(range(a), range(d), range(r), range(r)):
        value = B[b, q] * other[i, s] if first else B[b, s] * other[i, q]
        result[q * r + s, i * d + b] = value
    return result


def _placed(M: nmod_mat, width: int) -> nmod_mat:
    """Of (W M)[o, p] by W[o, b]: M[b, p]."""
    d, r = M.nrows(), M.ncols()
    charge(width * d * r * (RESIDUES.entry + width * RESIDUES.copy))
    result = nmod_mat(width * r, width * d, M.modulus())
    for o, b, p in product(range(width), range(d), range(r)):
        result[o * r + p, o * d + b] = M[b, p]
    return result


def _through(out: nmod_mat, B: nmod_mat) -> nmod_mat:
    """Of (out W B)[o, p] by W[a, b]: out[o, a] B[b, p]."""
    width, v, d, r = out.nrows(), out.ncols(), B.nrows(), B.ncols()
    charge(width * v * d * r * RESIDUES.entry)
    result = nmod_mat(width * r, v * d, B.modulus())
    for o, a, b, p in product(range(width), range(v), range(d), range(r)):
        result[o * r + p, a * d + b] = out[o, a] * B[b, p]
    return result
