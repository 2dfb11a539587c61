"""Architectures like those of a store, but not among them, and their dimensions.

Ranges go on a little past their largest values: a formula is also tried where it was not made.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from segre.errors import SweepError
from segre.sweep.draw import Drawn, architectures
from segre.sweep.law import Known
from segre.sweep.names import NUMBERED
from segre.sweep.plan import SPECS, Plan
from segre.sweep.task import bytes_needed, solve

_BEYOND = 2  # how far past the largest values of the store
_LOOKED_AT = 20_000  # draws
_PARAMETERS = 1_500  # so that testing takes seconds
_MEMORY = 2 << 30


class Source:
    """Fresh architectures of a plan; each is drawn, and solved, once."""

    def __init__(
        self, plan: Plan, varied: Sequence[str], done: Collection[str], seed: int, balls: bool
    ) -> None:
        self._plan, self._varied, self._done = plan, varied, done
        self._seed, self._balls = seed, balls  # whether ranks found in balls count
        self._answers: dict[str, dict[str, Any]] = {}
        self._drawn: list[Drawn] = []
        self._source: Iterator[Drawn] | None = None

    def some(self, count: int, wanted: Callable[[dict[str, Any]], bool]) -> Iterator[Drawn]:
        """Architectures with the wanted fields, up to a limit."""
        for drawn in self._all():
            if count and wanted(drawn.fields):
                yield drawn
                count -= 1
            if not count:
                return

    def known(self, drawn: Drawn) -> Known | None:
        """What is known of its dimension."""
        digest = drawn.spec.digest
        if digest not in self._answers:
            task = {
                "digest": digest,
                "document": drawn.spec.document(),
                "compute": ["exact"],
                "seed": self._seed + 1,
                "memory": _MEMORY,
            }
            self._answers[digest] = solve(task)
        found = self._answers[digest]
        return Known.of(found["lower"], found["upper"], found["evidence"], self._balls)

    def _all(self) -> Iterator[Drawn]:
        yield from self._drawn
        if self._source is None:
            self._source = self._draw()
        for drawn in self._source:
            self._drawn.append(drawn)
            yield drawn

    def _draw(self) -> Iterator[Drawn]:
        try:
            for looked_at, drawn in enumerate(architectures(self._wider())):
                if looked_at == _LOOKED_AT:
                    return
                spec = drawn.spec
                small = spec.parameters <= _PARAMETERS and bytes_needed(spec, ["exact"]) <= _MEMORY
                if small and spec.digest not in self._done:
                    yield drawn
        except SweepError:
            return  # no more of them

    def _wider(self) -> Plan:
        """The plan with extended ranges, drawn with another seed."""
        stems = {name: name.rstrip("0123456789") for name in self._varied}
        varied = {stem if stem in NUMBERED else name for name, stem in stems.items()}
        varied |= {"layers"} if "l" in varied else set()
        fields = dict(self._plan.given["fields"])
        for key, choice in self._plan.choices.items():
            values = list(choice.values)
            if key in varied and len(values) > 1 and all(type(v) is int for v in values):
                values += range(max(values) + 1, max(values) + 1 + _BEYOND)
                fields[key] = {"each": values} if choice.each else values
        given = {k: v for k, v in self._plan.given.items() if k not in {"exhaustive", "claim"}}
        seed = random.Random(self._seed + self._plan.seed + 1).getrandbits(62)
        return Plan.from_mapping({**given, "fields": fields, "draw": SPECS, "seed": seed})
