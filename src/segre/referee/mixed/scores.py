"""What may keys and queries do without changing any weight? Families 4 to 13, for each head."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from segre.referee.mixed.heads import Head
from segre.referee.mixed.point import Point
from segre.referee.transformers.point import Family, Tangent, together
from segre.referee.transformers.tensors import Key


def scores(point: Point, head: Head) -> Family:
    """Families 4 to 13 of one head."""
    if head.stuck:
        idle = [*head.keys, *head.queries, *head.filters("K")]
        idle += head.decays if head.silent or head.uniform else []
        yield from (("stuck", tangent) for tangent in point.entries(idle))
        return
    for name, family in (
        ("one-dimension", _one_dimension),
        ("query-key", _query_key),
        ("unit", _unit),
        ("query-scale", _query_scale),
        ("ones", _ones),
        ("bias", _biases),
        ("alone", _alone),
    ):
        yield from ((name, tangent) for tangent in family(point, head))
    for tangent in filtered(point, head, "K"):
        yield "key-filter", tangent


def _one_dimension(point: Point, head: Head) -> Iterator[Tangent]:
    """Family 5."""
    one = head.mechanism
    if head.a == 1 and one.weigh == "identity" and one.normalise != "none":
        both = one.normalise == "both"
        yield from point.entries([*head.keys, *head.filters("K")] if both else head.queries)


def _query_key(point: Point, head: Head) -> Iterator[Tangent]:
    """Family 6."""
    one, a = head.mechanism, head.a
    if one.unit != "none" or one.feature not in ("none", "square", "relu"):
        return
    diagonal = one.feature != "none" or one.conv == "depthwise"
    for j, k in product(range(a), repeat=2):
        if j == k or not diagonal:
            yield together(
                point.left(head.queries, point.unit(a, (j, k, 1))),
                point.left(head.keys, point.unit(a, (k, j, -1))),
            )


def _unit(point: Point, head: Head) -> Iterator[Tangent]:
    """Family 7."""
    one = head.mechanism
    if one.unit == "none":
        return
    yield point.itself(head.keys)
    yield point.itself(head.queries)
    if head.filtered and head.key("b_K") not in point.matrices:
        yield point.itself(head.filters("K"))
    if one.feature == "none" and one.conv != "depthwise":
        for S in point.skew(head.a, centred=one.unit == "layer"):
            yield point.left([*head.keys, *head.queries], S)


def _query_scale(point: Point, head: Head) -> Iterator[Tangent]:
    """Family 8."""
    if head.homogeneous and head.mechanism.normalise != "none":
        yield point.itself(head.queries)


def _ones(point: Point, head: Head) -> Iterator[Tangent]:
    """Family 9."""
    one = head.mechanism
    # A filter of each row makes different numbers of ones.
    keys = [key for key in head.keys if key[1] == "b_K" or one.conv != "depthwise"]
    if one.unit == "layer":
        yield from _columns_of_ones(point, [*keys, *head.queries])
    sums = one.weigh == "identity" and one.normalise != "none"
    if one.unit == "none" and one.feature == "exp" and sums:
        moved = keys if one.normalise == "both" else head.queries
        yield from _columns_of_ones(point, moved)
        for key in (*head.keys, *head.queries):
            if key[1] in ("b_K", "b_Q"):
                yield point.all_ones(key)


def _columns_of_ones(point: Point, keys: list[Key]) -> Iterator[Tangent]:
    for key in keys:
        for c in range(point.matrices[key].ncols()):
            yield point.filled(key, column=c)


def _biases(point: Point, head: Head) -> Iterator[Tangent]:
    """Families 10 and 11."""
    one = head.mechanism
    K, Q = head.key("b_K"), head.key("b_Q")
    if one.unit == "none" and one.feature == "exp" and one.bias == "both":
        for j in range(head.a):
            yield together(point.filled(K, row=j), {Q: -point.filled(Q, row=j)[Q]})
    if one.unit == one.feature == "none" and one.weigh == "exp":
        free = {"keys": K, "centred": K, "both": Q}.get(one.normalise)
        if free is not None and free in point.matrices:
            yield from point.entries([free])


def filtered(point: Point, head: Head, letter: str) -> Iterator[Tangent]:
    """Families 12 (keys) and 16 (values): filters take what the map before them loses."""
    filters, W = head.filters(letter), head.key(f"W_{letter}")
    if head.mechanism.conv == "shared":
        yield together(point.itself(filters), point.itself([W], -1))
    if head.mechanism.conv == "depthwise":
        size = point.matrices[W].nrows()
        for r in range(size):
            yield together(
                point.left(filters, point.unit(size, (r, r, 1))),
                point.left([W], point.unit(size, (r, r, -1))),
            )


def _alone(point: Point, head: Head) -> Iterator[Tangent]:
    """Family 13."""
    one, a = head.mechanism, head.a
    K, Q = head.key("W_K"), head.key("W_Q")
    own = head.alone and one.normalise == "none"
    if own and one.feature == "exp" and one.unit == "none":
        pairs = [(K, Q)] + [(head.key("b_K"), head.key("b_Q"))] * (one.bias == "both")
        for k, q in pairs:
            for tangent in point.entries([k]):
                yield together(tangent, {q: -tangent[k]})
    plain = one.unit == one.feature == one.conv == one.bias == "none"
    if (own or point.parallel[head.layer - 1]) and plain:
        for M in point.skew(a):
            yield {K: M * point.matrices[Q]}
            yield {Q: M * point.matrices[K]}
    if head.alone:
        yield from point.entries(head.decays)
