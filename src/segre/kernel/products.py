"""What do sums and products do while their factors move? The lemmas of linear algebra.

Every rule is a lemma of docs/soundness.md, "Rules", and says which: *Linear* and *Products with
shifts* (`_contract`), *Skips join spaces* (`_add`), *Gains* (`_mul`), *Places* (`_take`, `_join`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from segre.kernel.forms import size_along
from segre.kernel.graph import Node, Shape
from segre.kernel.shifts import Shifts
from segre.kernel.variation import (
    NONE,
    ONES,
    Entries,
    Shift,
    Turn,
    Variation,
    times,
    unknown,
    without,
)


@dataclass(frozen=True, slots=True)
class _Side:
    """A factor of an einsum: its letters, those of the other factor, and those of the result."""

    arg: int
    own: str
    other: int
    letters: str
    out: str
    first: bool

    def place(self, letter: str) -> int:
        """The axis of a letter in the result."""
        return self.out.index(letter) - len(self.out)

    def axes(self, letters: Collection[str]) -> list[int]:
        """The axes of the factor that have these letters."""
        return [i - len(self.own) for i, letter in enumerate(self.own) if letter in letters]

    @property
    def summed(self) -> list[str]:
        """The letters that both factors have and the result has not."""
        return [x for x in self.own if x in self.letters and x not in self.out]


class Products(Shifts):
    """The rules of the primitives."""

    def _contract(self, node: Node) -> Variation:
        """*Linear*: a sum over an axis cancels E on one side with -E^T on the other."""
        (a, b), (left, right, out) = node.args, node.data.replace("->", ",").split(",")
        sides = _Side(a, left, b, right, out, True), _Side(b, right, a, left, out, False)
        turns: Counter[Any] = Counter()
        shifts = self._factors(sides)
        for side in sides:
            value = self._of(side.arg)
            for turn, count in value.turns.items():
                key, sign = self._turned(turn, side)
                turns[key] += sign * count
            for shift in value.shifts:
                if not shift.relative:
                    shifts += self._times(shift, side)
        left = {key: count for key, count in turns.items() if count}
        if not all(isinstance(key, Turn) for key in left):
            raise self._refused("a reader does not undo what it reads")
        return Variation(left, self._merged(shifts, node.shape))

    def _turned(self, turn: Turn, side: _Side) -> tuple[Any, int]:
        """The turn of the product and a sign; or, in a sum, a key that equal effects share."""
        letter, copies = side.own[turn.axis], [(n, side.own[axis]) for n, axis in turn.copies]
        if letter in side.out:
            if letter in side.letters or any(copy not in side.out for _, copy in copies):
                raise self._refused("a basis changes along an axis that is not free")
            axes = tuple((n, side.place(copy)) for n, copy in copies)
            return replace(turn, axis=side.place(letter), copies=axes), 1
        # The sum of a_i b_i becomes a^T N b: if b turns by M, N = M; if a does, N = M^T.
        gains = times(ONES, turn.gains, -1) if side.first else turn.gains
        transposed, sign = side.first != turn.dual, -1 if turn.dual else 1
        if transposed and self.group.skew:
            transposed, sign = False, -sign
        return ("sum", letter, tuple(copies), gains, transposed), sign

    def _times(self, shift: Shift, side: _Side) -> list[Shift]:
        """*Products with shifts*: a shift of one factor, times the other factor."""
        found = self._times_form(shift, side)
        if found is not None:
            return found
        own, out, shape = side.own, side.out, self.graph.shape(side.arg)
        numbers = self.facts.numbers(side.other)
        if shift.exact and numbers is not None:
            shift = self._spread(shift, shape, side.axes({*own} - ({*out} - {*side.letters})))
            return [self._product(shift, own, numbers[0], side.letters, out, numbers[1])]
        free = {*out} - {*side.letters}
        along = {side.place(own[k]): d for k, d in shift.along.items() if own[k] in free}
        if not along and [shape[own.index(x)] for x in side.summed] == [1]:
            new = {side.place(x): ONES for x in out if x not in own}
            return [replace(shift, along=new, exact=False, relative=True)]  # *Sums of one term*
        return [replace(shift, along=along, exact=False)]

    def _times_form(self, shift: Shift, side: _Side) -> list[Shift] | None:
        """A shift along a form of the other factor, which sums it to a known number."""
        form, letter = self.facts.forms[side.other], (" " + side.letters)[-2]
        along = {side.own[axis]: direction for axis, direction in shift.along.items()}
        if form is None or letter in side.out or along.get(letter) != form.direction:
            return None
        if form.value is None:
            return []
        if not shift.exact or side.summed != [letter]:
            return None
        some = {x for x, direction in along.items() if direction and x in side.letters} - {letter}
        shift = self._spread(shift, self.graph.shape(side.arg), side.axes(some))
        whole = shift.whole if form.key == () else 0  # times one
        given = side.own, form.value, side.letters, side.out, ("form", form.key)
        return [self._product(shift, *given, whole=whole)]

    def _factors(self, sides: Sequence[_Side]) -> list[Shift]:
        """*Charges*: relative shifts of both factors.

        They cancel, or are the same for all that is summed, or are read as plain shifts.
        """
        shifts: list[Shift] = []
        inner: list[Shift] = []
        sizes: dict[str, int] = {}
        letters = "".join(dict.fromkeys(sides[0].own + sides[1].own))
        for side in sides:
            own, shape = side.own, self.graph.shape(side.arg)
            sizes |= dict(zip(own, shape, strict=True))
            for shift in self._of(side.arg).shifts:
                if not shift.relative:
                    continue
                if shift.exact:
                    shift = self._spread(shift, shape, [k for k, d in shift.along.items() if d])
                same = {own[axis] for axis, d in shift.along.items() if d == ONES}
                same |= set(letters) - set(own)
                summed = set(letters) - set(side.out) - same
                table = summed == {own[-1]} and side.out == own[:-1] + side.out[-1]
                if not summed:
                    shifts.append(self._placed(shift, own, side.out, same))
                elif table and self.facts.tokens(side.other):  # *Charges of columns*
                    shifts.append(replace(shift, along=without(shift.along, -1), exact=False))
                elif shift.exact:
                    inner.append(self._placed(shift, own, letters, same))
                else:
                    shifts.append(unknown(shift))
        for shift in self._merged(inner, tuple(sizes[x] for x in letters)):
            self._must_vanish(shift)
        return shifts

    def _placed(self, shift: Shift, own: str, letters: str, same: set[str]) -> Shift:
        """A relative shift with its axes in the order of other letters."""
        if shift.exact:
            one = np.ones((), np.int64)
            return self._product(shift, own, one, "", letters, "placed", whole=shift.whole)
        along = {i - len(letters): ONES for i, x in enumerate(letters) if x in same}
        return replace(shift, along=along)

    def _mapped(
        self,
        shift: Shift,
        shape: Shape,
        axes: Collection[int],
        function: Callable[[Entries], Entries],
        *formula: Any,
        whole: int = 0,
    ) -> Shift:
        """What a linear map along some axes makes of a shift of an array of this shape."""
        if not shift.exact:
            return replace(shift, along=without(shift.along, *axes))
        shift = self._spread(shift, shape, axes)
        return self._image(shift, lambda array, _: function(array), *formula, whole=whole)

    # Skips join spaces; biases follow, or take constants back.

    def _add(self, node: Node) -> Variation:
        """*Skips join spaces*: both summands change alike, and their shifts are added."""
        values = [self._of(arg) for arg in node.args]
        shifts = _together(
            [
                [self._broadcast(shift, arg, node.shape) for shift in value.shifts]
                for arg, value in zip(node.args, values, strict=True)
            ]
        )
        turns = values[0].turns
        if turns != values[1].turns:
            if not self.group.writes_ones:
                raise self._refused("two summands change differently")
            shifts += [self._as_ones(turn) for value in values for turn in value.turns]
            turns = {}
        found = Variation(turns, self._merged(shifts, node.shape))
        if not {self.facts.place(arg) for arg in node.args}.isdisjoint(self.moves.vanish):
            for shift in found.shifts:
                self._must_vanish(shift)
            return Variation(turns)
        return found

    def _as_ones(self, turn: Turn) -> Shift:
        """Where all rows of E are equal, E x is a multiple of 1, and may be read as a shift."""
        if turn.gains or turn.dual:
            raise self._refused("two summands change differently")
        return replace(self._anything, along={turn.axis: ONES})

    # Gains and other factors.

    def _mul(self, node: Node) -> Variation:
        """*Gains*: each factor brings its turns and shifts, times the other factor."""
        turns: Counter[Turn] = Counter()
        shifts: list[Shift] = []
        for one, other in (node.args, node.args[::-1]):
            value = self._of(one)
            for turn, count in value.turns.items():
                turns[self._through_factor(turn, other)] += count
            wide = [self._broadcast(shift, one, node.shape) for shift in value.shifts]
            shifts += [self._scaled(shift, other, node) for shift in wide]
        left = {turn: count for turn, count in turns.items() if count}
        return Variation(left, self._merged(shifts, node.shape))

    def _through_factor(self, turn: Turn, other: int) -> Turn:
        """A gain conjugates a change of basis."""
        if size_along(self.graph, other, turn.axis) == 1:
            return turn
        place = self.facts.place(other)
        if place is None or self.facts.on_axis(other) != turn.axis:
            raise self._refused("a factor does not commute with a change of basis")
        return replace(turn, gains=times(turn.gains, ((place, 1),)))

    def _scaled(self, shift: Shift, other: int, node: Node) -> Shift:
        """A shift times another factor, entry by entry; relative ones pass."""
        if shift.relative:
            return shift
        place, numbers = self.facts.place(other), self.facts.numbers(other)
        axis = self.facts.on_axis(other)
        if place is not None and axis is not None and axis in shift.along:
            gained = times(shift.along[axis], ((place, 1),))
            return replace(shift, along={**shift.along, axis: gained})
        here = {k for k in shift.along if size_along(self.graph, other, k) > 1}
        if numbers is None or not shift.exact:
            return replace(shift, along=without(shift.along, *here), exact=False)
        shift = self._spread(shift, node.shape, here)
        self._reserve(len(shift.array) * prod(node.shape))
        return self._image(shift, np.multiply, "times", numbers[1], numbers=numbers[0])

    def _scale(self, node: Node) -> Variation:
        """Times a number: turns and relative shifts stay as they are."""
        value, number = self._of(node.args[0]), np.array(self.facts.number(node.data))
        shifts = (
            shift
            if shift.relative or not shift.exact
            else self._image(shift, np.multiply, "times", int(number), numbers=number)
            for shift in value.shifts
        )
        return replace(value, shifts=tuple(shifts))

    # Places.

    def _not_along(self, value: Variation, *axes: int) -> None:
        """Refuse turns that differ from place to place along these axes."""
        for turn in value.turns:
            if {turn.axis, *(axis for _, axis in turn.copies)} & set(axes):
                raise self._refused("something moves along an axis of places")

    def _total(self, node: Node) -> Variation:
        """A sum over axes, along which nothing may move."""
        value, axes, shape = self._of(node.args[0]), node.data, self.graph.shape(node.args[0])
        self._not_along(value, *axes)
        add = partial(np.sum, axis=axes, keepdims=True)
        shifts = [
            self._mapped(shift, shape, axes, add, "total", axes)
            if not shift.relative
            else shift
            if all(shift.along.get(axis) == ONES for axis in axes)
            else unknown(shift)
            for shift in value.shifts
        ]
        return Variation(value.turns, tuple(shifts))

    def _take(self, node: Node) -> Variation:
        """*Places*: what happens along other axes is kept."""
        (axis, places), value = node.data, self._of(node.args[0])
        self._not_along(value, axis)
        shape, formula = self.graph.shape(node.args[0]), ("take", axis, places)
        pick = partial(np.take, indices=places, axis=axis)
        shifts = [
            shift
            if shift.along.get(axis) == ONES
            else self._mapped(shift, shape, [axis], pick, *formula, whole=shift.whole)
            for shift in value.shifts
        ]
        return Variation(value.turns, self._merged(shifts, node.shape))

    def _join(self, node: Node) -> Variation:
        """*Places*: arrays one after the other; shifts are written out along the axis."""
        values, axis = [self._of(arg) for arg in node.args], node.data
        self._not_along(values[0], axis)
        if any(value.turns != values[0].turns for value in values):
            raise self._refused("arrays that are joined change differently")
        moved, start = [], 0
        for arg, value in zip(node.args, values, strict=True):
            shape = self.graph.shape(arg)
            moved.append([self._joined(shift, node, start, shape) for shift in value.shifts])
            start += shape[axis]
        return Variation(values[0].turns, self._merged(_together(moved), node.shape))

    def _joined(self, shift: Shift, node: Node, start: int, shape: Shape) -> Shift:
        """A shift of one of the arrays that are joined, with zeros around it."""
        axis, size = node.data, node.shape[node.data]
        if shift.relative and shift.along.get(axis) == ONES:
            return shift
        around = [(0, 0)] * shift.array.ndim
        around[axis] = start, size - start - shape[axis]
        pad, formula = partial(np.pad, pad_width=around), ("join", axis, start, size)
        return self._mapped(shift, shape, [axis], pad, *formula, whole=shift.whole)

    def _input(self, _node: Node) -> Variation:
        return NONE

    _constant = _input

    def _entrywise(self, node: Node) -> Variation:
        """A function without a lemma."""
        return self._still(*(self._of(arg) for arg in node.args))


def _together(summands: list[list[Shift]]) -> list[Shift]:
    """The shifts of summands, whose factors pass if all have the same one, of whole numbers."""
    factors = [[one for one in shifts if one.relative] for shifts in summands]
    rest = [one for shifts in summands for one in shifts if not one.relative]
    first = factors[0][0] if all(len(some) == 1 for some in factors) else None
    if first is not None and all(_equal(first, *some) for some in factors):
        return [first, *rest]
    return rest + [unknown(one) for some in factors for one in some]


def _equal(a: Shift, b: Shift) -> bool:
    """Whether two relative shifts are the same whole numbers."""
    whole = a.exact and b.exact and a.whole > 0 < b.whole
    return whole and a.along == b.along and np.array_equal(a.array, b.array)
