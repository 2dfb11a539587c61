"""What is measured of heads and units: attention, what heads write, spectra, silent units.

Eigenvalues of W_Q' W_K come from the small matrix W_K W_Q' of a head, gains of the norm folded in.
Their mean over the width is tr / d; a wide spectrum with mean zero localises attention, says the
theory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from segre.fields.interface import Array
from segre.inspect.measure import Finding, measure, numbered, spoken
from segre.inspect.recorded import Recorded

Heads = tuple[tuple[int, int], ...]  # layers and heads, from 1

DEAD, ALIKE = 1e-3, 0.99
SINK = 0.3  # of the attention of a head
CLEAR = 4.0  # standard deviations of a rank correlation of independent numbers
ABOVE = 2.0  # random causal patterns have 1.2 to 1.6
SILENT = 1e-3  # of the median unit of the layer


@measure("writes", "Output norm / stream norm", "head")
def writes(recorded: Recorded) -> Array:
    """The norm of the head's output on all tokens, divided by the norm of the stream."""
    out = []
    for layer, X in zip(recorded.layers, recorded.streams, strict=False):
        size = np.linalg.norm(X)
        out.append(np.linalg.norm(layer.written, axis=1) / max(float(size), 1e-300))
    return np.array(out)


@writes.finds
def find_dead(_recorded: Recorded, values: Array) -> Iterator[Finding]:
    """Heads that write a thousandth of what the median head writes, or less."""
    typical = float(np.median(values))
    dead = places(values < DEAD * typical)
    if dead:
        size = min(float(values[layer - 1, head - 1]) for layer, head in dead)
        yield Finding(
            what=f"Dead heads: {len(dead)} of {values.size} {_has(dead)} an output below {DEAD:g} "
            f"of the median head's ({_named(dead)}).",
            means="They can be removed with almost no change of the outputs on inputs like "
            "this one.",
            size=size,
            weight=len(dead) / values.size * 5,
            heads=dead,
            extreme="smallest",
        )


@measure("alike", "Cosine with another head", "head")
def alike(recorded: Recorded) -> Array:
    """The absolute cosine of the outputs of two heads on all tokens."""
    out = []
    for layer in recorded.layers:
        size = np.sqrt(np.diag(layer.products).clip(0))
        found = layer.products / np.maximum(np.outer(size, size), 1e-300)
        np.fill_diagonal(found, 0)
        out.append(np.abs(found).max(axis=1) if len(found) > 1 else np.zeros(1))
    return np.array(out)


@alike.finds
def find_alike(_recorded: Recorded, values: Array) -> Iterator[Finding]:
    """Pairs of heads that write the same, up to a factor."""
    alike = places(values > ALIKE)
    if alike:
        yield Finding(
            what=f"Duplicate heads: {len(alike)} of {values.size} {_has(alike)} the same output as "
            f"another head of the layer up to a factor, with a cosine above {ALIKE} "
            f"({_named(alike)}).",
            means="On inputs like this one, one head of each pair would be enough.",
            size=float(values.max()),
            weight=len(alike) / values.size * 5,
            heads=alike,
        )


def places(chosen: Array) -> Heads:
    """Layers and heads, counted from 1, of the true entries."""
    return tuple((int(layer) + 1, int(head) + 1) for layer, head in np.argwhere(chosen))


def _has(heads: Heads) -> str:
    return "has" if len(heads) == 1 else "have"


def _named(heads: Heads, most: int = 6) -> str:
    words = [f"{layer}.{head}" for layer, head in heads[:most]]
    more = len(heads) - most
    return ", ".join(words) + (f" and {more} more" if more > 0 else "")


@measure("query-mean", "W_Q' W_K, mean eigenvalue", "head", of="queries")
def query_mean(recorded: Recorded, found: Array) -> Array:
    """The trace of W_Q' W_K over the width, gains of the norm folded in."""
    return np.asarray(found.real.sum(axis=-1) / recorded.spec.d)


@measure("query-scale", "W_Q' W_K, spread", "head", of="queries")
def query_scale(recorded: Recorded, found: Array) -> Array:
    """Root mean square of the eigenvalues about their mean, over the width."""
    d = recorded.spec.d
    square = (np.abs(found) ** 2).sum(axis=-1) / d - (found.real.sum(axis=-1) / d) ** 2
    return np.asarray(np.sqrt(square.clip(0)))


@query_scale.finds
def find_localised(recorded: Recorded, values: Array) -> Iterator[Finding]:
    """Whether heads with larger eigenvalues attend more locally."""
    spread = entropy(recorded)
    if spread is None or values.size < 8 or values.std() == 0 or spread.std() == 0:
        return
    together = float(np.corrcoef(_ranks(values), _ranks(spread))[0, 1])
    if abs(together) * (values.size - 1) ** 0.5 > CLEAR:
        way = "more concentrated" if together < 0 else "more spread out"
        yield Finding(
            what=f"Heads with a wider spectrum of W_Q' W_K have {way} attention: rank "
            f"correlation with its entropy {together:+.2f} over {values.size} heads.",
            means="The weights alone partly determine how concentrated attention is.",
            size=abs(together),
            weight=abs(together),
            extreme="none",
        )


def _ranks(values: Array) -> Array:
    return np.asarray(values.reshape(-1).argsort().argsort())


@measure(
    "sinks",
    "Attention to one token",
    "head",
    "The mean attention to the token that receives most, over queries after the first quarter "
    "of the text.",
    least=4,
    of="attention",
)
def sinks(_recorded: Recorded, found: Array) -> Array:
    """The largest of them."""
    return np.asarray(found.max(axis=-1))


@sinks.finds
def find_sinks(recorded: Recorded, values: Array) -> Iterator[Finding]:
    """One finding for every token that is a sink of some heads."""
    assert recorded.attention is not None
    keys, high = recorded.attention.argmax(axis=-1), values > SINK
    for token, count in Counter(keys[high].tolist()).most_common():
        mine = high & (keys == token)
        layers = np.flatnonzero(mine.any(axis=1)) + 1
        full = np.flatnonzero(mine.all(axis=1)) + 1
        whole = f"; all heads of {numbered('layer', full.tolist())}" if full.size else ""
        size = float(values[mine].max())
        most = f", up to {100 * size:.0f} %" if round(100 * size) > 100 * SINK else ""
        give, their = ("gives", "its") if count == 1 else ("give", "their")
        yield Finding(
            what=f"Attention sink: {count} of {values.size} heads {give} "
            f"{spoken(recorded, token)} more than {100 * SINK:.0f} % of {their} attention on "
            f"average{most} ({numbered('layer', layers.tolist())}{whole}).",
            means="Such heads have little effect when there is nothing to attend to; their "
            "attention rests on this token.",
            size=size,
            weight=count / values.size * 10,
            heads=places(mine),
            token=int(token),
            text=recorded.word(int(token)),
        )


@measure("contraction", "Factor on token differences", "head", of="patterns")
def contraction(_recorded: Recorded, P: Array) -> Array:
    """The spectral norm of the pattern between projections away from the mean token."""
    middle = P - P.mean(axis=-2, keepdims=True)
    middle = middle - middle.mean(axis=-1, keepdims=True)
    return np.asarray(np.linalg.norm(middle, 2, axis=(-2, -1)))


@contraction.finds
def find_above(_recorded: Recorded, values: Array) -> Iterator[Finding]:
    """Whether the contraction of the theory says anything here."""
    above = float((values > 1).mean())
    if above > 0.5 and values.max() > ABOVE:
        yield Finding(
            what=f"Attention does not contract: the factor of {100 * above:.0f} % of the heads is "
            f"above 1, up to {values.max():.1f}.",
            means="The over-smoothing bound multiplies these factors, so it says nothing about "
            "this model.",
            size=float(values.max()),
            weight=0.5,
        )


@measure("gap", "Second / first singular value", "head", of="pattern_values")
def gap(_recorded: Recorded, s: Array) -> Array:
    """Singular values of the attention pattern; at 0 all tokens become equal."""
    return np.asarray(s[..., 1] / s[..., 0])


@measure("pattern-rank", "Stable rank, attention", "head", of="pattern_values")
def pattern_rank(_recorded: Recorded, s: Array) -> Array:
    """Squared Frobenius norm over squared spectral norm of the attention pattern."""
    return np.asarray((s**2).sum(axis=-1) / s[..., 0] ** 2)


@measure("entropy", "Entropy of attention", "head", of="patterns")
def entropy(recorded: Recorded, P: Array) -> Array:
    """The mean over queries, divided by the logarithm of the number of tokens they see."""
    n = recorded.tokens
    seen = np.arange(1, n + 1) if recorded.spec.causal else np.full(n, n)
    logs = np.log(np.where(P > 0, P, 1.0))
    found = -(P * logs).sum(axis=-1) / np.log(np.maximum(seen, 2))
    return np.asarray(found[..., seen > 1].mean(axis=-1))


@measure("distance", "Attended distance, tokens", "head", of="patterns")
def distance(recorded: Recorded, P: Array) -> Array:
    """The mean distance between a query and the tokens it attends to."""
    places = np.arange(recorded.tokens)
    return np.asarray((P * np.abs(places[:, None] - places)).sum(axis=-1).mean(axis=-1))


@measure(
    "silent",
    "Silent units, share",
    "layer",
    "Units whose largest magnitude over the tokens is at most a thousandth of the median unit's.",
)
def silent(recorded: Recorded) -> Array | None:
    """The share of units of a layer that stay below a thousandth of the median unit."""
    every = [layer.units for layer in recorded.layers]
    if any(units is None or not len(units) for units in every):
        return None
    return np.array([float(_silent(units).mean()) for units in every if units is not None])


def _silent(units: Array) -> Array:
    return np.asarray(units <= SILENT * np.median(units))


@silent.finds
def find_silent(recorded: Recorded, values: Array) -> Iterator[Finding]:
    """All layers with silent units, together."""
    layers = np.flatnonzero(values > 0)
    if len(layers):
        units = [layer.units for layer in recorded.layers if layer.units is not None]
        count = sum(int(_silent(units[layer]).sum()) for layer in layers)
        stay = "stays" if count == 1 else "stay"
        yield Finding(
            what=f"Silent units: {count:,} of {sum(map(len, units)):,} {stay} below {SILENT:g} of "
            "the median unit of the layer on all tokens "
            f"({numbered('layer', [int(n) + 1 for n in layers])}).",
            means="They have almost no output on inputs like this one. Units of experts that no "
            "token uses are included.",
            size=float(values.max()),
            weight=float(values.mean()) * 5,
            layer=int(values.argmax()) + 1,
        )
