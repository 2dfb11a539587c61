"""What the forward map asks of a number system.

An element is a batch of matrices: an array whose last two axes are rows and columns, the
axes before them broadcasting as in NumPy. `Prime`, `Real` and `Ball` compute with NumPy
arrays; `Dual` over any of them computes with pairs (value, tangents).
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import numpy.typing as npt

Array = npt.NDArray[Any]
E = TypeVar("E")


class Field(Protocol[E]):
    """Arithmetic on batches of matrices."""

    def add(self, x: E, y: E) -> E:
        """Entrywise sum."""
        ...

    def mul(self, x: E, y: E) -> E:
        """Entrywise product."""
        ...

    def matmul(self, x: E, y: E) -> E:
        """Matrix product of the last two axes."""
        ...

    def transpose(self, x: E) -> E:
        """Rows and columns exchanged."""
        ...

    def sum(self, x: E, axis: int) -> E:
        """Sum along a negative `axis`, which stays, with length one."""
        ...

    def exp(self, x: E) -> E:
        """Entrywise exponential."""
        ...

    def reciprocal(self, x: E) -> E:
        """Entrywise inverse; raises UnluckyError where there is none."""
        ...

    def anchor(self, x: E) -> E:
        """Shift each column by a number, as suits the field: a softmax does not notice."""
        ...


class ArrayField(Field[Array], Protocol):
    """A field whose elements are NumPy arrays: what `Dual` can be taken over."""

    def constant(self, x: Array) -> Array:
        """Integers as elements."""
        ...

    def sub(self, x: Array, y: Array) -> Array:
        """Entrywise difference."""
        ...
