"""Heads with almost no output, and heads with the same output as another."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.fields.interface import Array
from segre.inspect.measure import Finding, Measure
from segre.inspect.recorded import Recorded

DEAD, ALIKE = 1e-3, 0.99


def shares(recorded: Recorded) -> Array:
    """The norm of what a head writes, over that of the stream that the layer reads."""
    out = []
    for layer, X in zip(recorded.layers, recorded.streams, strict=False):
        size = np.linalg.norm(X)
        out.append(np.linalg.norm(layer.written, axis=1) / max(float(size), 1e-300))
    return np.array(out)


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
            measure="writes",
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


def cosines(recorded: Recorded) -> Array:
    """The largest cosine of what a head writes with what another of its layer writes."""
    out = []
    for layer in recorded.layers:
        size = np.sqrt(np.diag(layer.products).clip(0))
        found = layer.products / np.maximum(np.outer(size, size), 1e-300)
        np.fill_diagonal(found, 0)
        out.append(np.abs(found).max(axis=1) if len(found) > 1 else np.zeros(1))
    return np.array(out)


def find_alike(_recorded: Recorded, values: Array) -> Iterator[Finding]:
    """Pairs of heads that write the same, up to a factor."""
    alike = [
        (int(layer) + 1, int(head) + 1)
        for layer, head in zip(*np.nonzero(values > ALIKE), strict=True)
    ]
    if alike:
        yield Finding(
            measure="alike",
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


MEASURES = (
    Measure(
        "writes",
        "Output norm / stream norm",
        "head",
        "The norm of the head's output on all tokens, divided by the norm of the stream.",
        shares,
        find_dead,
    ),
    Measure(
        "alike",
        "Cosine with another head",
        "head",
        "The absolute cosine of the outputs of two heads on all tokens.",
        cosines,
        find_alike,
    ),
)
