"""Activations of an MLP as z times a gate, with their slopes and Lipschitz constants.

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
_NEAR = 0.1  # shifts below are integrated over, those above are large enough to divide by
_TINY = 1e-3  # shifts for which two nodes do
_FEW, _SOME = (np.polynomial.legendre.leggauss(nodes) for nodes in (2, 4))


def _tanh_gate(z: Array) -> Array:
    return np.asarray((1 + np.tanh(_RATE * (z + _CUBE * z**3))) / 2)


def _tanh_slope(z: Array) -> Array:
    gate = _tanh_gate(z)
    return np.asarray(gate + 2 * z * gate * (1 - gate) * _RATE * (1 + 3 * _CUBE * z * z))


def _silu_slope(z: Array) -> Array:
    gate = expit(z)
    return np.asarray(gate + z * gate * (1 - gate))


GATES: dict[str, Callable[[Array], Array]] = {
    "identity": np.ones_like,
    "relu": lambda z: np.asarray(z > 0, dtype=np.float64),
    "relu2": lambda z: np.maximum(z, 0),
    "gelu": ndtr,
    "gelu-tanh": _tanh_gate,
    "gelu-quick": lambda z: expit(_QUICK * z),
    "silu": expit,
}
_SMOOTH: dict[str, Callable[[Array], Array]] = {  # slopes
    "gelu": lambda z: ndtr(z) + z * normal_density(z),
    "gelu-tanh": _tanh_slope,
    "gelu-quick": lambda z: _silu_slope(_QUICK * z),
    "silu": _silu_slope,
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


def mean_slope(kind: str, z: Array, shift: Array) -> Array:
    """(activation(z + shift) - activation(z)) / shift, right also where the shift is tiny or 0."""
    z, shift = np.broadcast_arrays(z, shift)
    if kind == "identity":
        return np.ones(z.shape)
    if kind in _SMOOTH:
        return mean_over(_SMOOTH[kind], lambda z: activate(kind, z), z, shift)
    low, high = np.minimum(z, z + shift), np.maximum(z, z + shift)
    way = np.where(high > low, high - low, 1)
    low, high = np.maximum(low, 0), np.maximum(high, 0)
    slope = np.where(z + shift != z, (high - low) / way, GATES["relu"](z))
    return np.asarray(slope * (high + low) if kind == "relu2" else slope)


def mean_over(
    slope: Callable[[Array], Array], function: Callable[[Array], Array], z: Array, shift: Array
) -> Array:
    """(function(z + shift) - function(z)) / shift, right also where the shift is tiny or 0.

    By Gauss-Legendre quadrature of the slope where the shift is small, where that is accurate to
    rounding.
    """
    z, shift = np.broadcast_arrays(z, shift)
    near = np.abs(shift) < _NEAR
    nodes, shares = _FEW if (np.abs(shift) < _TINY).all() else _SOME
    within = np.where(near, shift, 0)
    mean = sum(
        share / 2 * slope(z + within * (node + 1) / 2)
        for node, share in zip(nodes, shares, strict=True)
    )
    if near.all():
        return np.asarray(mean)
    far = (function(z + shift) - function(z)) / np.where(near, 1, shift)
    return np.where(near, mean, far)


def normal_density(z: Array) -> Array:
    """The density of the normal distribution."""
    return np.asarray(np.exp(-z * z / 2) / sqrt(2 * pi))
