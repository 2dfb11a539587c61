"""The number of redundant weights of a stack, by a formula for large enough sizes.

The formula sums what is free in every head, as `symmetry/` says, and a basis of tokens between any
two layers. It returns None if heads act as one, if a query sees only itself, if widths are not
filled or not read, or if a head is wider than its tokens: in these cases the symmetries are counted
at a point.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import comb, prod
from typing import Any

import numpy as np

from segre.attention.layer import Layer
from segre.attention.symmetries import between, group_of
from segre.fields.interface import Array
from segre.spec import Network
from segre.symmetry.basis import Basis, Scale
from segre.symmetry.reach import head_at
from segre.symmetry.stack_heads import families

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
    if not covered(spec):
        return None
    found = Counter[Part]()
    for number, layer in enumerate(spec.layers, 1):
        for g, group in enumerate(layer.groups):
            for family in families(head_at(layer, g, spec.t), layer.dv, False, False):
                count = sum(_dimension(free, layer, g) for free in family.free)
                found[group_of(family.kind), family.name] += group.heads * count
        if number < spec.depth:
            d = layer.width_out
            diagonal = layer.dv is None and any(one.mechanism.rowwise for one in layer.groups)
            own = between(d, diagonal=diagonal)
            found[own.group, own.name] += d if diagonal else d**2
    return dict(found)


def _dimension(free: Any, layer: Layer, group: int) -> int:
    """The dimension of what is free in a head for one reason."""
    if isinstance(free, Basis):
        n = free.width
        return {"gl": n * n, "torus": n, "o": comb(n, 2), "o1": comb(n - 1, 2)}[free.group]
    if isinstance(free, Scale):
        return 1

    def sized(_part: str, name: str) -> Array:
        return np.broadcast_to(0.0, layer.shapes[group][name][1:])

    return prod(free.shape(sized))


def covered(spec: Network) -> bool:
    """Whether sizes are large enough for the formula."""
    return spec.t >= 2 and _filled(spec) and all(_simple(spec, layer) for layer in spec.layers)


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
