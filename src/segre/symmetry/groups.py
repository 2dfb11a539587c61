"""The groups that act on spaces, by bases of their Lie algebras, with whole numbers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

import numpy as np

from segre.fields.interface import Array

Group = Literal[
    "gl",  # any basis
    "o",  # lengths are kept: RMSNorm
    "o1",  # lengths and the mean: LayerNorm
    "torus",  # each dimension has its scale
    "shear",  # x + 1 m(x): linear forms added to the mean
    "planes",  # scaled rotations of planes
    "plane-scales",  # scales of planes, and of the other dimensions
    "turns",  # rotations of planes, and of all other dimensions together
]
Planes = tuple[tuple[int, int], ...]


@lru_cache(maxsize=128)
def algebra(group: Group, width: int, start: int = 0, planes: Planes = ()) -> Array:
    """A basis: (dimension of the group, width, width); do not write to it."""
    units = unit_matrices(group, width, start)
    if units is not None:
        out = np.zeros((len(units[0]), width, width))
        out[range(len(out)), units[0], units[1]] = 1
        return out
    found = list(_basis(group, width, start, planes))
    return np.stack(found) if found else np.zeros((0, width, width))


@lru_cache(maxsize=128)
def unit_matrices(group: Group, width: int, start: int = 0) -> tuple[Array, Array] | None:
    """Row and column of the 1 of each matrix of the basis, if these are unit matrices."""
    if group not in ("gl", "torus"):
        return None
    still = np.arange(start, width)
    return (
        (still, still)
        if group == "torus"
        else (np.repeat(still, len(still)), np.tile(still, len(still)))
    )


def _basis(group: Group, n: int, start: int, planes: Planes) -> Iterator[Array]:
    unit = np.eye(n)
    still = range(start, n)
    if group == "o":
        yield from (_turn(unit[j], unit[k]) for j in still for k in range(start, j))
    elif group == "o1":
        C = unit[:-1] - unit[-1]
        yield from (_turn(C[j], C[k]) for j in range(n - 1) for k in range(j))
    elif group == "shear":
        yield from (np.outer(np.ones(n), unit[j]) for j in still)
    elif group == "planes":
        for a, b in planes:
            yield np.diag(unit[a] + unit[b])
            yield _turn(unit[b], unit[a])
    elif group == "plane-scales":
        yield from (np.diag(unit[a] + unit[b]) for a, b in planes)
        yield from (np.diag(unit[j]) for j in still)
    else:
        yield from (_turn(unit[b], unit[a]) for a, b in planes)
        yield from (_turn(unit[j], unit[k]) for j in still for k in range(start, j))


def _turn(a: Array, b: Array) -> Array:
    return np.asarray(np.outer(a, b) - np.outer(b, a))


def random_element(
    rng: np.random.Generator,
    group: Group,
    width: int,
    copies: tuple[int, ...] = (),
    start: int = 0,
    planes: Planes = (),
) -> Array:
    """Elements of a group, one for each copy, of condition number at most exp(2 SPREAD).

    They are matrices; of diagonal groups factors; of planes complex factors, one for each.
    """
    n, out = width - start, np.broadcast_to(np.eye(width), (*copies, width, width)).copy()
    if group in DIAGONAL:
        scales = np.ones((*copies, width))
        scales[..., start:] = factors(rng, (*copies, n))
        for a, b in planes:
            scales[..., a] = scales[..., b] = factors(rng, copies)
        return scales
    if group == "planes":
        shape = (*copies, len(planes))
        return np.asarray(factors(rng, shape) * np.exp(2j * np.pi * rng.random(shape)))
    if group == "gl":
        scaled = _orthogonal(rng, copies, n) * factors(rng, (*copies, 1, n))
        out[..., start:, start:] = scaled @ _orthogonal(rng, copies, n)
    elif group in ("o", "turns"):
        out[..., start:, start:] = _orthogonal(rng, copies, n)
    elif group == "o1":
        B = np.linalg.qr(np.column_stack([np.ones(width), np.eye(width)[:, 1:]]))[0][:, 1:]
        out = B @ _orthogonal(rng, copies, n - 1) @ B.T + 1 / width
    else:
        out += rng.uniform(0, 0.5, (*copies, 1, width)) / width
    for a, b in planes:
        turn = 2 * np.pi * rng.random(copies)
        out[..., a, a] = out[..., b, b] = np.cos(turn)
        out[..., b, a], out[..., a, b] = np.sin(turn), -np.sin(turn)
    return out


DIAGONAL = ("torus", "plane-scales")
ORTHOGONAL = ("o", "o1", "turns")
SPREAD = 0.7  # factors lie between exp(-SPREAD) and exp(SPREAD)


def factors(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Positive factors."""
    return np.asarray(np.exp(rng.uniform(-SPREAD, SPREAD, shape)))


def _orthogonal(rng: np.random.Generator, copies: tuple[int, ...], n: int) -> Array:
    """Orthogonal matrices, evenly distributed."""
    q, r = np.linalg.qr(rng.standard_normal((*copies, n, n)))
    return np.asarray(q * np.sign(np.diagonal(r, axis1=-2, axis2=-1))[..., None, :])


def random_order(
    rng: np.random.Generator, width: int, copies: tuple[int, ...], start: int = 0, blocks: int = 1
) -> Array:
    """Orders of the dimensions from `start` on, one for each copy; blocks stay together."""
    out = np.zeros((*copies, width), int)
    for copy in np.ndindex(*copies):
        groups = rng.permutation((width - start) // blocks)
        within = [rng.permutation(blocks) + blocks * group for group in groups]
        out[copy] = np.concatenate([np.arange(start), start + np.concatenate(within)])
    return out
