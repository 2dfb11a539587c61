"""What do all values of a network do while weights move along an entry? One pass, rule by rule.

`Pass` computes the variation of every node from those of the nodes it is applied to, in the order
of evaluation. Every rule is a lemma of docs/soundness.md with the same name; where there is none,
the entry is rejected. As the pass visits every use of every weight, nothing that reads or writes
can be forgotten. A shift for which there is no rule must be zero: that is a *condition*, a linear
equation for the parameters, and only its solutions are generators.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from segre.kernel.graph import Region
from segre.kernel.products import Products
from segre.kernel.spans import one_key
from segre.kernel.variation import (
    NONE,
    ONES,
    Entries,
    Shift,
    Turn,
    Variation,
    absolute,
    bounded,
    unknown,
    without,
)


class Pass(Products):
    """The pass, and the rules of regions."""

    def run(self) -> None:
        """Visit all nodes; at the *output* nothing may be left."""
        graph, skip = self.graph, -1
        inside = {region.first: region for region in graph.regions}
        for self.at, node in enumerate(graph.nodes):
            if self.at in inside:
                skip = inside[self.at].output
            region = self.facts.regions.get(self.at)
            if self.at in self.moves.started:
                args = node.args if region is None else region.inputs
                if any(map(self._of, args)):
                    raise self._refused("what is read or written here moves in two ways")
                self.values.append(self.moves.started[self.at])
            elif region is not None:
                self.values.append(getattr(self, "_" + region.name)(region))
            elif node.op == "weight" or self.at < skip:
                self.values.append(NONE)  # of weights see _of; nothing reads the inside of a region
            else:
                self.values.append(getattr(self, "_" + node.op, self._entrywise)(node))
        output = self._of(graph.output)
        if output.turns:
            raise self._refused("the output changes")
        for shift in output.shifts:
            self._must_vanish(shift)

    def _norm(self, region: Region) -> Variation:
        """*Norms*: what a norm does not see, and what passes through it; (a) to (e)."""
        (arg,), axes, centred = region.inputs, region.params["axes"], region.params["centred"]
        free = prod(self.graph.shape(arg)[axis] for axis in axes) - centred
        if free == 1 and not region.params["eps"]:
            return NONE  # a sign
        value = self._of(arg)
        turns = {turn: n for turn, n in value.turns.items() if not self._loses_turn(region, turn)}
        left = (unknown(one) for one in value.shifts if not self._loses_shift(region, one))
        return Variation(turns, tuple(left))

    def _loses_turn(self, region: Region, turn: Turn) -> bool:
        """Whether a turn leaves a norm as it is: it must be skew, or write what is subtracted."""
        axes, centred = region.params["axes"], region.params["centred"]
        alone, group = len(axes) == 1, self.group  # only then a mean is one along the axis
        along = turn.axis in axes and not turn.gains
        lost = along and centred and alone and group.writes_ones and not turn.dual
        skew = group.skew and (not centred or (alone and group.fixes_ones))
        if not (lost or (along and skew)):
            raise self._refused("a norm sees this change of basis")
        return lost

    def _loses_shift(self, region: Region, shift: Shift) -> bool:
        """Whether a shift leaves a norm as it is: a factor of all, or what is subtracted."""
        axes, one = region.params["axes"], region.params["axes"][0]
        if shift.relative:
            return not region.params["eps"] and all(shift.along.get(k) == ONES for k in axes)
        if not region.params["centred"] or len(axes) > 1:
            return False
        if shift.exact and one not in shift.along:
            self._must_vanish(self._differences(shift, one))  # up to multiples of 1
            return True
        return shift.along.get(one) == ONES

    def _differences(self, shift: Shift, axis: int) -> Shift:
        """By how much the entries along an axis differ from the first one."""

        def differences(x: Entries, sign: Entries) -> Entries:
            first, rest = np.split(x, [1], axis)
            return np.asarray(rest + sign * first)

        minus, whole = np.array(-1), bounded(2 * shift.whole)
        return self._image(shift, differences, "less", axis, numbers=minus, whole=whole)

    def _activation(self, region: Region) -> Variation:
        """*Entry by entry*: homogeneous functions multiply factors; exp makes sums into factors."""
        values, degree = [self._of(arg) for arg in region.inputs], region.params["degree"]
        if len(values) > 1 or values[0].turns:
            return self._still(*values)
        shifts = []
        for shift in values[0].shifts:
            if region.params["kind"] == "exp" and not shift.relative:
                shifts.append(replace(shift, relative=True))
            elif shift.relative and degree is not None:
                size, power = bounded(shift.whole * degree), np.array(degree)
                image = self._image(shift, np.multiply, "times", degree, numbers=power, whole=size)
                shifts.append(image)
            else:
                shifts.append(unknown(shift))
        return Variation({}, tuple(shifts))

    def _pattern(self, region: Region) -> Variation:
        """*Softmax constants*, *Patterns* and *Experts*: weights, over their sums or not.

        Masks and decays are factors; what is divided by sums does not see what is the same for all
        that is summed: a factor, or what is added to arguments of exp. One key has weight 1.
        """
        scores, *others = (self._of(arg) for arg in region.inputs)
        weigh, sums = region.params["weigh"], region.params["sums"]
        if one_key(region, self.graph):
            return NONE
        self._still(*others)
        if weigh == "exp" and sums:
            scores = _seen(scores, sums[0])
        if weigh != "identity" or scores.turns:
            return self._still(scores)
        if not sums:
            left = [
                shift if shift.relative else replace(shift, exact=False, along={})
                for shift in scores.shifts  # decays may differ from head to head
            ]
            return Variation({}, self._merged(left, self.graph.shape(self.at)))
        for shift in scores.shifts:
            if not shift.relative or shift.along.get(sums[0]) != ONES:
                self._must_vanish(shift)
        return NONE

    def _rotate(self, region: Region) -> Variation:
        """*Rotations* commute with E, and leave the other dimensions as they are."""
        (arg,), planes = region.inputs, region.params["planes"]
        value, shape = self._of(arg), self.graph.shape(arg)
        for turn in value.turns:
            if turn.axis == -1 or {-1, -2} & {axis for _, axis in turn.copies}:
                raise self._refused("what changes is not the same for all that turns")
            if turn.gains or (turn.axis == -2 and not self.group.commutes(planes)):
                raise self._refused("this change of basis does not commute with rotations")
        moving = sorted({place for plane in planes for place in plane})
        still = np.ones((shape[-2], 1), np.int64)
        still[moving] = 0
        shifts = []
        for shift in value.shifts:
            if shift.relative:
                shifts.append(shift if _even(shift, planes) else unknown(shift))
            elif not shift.exact:
                shifts.append(replace(shift, along=without(shift.along, -1, -2)))
            else:
                shift = self._spread(shift, shape, [-2])
                named, whole = ("rows", *moving), shift.whole
                turned = self._image(shift, lambda x, _: x[..., moving, :], *named, whole=whole)
                if turned.mask.any():
                    self._must_vanish(turned)
                named = "other rows", *moving
                shifts.append(self._image(shift, lambda x, _: x * still, *named, whole=whole))
        return Variation(value.turns, self._merged(shifts, shape))


def _seen(value: Variation, axis: int) -> Variation:
    """What is not the same for all along an axis; of factors nothing is known."""
    shifts = absolute(value).shifts
    return replace(value, shifts=tuple(s for s in shifts if s.along.get(axis) != ONES))


def _even(shift: Shift, planes: list[tuple[int, int]]) -> bool:
    """Whether a factor is the same for both dimensions of every plane."""
    if shift.along.get(-2) == ONES:
        return True
    if not shift.exact or not shift.whole or -2 in shift.along:
        return False
    first, second = (shift.array[..., [plane[i] for plane in planes], :] for i in (0, 1))
    return np.array_equal(first, second)
