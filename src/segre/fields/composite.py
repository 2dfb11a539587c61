"""What the forward map makes of a field's own operations; a field may know a faster way."""

from __future__ import annotations

from typing import Generic, cast

import numpy as np

from segre.fields.interface import Array, E, Field

HEADS = (-3, -4)  # the axes of query heads and of key-value heads


class Composite(Generic[E]):
    """Softmax, shares, permuted rows, sums over heads: by operations that every field has."""

    def anchor(
        self,
        x: E,
        used: Array | None = None,  # noqa: ARG002
        axis: int = -2,  # noqa: ARG002
    ) -> E:
        """Nothing to do: the numbers of most fields do not overflow."""
        return x

    def softmax(
        self, scores: E, seen: E | None = None, used: Array | None = None, sink: bool = False
    ) -> E:
        """exp(scores), each column divided by its sum; with `seen` (zeros and ones), only there.

        With `sink` the sum has one more term, 1; a shift would be noticed.
        """
        field = cast(Field[E], self)
        grown = field.exp(scores if sink else field.anchor(scores, used), used)
        if seen is not None:
            grown = field.mul(grown, seen)
        total = field.sum(grown, axis=-2)
        if sink:
            total = field.add(total, field.constant(np.ones((1, 1), dtype=np.int64)))
        return field.mul(grown, field.reciprocal(total))

    def double_softmax(self, scores: E, shown: E | None = None, used: Array | None = None) -> E:
        """exp(scores) times `shown`, each row divided by its sum, and then each column by its."""
        field = cast(Field[E], self)
        grown = field.exp(field.anchor(scores, used, axis=-1), used)
        if shown is not None:
            grown = field.mul(grown, shown)
        rows = field.mul(grown, field.reciprocal(field.sum(grown, axis=-1)))
        return field.mul(rows, field.reciprocal(field.sum(rows, axis=-2)))

    def shares(self, x: E, chosen: Array | None = None) -> E:
        """exp(x), divided by its sum along axis -3: of the `chosen` entries only, or of all."""
        field = cast(Field[E], self)
        grown = field.exp(field.anchor(x, chosen, axis=-3))
        if chosen is not None:
            grown = field.mul(grown, field.constant(chosen))
        return field.mul(grown, field.reciprocal(field.sum(grown, axis=-3)))

    def permuted(self, x: E, order: Array) -> E:
        """The rows of x in another order; -1 is a row of zeros."""
        field = cast(Field[E], self)
        chosen = order[:, None] == np.arange(len(order))
        return field.matmul(field.constant(chosen.astype(np.int64)), x)

    def joined(self, maps: E, parts: E, heads: tuple[int, int]) -> E:
        """maps @ parts, summed over the query heads of each key-value head and over those."""
        field = cast(Field[E], self)
        out = field.matmul(maps, parts)
        for axis, size in zip(HEADS, heads, strict=True):
            out = field.sum(out, axis) if size > 1 else out
        return out
