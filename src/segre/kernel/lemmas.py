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

from segre.kernel.graph import Region
from segre.kernel.products import Products
from segre.kernel.spans import one_key
from segre.kernel.variation import EACH, NONE, ONES, Charge, Shift, Turn, Variation, bounded


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
            if self.at in self.started and region is not None:
                if self._of(region.inputs[0]):
                    raise self._refused("a table moves in two ways")
                self.values.append(self.started[self.at])
            elif region is not None:
                self.values.append(getattr(self, "_" + region.name)(region))
            elif node.op == "weight" or self.at < skip:
                self.values.append(NONE)  # of weights see _of; nothing reads the inside of a region
            else:
                self.values.append(getattr(self, "_" + node.op, self._entrywise)(node))
        output = self._of(graph.output)
        if output.moves:
            raise self._refused("the output changes")
        for shift in output.shifts:
            self._must_vanish(shift)

    def _norm(self, region: Region) -> Variation:
        """*Norms*: what a norm does not see, and what passes through it; (a) to (e)."""
        (arg,) = region.inputs
        value, axes = self._of(arg), region.params["axes"]
        centred, eps = region.params["centred"] and len(axes) == 1, region.params["eps"]
        free = prod(self.graph.shape(arg)[axis] for axis in axes) - region.params["centred"]
        if free == 1 and not eps:
            return NONE  # a sign
        moves: dict[Turn | Charge, int] = {}
        for term, count in value.moves.items():
            if isinstance(term, Charge):
                if eps or any(axis in axes for _, axis in term.axes):
                    raise self._refused("a norm sees this factor")
                continue
            if term.axis not in axes or term.gains:
                raise self._refused("a norm sees this change of basis")
            if centred and self.group.writes_ones and not term.dual:
                continue
            if not self.skew or (region.params["centred"] and not self._fixed(axes)):
                raise self._refused("a norm sees this change of basis")
            moves[term] = count
        left = []
        for shift in value.shifts:
            ones = shift.along.get(axes[0]) == ONES
            if shift.relative:
                lost = not eps and all(shift.along.get(axis) == ONES for axis in axes)
            elif centred and shift.exact and axes[0] not in shift.along:
                self._must_vanish(shift, axes[0])  # up to multiples of 1
                lost = True
            else:
                lost = centred and ones
            if not lost:
                left.append(replace(shift, along={}, exact=False, relative=False))
        return Variation(moves, tuple(left))

    def _fixed(self, axes: tuple[int, ...]) -> bool:
        """Whether E keeps means at zero: the norm is over one axis, and E 1 = 0."""
        return len(axes) == 1 and self.group.fixes_ones

    def _activation(self, region: Region) -> Variation:
        """*Entry by entry*: homogeneous functions multiply factors; exp makes sums into factors."""
        values, degree = [self._of(arg) for arg in region.inputs], region.params["degree"]
        turned = any(isinstance(term, Turn) for value in values for term in value.moves)
        if turned or (degree is None and any(value.moves for value in values)) or len(values) > 1:
            return self._still(*values)
        shifts = []
        for shift in values[0].shifts:
            if region.params["kind"] == "exp" and not shift.relative:
                shifts.append(replace(shift, relative=True))
            elif shift.relative and degree is not None:
                array, key = (
                    shift.array * degree % self.prime,
                    self._named("times", shift.key, degree),
                )
                size = bounded(shift.whole * degree)
                shifts.append(replace(shift, array=array, key=key, parent=shift, whole=size))
            else:
                shifts.append(replace(shift, along={}, exact=False, relative=False))
        moves = {term: degree * count for term, count in values[0].moves.items()}
        return Variation(moves, tuple(shifts))

    def _softmax(self, region: Region) -> Variation:
        """*Softmax constants*: what is the same for all keys is not seen; one key has weight 1."""
        params, value = region.params, self._of(region.inputs[0])
        sinks = region.inputs[1:]
        if one_key(region, self.graph):
            return NONE
        if not sinks and not params["cap"]:
            value = self._absolute(value)
            seen = [shift for shift in value.shifts if shift.along.get(-2) != ONES]
            value = replace(value, shifts=tuple(seen))
        return self._still(value, *(self._of(arg) for arg in sinks))

    def _pattern(self, region: Region) -> Variation:
        """*Patterns*: masks and decays are factors; what is divided by its sums loses charges."""
        params, (scores, *decay) = region.params, [self._of(arg) for arg in region.inputs]
        one = params.get("mechanism")
        normalise = "none" if one is None else one.normalise
        weigh = "identity" if one is None else one.weigh
        divided = -1 if normalise == "both" else -2  # rows first, or columns
        if one_key(region, self.graph):
            return NONE
        self._still(*decay)
        if weigh != "identity":
            scores = self._absolute(scores)
        if weigh == "exp" and normalise != "none":
            kept = [shift for shift in scores.shifts if shift.along.get(divided) != ONES]
            scores = replace(scores, shifts=tuple(kept))
        if weigh != "identity" or any(isinstance(term, Turn) for term in scores.moves):
            return self._still(scores)
        if normalise == "none":
            left = [
                shift if shift.relative else replace(shift, exact=False, along={})
                for shift in scores.shifts  # decays may differ from head to head
            ]
            return Variation(scores.moves, self._merged(left, self.graph.shape(self.at)))
        for shift in scores.shifts:
            if not shift.relative or shift.along.get(divided) != ONES:
                self._must_vanish(shift)
        for term in scores.moves:
            if isinstance(term, Turn) or any(axis == divided for _, axis in term.axes):
                raise self._refused("sums do not remove this factor")
        return NONE

    def _rotate(self, region: Region) -> Variation:
        """*Rotations* commute with E, and leave the other dimensions as they are."""
        (arg,), planes = region.inputs, region.params["planes"]
        value, shape = self._absolute(self._of(arg)), self.graph.shape(arg)
        for term in value.moves:
            axes = term.axes if isinstance(term, Charge) else ((EACH, term.axis), *term.copies)
            copies = {axis for number, axis in axes if number != EACH}
            whole = (EACH, -2) in axes
            if copies & {-1, -2} or (EACH, -1) in axes:
                raise self._refused("what changes is not the same for all that turns")
            gains = term.gains if isinstance(term, Turn) else ()
            if gains or (whole and not self.group.commutes(planes)):
                raise self._refused("this change of basis does not commute with rotations")
        turned = sorted({place for plane in planes for place in plane})
        shifts = []
        for shift in value.shifts:
            if not shift.exact:
                along = {k: d for k, d in shift.along.items() if k < -2}
                shifts.append(replace(shift, along=along))
                continue
            if -2 in shift.along:
                shift = self._spread(shift, shape[-2], -2)
            moving = self._taken_rows(shift, turned)
            if moving.mask.any():
                self._must_vanish(moving)
            array, mask = shift.array.copy(), shift.mask.copy()
            array[..., turned, :] = mask[..., turned, :] = 0
            key = self._named("unturned", shift.key, tuple(turned))
            shifts.append(replace(shift, array=array, mask=mask, key=key, parent=shift))
        return Variation(value.moves, self._merged(shifts, shape))

    def _taken_rows(self, shift: Shift, rows: list[int]) -> Shift:
        """An exact shift in some rows alone."""
        array, mask = shift.array[..., rows, :], shift.mask[..., rows, :]
        return replace(
            shift,
            array=array,
            mask=mask,
            key=self._named("rows", shift.key, tuple(rows)),
            parent=shift,
        )

    def _route(self, region: Region) -> Variation:
        """*Experts*: shares and choices by a softmax do not see what is the same for all."""
        value = self._absolute(self._of(region.inputs[0]))
        if region.params["router"].startswith("softmax"):
            kept = [shift for shift in value.shifts if shift.along.get(-3) != ONES]
            value = replace(value, shifts=tuple(kept))
        return self._still(value)
