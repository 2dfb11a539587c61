"""Which matrices may act on a space? Groups by name, and what is true of all their elements.

>>> group = group_of("o", 3)
>>> len(group.basis), group.skew, group.fixes_ones
(3, True, False)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

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

    def commutes(self, planes: Planes) -> bool:
        """Whether E commutes with rotations of each of these planes by any angles."""
        for a, b in planes:
            for image in ((a, b, 1), (b, a, -1)):  # the identity, and the quarter turn
                R = np.zeros(self.basis.shape[1:], np.int64)
                R[a, image[0]], R[b, image[1]] = 1, image[2]
                if (R @ self.basis - self.basis @ R).any():
                    return False
        return True


NO_GROUP = Group(np.zeros((0, 0, 0), np.int64))


def group_of(name: str, width: int, start: int = 0, planes: Planes = ()) -> Group:
    """The group of this name, on the dimensions from `start` on and on planes before."""
    diagonal = name in ("torus", "plane-scales", "scale") or width == 1
    meter().require_bytes(16 * width ** (2 if diagonal else 4))
    eye = np.eye(width, dtype=np.int64)
    if name == "scale":
        basis = [np.ones(1, np.int64)]
    elif diagonal:
        basis = [*(eye[a] + eye[b] for a, b in planes), *eye[start:]]
    else:
        basis = list(_matrices(name, eye, start, planes))
    if not basis:
        raise RejectionError("the group has dimension 0")
    return Group(np.array(basis, np.int64))


def _matrices(name: str, eye: Matrix, start: int, planes: Planes) -> Iterator[Matrix]:
    """A basis of a group that is not diagonal."""

    def skew(u: Matrix, v: Matrix) -> Matrix:
        return np.outer(u, v) - np.outer(v, u)

    free = eye[start:]
    if name == "gl":
        yield from (np.outer(u, v) for u in free for v in free)
    elif name == "shear":
        yield from (np.outer(np.ones_like(v), v) for v in free)
    elif name == "planes":
        for a, b in planes:
            yield np.diag(eye[a] + eye[b])
            yield skew(eye[a], eye[b])
    else:
        if name == "turns":
            yield from (skew(eye[a], eye[b]) for a, b in planes)
        if name == "o1":  # of vectors that are orthogonal to 1
            free = free[:-1] - eye[-1]
        yield from (skew(u, v) for u, v in combinations(free, 2))
