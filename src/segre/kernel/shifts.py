"""What is added to values while weights move, and where must it vanish? The base of the pass.

docs/soundness.md, "What a variation is" and "Conditions".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from segre.kernel.document import RejectionError
from segre.kernel.entries import Moves
from segre.kernel.forms import Facts
from segre.kernel.graph import Shape
from segre.kernel.group import NO_GROUP, Matrix
from segre.kernel.meter import meter
from segre.kernel.variation import (
    NONE,
    ONES,
    Direction,
    Entries,
    Shift,
    Variation,
    ancestors,
    bounded,
    without,
)

_KEPT, _MADE = 9, 64  # bytes for an entry of a shift: while it is kept, and while it is made
_ONE = np.ones((), np.int64)


class Shifts:
    """The variations of nodes while the weights move as an entry says."""

    def __init__(self, facts: Facts, moves: Moves) -> None:
        self.facts, self.graph, self.prime = facts, facts.graph, facts.prime
        self.moves, self.group, self.parameters = moves, moves.group, moves.parameters
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
        return self.values[node] if place is None else self.moves.moved.get(place, NONE)

    def _refused(self, what: str) -> RejectionError:
        node = self.graph.nodes[self.at]
        names = [place for arg in node.args if (place := self.facts.place(arg)) is not None]
        where = " of " + "/".join(names[0]) if names else f" (stage {node.stage})"
        return RejectionError(f"no lemma for {node.op}{where}: {what}")

    # Conditions.

    def _must_vanish(self, shift: Shift) -> None:
        """Note that a shift is zero, which the parameters of a group cannot see to."""
        if self.group is not NO_GROUP and shift.mask.any():
            what = "charges do not cancel" if shift.relative else "what is added is not taken back"
            raise self._refused(what)
        self.conditions[shift.key] = shift

    def _still(self, *values: Variation) -> Variation:
        """Nothing that is read may change."""
        if any(value.turns for value in values):
            raise self._refused("its argument changes")
        for value in values:
            for shift in value.shifts:
                self._must_vanish(shift)
        return NONE

    # Linear functions of shifts.

    def _image(
        self,
        shift: Shift,
        function: Callable[[Entries, Entries], Entries],
        *formula: Any,
        numbers: Matrix = _ONE,
        along: Mapping[int, Direction] | None = None,
        whole: int = 0,
    ) -> Shift:
        """A linear function of an exact shift and of numbers, none of which is known to be zero.

        The formula names the function; those with `whole` take whole numbers to such numbers.
        """
        array = function(shift.array, numbers) % self.prime
        mask = function(shift.mask.astype(np.int64), np.ones_like(numbers)) > 0
        key = self._named(*formula, shift.key)
        along = shift.along if along is None else along
        return replace(
            shift, array=array, mask=mask, along=along, key=key, parent=shift, whole=whole
        )

    def _spread(self, shift: Shift, shape: Shape, axes: Collection[int]) -> Shift:
        """Write an exact shift out along the axes of directions among these."""
        for axis in sorted(set(axes) & set(shift.along)):
            size, direction = shape[axis], shift.along[axis]
            self._reserve(shift.array.size * size)
            vector = self.facts.vector(direction, size).reshape(size, *(1,) * (-axis - 1))
            whole, along = 0 if direction else shift.whole, without(shift.along, axis)
            formula = "spread", size, axis, direction
            shift = self._image(
                shift, np.multiply, *formula, numbers=vector, along=along, whole=whole
            )
        return shift

    def _product(
        self,
        shift: Shift,
        own: str,
        factor: Matrix,
        letters: str,
        out: str,
        name: Any,
        *,
        whole: int = 0,
    ) -> Shift:
        """An exact shift times numbers that are the same for all inputs, summed as in einsum.

        Where the numbers have size 1 they are constant: along the axis of a form, or in new axes.
        """
        gone = tuple(1 + i for i in range(len(own)) if i - len(own) in shift.along)
        known = "".join(x for i, x in enumerate(own) if 1 + i not in gone)
        factor = factor.reshape((1,) * (len(letters) - factor.ndim) + factor.shape)
        numbers = "".join(x for x, size in zip(letters, factor.shape, strict=True) if size > 1)
        factor = factor.reshape([size for size in factor.shape if size > 1])
        explicit = "".join(x for x in out if x in known or x in numbers)
        missing = tuple(1 + i for i, x in enumerate(out) if x not in explicit)
        sizes = dict(zip(numbers, factor.shape, strict=True))
        sizes |= {own[i - 1]: n for i, n in enumerate(shift.array.shape) if i and i not in gone}
        self._reserve(len(shift.array) * prod(sizes[x] for x in explicit))

        def contracted(array: Entries, some: Entries) -> Entries:
            left, names = np.squeeze(array, gone), f"{known},{numbers}->{explicit}"
            return np.expand_dims(self.facts.field.contract(names, left, some[None]), missing)

        given = {own[axis]: direction for axis, direction in shift.along.items()}
        along = {i - 1 - len(out): given.get(out[i - 1], ONES) for i in missing}
        formula = "product", own, letters, out, name
        return self._image(shift, contracted, *formula, numbers=factor, along=along, whole=whole)

    # Sums of shifts.

    def _merged(self, shifts: list[Shift], shape: Shape) -> tuple[Shift, ...]:
        """The sum of shifts: exact ones are added, of others only different ones are kept."""
        kept: dict[Any, Shift] = {}
        totals: dict[bool, Shift] = {}
        for shift in shifts:
            if shift.mask.any() and shift.exact:
                one = totals.get(shift.relative)
                totals[shift.relative] = shift if one is None else self._sum(one, shift, shape)
            elif shift.mask.any():
                kept[shift.key, shift.relative, tuple(sorted(shift.along.items()))] = shift
        return (*kept.values(), *(total for total in totals.values() if total.mask.any()))

    def _sum(self, a: Shift, b: Shift, shape: Shape) -> Shift:
        differ = {axis for axis in {*a.along, *b.along} if a.along.get(axis) != b.along.get(axis)}
        a, b = (self._spread(one, shape, differ) for one in (a, b))
        known = {shift.key for shift in ancestors(b)}
        parent = next((shift for shift in ancestors(a) if shift.key in known), None)
        array = (a.array + b.array) % self.prime
        key = self._named("sum", a.key, b.key)
        whole = bounded(a.whole + b.whole) if a.whole and b.whole else 0
        mask = array != 0 if whole else a.mask | b.mask
        return Shift(array, mask, a.along, True, key, parent, whole, relative=a.relative)

    def _broadcast(self, shift: Shift, arg: int, shape: Shape) -> Shift:
        """A shift of a summand or factor as one of the result: constant along new axes."""
        own, along = self.graph.shape(arg), dict(shift.along)
        for axis in range(-len(shape), 0):
            if -axis > len(own) or own[axis] < shape[axis]:
                along[axis] = ONES
        if not shift.exact:
            return replace(shift, along=along)
        lead = (self.parameters, *(1,) * (len(shape) - len(own)))
        array, mask = shift.array, shift.mask
        array = array.reshape(lead + array.shape[1:])
        return replace(shift, array=array, mask=mask.reshape(array.shape), along=along)
