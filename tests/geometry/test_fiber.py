"""Normal forms: equal along fibers, different across them; the way from one point to another."""

import numpy as np
import pytest
from hypothesis import given, settings

from segre.fields.rational import Rational
from segre.fields.real import Real
from segre.geometry.fiber import canonical, connect, random_element, sample
from segre.geometry.normal_form import difference, largest_residual
from segre.geometry.same import same_function
from segre.network import LayerWeights, forward
from segre.spec import Network
from segre.weights import Weights, common_kind
from support.architectures import networks

SPECS = [
    "softmax/d=3,3/a=2/t=3",
    "softmax/d=4,4,4/a=2/t=3",
    "softmax/d=3,5,2,4/a=2,1,2/t=2",
    "softmax/d=3,4,3/a=1/heads=3,2/t=3",
    "softmax/d=4,4,4/a=2/heads=2/dv=2/t=3",
    "lightning/d=4,4/a=2/t=3",
    "lightning/d=3,3,3/a=2/t=2",
    "lightning/d=4,2,4/a=2/t=3",
    "lightning/d=3,4,3/a=1/heads=2/dv=2/t=3",
    "lightning/d=2,2/a=2/heads=3/t=2",
]
EACH = 100  # 1,000 random weights and group elements in all


def floats(weights: Weights) -> np.ndarray:
    return common_kind([weights.vector, np.zeros(1)])[0]


def outputs(weights: Weights, seed: int = 0):
    spec = weights.spec
    X = np.random.default_rng(seed).standard_normal((3, spec.widths[0], spec.t))
    return forward(Real(), spec, floats(weights), X)


def close(x, y) -> bool:
    return bool(np.linalg.norm(x - y) <= 1e-7 * np.linalg.norm(x) + 1e-300)


@pytest.mark.parametrize("text", SPECS)
def test_normal_forms_agree_along_fibers_and_differ_across(text: str) -> None:
    spec = Network.parse(text)
    worst = 0.0
    for seed in range(EACH):
        w = Weights.random(spec, seed)
        moved, other = sample(w, seed), Weights.random(spec, seed + EACH)
        form = canonical(w)
        worst = max(worst, largest_residual(form, canonical(moved)))
        apart = difference(form, canonical(other))
        assert apart is not None
        assert apart.residual > 1e-3
    assert worst <= 1e-10


@pytest.mark.parametrize("text", SPECS)
def test_over_the_rationals_normal_forms_are_equal_exactly(text: str) -> None:
    spec = Network.parse(text)
    for seed in range(8):
        w = Weights.random(spec, seed, exact=True)
        moved = sample(w, seed)
        assert moved.exact
        assert list(moved.vector) != list(w.vector)
        assert difference(canonical(w), canonical(moved)) is None
        assert difference(canonical(w), canonical(Weights.random(spec, seed + 99, exact=True)))


@given(networks())
@settings(max_examples=80)
def test_samples_of_any_network_have_the_same_function_and_normal_form(net: Network) -> None:
    for exact in (False, True):
        w = Weights.random(net, 3, exact=exact)
        moved = sample(w, 4)
        assert close(outputs(w), outputs(moved))
        assert difference(canonical(w), canonical(moved)) is None
        normal = canonical(w).weights()
        if normal is not None:
            assert close(outputs(w), outputs(normal))
            again = canonical(normal).weights()
            assert again is not None
            assert close(floats(again), floats(normal))


@given(networks())
@settings(max_examples=60)
def test_the_element_that_connects_two_weights_is_found_and_checked(net: Network) -> None:
    for exact in (False, True):
        w = Weights.random(net, 1, exact=exact)
        moved = random_element(w, 2).apply(w)
        found = connect(w, moved)
        assert found.same
        if found.element is None:
            assert found.note
        else:
            assert found.residual is not None
            assert found.residual <= (0 if exact else 1e-8)


def test_generic_stacks_are_connected_by_name() -> None:
    for text in ("softmax/d=4,4,4/a=2/heads=2/t=3", "lightning/d=3,3,3/a=2/t=3"):
        w = Weights.random(Network.parse(text), 5, exact=True)
        g = random_element(w, 6)
        found = connect(w, g.apply(w))
        assert found.element is not None
        assert found.element.order == g.order
        for mine, theirs in zip(found.element.bases, g.bases, strict=True):
            assert mine.shape == theirs.shape
        assert list(found.element.apply(w).vector) == list(g.apply(w).vector)


def test_the_first_invariant_that_differs_is_named() -> None:
    spec = Network.parse("softmax/d=3,3,3/a=2/heads=2/t=2")
    w = Weights.random(spec, 0, exact=True)
    layers = list(w.layers)
    V = layers[1].W_V.copy()
    V[0, 0, 0] += 1
    layers[1] = LayerWeights(layers[1].W_K, layers[1].W_Q, V)
    found = connect(w, Weights.of_layers(spec, layers))
    assert not found.same
    assert found.difference is not None
    assert found.difference.invariant.startswith("layer 2")
    assert "values" in found.difference.invariant


def rank_one(swap: bool, exact: bool = True) -> Weights:
    u, w, k, q = (np.array(x) for x in ([1, 2], [1, 3, 0], [2, 0, 1], [1, 1, 5]))
    if swap:
        w, k = k, w
    spec = Network.parse("lightning/d=3,2/a=2/t=2")
    K, Q = np.zeros((1, 2, 3), int), np.zeros((1, 2, 3), int)
    K[0, 0], Q[0, 0] = k, q
    make = Rational().constant if exact else np.asarray
    layer = LayerWeights(make(K), make(Q), make(np.outer(u, w)[None]))
    weights = Weights.of_layers(spec, [layer])
    return weights if exact else Weights(spec, weights.vector.astype(float))


def test_one_lightning_layer_knows_the_rank_one_swap() -> None:
    one, two = rank_one(swap=False), rank_one(swap=True)
    assert same_function(one, two).verdict == "same"
    found = connect(one, two)
    assert found.same
    assert found.swapped
    seen = {tuple(sample(one, seed).layers[0].W_V[0].reshape(-1) != 0) for seed in range(20)}
    assert len(seen) == 2  # both sheets are sampled


def test_the_zero_function_has_a_large_fiber() -> None:
    spec = Network.parse("lightning/d=3,2/a=2/t=2")
    one, two = Weights.random(spec, 0, exact=True), Weights.random(spec, 1, exact=True)
    zero_V = Weights.of_layers(
        spec, [LayerWeights(one.layers[0].W_K, one.layers[0].W_Q, 0 * one.layers[0].W_V)]
    )
    zero_A = Weights.of_layers(
        spec, [LayerWeights(0 * two.layers[0].W_K, two.layers[0].W_Q, two.layers[0].W_V)]
    )
    assert same_function(zero_V, zero_A).verdict == "same"
    assert "zero function" in connect(zero_V, zero_A).note


def test_one_softmax_layer_has_the_trivial_fiber() -> None:
    """Only (K, Q) with the same A: any other change is seen."""
    spec = Network.parse("softmax/d=3,2/a=2/t=2")
    w = Weights.random(spec, 0, exact=True)
    scaled = LayerWeights(w.layers[0].W_K, w.layers[0].W_Q / 2, w.layers[0].W_V * 2)
    assert not connect(w, Weights.of_layers(spec, [scaled])).same
    assert connect(w, sample(w, 1)).same


def test_wide_and_narrow_networks_can_be_the_same_function() -> None:
    """Padding a hidden layer with directions that nothing reads changes no function."""
    narrow = Weights.random(Network.parse("softmax/d=3,2,3/a=2/t=2"), 0, exact=True)
    wide = Network.parse("softmax/d=3,4,3/a=2/t=2")
    zero = Rational().constant(np.zeros(1))[0]
    first, second = narrow.layers

    def padded(tensor, axis):
        shape = list(tensor.shape)
        shape[axis] = 2
        return np.concatenate([tensor, np.full(shape, zero)], axis=axis)

    layers = [
        LayerWeights(first.W_K, first.W_Q, padded(first.W_V, 1)),
        LayerWeights(*(padded(t, 2) for t in (second.W_K, second.W_Q, second.W_V))),
    ]
    other = Weights.of_layers(wide, layers)
    assert same_function(narrow, other).verdict == "same"
    assert same_function(narrow, sample(other, 3)).proved


@given(networks(widest=4, deepest=2, most_heads=2))
@settings(max_examples=40)
def test_same_decides_for_fractions(net: Network) -> None:
    w = Weights.random(net, 0, exact=True)
    yes = same_function(w, sample(w, 1))
    assert (yes.verdict, yes.proved) == ("same", True)
    no = same_function(w, Weights.random(net, 1, exact=True))
    assert (no.verdict, no.proved) == ("different", True)


def test_special_weights_are_undecided_rather_than_guessed() -> None:
    """Softmax heads with equal scores can trade values: one function, two normal forms."""
    spec = Network.parse("softmax/d=2,2/a=1/heads=2/t=2")
    w = Weights.random(spec, 0, exact=True).layers[0]
    K, Q = np.stack([w.W_K[0]] * 2), np.stack([w.W_Q[0]] * 2)
    one = Weights.of_layers(spec, [LayerWeights(K, Q, w.W_V)])
    traded = np.stack([w.W_V[0] + 1, w.W_V[1] - 1])
    two = Weights.of_layers(spec, [LayerWeights(K, Q, traded)])
    found = same_function(one, two)
    assert (found.verdict, found.proved) == ("undecided", False)


def test_floats_report_residuals() -> None:
    spec = Network.parse("softmax/d=3,3,3/a=2/t=2")
    w = Weights.random(spec, 0)
    found = same_function(w, sample(w, 1))
    assert (found.verdict, found.proved) == ("same", False)
    assert found.normal_form_residual is not None
    assert found.normal_form_residual < 1e-10
    nudged = Weights(spec, w.vector * (1 + 1e-4 * np.random.default_rng(0).random(spec.parameters)))
    assert same_function(w, nudged).verdict == "different"
