"""The nearest of two points: the closed form of the error against drawn points."""

import numpy as np
import pytest

from segre.reproduce.rank import (
    Heads,
    agreement,
    best_error,
    full_rank,
    gram,
    mean_square,
    nearest,
    points,
    rank_one,
    unit,
)


@pytest.mark.parametrize("d", [3, 4, 7])
def test_gram_and_agreement_are_means_over_points(d: int) -> None:
    rng = np.random.default_rng(d)
    heads = Heads.drawn(rng, 5, d)
    x, y = points(rng, 60_000, 2, d)
    said = np.stack([rank_one(heads.first(5), np.eye(5)[n], x, y, 1e9) for n in range(5)])
    right = nearest(x, y)
    assert np.allclose(np.einsum("hnd,gnd->hg", said, said) / len(x), gram(heads), atol=0.02)
    assert np.allclose((said * right).sum(axis=(1, 2)) / len(x), agreement(heads), atol=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_the_best_weights_are_best(seed: int) -> None:
    rng = np.random.default_rng(seed)
    heads = Heads.drawn(rng, 20, 6)
    C, b = gram(heads), agreement(heads)
    errors = [best_error(C[:n, :n], b[:n])[0] for n in range(1, 21)]
    assert (np.diff(errors) <= 1e-12).all()
    error, alpha = best_error(C, b)
    for _ in range(50):
        other = alpha + 0.1 * rng.standard_normal(20)
        assert 1 - 2 * b @ other + other @ C @ other >= error


def test_heads_are_unit_vectors_and_equal_ones_agree_more() -> None:
    heads = Heads.drawn(np.random.default_rng(0), 50, 5)
    for x in (heads.k, heads.q):
        assert np.allclose(x, unit(x))
    same = agreement(Heads(heads.q, heads.q))
    opposite = agreement(Heads(-heads.q, heads.q))
    assert np.allclose(same + opposite, 1)
    assert (same > agreement(heads)).all()


@pytest.mark.parametrize("tokens", [2, 5, 40])
def test_one_full_rank_head_finds_the_nearest(tokens: int) -> None:
    x, y = points(np.random.default_rng(tokens), 3000, tokens, 6)
    assert mean_square(full_rank(x, y, 1e7), nearest(x, y)) < 1e-4
    assert mean_square(full_rank(x, y, 1.0), nearest(x, y)) > 0.1
