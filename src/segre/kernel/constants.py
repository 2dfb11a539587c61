"""By which angle does a plane turn from one token to the next? Section 2.3 of the page.

With f = base^(-2i/r) the angle of plane i is f times a factor. Mod p only rational factors can be
used; in balls all of them. A spec here is that of a layer that turns.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm

from flint import arb, ctx, fmpq, fmpz

from segre.transformer.spec import Transformer

_BITS = 512  # enough to tell apart what is never equal: pi is transcendental


@lru_cache(64)
def factors(spec: Transformer) -> tuple[Fraction | None, ...]:
    """The factor of every plane; None where it is not rational, or not known to be."""
    before = ctx.prec
    ctx.prec = _BITS
    try:
        return tuple(_factor(spec, plane) for plane in range(spec.rotary_dim // 2))
    finally:
        ctx.prec = before


@lru_cache(64)
def multiples(spec: Transformer) -> tuple[tuple[int, int], ...]:
    """C_i and N_i of section 4, for every plane i."""
    known = [factor for factor in factors(spec) if factor is not None]
    planes = spec.rotary_dim // 2
    if len(known) < planes:
        return tuple((plane, 1) for plane in range(planes))
    root, degree = _power(_base(spec))
    shared = gcd(planes, degree)
    period, step = planes // shared, root ** (degree // shared)
    sizes = [known[i] * step ** ((planes - 1 - i) // period) for i in range(planes)]
    result = []
    for i in range(planes):
        alike = sizes[i % period :: period]
        below = lcm(*(size.denominator for size in alike))
        above = gcd(*(int(size * below) for size in alike))
        result.append((i % period, int(sizes[i] * below) // above))
    return tuple(result)


def angle(spec: Transformer, plane: int) -> arb:
    """The angle of a plane, enclosed at the precision of flint's context."""
    planes, how = spec.rotary_dim // 2, spec.rescaling
    f = _number(_base(spec)) ** arb(fmpq(-plane, planes))
    factor = factors(spec)[plane]
    if factor is not None:
        return f * _number(factor)
    assert how is not None
    if how.kind == "dynamic":
        longer = how.factor * spec.t / how.length - how.factor + 1
        return f / _number(longer) ** arb(fmpq(plane, planes - 1))
    if how.kind == "yarn":
        first, last = _place(spec, how.fast), _place(spec, how.slow)
        first, last = first.max(arb(0)), last.min(arb(spec.rotary_dim - 1))
        ramp = ((plane - first) / (last - first)).max(arb(0)).min(arb(1))
        return f * (1 - ramp + ramp / _number(how.factor))
    share = (_turns(spec, plane) - _number(how.low)) / _number(how.high - how.low)
    return f * (share + (1 - share) / _number(how.factor))


def _factor(spec: Transformer, plane: int) -> Fraction | None:
    how = spec.rescaling
    if how is None:
        return Fraction(1)
    if how.kind == "linear":
        return 1 / how.factor
    if how.kind == "longrope":
        return 1 / (how.short if spec.t <= how.length else how.long)[plane]
    if how.kind == "dynamic":
        return Fraction(1) if spec.t <= how.length else None
    if how.kind == "llama3":
        turns = _turns(spec, plane)
        if turns > _number(how.high):
            return Fraction(1)
        return 1 / how.factor if turns < _number(how.low) else None
    if not how.truncate:
        return None
    low, high = _edge(spec, how.fast, "floor"), _edge(spec, how.slow, "ceil")
    first, last = Fraction(max(low, 0)), Fraction(min(high, spec.rotary_dim - 1))
    last += Fraction(1, 1000) if first == last else 0
    ramp = (plane - first) / (last - first)
    ramp = Fraction(0) if ramp < 0 else Fraction(1) if ramp > 1 else ramp
    return 1 - ramp + ramp / how.factor


def _turns(spec: Transformer, plane: int) -> arb:
    """How often a plane turns within the length, before it is slowed down."""
    assert spec.rescaling is not None
    f = _number(_base(spec)) ** arb(fmpq(-2 * plane, spec.rotary_dim))
    return _number(spec.rescaling.length) * f / (2 * arb.pi())


def _edge(spec: Transformer, turns: Fraction, rounding: str) -> int:
    """The number of the plane that turns so often within the length, rounded."""
    place = _place(spec, turns)
    whole = (place.floor() if rounding == "floor" else place.ceil()).unique_fmpz()
    assert whole is not None
    return int(whole)


def _base(spec: Transformer) -> Fraction:
    """The base of a spec that is the same for all layers."""
    assert not isinstance(spec.base, tuple)
    return Fraction(spec.base)


def _number(value: Fraction) -> arb:
    return arb(fmpq(value.numerator, value.denominator))


@lru_cache(64)
def _power(base: Fraction) -> tuple[Fraction, int]:
    """(b, g) with base = b^g, b rational and g as large as possible."""
    above, below = base.numerator, base.denominator
    for degree in range(above.bit_length(), 1, -1):
        root = Fraction(_root(above, degree), _root(below, degree))
        if root**degree == base:
            return root, degree
    return base, 1


def _root(value: int, degree: int) -> int:
    """The largest whole number whose power is at most `value`."""
    return int(fmpz(value).root(degree))


def _place(spec: Transformer, turns: Fraction) -> arb:
    """The number of that plane, which need not be whole."""
    assert spec.rescaling is not None
    quotient = _number(spec.rescaling.length) / (_number(turns) * 2 * arb.pi())
    return spec.rotary_dim * quotient.log() / (2 * _number(_base(spec)).log())


def amplitude(spec: Transformer) -> arb:
    """By what yarn and longrope multiply turned queries and keys, which absorb it."""
    how = spec.rescaling
    if how is None or how.kind not in ("yarn", "longrope"):
        return arb(1)
    if how.attention:
        return _number(how.attention)
    if how.factor == 1:
        return arb(1)
    log = _number(how.factor).log()
    if how.kind == "longrope":
        return (1 + log / _number(how.length).log()).sqrt()
    if how.mscale and how.all:
        return (1 + _number(how.mscale / 10) * log) / (1 + _number(how.all / 10) * log)
    return 1 + log / 10
