"""Networks with monomial activations: dense and convolutional, of any depth.

>>> from segre.polynomial import Polynomial
>>> spec = Polynomial.parse("poly/3-5-2/degree=3")
>>> spec.widths, spec.parameters, spec.total_degree
((3, 5, 2), 25, 3)
"""

from __future__ import annotations

from segre.polynomial.spec import Convolution, Dense, Polynomial

__all__ = ["Convolution", "Dense", "Polynomial"]
