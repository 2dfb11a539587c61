"""Which classical variety do the functions of a polynomial network fill?"""

from __future__ import annotations

from itertools import pairwise
from math import log

from segre.polynomial.bounds import forms
from segre.polynomial.spec import Polynomial
from segre.variety.formulas import (
    Determinantal,
    Family,
    LinearSpace,
    Product,
    Secants,
    Symmetric,
    require_short,
)


def family(spec: Polynomial) -> Family | None:
    """The family of a network's functions, if it is one of these.

    >>> family(Polynomial.parse("cnn/k=2,2/degree=2")).degree().value
    4
    >>> family(Polynomial.parse("poly/4-2-1/degree=2")).degree().value
    10
    """
    require_short((spec.depth - 1) * log(spec.degree))
    if spec.convolutional:
        return _linear_filters(spec) if spec.degree == 1 else _filters(spec)
    first, last, least = spec.widths[0], spec.widths[-1], min(spec.widths)
    if spec.depth == 1 or (spec.degree == 1 and least == min(first, last)):
        return LinearSpace("all linear maps" if not spec.bias else "all affine maps")
    if spec.degree == 1:
        return Determinantal(last, first, least)
    if spec.bias:
        return None
    power = spec.total_degree
    if first == 1:
        return LinearSpace("all multiples of one monomial, for each output")
    if spec.widths[1] == 1:
        factors = ((first - 1, power),) + ((last - 1, 1),) * (last > 1)
        return Product(f"Segre-Veronese variety of degrees {_shown(factors)}", factors, True, True)
    if last == 1 and spec.depth == 2:
        hidden = spec.widths[1]
        if power == 2 and hidden < first:
            return Symmetric(first, hidden)
        if first == 2 and 2 * hidden <= power:
            return Secants(power, hidden)
    return None


def ambient(spec: Polynomial) -> int:
    """Dimension of the linear space of all polynomials of the degree of a dense network."""
    return spec.widths[-1] * forms(spec.width_in + spec.bias, spec.total_degree)


def _filters(spec: Polynomial) -> Product | None:
    """Convolutions with an activation: a product of the projective spaces of the filters."""
    if spec.bias:
        return None
    kernels = [layer.kernel for layer in spec.convolutions]
    degrees = [spec.degree ** (spec.depth - j) for j in range(1, spec.depth + 1)]
    factors = tuple((k - 1, d) for k, d in zip(kernels, degrees, strict=True))
    name = f"filters up to scale, forms of degrees {_shown(factors)}"
    return Product(name, factors, immersed=True, tensors=False)


def _linear_filters(spec: Polynomial) -> Family:
    """Products of polynomials w_j(x^(s_1 ... s_(j-1))): layers after stride 1 are one factor."""
    merged: list[int] = [0]
    for before, layer in pairwise((None, *spec.convolutions)):
        assert layer is not None
        if before is not None and before.stride > 1 and merged[-1]:
            merged.append(0)
        merged[-1] += layer.kernel - 1
    factors = tuple((m, 1) for m in merged if m)
    if len(factors) < 2:
        return LinearSpace("all filters of one length")
    name = f"{len(factors)} polynomials in different powers of x, multiplied"
    return Product(name, factors, immersed=False, tensors=False)


def _shown(factors: tuple[tuple[int, int], ...]) -> str:
    return ", ".join(str(d) for _, d in factors)
