"""Singular values: of attention patterns, and of the stream."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.fields.interface import Array
from segre.inspect.measure import Finding, Measure, numbered
from segre.inspect.recorded import Recorded

NEARLY_ONE = 1.05


def gap(recorded: Recorded) -> Array | None:
    """The second singular value of a pattern over the first."""
    s = recorded.pattern_values
    return None if s is None else np.asarray(s[..., 1] / s[..., 0])


def pattern_rank(recorded: Recorded) -> Array | None:
    """The stable rank of a pattern."""
    s = recorded.pattern_values
    return None if s is None else np.asarray((s**2).sum(axis=-1) / s[..., 0] ** 2)


def stable_rank(recorded: Recorded) -> Array:
    """The stable rank of the stream: squared Frobenius norm over squared spectral norm."""
    return np.array([float((s**2).sum() / s[0] ** 2) for s in recorded.stream_values])


def effective_rank(recorded: Recorded) -> Array:
    """The exponential of the entropy of the singular values, taken as shares."""
    out = []
    for s in recorded.stream_values:
        shares = s / s.sum()
        known = shares[shares > 0]
        out.append(float(np.exp(-(known * np.log(known)).sum())))
    return np.array(out)


def find(_recorded: Recorded, values: Array) -> Iterator[Finding]:
    """Depths at which one direction is nearly all of the stream."""
    low = [int(depth) for depth in np.flatnonzero(values < NEARLY_ONE)]
    if low:
        depth = int(values.argmin())
        yield Finding(
            measure="stable-rank",
            what=f"The stream has nearly rank one at {numbered('depth', low)}: its stable rank "
            f"is down to {values[depth]:.2f}.",
            means="One direction carries almost all of its squared norm. With a massive "
            "activation this is the direction of one token, and the other tokens need not be "
            "similar.",
            size=float(values[depth]),
            weight=len(low) / len(values) * 4,
            typical=float(np.median(values)),
            depth=depth,
            start=low[0],
            extreme="smallest",
        )


MEASURES = (
    Measure(
        "stable-rank",
        "Stable rank, stream",
        "depth",
        "Squared Frobenius norm over squared spectral norm of the tokens (of X, not of X X').",
        stable_rank,
        find,
    ),
    Measure(
        "effective-rank",
        "Effective rank, stream",
        "depth",
        "The exponential of the entropy of the singular values of the tokens.",
        effective_rank,
    ),
    Measure(
        "gap",
        "Second / first singular value",
        "head",
        "Singular values of the attention pattern; at 0 all tokens become equal.",
        gap,
    ),
    Measure(
        "pattern-rank",
        "Stable rank, attention",
        "head",
        "Squared Frobenius norm over squared spectral norm of the attention pattern.",
        pattern_rank,
    ),
)
