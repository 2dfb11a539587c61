"""Which dimensions are theorems? Statements, hypotheses with numbers, and counts, at any size.

The proofs are in docs/theorems.md. A theorem is applied to a spec by `apply`: its design is
compared key by key, its hypotheses are integer conditions on the sizes, and if all of them hold
the dimension is parameters minus the symmetries that it counts.
"""

from __future__ import annotations

from segre.architectures import Architecture
from segre.polynomial.spec import Polynomial
from segre.spec import Network
from segre.theorems.polynomial import K, M, V
from segre.theorems.stacks import A_PRIME, L1, A, L
from segre.theorems.theorem import Application, Hypothesis, Theorem
from segre.theorems.transformers import D_GPT2, D_QWEN2, F_HIDDEN, F_MASKED, B, C, E

_STACKS: tuple[Theorem, ...] = (A, A_PRIME, L1, L)
_TRANSFORMERS: tuple[Theorem, ...] = (B, C, D_QWEN2, D_GPT2, E, F_MASKED, F_HIDDEN)
_POLYNOMIALS: tuple[Theorem, ...] = (V, M, K)
_OF_KINDS: dict[type, tuple[Theorem, ...]] = {Network: _STACKS, Polynomial: _POLYNOMIALS}
THEOREMS = _STACKS + _TRANSFORMERS + _POLYNOMIALS

__all__ = ["THEOREMS", "Application", "Hypothesis", "Theorem", "apply", "nearest"]


def apply(spec: Architecture) -> Application | None:
    """The theorem that covers this design, applied; None if there is none. No two cover one design.

    >>> found = apply(Network.parse("softmax/d=100,100/a=2/t=3"))
    >>> found.theorem.name, found.dimension
    ('A', 10396)
    """
    for theorem in alike(spec):
        if theorem.covers(spec):
            return theorem.applied(spec)
    return None


def nearest(spec: Architecture) -> tuple[Theorem, tuple[str, ...]]:
    """For a design that no theorem covers: the nearest theorem, and what it does not cover."""
    every = [(theorem, tuple(theorem.misfits(spec))) for theorem in alike(spec)]
    return min(every, key=lambda one: len(one[1]))


def alike(spec: Architecture) -> tuple[Theorem, ...]:
    """The theorems about networks of the same kind."""
    return _OF_KINDS.get(type(spec), _TRANSFORMERS)
