"""What does one head do? Its pattern, its spectra and the tokens it attends to, for a page.

Small enough for a page whatever the model: patterns are averaged over blocks of tokens and rounded
to 8 bits, so that those of all heads together take at most `MOST` bytes.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np

from segre.fields.interface import Array
from segre.inspect.measures.heads import attention
from segre.inspect.recorded import Recorded

MOST = 300_000  # bytes of all patterns together
SMALLEST = 4  # rows and columns that a pattern keeps, however many heads there are
VALUES, TOP = 8, 5  # singular values and eigenvalues of a head; tokens that it attends to
LETTERS = 24  # of a token


@dataclass(frozen=True)
class HeadDetails:
    """All heads of a pass: (layers, heads, ...) each."""

    tokens: int
    words: tuple[str, ...]  # tokens as texts, if they are known
    block: int  # tokens in a row, or column, of a pattern
    patterns: Array  # bytes: (layers, heads, rows, columns), row = query
    singular: Array  # the largest singular values of the patterns
    spectrum: Array | None  # the largest absolute eigenvalues of W_Q' W_K
    top: Array  # the tokens that get most attention
    shares: Array  # and how much: mean over the queries from a quarter on

    @property
    def rows(self) -> int:
        """Rows, and columns, of a pattern."""
        return int(self.patterns.shape[-1])

    def document(self) -> dict[str, Any]:
        """As plain data, for a page: heads one after the other, patterns as bytes in base 64."""
        layers, heads = self.patterns.shape[:2]

        def listed(values: Array) -> list[list[float]]:
            return [[float(f"{x:.3g}") for x in row] for row in values.reshape(layers * heads, -1)]

        return {
            "layers": layers,
            "heads": heads,
            "tokens": self.tokens,
            "words": [word[:LETTERS] for word in self.words],
            "block": self.block,
            "rows": self.rows,
            "patterns": b64encode(self.patterns.tobytes()).decode(),
            "singular": listed(self.singular),
            "spectrum": None if self.spectrum is None else listed(self.spectrum),
            "top": self.top.reshape(layers * heads, -1).tolist(),
            "shares": listed(self.shares),
        }


def head_details(seen: Recorded) -> HeadDetails | None:
    """The heads of a pass; None where attention has no patterns."""
    P, mean = seen.patterns, attention(seen)
    if P is None or mean is None or seen.pattern_values is None:
        return None
    block = block_of(seen.tokens, P.shape[0] * P.shape[1])
    top = np.argsort(-mean, axis=-1, kind="stable")[..., :TOP]
    queries = [layer.queries for layer in seen.layers if layer.queries is not None]
    spectrum = None
    if len(queries) == len(seen.layers):
        spectrum = -np.sort(-np.abs(np.stack(queries)), axis=-1)[..., :VALUES]
    return HeadDetails(
        tokens=seen.tokens,
        words=seen.words,
        block=block,
        patterns=in_bytes(blocks(P, block)),
        singular=seen.pattern_values[..., :VALUES],
        spectrum=spectrum,
        top=top,
        shares=np.take_along_axis(mean, top, axis=-1),
    )


def block_of(tokens: int, heads: int) -> int:
    """How many tokens become one row, so that the patterns of so many heads fit.

    >>> block_of(64, 72), block_of(64, 270), block_of(512, 270), block_of(64, 10**6)
    (1, 2, 16, 16)
    """
    rows = max(SMALLEST, isqrt(MOST // max(heads, 1)))
    return -(-tokens // rows)


def blocks(P: Array, block: int) -> Array:
    """Patterns (..., queries, keys) by blocks of tokens: sums over keys, means over queries.

    >>> blocks(np.eye(3), 2)
    array([[1., 0.],
           [0., 1.]])
    """
    starts = np.arange(0, P.shape[-1], block)
    sums = np.add.reduceat(np.add.reduceat(P, starts, axis=-1), starts, axis=-2)
    return np.asarray(sums / np.diff(starts, append=P.shape[-2])[:, None])


def in_bytes(P: Array) -> Array:
    """Numbers from 0 to 1 as bytes."""
    return np.asarray(np.rint(255 * P.clip(0, 1)), dtype=np.uint8)
