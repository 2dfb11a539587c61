"""The squared distances between functions, as matrices on coefficients of polynomials.

generic    a random symmetric matrix: the expected squared error on generic data
gaussian   the expected squared error on standard normal inputs
identity   the Frobenius norm of coefficients as symmetric tensors
"""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial, prod
from typing import Literal, cast, get_args

import numpy as np

from segre.errors import SegreError
from segre.fields.draw import Stream
from segre.fields.prime import Prime
from segre.variety.chart import Key

Metric = Literal["generic", "gaussian", "identity"]
METRICS = get_args(Metric)
_START = 4 << 20


def metric_named(name: str) -> Metric:
    """The metric of a name."""
    if name not in METRICS:
        raise SegreError(f"unknown metric {name!r}; allowed: {', '.join(METRICS)}")
    return cast(Metric, name)


def gram(metric: Metric, keys: Sequence[Key], degree: int, field: Prime) -> list[list[int]]:
    """The inner products of monomials mod p; outputs are independent unless it is generic.

    >>> gram("gaussian", [(0, (2, 0)), (0, (1, 1)), (0, (0, 2))], 2, Prime())
    [[3, 0, 1], [0, 1, 0], [1, 0, 3]]
    """
    p, size = field.p, len(keys)
    if metric == "generic":
        drawn = field.residues(field.draw(Stream.COMBINATIONS, _START, (size, size)))
        return [[int(value) for value in row] for row in np.triu(drawn) + np.triu(drawn, 1).T]
    own = normal_moment if metric == "gaussian" else None
    return [
        [
            0
            if a != b
            else own([x + y for x, y in zip(first, second, strict=True)]) % p
            if own
            else _tensor(first, degree, p) * (first == second)
            for b, second in keys
        ]
        for a, first in keys
    ]


def normal_moment(exponents: Sequence[int]) -> int:
    """The mean of a monomial in independent standard normal variables.

    >>> normal_moment([4, 2]), normal_moment([1, 2])
    (3, 0)
    """
    if any(e % 2 for e in exponents):
        return 0
    return prod(factorial(e) // (2 ** (e // 2) * factorial(e // 2)) for e in exponents)


def _tensor(exponents: Sequence[int], degree: int, p: int) -> int:
    """The squared norm of x^a: one over the number of tensor entries that share it."""
    rest = degree - sum(exponents)
    count = factorial(degree) // prod(map(factorial, (rest, *exponents)))
    return pow(count, -1, p)
