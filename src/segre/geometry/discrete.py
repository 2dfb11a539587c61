"""Discrete symmetries of a stack: permutations, beside the continuous families."""

from __future__ import annotations

from collections import Counter

from segre.spec import Network
from segre.symmetry.finite import Discrete


def discrete_of_stack(spec: Network) -> tuple[Discrete, ...]:
    """Permutations of the heads that have the same mechanism, and of features.

    >>> net = Network.parse("mix/d=4,4/a=2/heads=linear*3+softmax/t=3")
    >>> [(found.group, found.what) for found in discrete_of_stack(net)]
    [('S_3', 'heads of the same mechanism'), ('S_2', 'features of a head')]
    """
    found: Counter[tuple[str, str]] = Counter()
    for layer in spec.layers:
        for group in layer.groups:
            if group.heads > 1:
                found[f"S_{group.heads}", "heads of the same mechanism"] += 1
            one = group.mechanism
            if one.feature != "none" and layer.a > 1:
                found[f"S_{layer.a}", "features of a head"] += group.heads
            if one.gate == "element" and layer.dv is not None and layer.dv > 1:
                found[f"S_{layer.dv}", "gated entries of a head"] += group.heads
    return tuple(Discrete(group, what, times) for (group, what), times in found.items())
