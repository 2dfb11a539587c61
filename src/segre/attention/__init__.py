"""Attention mechanisms, by the names that specs have for them.

>>> mechanism("softmax").sums_to_one, mechanism("lightning").bilinear
(True, True)
"""

from __future__ import annotations

from segre.attention.lightning import LIGHTNING
from segre.attention.mechanism import Mechanism
from segre.attention.softmax import SOFTMAX

MECHANISMS: dict[str, Mechanism] = {one.name: one for one in (LIGHTNING, SOFTMAX)}
NAMES = tuple(MECHANISMS)


def mechanism(name: str) -> Mechanism:
    """The mechanism of a name that a spec was allowed to have."""
    return MECHANISMS[name]
