"""Which architectures, what to compute, and what is claimed: a sweep file, read and checked.

>>> plan = Plan.from_mapping({"kind": "softmax", "exhaustive": True, "where": "a <= d",
...     "claim": "dimension == l*a*(2*d - a) + d*d",
...     "fields": {"layers": "1..2", "d": [2, 3], "a": "1..3", "t": 2}})
>>> plan.candidates
12
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

from segre.errors import SegreError, SweepError
from segre.files import is_standard_input
from segre.models import KINDS
from segre.sweep.expression import Expression
from segre.sweep.names import AT_ONCE, NUMBERED, RESULTS, Sort, sort_of
from segre.values import LARGEST, choice, flag, quote, read_file, whole

COMPUTE = ("closed-form", "exact", "random", "symmetries", "theorem")
SPECS = 1_000_000  # to enumerate or to draw
RANGE = 10_000  # values of one field
LAYERS = 100
_KEYS = (
    *("name", "about", "kind", "fields", "where"),
    *("draw", "seed", "exhaustive", "compute", "claim"),
)
_NEEDS = {
    "closed_form": ("closed-form",),
    "lower": ("exact",),
    **dict.fromkeys(("dimension", "redundancy", "status", "upper"), ("exact", "symmetries")),
    **dict.fromkeys(("theorem", "hypotheses"), ("theorem",)),
}


@dataclass(frozen=True)
class Domain:
    """What values a field takes; `each` layer has its own, or all the same."""

    values: Sequence[Any]
    each: bool = False


@dataclass(frozen=True)
class Plan:
    """A sweep."""

    kinds: tuple[str, ...]
    choices: Mapping[str, Domain]
    where: tuple[Expression, ...]
    draw: int | None  # None: every architecture of the family
    seed: int
    compute: tuple[str, ...]
    claim: Expression | None
    given: Mapping[str, Any] = field(repr=False)

    @property
    def sort(self) -> Sort:
        """The fields of its architectures."""
        return sort_of(self.kinds[0])

    @cached_property
    def each(self) -> frozenset[str]:
        """The fields that are tuples in expressions: every layer has its own value."""
        return frozenset(key for key, choice in self.choices.items() if choice.each)

    @property
    def depths(self) -> Sequence[int]:
        """The numbers of layers, if they are a field."""
        return self.choices["layers"].values if "layers" in self.choices else ()

    @cached_property
    def candidates(self) -> int:
        """Number of architectures before constraints, counted up to the limit."""
        total = 0
        for depth in self.depths or [1]:
            total += self._of_depth(depth)
            if total > SPECS:
                break
        return total

    @cached_property
    def layers_in_all(self) -> int:
        """Total number of layers before constraints; for drawn architectures an approximation."""
        if self.draw is not None:
            return self.draw * sum(self.depths) // len(self.depths)
        return sum(depth * self._of_depth(depth) for depth in self.depths)

    def _of_depth(self, depth: int) -> int:
        """How many architectures there are of a depth, before constraints."""
        sizes: list[int] = [len(c.values) ** places(k, c, depth) for k, c in self.free]
        return len(self.kinds) * prod(sizes)

    @cached_property
    def free(self) -> list[tuple[str, Domain]]:
        """The fields other than the number of layers, in order."""
        return [(key, choice) for key, choice in self.choices.items() if key != "layers"]

    @property
    def digest(self) -> str:
        """The digest of what determines a row, which excludes the number drawn and the claim."""
        part = {k: self.given.get(k) for k in ("kind", "fields", "where", "exhaustive")}
        part |= {"seed": self.seed, "compute": list(self.compute)}
        return hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()

    @classmethod
    def read(cls, path: str | Path) -> Plan:
        """The plan of a TOML file."""
        path = Path(path)
        if path.suffix != ".toml" and not is_standard_input(path):
            raise SweepError(f"sweep {quote(str(path))} is not the name of a .toml file")
        return cls.from_mapping(read_file(path, "sweep"), str(path))

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any], quoted: str = "sweep") -> Plan:
        """The plan that keys and values say; `quoted` is how errors name it."""
        try:
            return _build(given)
        except SegreError as error:
            name = "" if quoted == "sweep" else f" {quote(quoted)}"
            raise SweepError(f"sweep{name}: {error}") from None


def places(key: str, choice: Domain, depth: int) -> int:
    """How many values of a field a network of that depth has."""
    return 1 if not choice.each else depth + (key == "d")


def _build(given: Mapping[str, Any]) -> Plan:
    for key in given:
        if key not in _KEYS:
            raise SweepError(f"unknown key {quote(key)}; allowed: {', '.join(_KEYS)}")
    for key in ("name", "about"):
        if not isinstance(given.get(key, ""), str):
            raise SweepError(f"{key} is not text")
    kinds = _kinds(given.get("kind"))
    choices = _choices(given.get("fields"), sort_of(kinds[0]))
    where = given.get("where", [])
    plan = Plan(
        kinds=kinds,
        choices=choices,
        where=tuple(_expression("where", x) for x in _listed(where)),
        draw=_draw(given),
        seed=whole("seed", given.get("seed", 0), 2**63 - 1, 0),
        compute=_compute(given.get("compute", ["exact"])),
        claim=_expression("claim", given["claim"]) if "claim" in given else None,
        given=given,
    )
    _require_names(plan)
    if plan.draw is None and plan.candidates > SPECS:
        raise SweepError(
            f"exhaustive = true would enumerate more than {SPECS:,} architectures; "
            "make the ranges smaller, or give draw = N"
        )
    return plan


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _kinds(value: Any) -> tuple[str, ...]:
    kinds = [choice("kind", kind, KINDS) for kind in _listed(value)]
    if not kinds or len({sort_of(kind) for kind in kinds}) != 1 or len(set(kinds)) < len(kinds):
        raise SweepError(
            "these kinds cannot be combined; allowed: one kind, or different kinds "
            "of stacks or of transformers"
        )
    return tuple(kinds)


def _choices(given: Any, sort: Sort) -> dict[str, Domain]:
    if not isinstance(given, dict) or not given:
        raise SweepError('fields is missing; give a table such as [fields] d = "2..6"')
    choices = {}
    for key, value in given.items():
        if key not in sort.keys or key in {"kind", "version"}:
            raise SweepError(f"unknown field {quote(key)}; allowed: {', '.join(sort.keys)}")
        each = isinstance(value, dict)
        if each and (key not in sort.each or set(value) != {"each"}):
            raise SweepError(
                f'{key}: a table is not allowed; allowed: {{ each = "1..4" }}, of '
                + (f"{', '.join(sort.each)} of {sort.name}" if sort.layered else "stacks")
            )
        choices[key] = Domain(_values(key, value["each"] if each else value), each)
    missing = [key for key in sort.needed if key not in choices]
    if missing:
        raise SweepError(f"fields: {', '.join(missing)} is missing")
    if sort.layered:
        choices.setdefault("layers", Domain((1,)))
    return choices


def _values(key: str, value: Any) -> Sequence[Any]:
    values: Sequence[Any] = _listed(value)
    if isinstance(value, str) and ".." in value:
        match = re.fullmatch(r"\s*(\d{1,10})\s*\.\.\s*(\d{1,10})\s*", value, re.ASCII)
        if match is None or int(match[1]) > int(match[2]) or int(match[2]) > LARGEST:
            raise SweepError(
                f'{key}: {quote(value)} is not a range; allowed: "2..6", from 0 to {LARGEST}'
            )
        values = range(int(match[1]), int(match[2]) + 1)
    if not 1 <= len(values) <= RANGE:
        raise SweepError(f"{key}: {len(values):,} values; allowed: 1 to {RANGE:,}")
    for item in values if isinstance(values, list) else ():
        if not isinstance(item, bool | int | str):
            raise SweepError(f"{key}: {quote(str(item))} is not a number, true, false or a word")
    if len(set(map(repr, values))) < len(values):
        raise SweepError(f"{key}: a value is given twice")
    if key == "layers":
        for item in values:
            whole("layers", item, LAYERS)
    return values


def _expression(key: str, text: Any) -> Expression:
    if not isinstance(text, str):
        raise SweepError(f"{key}: {quote(str(text))} is not an expression in quotes")
    try:
        return Expression(text)
    except SweepError as error:
        raise SweepError(f"{key}: {error}") from None


def _draw(given: Mapping[str, Any]) -> int | None:
    exhaustive = flag("exhaustive", given.get("exhaustive", False))
    if exhaustive == ("draw" in given):
        raise SweepError("give either draw = N or exhaustive = true")
    return None if exhaustive else whole("draw", given["draw"], SPECS)


def _compute(value: Any) -> tuple[str, ...]:
    values = [choice("compute", item, COMPUTE) for item in _listed(value)]
    if not values:
        raise SweepError(f"compute is empty; allowed: {', '.join(COMPUTE)}")
    if "random" in values and "exact" not in values:
        raise SweepError("compute: random needs exact, whose bounds it settles; add 'exact'")
    return tuple(item for item in COMPUTE if item in values)


def _require_names(plan: Plan) -> None:
    """Every name in an expression has a value for every architecture of the family."""
    fields = {"kind", "l", *plan.sort.names}
    least = min(plan.depths, default=1)
    for n in range(least + 1):
        fields |= {f"{key}{n}" for key in NUMBERED if (n or key == "d") and key in plan.sort.each}
    for key, expressions in (("where", plan.where), ("claim", (plan.claim,))):
        allowed = fields | set(RESULTS if key == "claim" else AT_ONCE)
        for expression in expressions:
            for name in sorted(expression.names) if expression else ():
                if name not in allowed:
                    shown = ", ".join(sorted(allowed))
                    raise SweepError(f"{key}: unknown name {quote(name)}; allowed: {shown}")
                if key == "claim" and not set(_NEEDS.get(name, plan.compute)) & set(plan.compute):
                    raise SweepError(
                        f"claim: {name} is not computed; add {_NEEDS[name][0]!r} to compute"
                    )
