"""Attention sinks: heads that give much of their attention to one token for all queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from segre.fields.interface import Array
from segre.inspect.measure import Finding, Measure, numbered, spoken
from segre.inspect.recorded import Recorded

SINK = 0.3


def attention(recorded: Recorded) -> Array | None:
    """Mean attention to every key of the queries from a quarter on: (layers, heads, keys)."""
    P = recorded.patterns
    return None if P is None else np.asarray(P[:, :, recorded.tokens // 4 :].mean(axis=2))


def largest(recorded: Recorded) -> Array | None:
    """The largest of them."""
    found = attention(recorded)
    return None if found is None else np.asarray(found.max(axis=-1))


def find(recorded: Recorded, values: Array) -> Iterator[Finding]:
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
            measure="sinks",
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


MEASURES = (
    Measure(
        "sinks",
        "Attention to one token",
        "head",
        "The mean attention to the token that receives most, over queries after the first quarter "
        "of the text.",
        largest,
        find,
        least=4,
    ),
)
