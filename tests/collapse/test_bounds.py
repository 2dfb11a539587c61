"""The theorem holds for every random network, and a wrong constant would be noticed."""

import json
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segre.collapse.apart import Apart
from segre.collapse.bounds import (
    WIDEST,
    Bounds,
    bounds,
    lipschitz,
    mean_factor,
    spread,
    weight_norm,
)
from segre.collapse.residual import norm, norm_1, norm_inf, residual
from segre.collapse.stack import FloatNetwork

EACH, GROUPS = 150, 20  # 3,000 networks


def group(seed: int) -> tuple[FloatNetwork, np.ndarray]:
    """Networks of one shape, and tokens from nearly alike to far apart."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 7)), int(rng.integers(1, 5))
    stack = FloatNetwork.random(
        int(rng.integers(1, 4)),
        int(rng.choice([1, 2, 4])),
        d,
        k=int(rng.integers(1, 4)),
        v=int(rng.integers(1, 4)),
        ff=int(rng.choice([0, 0, 5])),
        activation=str(rng.choice(["relu", "gelu", "silu", "identity"])),
        init=float(rng.choice([0.1, 0.3, 1.0])),
        bias=float(rng.choice([0, 0.3])),
        mlp_skip=bool(rng.integers(2)),
        seed=seed,
        batch=(EACH,),
    )
    size = np.exp(rng.uniform(-4, 1, (EACH, 1, 1)))
    X = rng.standard_normal((EACH, n, d)) * size + rng.standard_normal((EACH, 1, d))
    return stack, X


@cache
def every() -> list[Bounds]:
    return [bounds(*group(seed)) for seed in range(GROUPS)]


def test_no_network_exceeds_the_theorem() -> None:
    assert sum(found.applies.sum() for found in every()) > 3000  # layers, of 3,000 networks
    for found in every():
        assert not found.exceeded().any()
        so_far = np.logical_and.accumulate(found.applies, axis=-1)
        assert not (so_far & (found.measured[..., 1:] > found.theorem + 1e-9)).any()


def test_a_wrong_constant_would_be_noticed() -> None:
    """The same networks exceed a hundredth of the bound: it is loose, but not that much."""
    assert any(found.exceeded(0.01).any() for found in every())


@given(st.integers(0, 10**6), st.integers(2, 7), st.integers(1, 3))
@settings(max_examples=200)
def test_what_is_proved_holds_for_any_row_that_is_subtracted(seed: int, n: int, H: int) -> None:
    """The theorem itself: near to the row that its proof finds, whatever the row x before."""
    rng = np.random.default_rng(seed)
    size = float(np.exp(rng.uniform(-4, 0)))
    heads = FloatNetwork.random(1, H, 4, k=2, v=2, init=0.6, bias=0.3, seed=seed).layers[0][0]
    x, R = rng.standard_normal(4), rng.standard_normal((n, 4)) * size
    squares, widest, y = [], 0.0, heads.b_O
    for h in range(H):
        E = heads.factor * (R @ heads.W_Q[h]) @ (R @ heads.W_K[h]).T
        apart = np.abs(E[:, :, None] - E[:, None, :])
        widest = max(widest, apart.max())
        squares.append(apart.max(axis=(1, 2)).sum() / apart.sum(axis=0).max())
        common = np.exp(heads.factor * (R @ heads.W_K[h]) @ (x @ heads.W_Q[h] + heads.b_Q[h]))
        seen = x + common / common.sum() @ R
        y = y + (seen @ heads.W_V[h] + heads.b_V[h]) @ heads.W_O[h]
    c = 4 * max(squares) ** 0.5 * weight_norm(heads) * H * heads.factor
    after = FloatNetwork(((heads, None),)).forward(x + R).output
    if widest <= WIDEST:
        assert norm(after - y) <= c * norm(R) ** 3 * (1 + 1e-9) + 1e-13
        assert norm(residual(after)) <= mean_factor(n) * c * norm(R) ** 3 * (1 + 1e-9) + 1e-13


@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 4))
def test_the_mean_row_is_not_much_worse_than_any_other(seed: int, n: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    Y = np.round(rng.standard_normal((n, d)) * rng.choice([0.3, 1, 3])) + rng.integers(-2, 3, d)
    row = rng.integers(-2, 3, d)
    assert norm(residual(Y)) <= mean_factor(n) * norm(Y - row) + 1e-12


def test_the_factor_of_the_mean_row_is_reached() -> None:
    """In norm_1 by one token apart from zeros, in norm_inf by one 1 among entries -1."""
    n = 8
    alone, among = np.zeros((n, 1)), -np.ones((n, 1))
    alone[0] = among[0] = 1.0
    assert norm_1(residual(alone)) == pytest.approx(mean_factor(n) * norm_1(alone))
    assert norm_inf(residual(among)) == pytest.approx(mean_factor(n) * norm_inf(among))


def test_the_theorem_is_no_sharper_than_its_steps() -> None:
    """Where the bounds are met, repeating the step with the largest constant is weaker."""
    for found in every():
        met = np.logical_and.accumulate(found.applies, axis=-1)
        assert (found.theorem >= found.step - 1e-9)[met].all()


def test_the_largest_share_of_two_scalar_tokens_is_an_eighth() -> None:
    """R = (r, -r) gives R' = w v r^3 (1, -1) to first order, and the bound is 8 times as large."""
    stack = FloatNetwork.random(1, 1, 1, init=1.0, seed=1)
    found = bounds(stack, np.array([[1e-3], [-1e-3]]))
    assert found.measured[1] - found.step[0] == pytest.approx(np.log10(1 / 8), abs=1e-5)


@given(st.integers(0, 10**6), st.floats(1e-6, 1e3))
def test_constants_depend_on_the_residual_alone_and_gamma_not_on_its_size(
    seed: int, size: float
) -> None:
    rng = np.random.default_rng(seed)
    stack = FloatNetwork.random(1, 2, 4, seed=seed)
    X, row = rng.standard_normal((5, 4)), rng.standard_normal((1, 4))
    one, moved, grown = bounds(stack, X), bounds(stack, X + row), bounds(stack, size * X)
    for name in ("gamma", "beta", "constant", "widest", "step"):
        assert np.allclose(getattr(moved, name), getattr(one, name))
    for name in ("gamma", "beta", "constant"):
        assert np.allclose(getattr(grown, name), getattr(one, name))
    assert np.allclose(grown.widest, size**2 * one.widest)
    assert one.gamma.min() >= 1 - 1e-12


@given(st.integers(0, 10**6))
@settings(max_examples=30)
def test_spread_is_its_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    heads = FloatNetwork.random(1, 2, 4, seed=seed).layers[0][0]
    X = rng.standard_normal((4, 4))
    R = residual(X)
    widest, squares = 0.0, []
    for h in range(2):
        E = heads.factor * R @ heads.W_Q[h] @ heads.W_K[h].T @ R.T
        apart = np.abs(E[:, :, None] - E[:, None, :])
        widest = max(widest, apart.max())
        squares.append(apart.max(axis=(1, 2)).sum() / apart.sum(axis=0).max())
    found = spread(heads, Apart.of_tokens(X))
    assert found[0] == pytest.approx(widest)
    assert found[1] ** 2 == pytest.approx(max(squares))


@given(
    st.integers(0, 10**6),
    st.sampled_from(["relu", "gelu", "gelu-tanh", "silu", "identity"]),
    st.booleans(),
)
def test_no_mlp_grows_distances_by_more_than_its_constant(
    seed: int, activation: str, skip: bool
) -> None:
    rng = np.random.default_rng(seed)
    mlp = FloatNetwork.random(1, 1, 4, ff=6, activation=activation, bias=0.3, seed=seed).layers[0][
        1
    ]
    assert mlp is not None
    X, Y = rng.standard_normal((2, 5, 4)) * 2
    apart = mlp.record(X, skip).apply(X) - mlp.record(Y, skip).apply(Y)
    assert norm(apart) <= lipschitz(mlp, skip) * norm(X - Y)


def test_the_exponential_is_below_its_bound_up_to_the_widest() -> None:
    x = np.linspace(1e-9, WIDEST, 10_000)
    assert (np.expm1(x) <= 2 * x).all()
    assert np.expm1(WIDEST + 0.001) > 2 * (WIDEST + 0.001)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"skip": True}, "a skip"),
        ({"causal": True}, "a causal mask"),
        ({"ff": 3, "activation": "relu2"}, "an MLP without a Lipschitz constant"),
    ],
)
def test_hypotheses_that_fail_are_named(more: dict, named: str) -> None:
    stack = FloatNetwork.random(2, 2, 4, init=0.1, seed=2, **more)
    found = bounds(stack, np.random.default_rng(2).standard_normal((4, 4)))
    assert found.missing == (named,)
    assert not found.applies.any()


def test_scores_far_apart_are_named_and_so_are_bounds_that_say_nothing() -> None:
    X = np.random.default_rng(3).standard_normal((4, 4))
    found = bounds(FloatNetwork.random(2, 2, 4, init=1.0, seed=3), 3 * X)
    assert found.widest[0] > WIDEST
    assert not found.shrinks[0]
    assert not found.applies[0]
    near = bounds(FloatNetwork.random(2, 2, 4, init=0.1, seed=3), X / 100)
    assert near.applies.all()
    assert near.shrinks.all()


def test_depth_overflows_nothing() -> None:
    stack = FloatNetwork.random(40, 2, 4, init=0.3, seed=4)
    found = bounds(stack, np.random.default_rng(4).standard_normal((4, 4)) / 1000)
    assert np.isfinite(found.theorem).all()
    assert found.theorem[-1] < -(10.0**15)
    assert not found.exceeded().any()
    document = json.loads(json.dumps(found.document()))
    assert document["constant"] == found.constant.tolist()
    assert document["missing"] == []
