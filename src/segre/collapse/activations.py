"""Activations of an MLP as z times a gate, with their Lipschitz constants.

>>> gate("relu", np.array([[-2.0, 3.0]])).tolist()
[[-0.0, 1.0]]
"""

from __future__ import annotations

from math import inf

import numpy as np

from segre.errors import SegreError
from segre.fields import Real
from segre.fields.interface import Array
from segre.transformer.layers import activate

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
    if kind not in LIPSCHITZ:
        raise SegreError(f"unknown activation {kind!r}; allowed: {', '.join(LIPSCHITZ)}")
    return quotient(activate(Real(), kind, z), z)


def quotient(grown: Array, of: Array) -> Array:
    """What entries were multiplied by; 0 for those that are 0."""
    return np.asarray(np.divide(grown, of, out=np.zeros_like(of), where=of != 0))
