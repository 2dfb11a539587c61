"""Mechanisms as users write them: softmax:window=2:gate=element, and several heads of a layer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, get_args

from segre.attention.mechanism import (
    NAMED,
    OPTIONS,
    STEPS,
    Decay,
    Mechanism,
)
from segre.errors import SpecError
from segre.slope import Slope
from segre.values import choice, flag, fraction, literal, quote, whole

MOST_HEADS = 10_000
SLOPES = "slopes"  # one for each head of a layer
_SLOPE = re.compile(r"slope\(([0-9/.]{1,40})(;[0-9/.]{1,40})?\)", re.ASCII)


def heads_of(key: str, text: Any, base: Mechanism) -> tuple[Mechanism, ...]:
    """The heads of one layer: softmax*2+lightning:decay=0.9, or a number of heads of `base`."""
    if isinstance(text, int) and not isinstance(text, bool):
        return spread([base] * whole(key, text, MOST_HEADS))
    if not isinstance(text, str) or not text:
        raise SpecError(
            f"{key}: {quote(str(text))} is not allowed; allowed: a number, or mechanisms as in "
            "softmax*2+lightning:decay=0.9"
        )
    out: list[Mechanism] = []
    for part in text.split("+"):
        one, times, count = part.partition("*")
        several = literal(count) if times else 1
        out += [one_of(one)] * whole(f"{key} {quote(part)}", several, MOST_HEADS)
        if len(out) > MOST_HEADS:
            raise SpecError(f"{key}: more than {MOST_HEADS} heads; allowed: 1 to {MOST_HEADS}")
    return spread(out)


def one_of(text: str) -> Mechanism:
    """A mechanism: a name, and options after colons.

    >>> one_of("fast:order=1:unit=none").features(5)
    6
    """
    name, *rest = text.split(":")
    given: dict[str, Any] = {}
    for part in rest:
        key, equals, value = part.partition("=")
        if key in given:
            raise SpecError(f"{quote(text)}: {key} is given twice; allowed: each option once")
        given[key] = literal(value) if equals else True
    return with_options(NAMED[choice("mechanism", name, tuple(NAMED))], given)


def with_options(base: Mechanism, given: Mapping[str, Any]) -> Mechanism:
    """A mechanism with other options."""
    if not given:
        return base
    changed: dict[str, Any] = {}
    for key, value in given.items():
        if key not in OPTIONS:
            raise SpecError(f"unknown option {quote(key)}; allowed: {', '.join(OPTIONS)}")
        changed[key] = _value(key, value)
    if changed.get("decay", "none") != "none":
        changed["causal"] = True
    if "conv" not in changed and (changed.get("kernel", 1) > 1 or changed.get("stride", 1) > 1):
        changed["conv"] = "full"
    return replace(base, **changed)


def _value(key: str, value: Any) -> Any:
    if key in STEPS:
        return choice(key, value, get_args(STEPS[key]))
    if key == "causal":
        return flag(key, value)
    if key == "decay":
        return _decay(key, value)
    if key in ("window", "local"):
        return None if value in ("none", None) else whole(key, value, smallest=int(key == "local"))
    return whole(key, value)


def _decay(key: str, value: Any) -> Decay:
    if value in ("none", "learned", SLOPES):
        found: Decay = value
        return found
    given = _SLOPE.fullmatch(value) if isinstance(value, str) else None
    if given:
        factor = fraction(key, given[2][1:]) if given[2] else Fraction(1)
        return Slope(fraction(key, given[1]), factor)
    return fraction(key, value)


def spread(heads: list[Mechanism]) -> tuple[Mechanism, ...]:
    """Heads whose decay is `slopes` get the slope of their place."""
    slopes = [n for n, head in enumerate(heads) if head.decay == SLOPES]
    for h, n in enumerate(slopes, 1):
        heads[n] = replace(heads[n], decay=Slope.of(h, len(slopes)))
    return tuple(heads)
