"""What do sums and products do while their factors move? The lemmas of linear algebra.

Every rule is a lemma of docs/soundness.md, "Rules", and says which: *Linear* and *Products with
shifts* (`_contract`), *Skips join spaces* (`_add`), *Gains* (`_mul`), *Places* (`_take`, `_join`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from segre.kernel.forms import size_along
from segre.kernel.graph import Node
from segre.kernel.shifts import Shifts
from segre.kernel.variation import (
    NONE,
    ONES,
    Shift,
    Turn,
    Variation,
    times,
    unknown,
    without,
)


class Products(Shifts):
    """The rules of the primitives."""

    def _contract(self, node: Node) -> Variation:
        """*Linear*: a sum over an axis cancels E on one side with -E^T on the other."""
        sides, out = node.data.split("->")
        both = sides.split(",")
        turns: Counter[Any] = Counter()
        shifts = self._factors(node, both, out)
        for side, arg in enumerate(node.args):
            value = self._of(arg)
            for turn, count in value.turns.items():
                key, sign = self._turned(turn, both, out, side)
                turns[key] += sign * count
            for shift in value.shifts:
                if not shift.relative:
                    shifts += self._times(shift, node, both, out, side)
        left = {key: count for key, count in turns.items() if count}
        if not all(isinstance(key, Turn) for key in left):
            raise self._refused("a reader does not undo what it reads")
        return Variation(left, self._merged(shifts, node.shape))

    def _turned(self, turn: Turn, both: list[str], out: str, side: int) -> tuple[Any, int]:
        """The turn of the product and a sign; or, in a sum, a key that equal effects share."""
        own, other = both[side], both[1 - side]
        letter, copies = own[turn.axis], tuple((n, own[axis]) for n, axis in turn.copies)
        if letter in out:
            if letter in other or any(copy not in out for _, copy in copies):
                raise self._refused("a basis changes along an axis that is not free")
            axes = tuple((n, out.index(copy) - len(out)) for n, copy in copies)
            return replace(turn, axis=out.index(letter) - len(out), copies=axes), 1
        # The sum of a_i b_i becomes a^T N b: if b turns by M, N = M; if a does, N = M^T.
        gains = turn.gains if side else times(ONES, turn.gains, -1)
        transposed, sign = (side == 0) != turn.dual, -1 if turn.dual else 1
        if transposed and self.group.skew:
            transposed, sign = False, -sign
        return ("sum", letter, copies, gains, transposed), sign

    def _times(self, shift: Shift, node: Node, both: list[str], out: str, side: int) -> list[Shift]:
        """*Products with shifts*: a shift of one factor, times the other factor."""
        own, letters = both[side], both[1 - side]
        shape, other = self.graph.shape(node.args[side]), node.args[1 - side]
        along = {own[axis]: direction for axis, direction in shift.along.items()}
        summed = [x for x in own if x in letters and x not in out]
        form, letter = self.facts.forms[other], (" " + letters)[-2]
        if form is not None and letter not in out and along.get(letter) == form.direction:
            if form.value is None:
                return []
            if shift.exact and summed == [letter]:
                some = [k for k, d in shift.along.items() if d and own[k] in letters]
                shift = self._spread(shift, shape, {*some} - {own.index(letter) - len(own)})
                whole = shift.whole if form.key == () else 0  # times one
                name = "form", form.key
                return [self._product(shift, own, form.value, letters, out, name, whole=whole)]
        numbers = self.facts.numbers(other)
        if shift.exact and numbers is not None:
            some = [i - len(own) for i, x in enumerate(own) if x in letters or x not in out]
            shift = self._spread(shift, shape, some)
            return [self._product(shift, own, numbers[0], letters, out, numbers[1])]
        kept = {k: d for k, d in along.items() if k in out and k not in letters}
        if not kept and len(summed) == 1 and shape[own.index(summed[0])] == 1:
            new = {i - len(out): ONES for i, x in enumerate(out) if x not in own}
            return [replace(shift, along=new, exact=False, relative=True)]  # *Sums of one term*
        found = {out.index(k) - len(out): d for k, d in kept.items()}
        return [replace(shift, along=found, exact=False)]

    def _factors(self, node: Node, both: list[str], out: str) -> list[Shift]:
        """*Charges*: relative shifts of both factors.

        They cancel, or are the same for all that is summed, or are read as plain shifts.
        """
        shifts: list[Shift] = []
        inner: list[Shift] = []
        letters = "".join(dict.fromkeys(both[0] + both[1]))
        sizes: dict[str, int] = {}
        for own, arg, other in zip(both, node.args, node.args[::-1], strict=True):
            shape = self.graph.shape(arg)
            sizes |= dict(zip(own, shape, strict=True))
            for shift in self._of(arg).shifts:
                if not shift.relative:
                    continue
                if shift.exact:
                    shift = self._spread(shift, shape, [k for k, d in shift.along.items() if d])
                same = {own[axis] for axis, d in shift.along.items() if d == ONES}
                same |= set(letters) - set(own)
                summed = set(letters) - set(out) - same
                table = summed == {own[-1]} and out == own[:-1] + out[-1]
                if not summed:
                    shifts.append(self._placed(shift, own, out, same))
                elif table and self.facts.tokens(other):  # *Charges of columns*
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
        shifts = [
            shift
            if shift.relative or not shift.exact
            else self._image(shift, np.multiply, "times", int(number), numbers=number)
            for shift in value.shifts
        ]
        return replace(value, shifts=tuple(shifts))

    # Places.

    def _not_along(self, value: Variation, *axes: int) -> None:
        """Refuse turns that differ from place to place along these axes."""
        for turn in value.turns:
            if {turn.axis, *(axis for _, axis in turn.copies)} & set(axes):
                raise self._refused("something moves along an axis of places")

    def _total(self, node: Node) -> Variation:
        """A sum over axes, along which nothing may move."""
        value, axes = self._of(node.args[0]), node.data
        self._not_along(value, *axes)
        shifts = []
        for shift in value.shifts:
            if shift.relative:
                same = all(shift.along.get(axis) == ONES for axis in axes)
                shifts.append(shift if same else unknown(shift))
            elif shift.exact:
                shift = self._spread(shift, self.graph.shape(node.args[0]), axes)
                summed = self._image(shift, lambda x, _: x.sum(axes, keepdims=True), "total", axes)
                shifts.append(summed)
            else:
                shifts.append(replace(shift, along=without(shift.along, *axes)))
        return Variation(value.turns, tuple(shifts))

    def _take(self, node: Node) -> Variation:
        """*Places*: what happens along other axes is kept."""
        (axis, places), value = node.data, self._of(node.args[0])
        self._not_along(value, axis)
        shifts = []
        for shift in value.shifts:
            if shift.along.get(axis) == ONES:
                shifts.append(shift)
            elif shift.exact:
                shift = self._spread(shift, self.graph.shape(node.args[0]), [axis])
                taken = self._image(
                    shift,
                    lambda x, _: np.take(x, places, axis),
                    *("take", axis, places),
                    whole=shift.whole,
                )
                shifts.append(taken)
            else:
                shifts.append(replace(shift, along=without(shift.along, axis)))
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

    def _joined(self, shift: Shift, node: Node, start: int, shape: tuple[int, ...]) -> Shift:
        """A shift of one of the arrays that are joined, with zeros around it."""
        axis = node.data
        if shift.relative and shift.along.get(axis) == ONES:
            return shift
        if not shift.exact:
            return replace(shift, along=without(shift.along, axis))
        shift = self._spread(shift, shape, [axis])
        around = [(0, 0)] * shift.array.ndim
        around[axis] = start, node.shape[axis] - start - shape[axis]
        formula = "join", axis, start, node.shape[axis]
        return self._image(shift, lambda x, _: np.pad(x, around), *formula, whole=shift.whole)

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
