"""The forward map against a naive one, and its Jacobian against differences."""

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings

from segre.architectures import Architecture
from segre.fields import Ball, Prime, Real
from segre.fields.draw import Stream
from segre.geometry.real_point import RealPoint
from segre.models import architecture
from segre.network import forward, jacobian, jacobian_rows, layer_starts, slots
from segre.spec import Network
from support.architectures import networks, random_gates, random_projections, random_transformers
from support.mixed_stacks import random_mixed_stack
from support.polynomials import random_polynomials


def naive_forward(net: Network, weights, X):
    """Head by head and token by token, in float64, straight from the definition."""
    for layer, start in zip(net.layers, layer_starts(net), strict=True):
        tensors = {
            slot.name: weights[slot.range].reshape(slot.shape) for slot in slots(layer, start)
        }
        out = np.zeros((layer.width_out, net.t))
        for h in range(layer.heads):
            K, Q, V = (tensors[name][h] for name in ("W_K", "W_Q", "W_V"))
            if "W_O" in tensors:
                V = tensors["W_O"][h] @ V
            for q in range(net.t):
                scores = [(K @ X[:, k]) @ (Q @ X[:, q]) for k in range(net.t)]
                if net.score == "softmax":
                    grown = np.exp(np.array(scores) - max(scores))
                    scores = list(grown / grown.sum())
                for k in range(net.t):
                    out[:, q] += scores[k] * (V @ X[:, k])
        X = out
    return X


def point(net: Network, seed: int = 0, inputs: int = 2):
    rng = np.random.default_rng(seed)
    return (
        rng.standard_normal(net.parameters) / 2,
        rng.standard_normal((inputs, net.widths[0], net.t)),
    )


@given(networks())
def test_forward_is_the_definition(net: Network) -> None:
    weights, X = point(net)
    found = forward(Real(), net, weights, X)
    for one, x in zip(found, X, strict=True):
        assert np.allclose(one, naive_forward(net, weights, x), rtol=1e-9, atol=1e-9)


@given(networks())
def test_one_weight_vector_per_input_is_the_same_as_one_at_a_time(net: Network) -> None:
    rng = np.random.default_rng(1)
    weights = rng.standard_normal((3, net.parameters))
    X = rng.standard_normal((3, net.widths[0], net.t))
    together = forward(Real(), net, weights, X)
    apart = [forward(Real(), net, w, x) for w, x in zip(weights, X, strict=True)]
    assert np.allclose(together, apart)


@given(networks(widest=4))
@settings(max_examples=40)
def test_jacobian_agrees_with_differences(net: Network) -> None:
    weights, X = point(net)
    found = jacobian(Real(), net, weights, X)
    step = 1e-5
    for j in range(net.parameters):
        shift = np.zeros(net.parameters)
        shift[j] = step
        ahead = forward(Real(), net, weights + shift, X)
        behind = forward(Real(), net, weights - shift, X)
        difference = ((ahead - behind) / (2 * step)).reshape(len(X), -1)
        scale = 1 + np.abs(difference).max()
        assert np.allclose(found[..., j] / scale, difference / scale, atol=1e-6)


@given(networks(widest=4, most_heads=2))
@settings(max_examples=30)
def test_fields_agree_on_polynomial_networks(net: Network) -> None:
    """Lightning at integers: mod p, in balls and exactly, the same Jacobian."""
    net = Network.parse({**net.document(), "kind": "lightning"})
    rng = np.random.default_rng(0)
    weights = rng.integers(-2, 3, net.parameters)
    X = rng.integers(-2, 3, (1, net.widths[0], net.t))
    field, balls = Prime(), Ball(256)
    residues = field.residues(
        jacobian(field, net, field.constant(weights), field.constant(X))
    ).reshape(-1)
    with balls.precision():
        enclosed = jacobian(balls, net, balls.constant(weights), balls.constant(X)).reshape(-1)
        integers = [ball.unique_fmpz() for ball in enclosed]
    assert residues.tolist() == [int(n) % field.p for n in integers]


@given(networks(widest=4, most_heads=2))
@settings(max_examples=30)
def test_balls_enclose_what_floats_compute(net: Network) -> None:
    weights, X = point(net, inputs=1)
    weights, X = np.round(weights, 3), np.round(X, 3)
    balls = Ball(128)
    floats = forward(Real(), net, weights, X)[0]
    with balls.precision():
        enclosed = forward(balls, net, balls.constant(weights), balls.constant(X))[0]
    middle = np.array([[float(ball) for ball in row] for row in enclosed])
    assert np.allclose(floats, middle, rtol=1e-10, atol=1e-10)


def test_chosen_outputs_are_rows_of_the_whole() -> None:
    net = Network.parse("softmax/d=3,4,2/a=2/heads=2/t=3")
    field = Prime()
    weights = field.draw(Stream.WEIGHTS, 0, (net.parameters,))
    X = field.draw(Stream.INPUTS, 0, (2, 3, 3))
    whole = jacobian(field, net, weights, X)
    chosen = np.array([4, 0, 5])
    assert (jacobian(field, net, weights, X, chosen) == whole[:, chosen]).all()


ROWS = [
    *(architecture(f"softmax/d=3,4,2/a=2/heads={heads}/t=3") for heads in (1, 2)),
    *random_transformers(3, 12),
    *random_projections(3, 4),
    *random_gates(3, 12),
    *map(random_mixed_stack, range(12)),
    *random_polynomials(3, 4),
]


@pytest.mark.parametrize("spec", ROWS, ids=str)
def test_rows_in_reverse_are_rows_of_the_jacobian(spec: Architecture) -> None:
    """Of every kind of architecture, in floats and in balls."""
    point = RealPoint(spec, 1)
    numbers, outputs = np.array([0, 3, 3, 5]), prod(spec.output_shape)
    chosen = np.random.default_rng(0).integers(outputs, size=len(numbers))
    X = point.inputs(numbers)
    expected = jacobian(Real(), spec, point.weights, X)[np.arange(len(numbers)), chosen]
    found = jacobian_rows(Real(), spec, point.weights, X, chosen)
    assert found == pytest.approx(expected, rel=1e-7, abs=1e-9 * (1 + np.abs(expected).max()))
    field = Ball(256)
    with field.precision():
        rows = jacobian_rows(field, spec, field.constant(point.weights), field.constant(X), chosen)
    middle = np.vectorize(float, otypes=[float])(rows)
    assert middle == pytest.approx(expected, rel=1e-7, abs=1e-9 * (1 + np.abs(expected).max()))


def test_softmax_survives_huge_scores_in_floats() -> None:
    net = Network.parse("softmax/d=2,2/a=2/t=3")
    weights, X = point(net)
    out = forward(Real(), net, weights * 1e3, X)
    assert np.isfinite(out).all()


@pytest.mark.parametrize("dv", ["none", "2"])
def test_weights_are_laid_out_as_documented(dv: str) -> None:
    net = Network.parse(f"softmax/d=3,4/a=2/heads=2/dv={dv}/t=3")
    shapes = {slot.name: slot.shape for slot in slots(net.layers[0])}
    value = {"none": {"W_V": (2, 4, 3)}, "2": {"W_V": (2, 2, 3), "W_O": (2, 4, 2)}}[dv]
    assert shapes == {"W_K": (2, 2, 3), "W_Q": (2, 2, 3), **value}
    assert slots(net.layers[0])[-1].range.stop == net.parameters
