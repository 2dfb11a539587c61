"""From keys and queries to mixing weights, written once over any field."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import factorial
from typing import Any, assert_never

import numpy as np

from segre.attention.mechanism import Mechanism
from segre.errors import SegreError
from segre.fields.interface import Analytic, Array, E, Field
from segre.slope import Slope


def seen(mechanism: Mechanism, t: int) -> Array | None:
    """Ones where a query (column) sees a key (row), zeros elsewhere; None without a mask."""
    if not mechanism.masked:
        return None
    key, query = np.arange(t)[:, None], np.arange(t)[None]
    out = np.ones((t, t), dtype=bool)
    if mechanism.causal:
        out &= key <= query
    if mechanism.window is not None:
        out &= abs(query - key) <= mechanism.window
    if mechanism.local is not None:
        out &= query // mechanism.local == key // mechanism.local
    return out.astype(np.int64)


def mixing(
    field: Analytic[E],
    mechanism: Mechanism,
    keys: E,
    queries: E,
    t: int,
    rate: E | None = None,
) -> E:
    """The mixing weights of keys and queries (normalised first if required) on t tokens.

    `rate` is the decay, if it is learned.
    """
    if mechanism.feature != "none":
        keys, queries = (featured(field, mechanism, x) for x in (keys, queries))
    scores = field.matmul(field.transpose(keys), queries)
    used = seen(mechanism, t)
    shown = None if used is None else field.constant(used)
    if mechanism.decay != "none":
        shown = decays(field, mechanism, t, rate)
    weights = pattern(field, mechanism, scores, shown, used)
    return centred(field, mechanism, weights, mechanism.keys(t))


def centred(field: Field[E], mechanism: Mechanism, weights: E, keys: int) -> E:
    """The weights of a softmax minus 1/keys, for gapless mechanisms."""
    if mechanism.normalise != "centred":
        return weights
    return field.add(weights, field.fraction(Fraction(-1, keys)))


def pattern(
    field: Field[E],
    mechanism: Mechanism,
    scores: E,
    shown: E | None = None,
    used: Array | None = None,
    sink: bool = False,
) -> E:
    """Scores (row = key, column = query) as the matrix that mixes tokens, before it is centred.

    `used` is the mask, if any, as zeros and ones; `shown` is the mask as elements of the field,
    times the decay if there is one. With `sink` a softmax has an additional key, which has score 0
    and is not mixed.
    """
    if mechanism.ignores_shifts and mechanism.decay == "none":
        return field.softmax(scores, shown, used, sink)
    if mechanism.ignores_key_shifts:
        return field.double_softmax(scores, shown, used)
    weights = weighed(field, mechanism, scores, used)
    if shown is not None:
        weights = field.mul(weights, shown)
    if mechanism.normalise == "both":
        weights = field.mul(weights, field.reciprocal(field.sum(weights, axis=-1)))
    if mechanism.normalise != "none":
        weights = field.mul(weights, field.reciprocal(field.sum(weights, axis=-2)))
    return weights


def weighed(field: Field[E], mechanism: Mechanism, scores: E, used: Array | None = None) -> E:
    """Scores as weights, before they are restricted and normalised."""
    if mechanism.weigh not in WEIGHED:
        raise SegreError(f"weigh={mechanism.weigh} cannot be computed; see WEIGHED in pattern.py")
    weights: E = WEIGHED[mechanism.weigh](field, mechanism, scores, used)
    return weights


def _exponentials(field: Field[E], how: Mechanism, scores: E, used: Array | None) -> E:
    if how.normalise != "none":
        scores = field.anchor(scores, used)
    return field.exp(scores, used)


WEIGHED: dict[str, Callable[[Any, Mechanism, Any, Array | None], Any]] = {
    "identity": lambda _field, _how, scores, _used: scores,
    "taylor": lambda field, how, scores, _used: taylor(field, how.order, scores),
    "exp": _exponentials,
}


def taylor(field: Field[E], order: int, x: E) -> E:
    """1 + x + x^2/2 + ... up to an order."""
    out = field.fraction(Fraction(1, factorial(order)))
    for power in reversed(range(order)):
        out = field.add(field.mul(out, x), field.fraction(Fraction(1, factorial(power))))
    return out


def unit_size(field: Analytic[E], mechanism: Mechanism, x: E, a: int) -> E:
    """Queries or keys of width a, divided by their lengths or standardised if required."""
    if mechanism.unit == "layer":
        x = field.add(x, field.mul(field.sum(x, axis=-2), field.fraction(Fraction(-1, a))))
    if mechanism.unit != "none":
        square = field.sum(field.mul(x, x), axis=-2)
        if mechanism.unit == "layer":
            square = field.mul(square, field.fraction(Fraction(1, a)))
        x = field.mul(x, field.reciprocal(field.sqrt(square)))
    return x


def featured(field: Analytic[E], mechanism: Mechanism, x: E) -> E:
    """Queries or keys after the feature map."""
    match mechanism.feature:
        case "square":
            return field.mul(x, x)
        case "exp":
            return field.exp(x)
        case "relu":
            return field.relu(x)
        case "elu1":  # x + 1 where x is positive, exp(x) elsewhere
            positive = field.relu(x)
            rest = field.add(x, field.mul(positive, field.fraction(Fraction(-1))))
            return field.add(positive, field.exp(rest))
        case "silu":
            return field.mul(x, field.sigmoid(x))
        case "none":
            return x
        case _:
            assert_never(mechanism.feature)


def decays(field: Analytic[E], mechanism: Mechanism, t: int, rate: E | None = None) -> E:
    """The decay to the power (query - key), where a query sees a key, and zero elsewhere."""
    used = seen(mechanism, t)
    assert used is not None
    if rate is None:
        decay = mechanism.decay
        rate = field.slope(decay) if isinstance(decay, Slope) else field.fraction(Fraction(decay))
    ago = np.maximum(np.arange(t)[None] - np.arange(t)[:, None], 0)
    out, power = field.constant(used), rate  # rate^1, rate^2, rate^4, ...
    for bit in range(int(ago[used > 0].max()).bit_length()):
        if bit:
            power = field.mul(power, power)
        here = ago >> bit & 1
        factor = field.mul(power, field.constant(here))
        out = field.mul(out, field.add(factor, field.constant(1 - here)))
    return out
