"""Rescaled rotary frequencies as data: `linear:4`, `llama3:8:1:4:8192`, `yarn:4:4096:fast=16`.

| text | what follows the kind |
|---|---|
| `linear:F` | the factor by which all frequencies are divided |
| `dynamic:F:L` | the factor, and the length beyond which the base grows with the input |
| `llama3:F:low:high:L` | the factor, two numbers of turns, and the length of the context before |
| `yarn:F:L` | the factor and that length; then, if they are not 32, 1 and what follows from F, |
| | `fast=` and `slow=` (numbers of turns), `attention=`, or `mscale=` and `all=` |
| `longrope:F:L` | likewise; then what frequencies are divided by, plane by plane, in inputs of at |
| | most L tokens and in longer ones (`short=1+1.5:long=2+8`), and `attention=` |

`rotary` applies these numbers to the frequencies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

from segre.errors import SpecError
from segre.values import choice, fraction, quote

RescaleKind = Literal["linear", "dynamic", "llama3", "yarn", "longrope"]
PLACES: dict[RescaleKind, tuple[str, ...]] = {
    "linear": ("factor",),
    "dynamic": ("factor", "length"),
    "llama3": ("factor", "low", "high", "length"),
    "yarn": ("factor", "length"),
    "longrope": ("factor", "length"),
}
OPTIONS = {
    "fast": Fraction(32),
    "slow": Fraction(1),
    **dict.fromkeys(("attention", "mscale", "all"), Fraction(0)),
    "truncate": Fraction(1),
}
# What may follow, by kind; of longrope two lists, with a number for each plane.
OPTIONAL = {"yarn": tuple(OPTIONS), "longrope": ("short", "long", "attention")}
LISTS = ("short", "long")
_LONGEST = 20_000  # characters: a head of 256 dimensions has two lists of 128 numbers


@dataclass(frozen=True)
class Rescale:
    """One way to rescale rotary frequencies, with exact numbers; unused ones are 0."""

    kind: RescaleKind
    factor: Fraction
    length: Fraction = Fraction(0)  # of the context before
    low: Fraction = Fraction(0)  # llama3: planes that turn less often than this are slowed down
    high: Fraction = Fraction(0)  # llama3: and those that turn more often stay
    fast: Fraction = OPTIONS["fast"]  # yarn: the same two numbers of turns
    slow: Fraction = OPTIONS["slow"]
    attention: Fraction = Fraction(0)  # yarn: what queries and keys are multiplied by; 0: computed
    mscale: Fraction = Fraction(0)
    all: Fraction = Fraction(0)
    truncate: Fraction = OPTIONS["truncate"]  # yarn: whether its ramp is between whole planes
    short: tuple[Fraction, ...] = ()  # longrope: what frequencies are divided by, plane by plane
    long: tuple[Fraction, ...] = ()  # the same for inputs of more than `length` tokens

    def __str__(self) -> str:
        """The text that reads back as this rescaling."""
        numbers = [decimal(getattr(self, name)) for name in PLACES[self.kind]]
        for name in OPTIONAL.get(self.kind, ()):
            value = getattr(self, name)
            if name in LISTS:
                numbers.append(f"{name}={'+'.join(map(decimal, value))}")
            elif value != OPTIONS[name]:
                numbers.append(f"{name}={decimal(value)}")
        return ":".join([self.kind, *numbers])

    @property
    def idle(self) -> bool:
        """Whether nothing is rescaled at all."""
        if self.kind in OPTIONAL and self.attention not in (0, 1):
            return False
        if any(x != 1 for x in self.short + self.long):
            return False
        return self.factor == 1 and self.kind != "dynamic"

    @property
    def amplitude(self) -> tuple[Fraction, Fraction, Fraction]:
        """(a, u, v): turned queries and keys are multiplied by a (1 + u ln F) / (1 + v ln F)."""
        if self.attention:
            return self.attention, Fraction(0), Fraction(0)
        if self.kind != "yarn":
            return Fraction(1), Fraction(0), Fraction(0)
        if self.mscale and self.all:
            return Fraction(1), self.mscale / 10, self.all / 10
        return Fraction(1), Fraction(1, 10), Fraction(0)

    @property
    def growth(self) -> tuple[Fraction, ...]:
        """The factor of rotated queries and keys, in the form that `absorbed` of a field takes.

        Longrope multiplies by sqrt(1 + ln F / ln L), unless the factor is given.
        """
        a, u, v = self.amplitude
        under = self.length if self.kind == "longrope" and not self.attention else Fraction(0)
        return a**2, u, v, self.factor, under

    @property
    def grows(self) -> bool:
        """Whether rotated queries and keys are multiplied by a factor other than 1."""
        a, u, v, factor, under = self.growth
        return a != 1 or (factor != 1 and (u != v or under != 0))

    def divided(self, t: int) -> tuple[Fraction, ...]:
        """Longrope: the divisors of the frequencies of the planes, for inputs of t tokens."""
        return self.long if t > self.length else self.short


@lru_cache(maxsize=256)
def rescale(text: str) -> Rescale:
    """Read a rescaling; refused if it is not valid.

    >>> str(rescale("yarn:4.0:4096:slow=1:fast=16")), rescale("linear:2").idle
    ('yarn:4:4096:fast=16', False)
    """
    kind, *numbers = text[: _LONGEST + 1].split(":")
    names = PLACES[choice("rescale", kind, tuple(PLACES))]
    plain = [item for item in numbers if "=" not in item]
    options = dict(item.split("=", 1) for item in numbers if "=" in item)
    wanted = ":".join([kind, *names])
    if len(text) > _LONGEST or len(plain) != len(names) or numbers[: len(plain)] != plain:
        raise SpecError(f"rescale: {quote(text)} is not allowed; allowed: {wanted}")
    allowed = OPTIONAL.get(kind, ())
    for key in options:
        if key not in allowed or numbers.count(f"{key}={options[key]}") > 1:
            wanted = f"{wanted}, with {', '.join(allowed)}" if allowed else wanted
            raise SpecError(f"rescale: {quote(key)} is not allowed; allowed: {wanted}")
    lists = {key: options[key].split("+") for key in LISTS if key in options}
    return rescaled({"kind": kind, **dict(zip(names, plain, strict=True)), **options, **lists})


def rescaled(given: Mapping[str, Any]) -> Rescale:
    """A rescaling from its numbers by name; refused if they are inconsistent."""
    values: dict[str, Any] = {
        key: tuple(number(key, x) for x in value) if key in LISTS else number(key, value)
        for key, value in given.items()
        if key != "kind"
    }
    if given["kind"] == "longrope" and values.get("attention"):
        values["factor"] = Fraction(1)  # it says nothing more
    out = Rescale(given["kind"], **values)
    if out.factor < 1:
        raise SpecError(
            f"rescale factor: {decimal(out.factor)} is not allowed; allowed: numbers from 1"
        )
    if "length" in values and out.length < 1:
        raise SpecError(
            f"rescale length: {decimal(out.length)} is not allowed; allowed: numbers from 1"
        )
    if out.kind == "llama3" and not 0 < out.low < out.high:
        raise SpecError(
            f"rescale low and high: {decimal(out.low)} and {decimal(out.high)}; "
            "allowed: numbers above 0, low below high"
        )
    if out.kind == "longrope":
        _require_lists(out)
    if out.truncate not in (0, 1):
        raise SpecError("rescale truncate: allowed: 0 and 1")
    if not out.fast or not out.slow:
        raise SpecError("rescale fast and slow: allowed: numbers above 0")
    return out


def _require_lists(out: Rescale) -> None:
    if not out.short or len(out.short) != len(out.long) or not all(out.short + out.long):
        raise SpecError(
            "rescale short and long: allowed: two lists of numbers above 0, one for each plane"
        )
    if out.length == 1 and out.factor != 1:
        raise SpecError("rescale length: 1 is not allowed with longrope; allowed: numbers above 1")


def number(key: str, value: Any) -> Fraction:
    """A decimal number from 0, exactly."""
    found = fraction(f"rescale {key}", value)
    if 10**30 % found.denominator:
        raise SpecError(
            f"rescale {key}: {quote(str(value))} is not allowed; allowed: decimal numbers from 0"
        )
    return found


def decimal(value: Fraction) -> str:
    """A fraction that is a decimal number, written as one."""
    if value.denominator == 1:
        return str(value.numerator)
    short = repr(float(value))
    if "e" not in short and Fraction(short) == value:
        return short
    places = 1
    while (value * 10**places).denominator != 1:
        places += 1
    digits = str((value * 10**places).numerator).rjust(places + 1, "0")
    return f"{digits[:-places]}.{digits[-places:]}"
