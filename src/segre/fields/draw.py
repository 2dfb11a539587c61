"""Random field elements, by a generator small enough to define in one paragraph.

The definition is in docs/certificate.md, so that a certificate can name a point by a seed
and anyone can rebuild the point in any language. With all arithmetic mod 2^64,

    mix(z):  z ^= z >> 30;  z *= 0xBF58476D1CE4E5B9;
             z ^= z >> 27;  z *= 0x94D049BB133111EB;  z ^= z >> 31
    u(seed, stream, i) = mix(mix(seed + (stream + 1) G) + (i + 1) G),  G = 0x9E3779B97F4A7C15

which is the SplitMix64 finaliser of Steele, Lea and Flood (2014), keyed by stream.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


class Stream(IntEnum):
    """The use of a random element; each use has a separate stream."""

    WEIGHTS = 0
    INPUTS = 1
    EXPONENTIALS = 2
    WITNESS_WEIGHTS = 3
    WITNESS_INPUTS = 4
    COMBINATIONS = 5
    DISTRIBUTION = 6
    DENSITY = 7
    CIRCLE = 8
    CONSTANTS = 9
    REGIONS = 10
    ROOTS = 11
    SLOPES = 12


def words(seed: int, stream: Stream, index: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """u(seed, stream, i) for every i in `index`.

    >>> words(0, Stream.WEIGHTS, np.arange(2, dtype=np.uint64))
    array([12035550249420947055, 12935080325729570654], dtype=uint64)
    """
    key = _mix_one((seed + (int(stream) + 1) * _GOLDEN) & _MASK)
    z = index.astype(np.uint64)
    z += np.uint64(1)
    z *= np.uint64(_GOLDEN)
    z += np.uint64(key)
    z ^= z >> np.uint64(30)
    z *= np.uint64(_FIRST)
    z ^= z >> np.uint64(27)
    z *= np.uint64(_SECOND)
    z ^= z >> np.uint64(31)
    return z


def _mix_one(z: int) -> int:
    z = (z ^ (z >> 30)) * _FIRST & _MASK
    z = (z ^ (z >> 27)) * _SECOND & _MASK
    return z ^ (z >> 31)
