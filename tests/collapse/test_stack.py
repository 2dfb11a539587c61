"""Stacks are the networks of segre, and a recorded pass is an affine map that gives them again."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segre.collapse.activations import LIPSCHITZ
from segre.collapse.apart import Apart, ApartField
from segre.collapse.passes import Affine, TokenMap
from segre.collapse.stack import FloatNetwork, Heads, Mlp
from segre.errors import SegreError, UnsupportedError
from segre.fields import Real
from segre.network import forward
from segre.spec import Network
from segre.transformer.layers import activate as activated
from segre.transformer.spec import Transformer
from support.architectures import networks


def close(one, two, tolerance=1e-12) -> bool:
    return bool(np.abs(one - two).max() <= tolerance * max(1, np.abs(two).max()))


@given(networks(), st.integers(0, 99))
def test_a_stack_is_the_segre_network(net: Network, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal(net.parameters) / 2
    X = rng.standard_normal((2, net.width_in, net.t))
    if net.score != "softmax":
        with pytest.raises(UnsupportedError):
            FloatNetwork.from_network(net, weights)
        return
    found = FloatNetwork.from_network(net, weights).forward(X.mT).output
    assert close(found.mT, forward(Real(), net, weights, X))


@st.composite
def plain_transformers(draw) -> Transformer:
    heads, mlp = (
        draw(st.sampled_from([1, 2, 4])),
        draw(st.sampled_from(["none", *LIPSCHITZ][:1] + MLPS)),
    )
    return Transformer.from_mapping(
        {
            "d": draw(st.integers(1, 4)),
            "layers": draw(st.integers(1, 3)),
            "heads": heads,
            "kv": draw(st.sampled_from([n for n in (1, 2, 4) if heads % n == 0])),
            "head": draw(st.integers(1, 3)),
            "dv": draw(st.integers(1, 3)),
            "mlp": mlp,
            "ff": 0 if mlp == "none" else draw(st.integers(1, 4)),
            "bias": draw(st.sampled_from(["none", "qkv", "all"])),
            "causal": draw(st.booleans()),
            "residual": draw(st.booleans()),
            "share": draw(st.booleans()),
            "t": draw(st.integers(1, 4)),
        }
    )


MLPS = ["gelu", "gelu-tanh", "silu", "relu", "relu2"]


@given(plain_transformers(), st.integers(0, 99))
def test_a_stack_is_the_segre_transformer(net: Transformer, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal(net.parameters) / 4
    X = rng.standard_normal((2, net.d, net.t))
    found = FloatNetwork.from_network(net, weights).forward(X.mT).output
    assert close(found.mT, forward(Real(), net, weights, X))


@pytest.mark.parametrize(
    "more", ["norm=rms", "pos=rope/head=2", "mlp=swiglu/ff=3", "vocab=5", "attn=lightning", "cap=3"]
)
def test_what_a_stack_does_not_have_is_refused_by_name(more: str) -> None:
    net = Transformer.parse(f"transformer/d=4/heads=2/{more}/t=3")
    with pytest.raises(UnsupportedError, match="supported: plain softmax attention"):
        FloatNetwork.from_network(net, np.zeros(net.parameters))


stacks = st.builds(
    FloatNetwork.random,
    layers=st.integers(1, 3),
    heads=st.integers(1, 3),
    d=st.just(6),
    k=st.integers(1, 4),
    v=st.integers(1, 4),
    ff=st.sampled_from([0, 5]),
    activation=st.sampled_from(list(LIPSCHITZ)),
    init=st.sampled_from(["xavier", "bert", 0.5]),
    bias=st.sampled_from([0.0, 0.3]),
    skip=st.booleans(),
    causal=st.booleans(),
    mlp_skip=st.sampled_from([None, True, False]),
    seed=st.integers(0, 99),
)


@given(stacks)
def test_a_recorded_pass_replays_to_its_output(stack: FloatNetwork) -> None:
    done = stack.forward(np.random.default_rng(0).standard_normal((4, 6)))
    assert close(done.replay()[-1], done.output)
    for layer in done.layers:
        assert np.allclose(layer.P.sum(-1), 1)
        assert (layer.P >= 0).all()
        if stack.causal:
            assert not np.triu(layer.P, 1).any()


@given(stacks, st.floats(-2, 2))
def test_a_recorded_layer_is_affine(stack: FloatNetwork, c: float) -> None:
    """Its linear part is linear, and apart from it there is only a constant."""
    rng = np.random.default_rng(1)
    X, Y, Z = rng.standard_normal((3, 4, 6))
    for layer in stack.forward(X).layers:
        both = layer.apply(Y + c * Z, constants=False)
        apart = layer.apply(Y, constants=False) + c * layer.apply(Z, constants=False)
        assert close(both, apart)
        constant = layer.apply(np.zeros_like(Y))
        assert close(layer.apply(Y), layer.apply(Y, constants=False) + constant)


@given(stacks)
@settings(max_examples=20)
def test_the_key_bias_changes_nothing_without_a_query_bias_or_with(stack: FloatNetwork) -> None:
    """A key bias shifts each query's scores by a constant, which a softmax does not notice."""
    X = np.random.default_rng(2).standard_normal((4, 6))
    heads = stack.layers[0][0]
    shift = np.ones((heads.heads, heads.W_K.shape[-1]))
    moved = Heads(heads.W_Q, heads.W_K, heads.W_V, heads.W_O, heads.b_Q, shift)
    assert close(moved.patterns(X), heads.patterns(X))


@given(st.booleans(), st.booleans(), st.sampled_from([0, 5]))
@settings(max_examples=8)
def test_a_batch_of_networks_is_one_at_a_time(skip: bool, causal: bool, ff: int) -> None:
    batch = FloatNetwork.random(2, 2, 4, ff=ff, bias=0.2, skip=skip, causal=causal, batch=(3,))
    X = np.random.default_rng(3).standard_normal((3, 5, 4))
    together = batch.forward(X).output

    def nth(array, i):
        return None if array is None else array[i]

    for i in range(3):
        layers = []
        for heads, mlp in batch.layers:
            names = ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O")
            own = Heads(*(nth(getattr(heads, name), i) for name in names))
            names = ("W_1", "W_2", "b_1", "b_2")
            layers.append((own, mlp and Mlp(*(nth(getattr(mlp, name), i) for name in names))))
        assert close(FloatNetwork(tuple(layers), skip, causal).forward(X[i]).output, together[i])


def test_a_layer_norm_is_a_token_map() -> None:
    rng = np.random.default_rng(4)
    X, gain, shift = rng.standard_normal((5, 6)), rng.standard_normal(6), rng.standard_normal(6)
    centred = X - X.mean(-1, keepdims=True)
    wanted = centred / X.std(-1, keepdims=True) * gain + shift
    steps = (Affine(np.eye(6) - 1 / 6, s=gain / X.std(-1, keepdims=True)), Affine(a=shift))
    assert close(TokenMap(steps).apply(X), wanted)


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(SegreError, match="give k and v"):
        FloatNetwork.random(1, 4, 6)
    with pytest.raises(SegreError, match="allowed: identity"):
        FloatNetwork.random(1, 1, 2, ff=2, activation="sine").forward(np.ones((2, 2)))


# --- activations ---------------------------------------------------------------------------


def mean_slope(kind: str, z: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """The quotient of differences, as the field sees it that keeps steps apart."""
    columns = np.reshape(z, (1, 1, -1, 1))
    steps = np.ones_like(columns)
    # a step of 0 is one that is smaller than any float, so that only its logarithm is known
    size, power = np.frexp(shift) if shift else (np.array(1.0), np.array(-2000))
    x = Apart(columns, size * steps, power.astype(float), np.zeros_like(steps))
    found = activated(ApartField(), kind, x)
    gone = (found.exponent - power).astype(int)
    return np.reshape(np.ldexp(found.rest / size, gone), np.shape(z))


@given(
    st.sampled_from(list(LIPSCHITZ)),
    st.floats(-6, 6),
    st.floats(-3, 3).filter(lambda x: abs(x) > 1e-3),
)
def test_mean_slopes_are_quotients_of_differences(kind: str, z: float, shift: float) -> None:
    after, before = (activated(Real(), kind, np.array([[x]])) for x in (z + shift, z))
    wanted = (after - before).item() / shift
    assert mean_slope(kind, np.array(z), np.array(shift)) == pytest.approx(wanted, abs=1e-10)


@given(st.sampled_from(list(LIPSCHITZ)), st.floats(-6, 6).filter(lambda z: abs(z) > 1e-3))
def test_mean_slopes_of_tiny_steps_are_derivatives(kind: str, z: float) -> None:
    point = np.array(z)
    at = mean_slope(kind, point, np.array(0.0))
    assert mean_slope(kind, point, np.array(2.0**-996)) == at
    assert mean_slope(kind, point, np.array(1e-6)) == pytest.approx(at, abs=3e-6)


def test_lipschitz_constants_are_the_largest_slopes() -> None:
    z = np.linspace(-8, 8, 160_001)
    for kind, constant in LIPSCHITZ.items():
        if np.isfinite(constant):
            largest = np.abs(mean_slope(kind, z, np.array(0.0))).max()
            assert largest <= constant <= largest * (1 + 1e-4)
