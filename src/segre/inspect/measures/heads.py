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
    dead = [
        (int(layer) + 1, int(head) + 1)
        for layer, head in zip(*np.nonzero(values < DEAD * typical), strict=True)
    ]
    if dead:
        size = min(float(values[layer - 1, head - 1]) for layer, head in dead)
        yield Finding(
            what=f"Dead heads: {len(dead)} of {values.size} {_has(dead)} an output below {DEAD:g} "
            f"of the median head's ({_named(dead)}).",
            means="They can be removed with almost no change of the outputs on inputs like "
            "this one.",
            size=size,
            weight=len(dead) / values.size * 5,
            typical=typical,
            heads=tuple(dead),
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
    alike = [
        (int(layer) + 1, int(head) + 1)
        for layer, head in zip(*np.nonzero(values > ALIKE), strict=True)
    ]
    if alike:
        yield Finding(
            what=f"Duplicate heads: {len(alike)} of {values.size} {_has(alike)} the same output as "
            f"another head of the layer up to a factor, with a cosine above {ALIKE} "
            f"({_named(alike)}).",
            means="On inputs like this one, one head of each pair would be enough.",
            size=float(values.max()),
            weight=len(alike) / values.size * 5,
            typical=float(np.median(values)),
            heads=tuple(alike),
        )


def _has(heads: list[tuple[int, int]]) -> str:
    return "has" if len(heads) == 1 else "have"


def _named(heads: list[tuple[int, int]], most: int = 6) -> str:
    words = [f"{layer}.{head}" for layer, head in heads[:most]]
    more = len(heads) - most
    return ", ".join(words) + (f" and {more} more" if more > 0 else "")


@measure("query-mean", "W_Q' W_K, mean eigenvalue", "head")
def query_mean(recorded: Recorded) -> Array | None:
    """The trace of W_Q' W_K over the width, gains of the norm folded in."""
    found = _spectra(recorded)
    return None if found is None else np.asarray(found.real.sum(axis=-1) / recorded.spec.d)


@measure("query-scale", "W_Q' W_K, spread", "head")
def query_scale(recorded: Recorded) -> Array | None:
    """Root mean square of the eigenvalues about their mean, over the width."""
    found = _spectra(recorded)
    if found is None:
        return None
    d = recorded.spec.d
    middle = found.real.sum(axis=-1) / d
    square = (np.abs(found) ** 2).sum(axis=-1) / d - middle**2
    return np.asarray(np.sqrt(square.clip(0)))


def _spectra(recorded: Recorded) -> Array | None:
    every = [layer.queries for layer in recorded.layers if layer.queries is not None]
    return np.stack(every) if len(every) == len(recorded.layers) else None


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


def attention(recorded: Recorded) -> Array | None:
    """Mean attention to every key of the queries from a quarter on: (layers, heads, keys)."""
    P = recorded.patterns
    return None if P is None else np.asarray(P[:, :, recorded.tokens // 4 :].mean(axis=2))


@measure(
    "sinks",
    "Attention to one token",
    "head",
    "The mean attention to the token that receives most, over queries after the first quarter "
    "of the text.",
    least=4,
)
def sinks(recorded: Recorded) -> Array | None:
    """The largest of them."""
    found = attention(recorded)
    return None if found is None else np.asarray(found.max(axis=-1))


@sinks.finds
def find_sinks(recorded: Recorded, values: Array) -> Iterator[Finding]:
    """One finding for every token that is a sink of some heads."""
    found = attention(recorded)
    assert found is not None
    keys = found.argmax(axis=-1)
    layers, heads = np.nonzero(values > SINK)
    every = values.size
    for token, count in Counter(keys[layers, heads].tolist()).most_common():
        mine = [
            (int(layer), int(head))
            for layer, head in zip(layers, heads, strict=True)
            if keys[layer, head] == token
        ]
        by_layer = Counter(layer for layer, _ in mine)
        full = [
            layer + 1 for layer, number in sorted(by_layer.items()) if number == values.shape[1]
        ]
        whole = f"; all heads of {numbered('layer', full)}" if full else ""
        size = float(max(values[layer, head] for layer, head in mine))
        most = f", up to {100 * size:.0f} %" if round(100 * size) > 100 * SINK else ""
        yield Finding(
            what=f"Attention sink: {count} of {every} heads {'gives' if count == 1 else 'give'} "
            f"{spoken(recorded, token)} more than {100 * SINK:.0f} % of "
            f"{'its' if count == 1 else 'their'} attention on average{most} "
            f"({numbered('layer', [layer + 1 for layer in by_layer])}{whole}).",
            means="Such heads have little effect when there is nothing to attend to; their "
            "attention rests on this token.",
            size=size,
            weight=count / every * 10,
            typical=float(np.median(values)),
            heads=tuple((layer + 1, head + 1) for layer, head in mine),
            token=int(token),
            text=recorded.word(int(token)),
        )


@measure("contraction", "Factor on token differences", "head")
def contraction(recorded: Recorded) -> Array | None:
    """The spectral norm of the pattern between projections away from the mean token."""
    P = recorded.patterns
    if P is None:
        return None
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
            typical=float(np.median(values)),
        )


@measure("gap", "Second / first singular value", "head")
def gap(recorded: Recorded) -> Array | None:
    """Singular values of the attention pattern; at 0 all tokens become equal."""
    s = recorded.pattern_values
    return None if s is None else np.asarray(s[..., 1] / s[..., 0])


@measure("pattern-rank", "Stable rank, attention", "head")
def pattern_rank(recorded: Recorded) -> Array | None:
    """Squared Frobenius norm over squared spectral norm of the attention pattern."""
    s = recorded.pattern_values
    return None if s is None else np.asarray((s**2).sum(axis=-1) / s[..., 0] ** 2)


@measure("entropy", "Entropy of attention", "head")
def entropy(recorded: Recorded) -> Array | None:
    """The mean over queries, divided by the logarithm of the number of tokens they see."""
    P = recorded.patterns
    if P is None:
        return None
    n = recorded.tokens
    seen = np.arange(1, n + 1) if recorded.spec.causal else np.full(n, n)
    logs = np.log(np.where(P > 0, P, 1.0))
    found = -(P * logs).sum(axis=-1) / np.log(np.maximum(seen, 2))
    return np.asarray(found[..., seen > 1].mean(axis=-1))


@measure("distance", "Attended distance, tokens", "head")
def distance(recorded: Recorded) -> Array | None:
    """The mean distance between a query and the tokens it attends to."""
    P = recorded.patterns
    if P is None:
        return None
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
            typical=float(np.median(values)),
            layer=int(values.argmax()) + 1,
        )
