"""What is added to values while weights move, and where must it vanish? The base of the pass.

docs/soundness.md, "What a variation is" and "Conditions".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from segre.kernel.document import RejectionError
from segre.kernel.forms import Facts
from segre.kernel.graph import Place
from segre.kernel.group import Group
from segre.kernel.meter import meter
from segre.kernel.variation import NONE, ONES, Shift, Variation, ancestors, bounded

_KEPT, _MADE = 9, 64  # bytes for an entry of a shift: while it is kept, and while it is made


class Shifts:
    """The variations of nodes along one entry; `moved` has those of the weights.

    Where a tensor of `vanish` is added, the entry itself asks that no shift is left. `started` has
    variations of the norms of tables, see spaces.py.
    """

    def __init__(
        self,
        facts: Facts,
        group: Group,
        parameters: int,
        moved: Mapping[Place, Variation],
        vanish: Collection[Place] = (),
        started: Mapping[int, Variation] | None = None,
    ) -> None:
        self.facts, self.graph, self.prime = facts, facts.graph, facts.prime
        self.group, self.skew, self.parameters = group, group.skew, parameters
        self.moved, self.vanish, self.started = moved, vanish, started or {}
        self.conditions: dict[Any, Shift] = {}
        self._names: dict[Any, int] = {}
        self.values: list[Variation] = []
        self.at = 0
        self.held = 0  # bytes of all arrays that were made

    def _named(self, *formula: Any) -> int:
        """A number for a formula, the same for equal ones."""
        return self._names.setdefault(formula, len(self._names))

    def _reserve(self, entries: int) -> None:
        """Ask for the memory of one more array, and its mask, before it is made; all are kept."""
        meter().require_bytes(self.held + _MADE * entries)
        self.held += _KEPT * entries

    @cached_property
    def _anything(self) -> Shift:
        """A shift of which nothing is known: it is zero if all parameters are."""
        self._reserve(self.parameters**2)
        eye = np.eye(self.parameters, dtype=np.int64)
        return Shift(eye, eye > 0, {}, exact=False, key="all")

    def _of(self, node: int) -> Variation:
        """The variation of a node; that of a weight is what the entry says."""
        place = self.facts.place(node)
        return self.values[node] if place is None else self.moved.get(place, NONE)

    def _refused(self, what: str) -> RejectionError:
        node = self.graph.nodes[self.at]
        names = [place for arg in node.args if (place := self.facts.place(arg)) is not None]
        where = " of " + "/".join(names[0]) if names else f" (stage {node.stage})"
        return RejectionError(f"no lemma for {node.op}{where}: {what}")

    # Conditions.

    def _must_vanish(self, shift: Shift, axis: int | None = None) -> None:
        """Note that a shift is zero; with an axis, that its entries along the axis are equal."""
        array, mask, key, parent = shift.array, shift.mask, shift.key, shift.parent
        if axis is not None:
            first, rest = [0], range(1, array.shape[axis])
            array = (np.take(array, rest, axis) - np.take(array, first, axis)) % self.prime
            mask = np.take(mask, rest, axis) | np.take(mask, first, axis)
            key, parent = self._named("equal", axis, key), shift
        found = replace(shift, array=array, mask=mask, key=key, parent=parent)
        self.conditions[key] = found

    def _no_shifts(self, *values: Variation) -> None:
        """Note that all shifts of these values are zero."""
        for value in values:
            for shift in value.shifts:
                self._must_vanish(shift)

    def _still(self, *values: Variation) -> Variation:
        """Nothing that is read may change."""
        if any(value.moves for value in values):
            raise self._refused("its argument changes")
        self._no_shifts(*values)
        return NONE

    # Sums of shifts.

    def _spread(self, shift: Shift, size: int, axis: int) -> Shift:
        """Write an exact shift out along the axis of a direction."""
        self._reserve(shift.array.size * size)
        vector = self.facts.vector(shift.along[axis], size)
        vector = vector.reshape(size, *(1,) * (-axis - 1))
        array = shift.array * vector % self.prime
        along = {k: d for k, d in shift.along.items() if k != axis}
        found = replace(
            shift, along=along, parent=shift, whole=0 if shift.along[axis] else shift.whole
        )
        key = self._named("spread", shift.key, size, axis, shift.along[axis])
        return replace(found, array=array, mask=np.repeat(shift.mask, size, axis), key=key)

    def _absolute(self, value: Variation) -> Variation:
        """Relative shifts read as shifts of which nothing else is known."""
        shifts = [
            replace(shift, along={}, exact=False, relative=False) if shift.relative else shift
            for shift in value.shifts
        ]
        return replace(value, shifts=tuple(shifts))

    def _broadcast(self, shift: Shift, arg: int, shape: tuple[int, ...]) -> Shift:
        """A shift of a summand or factor as one of the result: constant along new axes."""
        own, along = self.graph.shape(arg), dict(shift.along)
        for axis in range(-len(shape), 0):
            if (own[axis] if -axis <= len(own) else 1) < shape[axis]:
                along[axis] = ONES
        if not shift.exact:
            return replace(shift, along=along)
        lead = (self.parameters, *(1,) * (len(shape) - len(own)))
        array, mask = shift.array, shift.mask
        array = array.reshape(lead + array.shape[1:])
        return replace(shift, array=array, mask=mask.reshape(array.shape), along=along)

    def _merged(self, shifts: list[Shift], shape: tuple[int, ...]) -> tuple[Shift, ...]:
        """The sum of shifts: exact ones are added, of others only different ones are kept."""
        kept: dict[Any, Shift] = {}
        totals: dict[bool, Shift] = {}
        for shift in shifts:
            if not shift.mask.any():
                continue
            if shift.exact:
                one = totals.get(shift.relative)
                totals[shift.relative] = shift if one is None else self._sum(one, shift, shape)
            else:
                kept[shift.key, shift.relative, tuple(sorted(shift.along.items()))] = shift
        return (*kept.values(), *(total for total in totals.values() if total.mask.any()))

    def _sum(self, a: Shift, b: Shift, shape: tuple[int, ...]) -> Shift:
        for axis in range(-len(shape), 0):
            if a.along.get(axis) != b.along.get(axis):
                a = self._spread(a, shape[axis], axis) if axis in a.along else a
                b = self._spread(b, shape[axis], axis) if axis in b.along else b
        known = {shift.key for shift in ancestors(b)}
        parent = next((shift for shift in ancestors(a) if shift.key in known), None)
        array, key = (a.array + b.array) % self.prime, self._named("sum", a.key, b.key)
        whole = bounded(a.whole + b.whole) if a.whole and b.whole else 0
        mask = array != 0 if whole else a.mask | b.mask
        return Shift(array, mask, a.along, True, key, parent, whole, relative=a.relative)
