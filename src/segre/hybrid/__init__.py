"""Stacks of attention layers with a mechanism for every head.

>>> from segre.hybrid import Hybrid
>>> spec = Hybrid.parse("mix/d=6,6/a=2/heads=softmax*2+lightning:decay=0.9/t=4")
>>> [(group.mechanism.text, group.heads) for group in spec.layers[0].groups]
[('softmax', 2), ('lightning:decay=9/10', 1)]
"""

from __future__ import annotations

from segre.hybrid.layer import Group, HybridLayer
from segre.hybrid.spec import Hybrid

__all__ = ["Group", "Hybrid", "HybridLayer"]
