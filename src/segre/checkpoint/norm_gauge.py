"""The free choices of norms, biases and tables of one part, and what is passed on to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from segre.checkpoint.layout import Tensors
from segre.fields.interface import Array

if TYPE_CHECKING:
    from segre.checkpoint.narrow import Narrow

TINY = 1e-6  # gains below this fraction of the largest are not divided by


@dataclass
class Stream:
    """What the last norm of a post-norm stream passes on: its gain, and the removed shift."""

    gain: Array | None = None
    shift: Array | None = None
    scale: Array | None = None  # a gain of the stream that the maps of the head absorb
    tables: Array | None = None  # directions in which tokens shift against positions
    narrow: Narrow | None = None  # how the first readers follow a map of narrow embeddings
    last: tuple[Array, Array] | None = None  # gain and bias of the last norm of shared layers
    constant: Array | None = None  # what readers of shared layers see of that bias
    means: Array | float = 0.0  # of biases, taken off so far: the last one has them


@dataclass
class NormGauge:
    """The free choices of one part: any values give the same function."""

    gains: Tensors = field(default_factory=dict)  # by norm
    scales: Tensors = field(default_factory=dict)  # of what sublayers write
    signs: Tensors = field(default_factory=dict)  # by norm after a sublayer: of its gain
    shifts: Tensors = field(default_factory=dict)  # by norm
    reads: Tensors = field(default_factory=dict)  # by reader, along what it never sees
    writes: Tensors = field(default_factory=dict)  # by writer, along what nobody sees
    outside: Tensors = field(default_factory=dict)  # by reader, where no embedding lies
    biases: Tensors = field(default_factory=dict)  # b_K, b_V
    tables: Tensors = field(default_factory=dict)  # shifts between tables
    sizes: dict[str, float] = field(default_factory=dict)  # of tensors, before
    slack: float = 0.0

    def measure(self, name: str, tensor: Array) -> None:
        """Record the size of a tensor before anything is taken off."""
        self.sizes.setdefault(name, float(np.linalg.norm(tensor)))

    def mean(self, of: Array, axis: int) -> Array:
        """The mean along an axis; 0 where it is within rounding."""
        return self._none(of.mean(axis=axis, keepdims=True), of, axis, 1 / of.shape[axis])

    def component(self, of: Array, direction: Array) -> Array:
        """The component of rows along a direction; 0 where it is within rounding."""
        return self._none(of @ direction, of, -1, float(np.abs(direction).max()))

    def _none(self, found: Array, of: Array, axis: int, by: float) -> Array:
        size = np.linalg.norm(of, axis=axis, keepdims=True)
        return np.where(np.abs(found) <= self.slack * by * size, 0.0, found)


def usable(gain: Array) -> Array:
    """A gain to divide by: 1 where it is almost zero."""
    return np.where(np.abs(gain) > TINY * np.abs(gain).max(), gain, 1.0)


def away_from(gain: Array) -> Array:
    """The direction 1/gain, of length 1, in the limit where gains vanish."""
    zero = gain == 0
    if zero.any():
        first = np.zeros_like(gain)
        first[np.argmax(zero)] = 1.0
        return first
    return (1 / gain) / np.linalg.norm(1 / gain)


def fix_shift(w: Tensors, gauge: NormGauge, norm: str) -> Array:
    """Remove the bias of a norm, in place, and add it to its readers."""
    shift = gauge.shifts[norm] = w[f"{norm}.bias"]
    w[f"{norm}.bias"] = np.zeros_like(shift)
    return shift


def restore_shift(w: Tensors, gauge: NormGauge, norm: str) -> Array:
    """Inverse of `fix_shift`, with a given choice."""
    w[f"{norm}.bias"] = gauge.shifts[norm]
    return gauge.shifts[norm]
