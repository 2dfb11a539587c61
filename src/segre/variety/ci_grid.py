"""The sizes of a conditional-independence variety, and which theorem is about it."""

from __future__ import annotations

from dataclasses import dataclass

from segre.errors import SegreError, UnsupportedError

LARGEST_GRID = 8
LARGEST_D = 100


@dataclass(frozen=True)
class Grid:
    """The sizes: k x l places, vectors of length d, ranks below s in columns and t in rows."""

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
