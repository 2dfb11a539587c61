"""Past the floor: what floats can still see is right, and what they cannot is what balls prove."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from segre.collapse.activations import LIPSCHITZ
from segre.collapse.apart import Apart
from segre.collapse.floor import descent
from segre.collapse.residual import norm, relative_residual, residual
from segre.collapse.stack import FloatNetwork
from segre.errors import SegreError
from support.certified import certified_residuals

N, D = 5, 6


def tokens(seed: int = 0, size: float = 1.0, shape: tuple[int, ...] = (N, D)):
    return np.random.default_rng(seed).standard_normal(shape) * size + 0.3


def rows(columns: np.ndarray) -> np.ndarray:
    return columns[0, 0].T


stacks = st.builds(
    FloatNetwork.random,
    layers=st.integers(1, 4),
    heads=st.integers(1, 3),
    d=st.just(D),
    ff=st.sampled_from([0, 7]),
    activation=st.sampled_from(list(LIPSCHITZ)),
    init=st.sampled_from(["xavier", 0.2, 1.5]),
    bias=st.sampled_from([0.0, 0.3]),
    skip=st.booleans(),
    causal=st.booleans(),
    mlp_skip=st.sampled_from([None, True, False]),
    seed=st.integers(0, 10**6),
)


@given(stacks)
def test_above_the_floor_it_is_the_network(stack: FloatNetwork) -> None:
    X = tokens()
    found, done = descent(stack, X), stack.forward(X)
    for state, wanted in zip(found.states, done.replay(), strict=True):
        if not state.known:  # a saturated softmax: from here on rounding chooses the weights
            break
        size = np.abs(wanted).max()
        assert np.abs(rows(state.whole) - wanted).max() <= 1e-9 * size
        assert np.abs(state.rest.mean(axis=-1)).max() < 1e-14
        if norm(residual(wanted)) > 1e-4 * size:
            log = np.log10(norm(residual(wanted)))
            assert state.log10_residual() == pytest.approx(log, abs=1e-8)


@given(stacks, st.sampled_from([1.0, 1e-3, 1e-20]))
@settings(max_examples=40)
def test_floats_agree_with_certified_balls(stack: FloatNetwork, size: float) -> None:
    X = tokens(1) * size
    found = descent(stack, X)
    assume((found.residual > -1500).all())  # not 0, nor rounded away, nor for hours of balls
    proved = certified_residuals(stack, X)
    saturated = max(np.abs(layer.P).max() for layer in stack.forward(X).layers) > 0.999
    close = 1e-6 if saturated else 1e-9
    assert np.allclose(found.residual, proved.residual, rtol=close, atol=close)
    assert np.allclose(found.residual_frobenius, proved.residual_frobenius, rtol=close, atol=close)


@pytest.mark.parametrize("seed", [1, 28, 29])
def test_a_saturated_softmax_collapses_tokens_too(seed: int) -> None:
    """All attend to the same token, and what they see of others is below e^-150."""
    stack = FloatNetwork.random(3, 1, D, init=1.5, seed=seed)
    found, proved = descent(stack, tokens(1)), certified_residuals(stack, tokens(1))
    assert found.residual[1] > 0
    assert found.residual[2] < -80
    assert np.allclose(found.residual, proved.residual, rtol=1e-9)


def test_what_was_rounded_away_is_not_claimed() -> None:
    """Tokens in clusters, alike to 1e-40, that see only themselves: floats cannot tell."""
    stack = FloatNetwork.random(4, 2, D, init=1.5, bias=0.3, seed=82)
    found, proved = descent(stack, tokens(1)), certified_residuals(stack, tokens(1))
    assert np.allclose(found.residual[:-1], proved.residual[:-1], rtol=1e-9)
    assert np.isnan(found.residual[-1])
    assert proved.residual[-1] == pytest.approx(-86.44, abs=0.01)


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("bias", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(4))
def test_residuals_are_cubed(heads: int, bias: float, seed: int) -> None:
    """Without skips the exponent is 3, far below what floats can hold."""
    stack = FloatNetwork.random(8, heads, 8, bias=bias, seed=seed)
    found = descent(stack, tokens(seed, 0.3, (6, 8)))
    assert found.exponents[6:] == pytest.approx(3, abs=0.02)
    assert found.orders[4:] == pytest.approx(3, abs=0.04)
    assert found.residual[-1] < -1000


@pytest.mark.parametrize("heads", [1, 4])
def test_the_deepest_residuals_are_certified(heads: int) -> None:
    stack, X = FloatNetwork.random(7, heads, 8, bias=0.1, seed=heads), tokens(heads, 0.3, (6, 8))
    found, proved = descent(stack, X), certified_residuals(stack, X)
    assert found.residual[-1] < -500
    assert np.allclose(found.residual, proved.residual, rtol=1e-9)
    assert proved.bits > 2000


@given(st.integers(0, 10**6), st.integers(1, 3))
@settings(max_examples=20)
def test_an_mlp_does_not_save_what_attention_loses(seed: int, heads: int) -> None:
    X = tokens(seed, 0.3)
    bare = descent(FloatNetwork.random(6, heads, D, k=3, v=3, seed=seed), X)
    after = descent(FloatNetwork.random(6, heads, D, k=3, v=3, ff=12, seed=seed), X)
    assert bare.exponents[-1] == pytest.approx(3, abs=0.1)
    assert after.exponents[-1] == pytest.approx(3, abs=0.1)


@given(st.integers(0, 10**6))
def test_a_skip_around_no_values_changes_nothing(seed: int) -> None:
    """With W_V = 0 and a skip the residual is exactly constant."""
    stack = FloatNetwork.random(4, 2, D, skip=True, seed=seed)
    layers = tuple((replace(heads, W_V=0 * heads.W_V), mlp) for heads, mlp in stack.layers)
    found = descent(replace(stack, layers=layers), tokens(seed, 1e-200))
    assert len(set(found.residual.tolist())) == 1


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=10)
def test_a_skip_keeps_tokens_apart(seed: int, causal: bool) -> None:
    """To first order in the residual a layer is then 1 + small, and nothing is cubed."""
    stack = FloatNetwork.random(8, 2, D, init=0.1, skip=True, causal=causal, seed=seed)
    found = descent(stack, tokens(seed, 1e-3))
    assert abs(found.residual[-1] - found.residual[0]) < 0.5


def test_a_mask_makes_the_decay_geometric() -> None:
    """Behind a causal mask tokens see different tokens even if all scores are equal."""
    found = descent(FloatNetwork.random(60, 2, D, causal=True, seed=3), tokens(3))
    steps = np.diff(found.residual)[20:]
    assert found.residual[-1] < -10
    assert found.exponents[-20:] == pytest.approx(1, abs=0.1)
    assert np.abs(steps).max() < 2


@given(st.booleans(), st.booleans(), st.sampled_from([0, 5]))
@settings(max_examples=8)
def test_a_batch_is_one_at_a_time(skip: bool, causal: bool, ff: int) -> None:
    stack = FloatNetwork.random(3, 2, D, ff=ff, skip=skip, causal=causal, seed=4)
    X = np.stack([tokens(5, size) for size in (3.0, 1.0, 1e-100)])
    together = descent(stack, X)
    for i, one in enumerate(X):
        assert np.allclose(descent(stack, one).residual, together.residual[i], rtol=1e-12)


def test_depths_at_which_the_logarithm_itself_is_huge() -> None:
    found = descent(FloatNetwork.random(60, 2, D, seed=6), tokens(6))
    assert found.residual[-1] < -(10.0**25)
    assert found.exponents[-1] == pytest.approx(3)


def test_tokens_that_are_equal_stay_equal() -> None:
    found = descent(FloatNetwork.random(2, 2, D, seed=7), np.ones((N, D)))
    assert (found.residual == -np.inf).all()
    assert np.isnan(found.exponents).all()
    with pytest.raises(SegreError, match="may be 0"):
        certified_residuals(FloatNetwork.random(1, 2, D), np.ones((N, D)), most_bits=256)


@given(st.floats(1e-300, 1e300), st.integers(0, 99))
def test_a_split_is_its_tokens(size: float, seed: int) -> None:
    X = np.random.default_rng(seed).standard_normal((N, D)) * size
    state = Apart.of_tokens(X)
    assert 0.5 <= np.abs(state.rest).max() < 1
    assert np.allclose(rows(state.whole) / size, X / size)
    found = descent(FloatNetwork(()), X)
    assert found.relative[0] == pytest.approx(np.log10(relative_residual(X)), abs=1e-9)


def test_a_descent_is_plain_data() -> None:
    found = descent(FloatNetwork.random(2, 2, D), tokens())
    document = json.loads(json.dumps(found.document()))
    assert document["residual"] == found.residual.tolist()
    assert (len(document["exponents"]), len(document["orders"])) == (2, 1)
