"""The frequencies of the rotary planes of a transformer.

Plane j of n turns by base^(-j/n) from one token to the next, or by a rescaled frequency, as the
transformers library computes it. Which planes a rescaling slows down depends on logarithms and on
pi; such comparisons are decided in ball arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

from flint import arb, ctx

from segre.fields.circle import Frequencies
from segre.transformer.by_layer import Base
from segre.transformer.rescale import Rescale
from segre.transformer.spec import Transformer

_BITS = 256


def frequencies(spec: Transformer) -> Frequencies:
    """The frequencies of the planes of a head for t tokens; of one layer if layers differ.

    >>> net = Transformer.parse("transformer/d=4/pos=rope/rescale=linear:2/t=3")
    >>> frequencies(net).floats().tolist()
    [0.5, 0.005]
    """
    assert not isinstance(spec.base, tuple)
    return _frequencies(spec.base, spec.rotary // 2, spec.rescaling, spec.t)


@lru_cache(maxsize=256)
def _frequencies(base: Base, planes: int, how: Rescale | None, t: int) -> Frequencies:
    if how is None:
        return Frequencies(base, planes)
    if how.kind == "dynamic":
        stretch = max(Fraction(1), how.factor * t / how.length - (how.factor - 1))
        return Frequencies(base, planes, stretch=stretch)
    if how.kind == "linear":
        return Frequencies(base, planes, ((1 / how.factor, Fraction(0)),) * planes)
    if how.kind == "longrope":
        return Frequencies(base, planes, tuple((1 / x, Fraction(0)) for x in how.divided(t)))
    if how.kind == "yarn" and not how.truncate:
        return Frequencies(base, planes, ramp=(how.factor, how.length, how.fast, how.slow))
    before = ctx.prec
    ctx.prec = _BITS
    try:
        blend = _llama3 if how.kind == "llama3" else _yarn
        return Frequencies(base, planes, tuple(blend(how, base, planes)))
    finally:
        ctx.prec = before


def _llama3(how: Rescale, base: Base, planes: int) -> Iterator[tuple[Fraction, Fraction]]:
    """Planes of more than `high` turns stay, those of fewer than `low` are slowed down.

    In between, with s = (turns - low) / (high - low), frequencies are multiplied by
    s + (1 - s) / factor. A plane of frequency f has length f / (2 pi) turns.
    """
    rest, slowed = 1 - 1 / how.factor, 1 / how.factor
    for j in range(planes):
        turns = _number(how.length) * _number(base) ** (arb(-j) / planes) / (2 * arb.pi())
        if turns > _number(how.high):
            yield Fraction(1), Fraction(0)
        elif turns < _number(how.low):
            yield slowed, Fraction(0)
        else:
            steep = rest / (how.high - how.low)
            yield slowed - steep * how.low, steep * how.length / 2


def _yarn(how: Rescale, base: Base, planes: int) -> Iterator[tuple[Fraction, Fraction]]:
    """Planes before `first` stay, those after `last` are slowed down, a ramp in between."""

    def plane_of(turns: Fraction) -> arb:
        """The (fractional) index of the plane that makes this many turns within the length."""
        ratio = _number(how.length / turns) / (2 * arb.pi())
        return planes * ratio.log() / _number(base).log()

    first = Fraction(max(0, _whole(plane_of(how.fast).floor())))
    last = Fraction(min(2 * planes - 1, _whole(plane_of(how.slow).ceil())))
    if first == last:
        last += Fraction(1, 1000)
    for j in range(planes):
        ramp = min(Fraction(1), max(Fraction(0), (j - first) / (last - first)))
        yield ramp / how.factor + 1 - ramp, Fraction(0)


def _whole(value: arb) -> int:
    """The integer in a ball; there is exactly one, since pi is not a power of these numbers."""
    found = value.unique_fmpz()
    assert found is not None
    return int(found)


def _number(value: Base) -> arb:
    return arb(value.numerator) / arb(value.denominator)
