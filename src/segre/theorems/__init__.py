"""Which dimensions are theorems? Statements, hypotheses with numbers, and counts, at any size.

The proofs are in docs/theorems.md. A theorem is applied to a spec by `apply`: its design is
compared key by key, its hypotheses are integer conditions on the sizes, and if all of them hold
the dimension is parameters minus the symmetries that it counts.
"""

from segre.theorems.all import THEOREMS, apply, nearest
from segre.theorems.theorem import Application, Hypothesis, Theorem

__all__ = ["THEOREMS", "Application", "Hypothesis", "Theorem", "apply", "nearest"]
