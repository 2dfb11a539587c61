"""Massive activations: single numbers of the stream that are thousands of times the others.

The thresholds are those of Sun et al. (2024): above 100, and above 1,000 times the median.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.fields.interface import Array
from segre.inspect.measure import Finding, Measure, numbered, spoken
from segre.inspect.recorded import Recorded

LARGE, RATIO, VISIBLE = 100.0, 1000.0, 300.0


def ratios(recorded: Recorded) -> Array:
    """The largest magnitude of every stream, over the median."""
    return np.array([_ratio(X) for X in recorded.streams])


def _ratio(X: Array) -> float:
    size = np.abs(X)
    return float(size.max() / max(float(np.median(size)), 1e-300))


def participation(x: Array) -> float:
    """How many channels a vector has its square in.

    >>> round(participation(np.array([3.0, 3.0, 0.01, 0.0])), 3)
    2.0
    """
    square = x**2
    return float(square.sum() ** 2 / max(float((square**2).sum()), 1e-300))


def _places(recorded: Recorded, values: Array) -> dict[tuple[int, int], list[int]]:
    """Depths by the place (token, channel) of their largest number, where that is large."""
    out: dict[tuple[int, int], list[int]] = {}
    for depth, X in enumerate(recorded.streams):
        token, channel = np.unravel_index(int(np.abs(X).argmax()), X.shape)
        if abs(X[token, channel]) > LARGE and values[depth] > VISIBLE:
            out.setdefault((int(token), int(channel)), []).append(depth)
    return out


def find(recorded: Recorded, values: Array) -> Iterator[Finding]:
    """One finding for every place: where it begins, where it is largest, where it is there."""
    for (token, channel), depths in _places(recorded, values).items():
        sizes = [abs(float(recorded.streams[depth][token, channel])) for depth in depths]
        best = int(np.argmax(sizes))
        depth, size = depths[best], sizes[best]
        massive = [at for at in depths if values[at] > RATIO]
        span = massive or depths
        kind = "Massive activation" if massive else "Large activation, below the threshold"
        last = "" if recorded.last is None else _after_norm(recorded, token, channel)
        yield Finding(
            measure="spikes",
            what=f"{kind}: {spoken(recorded, token)}, channel {channel} is {size:,.0f} at depth "
            f"{depth}, {values[depth]:,.0f} times the median of its stream "
            f"({numbered('depth', span)}){last}. The squared norm of its token is concentrated in "
            f"{participation(recorded.streams[depth][token]):.2f} channels.",
            means="One number dominates this token; norms turn it into a constant that later "
            "layers read.",
            size=size,
            weight=max(float(values[at]) for at in depths) / RATIO,
            typical=float(np.median(np.abs(recorded.streams[depth]))),
            depth=depth,
            start=span[0],
            token=token,
            text=recorded.word(token),
            channel=channel,
        )


def _after_norm(recorded: Recorded, token: int, channel: int) -> str:
    assert recorded.last is not None
    return f", and {abs(float(recorded.last[token, channel])):.3g} after the final norm"


MEASURES = (
    Measure(
        "spikes",
        "Largest activation / median",
        "depth",
        "The largest magnitude in the stream divided by the median magnitude.",
        ratios,
        find,
    ),
)
