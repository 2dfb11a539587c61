"""Random polynomial networks for tests."""

from __future__ import annotations

import random

from segre.polynomial.spec import Polynomial


def random_polynomial(rng: random.Random, widest: int = 4, deepest: int = 4) -> Polynomial:
    """A dense or convolutional network."""
    layers, degree = rng.randint(1, deepest), rng.randint(1, 3)
    given: dict[str, object] = {"degree": degree, "bias": rng.random() < 0.4}
    if rng.random() < 0.6:
        given |= {"kind": "poly", "d": [rng.randint(1, widest) for _ in range(layers + 1)]}
    else:
        kernels = [rng.randint(1, 3) for _ in range(layers)]
        given |= {"kind": "cnn", "k": kernels, "stride": [rng.randint(1, 2) for _ in kernels]}
    found = Polynomial.from_mapping(given)
    if found.convolutional and rng.random() < 0.5:
        longer = {**found.document(), "n": found.width_in + rng.randint(1, 4)}
        return Polynomial.from_mapping(longer)
    return found


def random_polynomials(seed: int, count: int, widest: int = 4) -> list[Polynomial]:
    """The same networks for the same seed."""
    rng = random.Random(seed)
    return [random_polynomial(rng, widest) for _ in range(count)]
