"""Attention mechanisms, by the names that specs have for them.

>>> mechanism("softmax").sums_to_one, mechanism("lightning").bilinear
(True, True)
"""

from __future__ import annotations

from segre.attention.mechanism import NAMED, Mechanism

PLAIN = ("lightning", "softmax")  # the mechanisms of the papers, about which most is known
NAMES = tuple(NAMED)

__all__ = ["NAMED", "NAMES", "PLAIN", "Mechanism", "mechanism"]


def mechanism(name: str) -> Mechanism:
    """The mechanism of a name that a spec was allowed to have."""
    return NAMED[name]
