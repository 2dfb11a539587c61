"""The number of redundant weights of a stack, by a formula for large enough sizes.

The formula sums the symmetries that follow from the properties of every head, and a basis of tokens
between any two layers. It returns None if heads act as one, if a query sees only itself, if widths
are not filled or not read, or if a head is wider than its tokens: in these cases the symmetries are
counted at a point.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from segre.attention.layer import Group, Layer
from segre.attention.symmetries import (
    FEATURE_ROW,
    KEY_BIAS,
    KEY_FILTER,
    LENGTHS,
    MEANS,
    QUERY_BIAS,
    SCALE,
    SCORE_SCALE,
    VALUE_FILTER,
    SymmetryName,
    between,
    query_key,
    rotations,
    value_output,
)
from segre.spec import Network

Part = tuple[str, str]  # the piece of the redundancy, and the name of the symmetry


def fiber(spec: Network) -> int | None:
    """The dimension of the generic fiber.

    >>> fiber(Network.parse("mix/d=3,3,3/a=2/heads=lightning,softmax/t=3"))
    18
    """
    found = parts(spec)
    return None if found is None else sum(found.values())


def parts(spec: Network) -> dict[Part, int] | None:
    """The fiber by piece and name, over all layers.

    >>> parts(Network.parse("softmax/d=4,4,4/a=2/gate=head/t=3"))
    {('QK', 'query-key basis GL(2)'): 8, ('residual', 'token basis GL(4)'): 16}
    """
    return of_traits(spec) if covered(spec) else None


def covered(spec: Network) -> bool:
    """Whether sizes are large enough for the formula."""
    return spec.t >= 2 and _filled(spec) and all(_simple(spec, layer) for layer in spec.layers)


def of_traits(spec: Network) -> dict[Part, int]:
    """What the traits of the heads leave open, and the bases between layers, at any size."""
    found: dict[Part, int] = {}
    for symmetry, count in _open(spec):
        part = symmetry.group, symmetry.name
        found[part] = found.get(part, 0) + count
    return found


def _open(spec: Network) -> Iterator[tuple[SymmetryName, int]]:
    for number, layer in enumerate(spec.layers, 1):
        for group in layer.groups:
            for symmetry, count in _of_head(layer, group):
                yield symmetry, group.heads * count
        if number < spec.depth:
            yield _between(layer)


def _between(layer: Layer) -> tuple[SymmetryName, int]:
    d = layer.width_out
    diagonal = layer.dv is None and any(group.mechanism.rowwise for group in layer.groups)
    return between(d, diagonal=diagonal), d if diagonal else d**2


def _of_head(layer: Layer, group: Group) -> Iterator[tuple[SymmetryName, int]]:
    one, a, d = group.mechanism, layer.a, layer.width_in
    if one.unit != "none":
        biases = {"none": 0, "key": 1, "query": 1, "both": 2}[one.bias]
        turning = a - 1 if one.unit == "layer" else a
        yield LENGTHS, 2
        if one.feature == "none":
            yield rotations(turning), turning * (turning - 1) // 2
        if one.unit == "layer":
            yield MEANS, 2 * d + biases
    elif one.feature in ("square", "relu") or (one.feature == "none" and one.conv == "depthwise"):
        yield query_key(a, diagonal=True), a
    elif one.feature == "none":
        yield query_key(a), a * a
    elif one.sums_of_exponentials and one.normalise != "none":
        yield FEATURE_ROW, d
    if one.unit == one.feature == "none":
        if one.ignores_shifts and one.bias in ("key", "both"):
            yield KEY_BIAS, a
        if one.ignores_key_shifts and one.bias in ("query", "both"):
            yield QUERY_BIAS, a
    if one.unit == "none" and one.homogeneous:
        yield SCORE_SCALE if one.normalise != "none" else SCALE, 1
    if layer.dv is not None:
        diagonal = one.rowwise
        yield value_output(layer.dv, diagonal=diagonal), layer.dv if diagonal else layer.dv**2
    if one.conv in ("depthwise", "shared"):
        several = one.conv == "depthwise"
        yield KEY_FILTER, a if several else 1
        yield VALUE_FILTER, layer.inner if several else 1


def _simple(spec: Network, layer: Layer) -> bool:
    """Whether nothing beyond the properties of single heads is redundant."""
    d, a, t = layer.width_in, layer.a, spec.t
    for group in layer.groups:
        one = group.mechanism
        if not one.weighing.formula:
            return False
        least = {"none": 1, "sphere": 2, "layer": 3}[one.unit]
        if one.splits and one.normalise != "none":
            least = max(least, 2)
        square = one.feature == "square" and a > 1 and a * 2 * d > d * d
        if one.alone(t) or one.keys(t) < 2 or not least <= a <= d or square:
            return False
        if layer.dv is not None and layer.dv > min(d, layer.width_out):
            return False
        if one.bias != "none" and (one.feature != "none" or one.unit == "sphere"):
            return False
        if one.conv != "none" and one.unit != "none":
            return False
        if one.normalise == "centred" and t < 3:
            return False
    return not _mixes(spec, layer)


def _mixes(spec: Network, layer: Layer) -> bool:
    """Whether heads whose weights are the scores may mix, or make every tensor there is."""
    d, a, n = layer.width_in, layer.a, layer.width_out
    for group in layer.groups:
        one = group.mechanism
        if not one.bilinear or one.gate != "none":
            continue
        if one.bias != "none" and group.heads > 1:
            return True
        if layer.dv is None and group.heads > 1 and not group.heads - 1 <= (d - a) ** 2:
            return True
        weights = group.heads * (2 * a * d + layer.inner * d)
        if weights - group.heads * (a * a + 1) >= n * d * d * (d + 1) // 2:
            return True
    pairs = combinations(layer.groups, 2)
    return any(one.mechanism.on(spec.t) == two.mechanism.on(spec.t) for one, two in pairs)


def _filled(spec: Network) -> bool:
    """Whether tokens fill every width, and every width is read."""
    for layer in spec.layers:
        inner = min(layer.width_in, layer.inner)
        if layer.heads * inner < layer.width_out or layer.heads * inner < layer.width_in:
            return False
        if layer.a == 1 and spec.depth > 1:  # tokens may be multiples of one vector
            return False
    return True
