"""Activations of an MLP as z times a gate, with their Lipschitz constants.

>>> float(activate("relu", np.array(-2.0))), float(activate("relu", np.array(3.0)))
(-0.0, 3.0)
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, pi, sqrt

import numpy as np
from scipy.special import expit, ndtr

from segre.errors import SegreError
from segre.fields.interface import Array

_CUBE = 0.044715
_QUICK = 1.702
_RATE = sqrt(2 / pi)


def _tanh_gate(z: Array) -> Array:
    return np.asarray((1 + np.tanh(_RATE * (z + _CUBE * z**3))) / 2)


GATES: dict[str, Callable[[Array], Array]] = {
    "identity": np.ones_like,
    "relu": lambda z: np.asarray(z > 0, dtype=np.float64),
    "relu2": lambda z: np.maximum(z, 0),
    "gelu": ndtr,
    "gelu-tanh": _tanh_gate,
    "gelu-quick": lambda z: expit(_QUICK * z),
    "silu": expit,
}
# The largest slopes, rounded up.
LIPSCHITZ = {
    "identity": 1.0,
    "relu": 1.0,
    "relu2": inf,
    "gelu": 1.12891,
    "gelu-tanh": 1.129,
    "gelu-quick": 1.09984,
    "silu": 1.09984,
}


def gate(kind: str, z: Array) -> Array:
    """The factor g with activation(z) = z g."""
    if kind not in GATES:
        raise SegreError(f"unknown activation {kind!r}; allowed: {', '.join(GATES)}")
    return GATES[kind](z)


def activate(kind: str, z: Array) -> Array:
    """The activation."""
    return np.asarray(z * gate(kind, z))
