"""The architectures of a plan, one after the other, none twice.

Drawn ones come from a seeded generator, field by field, every value as likely as any other; a
plan with a larger `draw` begins with the same ones. The order is the order of rows in a table.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from segre.errors import SpecError, SweepError
from segre.families import architecture
from segre.spec import Network
from segre.sweep.names import fields_of, with_entries
from segre.sweep.plan import Plan, places
from segre.transformer.spec import Transformer

_MISSES = 20_000  # draws in a row that bring nothing new


@dataclass(frozen=True)
class Drawn:
    """An architecture and its fields by name."""

    spec: Network | Transformer
    fields: dict[str, Any]


def architectures(plan: Plan) -> Iterator[Drawn]:
    """Every architecture of the plan, once."""
    seen: set[bytes] = set()
    reason: SpecError | None = None
    misses = 0
    for kind, given in _random(plan) if plan.draw is not None else _all(plan):
        if plan.draw is not None and (len(seen) == plan.draw or misses == _MISSES):
            break
        misses += 1
        try:
            spec = architecture({"kind": kind, **given})
        except SpecError as error:
            reason = error
            continue
        found = fields_of(spec, kind, plan.each)
        digest = bytes.fromhex(spec.digest)
        if digest in seen or not _meets(plan, found, spec.parameters):
            continue
        seen.add(digest)
        misses = 0
        yield Drawn(spec, found)
    if not seen:
        why = "none meets the constraints" if reason is None else str(reason)
        raise SweepError(f"sweep: no architecture of the family can be built: {why}")
    if plan.draw is not None and len(seen) < plan.draw:
        raise SweepError(
            f"sweep: draw = {plan.draw}, but {_MISSES:,} draws in a row brought no architecture "
            f"beyond the first {len(seen):,}; make draw smaller, or use exhaustive = true"
        )


def _meets(plan: Plan, known: dict[str, Any], parameters: int) -> bool:
    if not plan.where:
        return True
    names = {**with_entries(known), "parameters": parameters}
    return all(constraint.holds(names) for constraint in plan.where)


def _random(plan: Plan) -> Iterator[tuple[str, dict[str, Any]]]:
    rng = random.Random(plan.seed)

    def pick(values: Any) -> Any:
        return values[rng.randrange(len(values))]

    while True:
        kind = pick(plan.kinds)
        given: dict[str, Any] = {}
        depth = 1
        if "layers" in plan.choices:
            given["layers"] = depth = pick(plan.choices["layers"].values)
        for key, choice in plan.free:
            drawn = [pick(choice.values) for _ in range(places(key, choice, depth))]
            given[key] = drawn if choice.each else drawn[0]
        yield kind, given


def _all(plan: Plan) -> Iterator[tuple[str, dict[str, Any]]]:
    depths = plan.choices["layers"].values if "layers" in plan.choices else [None]
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
