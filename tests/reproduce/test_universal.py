"""Functions from anchors: bounds of the error that hold for all functions."""

import numpy as np
import pytest

from segre.reproduce.universal import (
    certified_error,
    grid,
    head,
    self_attention,
    sharpness,
    waves,
)


@pytest.mark.parametrize("seed", range(6))
def test_the_error_is_at_most_the_mean_distance_of_anchors(seed: int) -> None:
    """For every function that changes by at most |x - y|_1, at every point."""
    rng = np.random.default_rng(seed)
    size, p = int(rng.integers(1, 4)), int(rng.integers(2, 9))
    function, anchors = waves(rng, size, 5), grid(p, size)
    x = rng.uniform(size=(40, size))
    error = abs(head(x, anchors, function(anchors), sharpness(p)) - function(x)).max(axis=1)
    distances = abs(anchors[None] - x[:, None]).sum(axis=-1)  # (points, anchors)
    mean = np.array(
        [head(x[[n]], anchors, distances[n][:, None], sharpness(p))[0, 0] for n in range(40)]
    )
    assert (error <= mean + 1e-12).all()
    assert (mean <= size / p).all()


def test_random_functions_change_as_slowly_as_is_said() -> None:
    rng = np.random.default_rng(0)
    for size in (1, 2, 3):
        function = waves(rng, size, 8)
        x, y = rng.uniform(size=(2, 500, size))
        slope = abs(function(x) - function(y)) / abs(x - y).sum(axis=1, keepdims=True)
        assert slope.max() <= 1 + 1e-9
        assert slope.max() > 0.5


@pytest.mark.parametrize("p", [1, 2, 5, 12])
def test_the_error_of_the_identity_is_enclosed(p: int) -> None:
    low, high = certified_error(p)
    assert low < high <= 1 / p
    z = np.linspace(0, 1, 2001)[:, None]
    measured = abs(head(z, grid(p), grid(p), sharpness(p)) - z).max()
    assert measured <= high
    assert measured == pytest.approx(low, rel=1e-3)
    if p > 1:
        assert 1 / (2 * p) < low < high < 1.001 / (2 * p)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_self_attention_with_anchors_as_tokens_is_the_head(size: int) -> None:
    rng = np.random.default_rng(size)
    function, anchors = waves(rng, size, 2), grid(3, size)
    x = rng.uniform(size=(6, size))
    given = (x, anchors, function(anchors), sharpness(3))
    assert np.allclose(self_attention(*given), head(*given), atol=1e-12)
