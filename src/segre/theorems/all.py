"""All theorems, and the one that covers an architecture."""

from __future__ import annotations

from functools import singledispatch

from segre.architectures import Architecture
from segre.polynomial.spec import Polynomial
from segre.spec import Network
from segre.theorems.decoders import D_QWEN2, B, C, E
from segre.theorems.polynomial import K, M, V
from segre.theorems.stacks import A_PRIME, L1, A, L
from segre.theorems.theorem import Application, Theorem
from segre.theorems.with_layer_norms import D_GPT2, F_HIDDEN, F_MASKED

_STACKS: tuple[Theorem, ...] = (A, A_PRIME, L1, L)
_TRANSFORMERS: tuple[Theorem, ...] = (B, C, D_QWEN2, D_GPT2, E, F_MASKED, F_HIDDEN)
_POLYNOMIALS: tuple[Theorem, ...] = (V, M, K)
THEOREMS = _STACKS + _TRANSFORMERS + _POLYNOMIALS


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


@singledispatch
def alike(_spec: Architecture) -> tuple[Theorem, ...]:
    """The theorems about networks of the same kind."""
    return _TRANSFORMERS


@alike.register
def _(_spec: Network) -> tuple[Theorem, ...]:
    return _STACKS


@alike.register
def _(_spec: Polynomial) -> tuple[Theorem, ...]:
    return _POLYNOMIALS
