"""A real point whose coordinates are dyadic numbers, the same on every machine.

Weight j is ((u(seed, WEIGHTS, j) >> 43) - 2^20) / 2^20, in [-1, 1); entries of inputs likewise, and
gains are one plus half of it. With a vocabulary an input is a token sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from segre.architectures import Architecture
from segre.fields.draw import Stream, words
from segre.fields.interface import Array
from segre.network import tensors

_GRID = 1 << 20
_TYPES = np.uint64(1 << 41)


@dataclass(frozen=True)
class RealPoint:
    """Weights and inputs, as floats that are exactly the dyadic numbers."""

    spec: Architecture
    seed: int

    @cached_property
    def weights(self) -> Array:
        """The weights, one vector."""
        out = _dyadic(self.seed, Stream.WEIGHTS, np.arange(self.spec.parameters, dtype=np.uint64))
        for (_, name), slot in tensors(self.spec).items():
            if name.endswith(".gain"):
                out[slot.range] = 1 + out[slot.range] / 2
        return out

    def inputs(self, numbers: Array) -> Array:
        """Inputs by number: matrices, or one-hot columns of token (and type) sequences."""
        spec = self.spec
        if spec.discrete:
            return _one_hot(self.seed, spec, numbers)
        index = numbers.astype(np.uint64)[:, None, None] * np.uint64(spec.width_in * spec.t)
        within = np.arange(spec.width_in * spec.t, dtype=np.uint64)
        return _dyadic(self.seed, Stream.INPUTS, index + within.reshape(spec.width_in, spec.t))


def sequences(spec: Architecture) -> float:
    """How many different inputs there are."""
    if not spec.discrete:
        return inf
    return float(spec.vocab * max(1, spec.types)) ** min(spec.t, 64)


def _dyadic(seed: int, stream: Stream, index: Array) -> Array:
    drawn = words(seed, stream, index) >> np.uint64(43)
    return (drawn.astype(np.float64) - _GRID) / _GRID


def _one_hot(seed: int, spec: Architecture, numbers: Array) -> Array:
    """Token c of input n is u(seed, INPUTS, n t + c) mod the vocabulary; types 2^41 further on."""
    within = np.arange(spec.t, dtype=np.uint64)
    index = numbers.astype(np.uint64)[:, None] * np.uint64(spec.t) + within
    token = words(seed, Stream.INPUTS, index) % np.uint64(spec.vocab)
    rows = [np.arange(spec.vocab)[:, None] == token.astype(np.int64)[:, None, :]]
    if spec.types:
        kind = words(seed, Stream.INPUTS, index + _TYPES) % np.uint64(spec.types)
        rows.append(np.arange(spec.types)[:, None] == kind.astype(np.int64)[:, None, :])
    return np.concatenate(rows, axis=1).astype(np.float64)
