"""Random small polynomial networks: dense and convolutional, with and without biases."""

from __future__ import annotations

import random
from collections.abc import Iterator

from segre.polynomial.spec import Polynomial


def random_polynomials(seed: int, count: int, widest: int = 4) -> Iterator[Polynomial]:
    """So many of them; the same seed gives the same ones."""
    rng = random.Random(seed)
    for _ in range(count):
        yield random_polynomial(rng, widest)


def random_polynomial(rng: random.Random, widest: int = 4, deepest: int = 4) -> Polynomial:
    """One of up to so many layers."""
    depth, bias = rng.randint(1, deepest), rng.random() < 0.5
    given = {"degree": rng.choice((1, 2, 2, 3, 3, 4)), "bias": bias}
    if rng.random() < 0.65:
        widths = [rng.randint(1, widest) for _ in range(depth + 1)]
        return Polynomial.from_mapping({"kind": "poly", "d": widths, **given})
    given |= {
        "k": [rng.randint(1, 3) for _ in range(depth)],
        "stride": [rng.choice((1, 1, 2, 3)) for _ in range(depth)],
    }
    shortest = Polynomial.from_mapping({"kind": "cnn", **given})
    longer = shortest.width_in + rng.choice((0, 0, 1, 3))
    return Polynomial.from_mapping({"kind": "cnn", **given, "n": longer})
