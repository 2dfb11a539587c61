"""The architectures of a plan, one after the other, none twice.

Drawn ones come from a seeded generator, field by field, every value as likely as any other; a
plan with a larger `draw` begins with the same ones. The order is the order of rows in a table.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from segre.architectures import Architecture
from segre.errors import SpecError, SweepError
from segre.models import architecture
from segre.sweep.names import fields_of, known_at_once, with_entries
from segre.sweep.plan import SPECS, Plan, places

_LAYERS_IN_ALL = 5_000_000  # of all architectures together: minutes
_MISSES = 20_000  # draws in a row that bring nothing new
_WASTED = 150_000  # what it may cost to build them, in layers: a second or two
_STACK, _TRANSFORMER = 10, 100  # what building one costs, beside its layers


@dataclass(frozen=True)
class Drawn:
    """An architecture, its fields by name, and its place in the order of the plan."""

    place: int
    spec: Architecture
    fields: dict[str, Any]


def require_possible(plan: Plan) -> None:
    """Refuse, before anything is built, to draw more than there is, or more than can be drawn."""
    if plan.draw is not None and plan.candidates < plan.draw:
        raise SweepError(
            f"sweep: draw = {plan.draw:,}, but the fields have only {plan.candidates:,} "
            "combinations; make draw smaller, or use exhaustive = true"
        )
    if plan.sort.layered and plan.layers_in_all > _LAYERS_IN_ALL:
        number = plan.candidates if plan.draw is None else plan.draw
        raise SweepError(
            f"sweep: {number:,} architectures with {plan.layers_in_all:,} layers in total; "
            f"allowed: {_LAYERS_IN_ALL:,} layers; make the ranges smaller, or give a smaller "
            "draw = N"
        )


def architectures(plan: Plan) -> Iterator[Drawn]:
    """Every architecture of the plan, once; a plan that cannot be met is refused early."""
    seen: set[bytes] = set()
    reason: SpecError | None = None
    for kind, given in _all(plan) if plan.draw is None else _random(plan, seen):
        try:
            spec = architecture({"kind": kind, **given})
        except SpecError as error:
            reason = error
            continue
        found = fields_of(spec, kind, plan.each)
        digest = bytes.fromhex(spec.digest)
        if digest not in seen and _meets(plan, found, spec):
            seen.add(digest)
            yield Drawn(len(seen) - 1, spec, found)
    if not seen:
        why = "none satisfies the constraints" if reason is None else str(reason)
        raise SweepError(f"sweep: no architecture of the family can be built: {why}")


def _meets(plan: Plan, known: dict[str, Any], spec: Architecture) -> bool:
    if not plan.where:
        return True
    names = {**with_entries(known), **known_at_once(spec)}
    return all(constraint.holds(names) for constraint in plan.where)


def _random(plan: Plan, seen: Collection[bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Candidates, none twice, until as many as the plan asks for have been `seen` to be new.

    A family of few candidates is known to have no more once all were tried. In a large one, that
    is assumed after many in a row that are not new.
    """
    countable = plan.candidates <= SPECS
    tried: set[int] = set()
    misses = wasted = before = 0
    for number, kind, given in _candidates(plan):
        misses += 1
        if number not in tried:
            if countable:
                tried.add(number)
            wasted += _cost(plan, given)
            yield kind, given
        if len(seen) > before:
            misses, wasted, before = 0, 0, len(seen)
        if before == plan.draw:
            return
        if len(tried) == plan.candidates or misses >= _MISSES or wasted >= _WASTED:
            break
    if before:
        but = f"{misses:,} draws in a row gave no new architecture after the first {before:,}"
        if len(tried) == plan.candidates:
            but = f"the family has only {before:,} architectures"
        raise SweepError(
            f"sweep: draw = {plan.draw:,}, but {but}; make draw smaller, or use exhaustive = true"
        )


def _cost(plan: Plan, given: Mapping[str, Any]) -> int:
    """What it costs to build a candidate, about, in layers of a stack."""
    return _STACK + int(given.get("layers", 1)) if plan.sort.layered else _TRANSFORMER


def _candidates(plan: Plan) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Random values of all fields, for ever; the same values have the same number."""
    rng = random.Random(plan.seed)
    number = 0

    def pick(values: Any) -> Any:
        nonlocal number
        at = rng.randrange(len(values))
        number = number * len(values) + at
        return values[at]

    while True:
        number = 0
        kind = pick(plan.kinds)
        given: dict[str, Any] = {}
        if plan.depths:
            given["layers"] = pick(plan.depths)
        first, number = number, 0
        for key, choice in plan.free:
            drawn = [
                pick(choice.values) for _ in range(places(key, choice, given.get("layers", 1)))
            ]
            given[key] = drawn if choice.each else drawn[0]
        yield number * len(plan.kinds) * max(1, len(plan.depths)) + first, kind, given


def _all(plan: Plan) -> Iterator[tuple[str, dict[str, Any]]]:
    depths: Sequence[int | None] = plan.depths or [None]
    for kind, depth in product(plan.kinds, depths):
        columns = [
            product(choice.values, repeat=places(key, choice, depth or 1))
            if choice.each
            else choice.values
            for key, choice in plan.free
        ]
        for values in product(*columns):
            given = {
                key: list(value) if choice.each else value
                for (key, choice), value in zip(plan.free, values, strict=True)
            }
            yield kind, given if depth is None else {"layers": depth, **given}
