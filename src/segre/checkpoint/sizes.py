"""Norms and inner products of tensors, row by row: tables are large, and need no copies."""

from __future__ import annotations

import numpy as np

from segre.fields.interface import Array


def inner(one: Array, two: Array) -> float:
    """The sum of products of entries."""
    return float(sum(np.vdot(a, b) for a, b in zip(one, two, strict=True)))


def apart(one: Array, two: Array) -> float:
    """The sum of squares of differences of entries."""
    return float(sum(np.vdot(d, d) for d in map(np.subtract, one, two)))
