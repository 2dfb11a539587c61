"""Which matrices may act on a space? Groups by name, and what is true of all their elements.

>>> group = group_of("o", 3)
>>> len(group.basis), group.skew, group.fixes_ones
(3, True, False)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from segre.kernel.document import RejectionError
from segre.kernel.meter import meter

Matrix = np.typing.NDArray[np.int64]
Planes = Sequence[Sequence[int]]
GROUPS = ("gl", "o", "o1", "torus", "planes", "plane-scales", "turns", "shear", "scale")


@dataclass(frozen=True)
class Group:
    """Matrices E, or rows of charges: a basis in whole numbers, and what is true of all of it."""

    basis: Matrix  # (number, width, width) or (number, width)

    @property
    def diagonal(self) -> bool:
        """E is diagonal: a row of charges."""
        return self.basis.ndim == 2

    @cached_property
    def skew(self) -> bool:
        """E^T = -E."""
        return not self.diagonal and not (self.basis + self.basis.swapaxes(1, 2)).any()

    @cached_property
    def fixes_ones(self) -> bool:
        """E 1 = 0."""
        return not self.basis.sum(-1).any()

    @cached_property
    def writes_ones(self) -> bool:
        """E x is a multiple of 1 for all x: all rows of E are equal."""
        return not self.diagonal and not (self.basis - self.basis[:, :1]).any()

    def commutes(self, planes: Collection[tuple[int, int]]) -> bool:
        """Whether E commutes with rotations of each of these planes by any angles."""
        for a, b in planes:
            for signs in ((1, 1), (1, -1)):
                R = np.zeros(self.basis.shape[1:], np.int64)
                R[[a, b], [a, b] if signs == (1, 1) else [b, a]] = signs
                if (R @ self.basis - self.basis @ R).any():
                    return False
        return True


NO_GROUP = Group(np.zeros((0, 0, 0), np.int64))


def group_of(name: str, width: int, start: int = 0, planes: Planes = ()) -> Group:
    """The group of this name, on the dimensions from `start` on and on planes before."""
    diagonal = name in ("torus", "plane-scales", "scale")
    meter().require_bytes(16 * width ** (2 if diagonal else 4))
    basis = list(_matrices(name, width, start, planes))
    if not basis:
        raise RejectionError("the group has dimension 0")
    return Group(np.array(basis, np.int64))


def _matrices(name: str, width: int, start: int, planes: Planes) -> Iterator[Matrix]:
    """A basis of a group: of matrices, or for tori of vectors."""

    def unit(j: int, k: int) -> Matrix:
        E = np.zeros((width, width), np.int64)
        E[j, k] = 1
        return E

    dims = range(start, width)
    if name == "scale":
        yield np.ones(1, np.int64)
    elif name in ("torus", "plane-scales") or width == 1:
        eye = np.eye(width, dtype=np.int64)
        yield from (eye[a] + eye[b] for a, b in planes)
        yield from (eye[j] for j in dims)
    elif name == "gl":
        yield from (unit(j, k) for j in dims for k in dims)
    elif name == "shear":
        yield from (np.repeat(unit(0, k)[:1], width, 0) for k in dims)
    elif name == "planes":
        for a, b in planes:
            yield unit(a, a) + unit(b, b)
            yield unit(a, b) - unit(b, a)
    elif name == "turns":
        yield from (unit(a, b) - unit(b, a) for a, b in planes)
        yield from (unit(j, k) - unit(k, j) for j in dims for k in dims if j < k)
    elif name == "o":
        yield from (unit(j, k) - unit(k, j) for j in dims for k in dims if j < k)
    else:  # u v^T - v u^T for u, v orthogonal to 1
        differences = np.eye(width, dtype=np.int64) - np.eye(width, dtype=np.int64)[-1]
        pairs = ((differences[j], differences[k]) for j in dims for k in dims if j < k < width - 1)
        yield from (np.outer(u, v) - np.outer(v, u) for u, v in pairs)
