"""What is measured of the stream: gradients, likeness of tokens, ranks, massive activations.

The thresholds of massive activations are those of Sun et al. (2024): above 100, and above 1,000
times the median.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.collapse.residual import mean_cosine
from segre.fields.interface import Array
from segre.inspect.measure import Finding, measure, numbered, spoken
from segre.inspect.recorded import Recorded, gradients

FACTOR = 100.0  # by which a gradient grows or shrinks
ALIKE = 0.97
NEARLY_ONE = 1.05
LARGE, RATIO, VISIBLE = 100.0, 1000.0, 300.0


@measure(
    "gradient",
    "Norm of the stream gradient",
    "depth",
    "The gradient of the loss on these tokens, or of a random combination of outputs if there "
    "is no loss.",
)
def gradient(recorded: Recorded) -> Array:
    """Norms of the gradient of the loss, or of a random sum of outputs."""
    return np.array([float(np.linalg.norm(g)) for g in gradients(recorded).streams])


@gradient.finds
def find_growth(_recorded: Recorded, values: Array) -> Iterator[Finding]:
    """Gradients that vanish or explode on their way back."""
    if not np.isfinite(values).all() or values[-1] == 0:
        return
    ratio = float(values[0] / values[-1])
    if ratio > FACTOR or ratio < 1 / FACTOR:
        way = "grows" if ratio > 1 else "shrinks"
        way += f" by a factor of {max(ratio, 1 / ratio):,.3g}" if ratio else " to zero"
        yield Finding(
            what=f"The gradient {way} from the last layer back to the first.",
            means="Layers learn at very different speeds unless the optimiser rescales gradients.",
            size=float(values.max()),
            weight=0.8,
            typical=float(np.median(values)),
            depth=0,
            extreme="none",
        )


@measure("cosine", "Mean cosine of two tokens", "depth")
def cosine(recorded: Recorded) -> Array:
    """The mean over all pairs of different tokens."""
    return np.array([float(mean_cosine(X)) for X in recorded.streams])


@cosine.finds
def find_alike(_recorded: Recorded, values: Array) -> Iterator[Finding]:
    """Depths at which tokens are similar."""
    depth = int(values.argmax())
    if values[depth] > ALIKE:
        yield Finding(
            what=f"Tokens are similar at depth {depth}: their mean cosine is {values[depth]:.2f}.",
            means="The differences between tokens are small compared with their common part.",
            size=float(values[depth]),
            weight=1.0,
            depth=depth,
        )


@measure("stable-rank", "Stable rank, stream", "depth")
def stable_rank(recorded: Recorded) -> Array:
    """Squared Frobenius norm over squared spectral norm of the tokens (of X, not of X X')."""
    return np.array([float((s**2).sum() / s[0] ** 2) for s in recorded.stream_values])


@stable_rank.finds
def find_rank_one(_recorded: Recorded, values: Array) -> Iterator[Finding]:
    """Depths at which one direction is nearly all of the stream."""
    low = [int(depth) for depth in np.flatnonzero(values < NEARLY_ONE)]
    if low:
        depth = int(values.argmin())
        yield Finding(
            what=f"The stream has nearly rank one at {numbered('depth', low)}: its stable rank "
            f"is down to {values[depth]:.2f}.",
            means="One direction carries almost all of its squared norm. With a massive "
            "activation this is the direction of one token, and the other tokens need not be "
            "similar.",
            size=float(values[depth]),
            weight=len(low) / len(values) * 4,
            depth=depth,
            start=low[0],
            extreme="smallest",
        )


@measure("effective-rank", "Effective rank, stream", "depth")
def effective_rank(recorded: Recorded) -> Array:
    """The exponential of the entropy of the singular values of the tokens."""
    out = []
    for s in recorded.stream_values:
        shares = s / s.sum()
        known = shares[shares > 0]
        out.append(float(np.exp(-(known * np.log(known)).sum())))
    return np.array(out)


@measure("spikes", "Largest activation / median", "depth")
def spikes(recorded: Recorded) -> Array:
    """The largest magnitude in the stream divided by the median magnitude."""
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


@spikes.finds
def find_spikes(recorded: Recorded, values: Array) -> Iterator[Finding]:
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
