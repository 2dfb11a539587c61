"""Attention mechanisms, by their names in specs.

>>> mechanism("softmax").sums_to_one, mechanism("lightning").bilinear
(True, True)
"""

from __future__ import annotations

from segre.attention.mechanism import NAMED, Mechanism

PLAIN = ("lightning", "softmax")  # the mechanisms of the papers, about which most is known
NAMES = tuple(NAMED)

__all__ = ["NAMED", "NAMES", "PLAIN", "Mechanism", "mechanism"]


def mechanism(name: str) -> Mechanism:
    """The mechanism with this name, which must be a valid name."""
    return NAMED[name]
