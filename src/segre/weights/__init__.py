"""Weights of small networks as data: floats, or exact fractions; read from and written to files.

A JSON file holds `{"spec": SPEC, "layers": [{"W_K": ..., "W_Q": ..., "W_V": ..., "W_O": ...}]}`,
each tensor as nested lists (heads, rows, columns). If every number is an integer or a string such
as "3/7" the weights are exact; if any is a float they are float64. An .npz file holds the spec as
a string `spec` and arrays `layer1.W_K` and so on, and is float64. Dense layers of polynomial
networks have W, convolutions w, and both may have b.
"""

from segre.weights.arrays import common_kind, number_array, read_arrays
from segre.weights.point import LayerPoint, read_point, read_weights
from segre.weights.polynomial import PolynomialWeights
from segre.weights.vector import Weights

__all__ = [
    "LayerPoint",
    "PolynomialWeights",
    "Weights",
    "common_kind",
    "number_array",
    "read_arrays",
    "read_point",
    "read_weights",
]
