"""What do sums and products do while their factors move? The lemmas of linear algebra.

Every rule is a lemma of docs/soundness.md, "Rules", and says which: *Linear* and *Products with
shifts* (`_contract`), *Skips join spaces* (`_add`), *Gains* (`_mul`), *Places* (`_take`, `_join`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from segre.kernel.forms import size_along
from segre.kernel.graph import Node
from segre.kernel.group import Matrix
from segre.kernel.shifts import Shifts
from segre.kernel.spans import images
from segre.kernel.variation import (
    NONE,
    ONES,
    Charge,
    Shift,
    Turn,
    Variation,
    bare,
    letters_of,
    times,
)


class Products(Shifts):
    """The rules of the primitives."""

    # Linear: a sum over an axis cancels E on one side with -E^T on the other.

    def _contract(self, node: Node) -> Variation:
        """*Linear*: what both factors do to a sum of products."""
        sides, out = node.data.split("->")
        letters = sides.split(",")
        inner: Counter[Any] = Counter()
        shifts = self._factors(node, letters, out)
        for i in (0, 1):
            value, other = self._of(node.args[i]), letters[1 - i]
            for term, count in value.moves.items():
                if self._chosen(term, node.args[1 - i], letters[i], out):
                    shifts.append(replace(self._anything, along={-2: ONES}, relative=True))
                    continue
                key, sign = self._bilinear(term, letters[i], other, out, side=i)
                inner[key] += sign * count
            for shift in value.shifts:
                if not shift.relative:
                    shifts += self._contracted(shift, node, i, letters, out)
        moves = {self._outer(key, out): count for key, count in inner.items() if count}
        return Variation(moves, self._merged(shifts, node.shape))

    def _chosen(self, term: Turn | Charge, other: int, own: str, out: str) -> bool:
        """*Charges of columns*: whether every token has the factor of its column in a table."""
        if isinstance(term, Turn) or len(term.axes) != 1 or own[term.axes[0][1]] in out:
            return False
        table = own[-1] == own[term.axes[0][1]] and out == own[:-1] + out[-1]
        return table and self.facts.tokens(other)

    def _bilinear(
        self, term: Turn | Charge, own: str, other: str, out: str, *, side: int
    ) -> tuple[Any, int]:
        """What a term does to the product, as a key that equal effects share, and a sign."""
        if isinstance(term, Charge):
            return tuple((number, own[axis]) for number, axis in term.axes), 1
        letter, copies = own[term.axis], tuple((n, own[axis]) for n, axis in term.copies)
        if letter in out:
            if letter in other or any(copy not in out for _, copy in copies):
                raise self._refused("a basis changes along an axis that is not free")
            return ("free", letter, copies, term.gains, term.dual), 1
        # The sum of a_i b_i becomes a^T N b: if b turns by M, N = M; if a does, N = M^T.
        gains = term.gains if side else times(ONES, term.gains, -1)
        transposed, sign = (side == 0) != term.dual, -1 if term.dual else 1
        if transposed and self.skew:
            transposed, sign = False, -sign
        return ("sum", letter, copies, gains, transposed), sign

    def _outer(self, key: Any, out: str) -> Turn | Charge:
        """The turn or charge of the product that a key of `_bilinear` describes."""
        if key and key[0] == "sum":
            raise self._refused("a reader does not undo what it reads")
        if key and key[0] == "free":
            _, letter, copies, gains, dual = key
            axes = tuple((n, out.index(copy) - len(out)) for n, copy in copies)
            return Turn(out.index(letter) - len(out), axes, gains, dual)
        if any(letter not in out for _, letter in key):
            raise self._refused("charges do not cancel in a sum")
        return Charge(tuple((n, out.index(letter) - len(out)) for n, letter in key))

    # Shifts in products.

    def _contracted(
        self, shift: Shift, node: Node, side: int, both: list[str], out: str
    ) -> list[Shift]:
        """*Products with shifts*: a shift of one factor, times the other factor."""
        own, letters = both[side], both[1 - side]
        arg, other = node.args[side], node.args[1 - side]
        along = {own[axis]: d for axis, d in shift.along.items()}
        numbers = self.facts.numbers(other)
        if shift.lemma == ("unread", self.at):
            return []
        if shift.lemma == ("unreached", other):
            value = images(self.facts).spans[other].shift
            if not value.shape[-1]:
                return []
            return [self._exact(shift, own, value[..., :1], letters, out, shift.lemma)]
        for axis, form in self.facts.forms[other].items():
            letter = letters[axis]
            if letter in out or along.get(letter) != form.direction:
                continue
            if form.value is None:
                return []
            if shift.exact and {x for x in own if x not in out and x in letters} == {letter}:
                for axis, direction in shift.along.items():
                    if direction and own[axis] in letters and own[axis] != letter:
                        shift = self._spread(shift, self.graph.shape(arg)[axis], axis)
                return [self._exact(shift, own, form.value, letters, out, ("form", form.key))]
        if numbers is None or not shift.exact:
            kept = {k: d for k, d in along.items() if k in out and k not in letters}
            found = {out.index(k) - len(out): d for k, d in kept.items()}
            summed = [x for x in own if x in letters and x not in out]
            if not kept and len(summed) == 1 and self.graph.shape(arg)[own.index(summed[0])] == 1:
                found = {i - len(out): ONES for i, x in enumerate(out) if x not in own}
                return [replace(shift, along=found, exact=False, relative=True)]
            return [replace(shift, along=found, exact=False)]
        for i, letter in enumerate(own):
            if letter in along and (letter in letters or letter not in out):
                shift = self._spread(shift, self.graph.shape(arg)[i], i - len(own))
        return [self._exact(shift, own, numbers[0], letters, out, numbers[1])]

    def _factors(self, node: Node, both: list[str], out: str) -> list[Shift]:
        """*Sums of one term*: relative shifts of both factors.

        They cancel, or are the same for all that is summed, or are read as plain shifts.
        """
        shifts: list[Shift] = []
        inner: list[Shift] = []
        letters = "".join(dict.fromkeys(both[0] + both[1]))
        sizes = {
            x: size
            for own, arg in zip(both, node.args, strict=True)
            for x, size in zip(own, self.graph.shape(arg), strict=True)
        }
        for own, arg in zip(both, node.args, strict=True):
            for shift in self._of(arg).shifts:
                if not shift.relative:
                    continue
                for axis, direction in shift.along.items():
                    if shift.exact and direction:
                        shift = self._spread(shift, self.graph.shape(arg)[axis], axis)
                same = {own[axis] for axis, d in shift.along.items() if d == ONES}
                same |= {x for x in letters if x not in own}
                if all(x in same for x in letters if x not in out):
                    shifts.append(self._placed(shift, own, out, same))
                elif shift.exact:
                    inner.append(self._placed(shift, own, letters, same))
                else:
                    shifts.append(replace(shift, along={}, relative=False))
        for shift in self._merged(inner, tuple(sizes[x] for x in letters)):
            self._must_vanish(shift)
        return shifts

    def _placed(self, shift: Shift, own: str, letters: str, same: set[str]) -> Shift:
        """A relative shift with its axes in the order of other letters."""
        along = {i - len(letters): ONES for i, x in enumerate(letters) if x in same}
        if not shift.exact:
            return replace(shift, along=along)
        known = letters_of(shift, own)
        array, mask = bare(shift)
        order = "".join(x for x in letters if x in known)
        missing = tuple(1 + i for i, x in enumerate(letters) if x not in known)
        turned = [
            np.expand_dims(np.einsum(f"P{known}->P{order}", x), missing) for x in (array, mask)
        ]
        key = self._named("placed", shift.key, own, letters)
        return replace(shift, array=turned[0], mask=turned[1], along=along, key=key, parent=shift)

    def _exact(
        self, shift: Shift, own: str, factor: Matrix, letters: str, out: str, name: Any
    ) -> Shift:
        """An exact shift times numbers that are the same for all inputs, summed as in einsum.

        Where the numbers have size 1 they are constant: along the axis of a form, or in new axes.
        """
        known = letters_of(shift, own)
        array, mask = bare(shift)
        factor = factor.reshape((1,) * (len(letters) - factor.ndim) + factor.shape)
        numbers = "".join(x for x, size in zip(letters, factor.shape, strict=True) if size > 1)
        factor = factor.reshape([size for size in factor.shape if size > 1])
        explicit = "".join(x for x in out if x in known or x in numbers)
        sizes = dict(zip(numbers + known, factor.shape + array.shape[1:], strict=True))
        self._reserve(len(array) * prod(sizes[x] for x in explicit))
        subscripts = f"{known},{numbers}->{explicit}"
        array = self.facts.field.contract(subscripts, array, factor[None])
        some = np.ones(factor.shape, np.int64)
        mask = np.einsum(f"P{known},{numbers}->P{explicit}", mask.astype(np.int64), some) > 0
        missing = tuple(1 + i for i, x in enumerate(out) if x not in explicit)
        directions = {own[axis]: d for axis, d in shift.along.items()}
        along = {i - 1 - len(out): directions.get(out[i - 1], ONES) for i in missing}
        array, mask = np.expand_dims(array, missing), np.expand_dims(mask, missing)
        key = self._named("product", shift.key, own, letters, out, name)
        same = shift.whole if name == ("form", ()) else 0  # that is, times one
        return Shift(array, mask, along, True, key, parent=shift, whole=same)

    # Skips join spaces; biases follow, or take constants back.

    def _add(self, node: Node) -> Variation:
        """*Skips join spaces*: both summands change alike, and their shifts are added."""
        left, right = (self._absolute(self._of(arg)) for arg in node.args)
        shifts = [
            self._broadcast(shift, arg, node.shape)
            for arg, value in zip(node.args, (left, right), strict=True)
            for shift in value.shifts
        ]
        if left.moves == right.moves:
            value = Variation(left.moves, self._merged(shifts, node.shape))
            if not {self.facts.place(arg) for arg in node.args}.isdisjoint(self.vanish):
                self._no_shifts(value)
                return replace(value, shifts=())
            return value
        if not self.group.writes_ones:
            raise self._refused("two summands change differently")
        shifts += self._as_ones(left) + self._as_ones(right)
        return Variation({}, self._merged(shifts, node.shape))

    def _as_ones(self, value: Variation) -> list[Shift]:
        """Where all rows of E are equal, E x is a multiple of 1, and may be read as a shift."""
        found = []
        for term in value.moves:
            if not isinstance(term, Turn) or term.gains or term.dual:
                raise self._refused("two summands change differently")
            found.append(replace(self._anything, along={term.axis: ONES}))
        return found

    # Gains and other factors.

    def _mul(self, node: Node) -> Variation:
        """*Gains*: each factor brings its moves and shifts, times the other factor."""
        moves: Counter[Turn | Charge] = Counter()
        shifts: list[Shift] = []
        for one, other in (node.args, node.args[::-1]):
            value = self._of(one)
            for term, count in value.moves.items():
                moves[self._through_factor(term, other)] += count
            wide = [self._broadcast(shift, one, node.shape) for shift in value.shifts]
            shifts += [self._scaled(shift, other, node) for shift in wide]
        left = {term: count for term, count in moves.items() if count}
        return Variation(left, self._merged(shifts, node.shape))

    def _through_factor(self, term: Turn | Charge, other: int) -> Turn | Charge:
        """A gain conjugates a change of basis; charges pass and add up."""
        if isinstance(term, Charge) or size_along(self.graph, other, term.axis) == 1:
            return term
        place = self.facts.place(other)
        if place is None or self.facts.on_axis(other) != term.axis:
            raise self._refused("a factor does not commute with a change of basis")
        return replace(term, gains=times(term.gains, ((place, 1),)))

    def _scaled(self, shift: Shift, other: int, node: Node) -> Shift:
        """A shift times another factor, entry by entry."""
        if shift.relative:
            return shift
        place, numbers = self.facts.place(other), self.facts.numbers(other)
        axis = self.facts.on_axis(other)
        if place is not None and axis is not None and axis in shift.along:
            along = {**shift.along, axis: times(shift.along[axis], ((place, 1),))}
            return replace(
                shift, along=along, key=self._named("gain", shift.key, place), parent=shift
            )
        here = {k for k in shift.along if size_along(self.graph, other, k) > 1}
        if numbers is None or not shift.exact:
            along = {k: d for k, d in shift.along.items() if k not in here}
            return replace(shift, along=along, exact=False)
        for k in here:
            shift = self._spread(shift, node.shape[k], k)
        factor, key = numbers[0], self._named("times", shift.key, numbers[1])
        self._reserve(len(shift.array) * prod(node.shape))
        array, mask = shift.array * factor % self.prime, shift.mask & np.ones(factor.shape, bool)
        return replace(shift, array=array, mask=mask, key=key, parent=shift, whole=0)

    # Numbers and places.

    def _scale(self, node: Node) -> Variation:
        """Times a number: turns, charges and relative shifts stay as they are."""
        value, number = self._of(node.args[0]), self.facts.number(node.data)

        def scaled(shift: Shift) -> Shift:
            if shift.relative or not shift.exact:
                return shift
            array = shift.array * number % self.prime
            key = self._named("times", shift.key, number)
            return replace(shift, array=array, key=key, parent=shift, whole=0)

        return replace(value, shifts=tuple(scaled(shift) for shift in value.shifts))

    def _total(self, node: Node) -> Variation:
        """A sum over axes, along which nothing may move."""
        (arg,) = node.args
        value = self._of(arg)
        self._not_along(value, node.data)
        shifts = []
        for shift in value.shifts:
            if shift.relative:
                same = all(shift.along.get(axis) == ONES for axis in node.data)
                shifts.append(
                    shift if same else replace(shift, along={}, exact=False, relative=False)
                )
                continue
            if shift.exact:
                for axis in set(shift.along) & set(node.data):
                    shift = self._spread(shift, self.graph.shape(arg)[axis], axis)
                array = shift.array.sum(node.data, keepdims=True) % self.prime
                mask = np.asarray(shift.mask.any(node.data, keepdims=True))
                key = self._named("total", shift.key, node.data)
                shift = replace(shift, array=array, mask=mask, key=key, parent=shift, whole=0)
            along = {k: d for k, d in shift.along.items() if k not in node.data}
            shifts.append(replace(shift, along=along))
        return Variation(value.moves, tuple(shifts))

    def _not_along(self, value: Variation, axes: Collection[int]) -> None:
        """Refuse turns and charges that differ from place to place along these axes."""
        for term in value.moves:
            moving = [axis for _, axis in (term.axes if isinstance(term, Charge) else term.copies)]
            moving += [term.axis] if isinstance(term, Turn) else []
            if set(moving) & set(axes):
                raise self._refused("something moves along an axis of places")

    def _take(self, node: Node) -> Variation:
        """*Places*: what happens along other axes is kept."""
        axis, places = node.data
        value = self._of(node.args[0])
        self._not_along(value, [axis])
        shifts = [self._taken(shift, node, axis, places) for shift in value.shifts]
        return Variation(value.moves, self._merged(shifts, node.shape))

    def _taken(self, shift: Shift, node: Node, axis: int, places: tuple[int, ...]) -> Shift:
        """A shift at some places along an axis."""
        if axis in shift.along:
            if shift.along[axis] == ONES:
                return shift
            if shift.exact:
                size = self.graph.shape(node.args[0])[axis]
                shift = self._spread(shift, size, axis)
        along = {k: d for k, d in shift.along.items() if k != axis}
        if not shift.exact:
            return replace(shift, along=along)
        array, mask = np.take(shift.array, places, axis), np.take(shift.mask, places, axis)
        return replace(
            shift,
            array=array,
            mask=mask,
            key=self._named("take", shift.key, axis, places),
            parent=shift,
        )

    def _join(self, node: Node) -> Variation:
        """*Places*: arrays one after the other; shifts are written out along the axis."""
        values = [self._absolute(self._of(arg)) for arg in node.args]
        self._not_along(values[0], [node.data])
        if any(value.moves != values[0].moves for value in values):
            raise self._refused("arrays that are joined change differently")
        shifts, start = [], 0
        for arg, value in zip(node.args, values, strict=True):
            size = self.graph.shape(arg)[node.data]
            shifts += [self._joined(shift, node, start, size) for shift in value.shifts]
            start += size
        return Variation(values[0].moves, self._merged(shifts, node.shape))

    def _joined(self, shift: Shift, node: Node, start: int, size: int) -> Shift:
        """A shift of one of the arrays that are joined, with zeros around it."""
        axis = node.data
        if not shift.exact:
            along = {k: d for k, d in shift.along.items() if k != axis}
            return replace(shift, along=along)
        if axis in shift.along:
            shift = self._spread(shift, size, axis)
        around = [(0, 0)] * shift.array.ndim
        around[axis] = start, node.shape[axis] - start - size
        array, mask = np.pad(shift.array, around), np.pad(shift.mask, around)
        return replace(
            shift,
            array=array,
            mask=mask,
            key=self._named("join", shift.key, axis, start, node.shape),
            parent=shift,
        )

    def _input(self, _node: Node) -> Variation:
        return NONE

    _constant = _input

    def _entrywise(self, node: Node) -> Variation:
        """A function without a lemma."""
        return self._still(*(self._of(arg) for arg in node.args))
