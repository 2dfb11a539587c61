"""n-gram chains and the model that is trained on them."""

import numpy as np
import pytest

from segre.reproduce.induction_model import (
    Chains,
    Model,
    information,
    labels,
    lag_sets,
    loss_and_gradient,
    matches,
    oracle_loss,
    probabilities,
    sets,
    unigram_loss,
    window_distribution,
)


@pytest.mark.parametrize("parents", [(1,), (2,), (3,), (1, 2), (1, 3), (2, 3)], ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_modified_information_picks_the_parents(parents: tuple[int, ...], seed: int) -> None:
    chains = Chains(3, parents, 0.1)
    found = information(chains, 3, np.random.default_rng(seed), 60)
    assert max(found, key=lambda lags: found[lags][1]) == parents
    for lags, (plain, _) in found.items():
        if set(parents) <= set(lags):
            assert plain == pytest.approx(found[parents][0], abs=1e-6)
        else:
            assert plain < found[parents][0]


@pytest.mark.parametrize("seed", range(3))
def test_the_window_distribution_is_stationary(seed: int) -> None:
    rng = np.random.default_rng(seed)
    chains = Chains(3, (1, 2), 1.0)
    joint = window_distribution(chains, chains.rows(rng, 1)[0], 3)
    assert joint.sum() == pytest.approx(1)
    assert np.allclose(joint.sum(axis=0), joint.sum(axis=-1), atol=1e-5)


def test_sequences_follow_their_rows() -> None:
    """The last parents of many sequences of one chain have the labels that its row says."""
    chains = Chains(2, (1, 3), 0.7)
    row = chains.rows(np.random.default_rng(1), 1)

    class One(Chains):
        def rows(self, rng: np.random.Generator, count: int) -> np.ndarray:
            return np.repeat(row, count, axis=0)

    tokens = One(2, (1, 3), 0.7).sequences(np.random.default_rng(0), 20_000, 6, uniform=True)
    context = chains.context(tokens[:, :-1])
    for number in range(4):
        assert tokens[context == number, -1].mean() == pytest.approx(row[0, number, 1], abs=0.02)


def test_an_oracle_is_better_than_counting_tokens() -> None:
    chains = Chains(3, (1, 3), 0.1)
    tokens = chains.sequences(np.random.default_rng(0), 2000, 100)
    assert oracle_loss(chains, tokens) < 0.3 < 0.7 < unigram_loss(chains, tokens)
    wrong = oracle_loss(Chains(3, (2,), 0.1), tokens)
    assert wrong > 2 * oracle_loss(chains, tokens)


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_the_gradient_and_both_ways_to_the_loss(seed: int, bare: bool) -> None:
    rng = np.random.default_rng(seed)
    window, symbols = 3, 3
    tokens = Chains(symbols, (1, 2), 0.3).sequences(rng, 20, 15)
    match, right = matches(tokens, window), labels(tokens, window)
    vector = Model.start(window, rng, bare=bare).vector + 0.5 * rng.standard_normal(
        window**2 + 2**window + 1
    )
    model = Model.of(vector, window)
    value, gradient = loss_and_gradient(model, match, right, symbols)
    said = probabilities(model, tokens, symbols)
    assert np.allclose(said.sum(axis=1), 1)
    assert -np.log(said[np.arange(20), tokens[:, -1]]).mean() == pytest.approx(value, rel=1e-12)
    assert (gradient[-1] == 0) == bare
    for place in range(len(vector) - bare):
        step = 1e-6 * np.eye(len(vector))[place]
        up, down = (
            loss_and_gradient(Model.of(vector + sign * step, window), match, right, symbols)[0]
            for sign in (1, -1)
        )
        assert (up - down) / 2e-6 == pytest.approx(gradient[place], abs=1e-6)


def test_sets_and_lags_come_in_one_order() -> None:
    assert [tuple(h + 1 for h in one) for one in sets(4)] == lag_sets(4)
