"""What may values and outputs do without changing what is written? Families 14 to 18."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from segre.referee.mixed.heads import Head
from segre.referee.mixed.point import Point
from segre.referee.mixed.scores import filtered
from segre.referee.mixed.spans import Unit
from segre.referee.transformers.point import Family, Tangent, together
from segre.referee.transformers.point import product as times


def values(point: Point, head: Head) -> Family:
    """Families 14 to 17 of one head."""
    if head.dead:
        idle = [*head.values, *head.filters("V"), *head.gates]
        idle += [] if head.dv is None else [head.key("W_O")]
        yield from (("dead", tangent) for tangent in point.entries(idle))
        return
    if head.dv is not None:
        for j, k in product(range(head.dv), repeat=2):
            if j == k or not head.rowwise:
                yield (
                    "value-output",
                    together(
                        point.left(head.values, point.unit(head.dv, (j, k, 1))),
                        point.right([head.key("W_O")], point.unit(head.dv, (j, k, -1))),
                    ),
                )
    for tangent in filtered(point, head, "V"):
        yield "value-filter", tangent
    for tangent in _scale(point, head):
        yield "scale", tangent


def _scale(point: Point, head: Head) -> Iterator[Tangent]:
    """Family 17."""
    one = head.mechanism
    if one.normalise != "none":
        return
    if head.homogeneous:
        degree = 2 if one.feature == "square" else 1
        yield together(point.itself(head.last, degree), point.itself(head.queries, -1))
    plain = one.weigh == "identity" and one.unit == "none"
    if plain and one.feature == "exp" and one.bias != "none":
        bias = head.key("b_K" if one.bias == "key" else "b_Q")
        yield together(point.itself(head.last), point.all_ones(bias, -1))


def pooled(point: Point, unit: Unit) -> Iterator[Tangent]:
    """Family 18."""
    first = unit.heads[0]
    if first.dv is None:
        other = first.key("W_V")
        for head in unit.heads[1:]:
            for tangent in point.entries([head.key("W_V")]):
                yield together(tangent, {other: -tangent[head.key("W_V")]})
        return
    size = first.dv
    for g, h in product(unit.heads, repeat=2):
        V, out = point.matrices[h.key("W_V")], point.matrices[g.key("W_O")]
        for j, k in product(range(size), repeat=2):
            yield {
                g.key("W_V"): times(point.unit(size, (j, k, 1)), V),
                h.key("W_O"): times(out, point.unit(size, (j, k, -1))),
            }
