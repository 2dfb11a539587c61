"""The number of redundant weights of a hybrid stack, by a formula for large enough sizes.

The formula sums the symmetries that follow from the properties of every head, and a basis of tokens
between any two layers. It returns None if heads act as one, if a query sees only itself, if widths
are not filled or not read, or if a head is wider than its tokens: in these cases the symmetries are
counted at a point.
"""

from __future__ import annotations

from itertools import combinations

from segre.attention.mechanism import Mechanism
from segre.hybrid.layer import Group, HybridLayer
from segre.hybrid.spec import Hybrid


def fiber(spec: Hybrid) -> int | None:
    """The dimension of the generic fiber.

    >>> fiber(Hybrid.parse("mix/d=3,3,3/a=2/heads=lightning,softmax/t=3"))
    18
    """
    if spec.t < 2 or not _filled(spec) or not all(_simple(spec, layer) for layer in spec.layers):
        return None
    heads = sum(
        group.heads * _of_head(layer, group) for layer in spec.layers for group in layer.groups
    )
    return heads + sum(_between(layer) for layer in spec.layers[:-1])


def rowwise(one: Mechanism) -> bool:
    """Whether the rows of a value map are distinguished before they are written or added."""
    return one.gate == "element" or one.conv == "depthwise"


def _between(layer: HybridLayer) -> int:
    diagonal = layer.dv is None and any(rowwise(group.mechanism) for group in layer.groups)
    return layer.width_out if diagonal else layer.width_out**2


def _of_head(layer: HybridLayer, group: Group) -> int:
    one, a, d = group.mechanism, layer.a, layer.width_in
    biases = {"none": 0, "key": 1, "query": 1, "both": 2}[one.bias]
    if one.unit == "layer":
        found = 2 * d + biases + 2 + (one.feature == "none") * (a - 1) * (a - 2) // 2
    elif one.unit == "sphere":
        found = 2 + (one.feature == "none") * a * (a - 1) // 2
    elif one.feature == "none":
        found = a if one.conv == "depthwise" else a * a
        found += a * (one.ignores_shifts and one.bias in ("key", "both"))
        found += a * (one.ignores_key_shifts and one.bias in ("query", "both"))
    elif one.feature in ("square", "relu"):
        found = a
    else:
        common = one.feature == "exp" and one.weigh == "identity" and one.normalise != "none"
        found = d * common
    if one.unit == "none" and one.homogeneous:
        found += 1  # of scores alone, or against values
    if layer.dv is not None:
        found += layer.dv if rowwise(one) else layer.dv**2
    filters = {"none": 0, "full": 0, "shared": 2, "depthwise": a + layer.inner}
    return found + filters[one.conv]


def _simple(spec: Hybrid, layer: HybridLayer) -> bool:
    """Whether nothing beyond the properties of single heads is redundant."""
    d, a, t = layer.width_in, layer.a, spec.t
    for group in layer.groups:
        one = group.mechanism
        least = {"none": 1, "sphere": 2, "layer": 3}[one.unit]
        if one.weigh == "identity" and one.normalise != "none":
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


def _mixes(spec: Hybrid, layer: HybridLayer) -> bool:
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


def _filled(spec: Hybrid) -> bool:
    """Whether tokens fill every width, and every width is read."""
    for layer in spec.layers:
        inner = min(layer.width_in, layer.inner)
        if layer.heads * inner < layer.width_out or layer.heads * inner < layer.width_in:
            return False
        if layer.a == 1 and spec.depth > 1:  # tokens may be multiples of one vector
            return False
    return True
