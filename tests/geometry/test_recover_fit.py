"""Architectures that can only be fitted: what is found is verified, and failure is admitted."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from segre.errors import SegreError
from segre.fields.interface import Array
from segre.fields.real import Real
from segre.geometry.recover import (
    NotDetermined,
    NotRecovered,
    Recovered,
    Samples,
    TooFewInputs,
    fit,
    recover,
)
from segre.geometry.recovery.answer import canonical, standard_errors
from segre.geometry.recovery.fit import descend, inputs_needed
from segre.network import forward, jacobian
from segre.spec import Network
from segre.weights import Weights


def samples_of(weights: Weights, count: int, seed: int = 0) -> Samples:
    shape = (count, weights.spec.widths[0], weights.spec.t)
    X = np.random.default_rng(seed).standard_normal(shape)
    return Samples(X, forward(Real(), weights.spec, weights.vector, X))


def box_of(weights: Weights) -> Any:
    return lambda X: forward(Real(), weights.spec, weights.vector, X)


def relative(found: Array, truth: Array) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def head_error(found: Recovered, weights: Weights) -> float:
    """The largest relative error of V and A, for the best order of the heads."""
    V, A = canonical(weights.spec, weights.vector)
    return min(
        max(
            max(relative(head.V, V[h]), relative(head.A, A[h]))
            for head, h in zip(found.heads, order, strict=True)
        )
        for order in permutations(range(len(V)))
    )


@pytest.mark.parametrize("seed", range(3))
def test_two_softmax_heads_up_to_order_and_gauge(seed: int) -> None:
    weights = Weights.random(Network.parse("softmax/d=3,3/a=1/heads=2/t=3"), seed)
    found = recover(samples_of(weights, 30, seed), weights.spec, starts=12, seed=seed)
    assert found.status == "fitted"
    assert found.starts == 12
    assert found.success_rate is not None
    assert 0 < found.success_rate <= 1
    assert found.residual <= 1e-6
    assert head_error(found, weights) <= 1e-8
    sizes = [np.linalg.norm(head.V) for head in found.heads]
    assert sizes == sorted(sizes, reverse=True)


def test_a_black_box_with_two_heads() -> None:
    weights = Weights.random(Network.parse("softmax/d=3,2/a=2/heads=2/dv=1/t=3"), 4)
    found = recover(box_of(weights), weights.spec, starts=8)
    assert head_error(found, weights) <= 1e-8
    assert found.inputs >= inputs_needed(weights.spec)


@pytest.mark.parametrize("spec", ["lightning/d=2,2,2/a=2/t=3", "softmax/d=2,3,2/a=2/t=3"])
def test_two_layers_up_to_gauge(spec: str) -> None:
    weights = Weights.random(Network.parse(spec), 3)
    found = recover(samples_of(weights, 40), weights.spec, starts=12)
    assert found.success_rate is not None
    assert 0 < found.success_rate <= 1
    truth = canonical(weights.spec, weights.vector)
    assert len(found.products) == len(truth) == 3
    for matrix, right in zip(found.products, truth, strict=True):
        assert relative(matrix, right[0]) <= 1e-6
    with pytest.raises(SegreError, match="products"):
        _ = found.V
    assert len(found.document()["products"]) == 3


def test_the_visible_matrices_ignore_the_gauge() -> None:
    """Symmetries of docs/mathematics.md change the weights and nothing that is visible."""
    rng = np.random.default_rng(0)
    spec = Network.parse("lightning/d=3,3,3/a=2/t=3")
    weights = Weights.random(spec, 1)
    first, second = weights.layers
    C, G = rng.standard_normal((3, 3)), rng.standard_normal((2, 2))
    vector = np.concatenate(
        [
            x.reshape(-1)
            for x in (
                np.linalg.inv(G).T @ first.W_K / 2,
                G @ first.W_Q,
                2 * C @ first.W_V,
                second.W_K @ np.linalg.inv(C),
                -second.W_Q @ np.linalg.inv(C),
                -second.W_V @ np.linalg.inv(C),
            )
        ]
    )
    X = rng.standard_normal((3, 3, 3))
    assert np.allclose(
        forward(Real(), spec, weights.vector, X), forward(Real(), spec, vector, X), rtol=1e-9
    )
    for a, b in zip(canonical(spec, weights.vector), canonical(spec, vector), strict=True):
        assert np.allclose(a, b, rtol=1e-8)


@pytest.mark.parametrize(
    "spec",
    ["softmax/d=3,3/a=1/heads=2/t=3", "lightning/d=2,2,2/a=2/t=3", "softmax/d=2,2,2/a=1/t=3"],
)
def test_standard_errors_of_fits(spec: str) -> None:
    """Errors divided by standard errors have mean square one."""
    net = Network.parse(spec)
    squares = []
    for seed in range(16):
        weights = Weights.random(net, seed)
        clean = samples_of(weights, 30, seed)
        size = 1e-5 * np.sqrt(np.mean(clean.Y**2))
        rng = np.random.default_rng([seed, 1])  # not the numbers that the inputs were drawn from
        noisy = Samples(clean.X, clean.Y + size * rng.standard_normal(clean.Y.shape))
        vector = descend(net, noisy, weights.vector)
        for found, truth, error in zip(
            canonical(net, vector),
            canonical(net, weights.vector),
            standard_errors(net, vector, noisy),
            strict=True,
        ):
            seen = error > 1e-12 * np.abs(truth).max()  # the entry that the scale fixes is not
            squares.append(np.mean(((found - truth)[seen] / error[seen]) ** 2))
    assert 0.5 < np.median(squares) < 2
    assert 0.5 < np.mean(np.minimum(squares, 10)) < 2


def test_weakly_seen_directions_are_not_taken_for_symmetries() -> None:
    """Inputs squeezed to 1e-5 in one direction show A in it to 1e-10 only: errors must say so."""
    net = Network.parse("softmax/d=2,2/a=2/t=3")
    ratios = []
    for seed in range(6):
        weights = Weights.random(net, seed)
        rng = np.random.default_rng([seed, 1])
        turn = np.linalg.qr(rng.standard_normal((2, 2)))[0]
        X = turn @ np.diag([1.0, 1e-5]) @ turn.T @ rng.standard_normal((60, 2, 3))
        Y = forward(Real(), net, weights.vector, X)
        noisy = Samples(X, Y + 1e-13 * rng.standard_normal(Y.shape))
        vector = descend(net, noisy, weights.vector)
        (_, A), (_, truth) = canonical(net, vector), canonical(net, weights.vector)
        error = standard_errors(net, vector, noisy)[1]
        assert 1e-6 < np.linalg.norm(error) / np.linalg.norm(truth) < 1
        ratios.append(np.linalg.norm(A - truth) / np.linalg.norm(error))
    assert max(ratios) < 5


def test_noise_needs_a_tolerance_and_then_has_an_error() -> None:
    weights = Weights.random(Network.parse("softmax/d=3,3/a=1/heads=2/t=3"), 0)
    clean = samples_of(weights, 60)
    rng = np.random.default_rng([0, 1])
    noisy = Samples(clean.X, clean.Y + 1e-3 * rng.standard_normal(clean.Y.shape))
    with pytest.raises(NotRecovered, match="tolerance"):
        recover(noisy, weights.spec, starts=2)
    found = recover(noisy, weights.spec, starts=8, tolerance=0.02)
    assert found.error is not None
    assert head_error(found, weights) < 5 * found.error < 0.5


def test_failure_is_admitted() -> None:
    X = np.random.default_rng(0).standard_normal((40, 3, 3))
    other = Samples(X, np.abs(X))
    for spec in ("softmax/d=3,3/a=1/heads=2/t=3", "lightning/d=3,3,3/a=2/t=3"):
        with pytest.raises(NotRecovered, match="none of 2 starts") as caught:
            recover(other, spec, starts=2)
        assert caught.value.exit_code == 3
        search = fit(Network.parse(spec), other, starts=2)
        assert (search.successes, search.success_rate) == (0, 0)
        assert search.residual == min(search.residuals) > search.tolerance


def test_a_fit_is_judged_by_inputs_it_has_not_seen() -> None:
    """As many weights as data fit anything; the inputs held out tell."""
    spec = Network.parse("softmax/d=2,2/a=2/heads=2/t=2")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9, 2, 2))
    search = fit(spec, Samples(X, rng.standard_normal((9, 2, 2))), starts=4)
    assert search.successes == 0


def test_what_no_data_or_too_few_data_determine() -> None:
    weights = Weights.random(Network.parse("softmax/d=3,3/a=1/heads=2/t=3"), 0)
    with pytest.raises(TooFewInputs, match="dimensions"):
        recover(samples_of(weights, 4), weights.spec)
    same = samples_of(weights, 40)[np.zeros(40, dtype=int)]
    with pytest.raises(TooFewInputs, match="dimensions"):
        recover(same, weights.spec)
    with pytest.raises(NotDetermined, match="zero function"):
        recover(lambda X: np.zeros((3, 3)), weights.spec)
    with pytest.raises(NotDetermined, match="parallel"):
        recover(box_of(weights), "lightning/d=3,3,3/a=1,2/t=3")
    with pytest.raises(NotDetermined, match="t = 1"):
        recover(box_of(weights), "softmax/d=3,3/a=1/heads=2/t=1")


def test_what_is_found_but_not_unique_says_so() -> None:
    several = Weights.random(Network.parse("lightning/d=2,2/a=1/heads=2/t=3"), 0)
    found = recover(samples_of(several, 30), several.spec, starts=6)
    assert found.error is None
    assert any("lightning heads" in note for note in found.notes)
    assert found.weights is not None
    X = np.random.default_rng(5).standard_normal((4, 2, 3))
    predicted = forward(Real(), several.spec, found.weights.vector, X)
    assert np.allclose(predicted, forward(Real(), several.spec, several.vector, X), atol=1e-6)
    deep = Weights.random(Network.parse("softmax/d=2,2,2/a=1/heads=2,1/t=2"), 0)
    stack = recover(samples_of(deep, 60), deep.spec, starts=10)
    assert stack.heads == stack.products == ()
    assert any("only weights" in note for note in stack.notes)


def test_descent_ends_where_the_gradient_is_zero() -> None:
    spec = Network.parse("softmax/d=3,3/a=2/t=3")
    rng = np.random.default_rng(0)
    samples = Samples(rng.standard_normal((20, 3, 3)), rng.standard_normal((20, 3, 3)))
    vector = descend(spec, samples, Weights.random(spec, 0).vector, steps=2000)
    J = jacobian(Real(), spec, vector, samples.X).reshape(-1, spec.parameters)
    r = (forward(Real(), spec, vector, samples.X) - samples.Y).reshape(-1)
    assert np.linalg.norm(J.T @ r) <= 1e-3 * np.linalg.norm(J) * np.linalg.norm(r)
    start = Weights.random(spec, 0).vector
    before = forward(Real(), spec, start, samples.X) - samples.Y
    assert r @ r < (before**2).sum()
