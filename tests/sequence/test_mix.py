"""Fast methods against attention by its definition: all pairs, a mask, one product."""

import tracemalloc
from dataclasses import replace
from fractions import Fraction
from math import comb, factorial

import numpy as np
import pytest

from segre.attention.mechanism import NAMED, Mechanism
from segre.errors import SegreError, SpecError, TooLargeError
from segre.sequence import Sizes, choose, crossover, feed, method_cost, methods, mix, state_size
from segre.sequence.forms import feature_count
from segre.sequence.running import start
from segre.sequence.taylor import coefficients, monomials, polynomial

SOFTMAX = NAMED["softmax"]
LIGHTNING = replace(NAMED["lightning"], causal=True)
LEARNED = replace(LIGHTNING, decay="learned")
TAYLOR = Mechanism(weigh="taylor", order=2)
BLOCKS = (None, 1, 7, 64, 203)


def by_definition(how, q, k, v, rates=(1.0,)):
    """The whole pattern at once, without features and units."""
    scores = q @ k.swapaxes(-1, -2)
    i, j = np.arange(q.shape[-2])[:, None], np.arange(k.shape[-2])[None]
    seen = np.ones((i.size, j.size), bool)
    if how.causal:
        seen &= j <= i
    if how.window is not None:
        seen &= abs(i - j) <= how.window
    if how.local is not None:
        seen &= i // how.local == j // how.local
    if how.weigh == "exp":
        weights = np.exp(scores)
    elif how.weigh == "taylor":
        weights = sum(scores**p / factorial(p) for p in range(how.order + 1))
    else:
        weights = scores
    if isinstance(how.decay, Fraction):
        rates = (float(how.decay),)
    decay = np.array(rates)[:, None, None] ** np.maximum(i - j, 0)
    weights = weights * seen * np.where(i >= j, decay, 1.0)
    if how.normalise == "both":
        weights = weights / weights.sum(-2, keepdims=True)
    if how.normalise != "none":
        weights = weights / weights.sum(-1, keepdims=True)
    if how.normalise == "centred":
        weights = weights - 1 / j.size
    return weights @ v


def drawn(seed=0, n=203, a=5, dv=4, heads=(3,), positive=False):
    rng = np.random.default_rng(seed)
    q, k, v = (0.7 * rng.standard_normal((*heads, n, width)) for width in (a, a, dv))
    return (abs(q), abs(k), v) if positive else (q, k, v)


def apart(found, expected):
    return abs(found - expected).max() / abs(expected).max()


@pytest.mark.parametrize("decay", ["none", Fraction(1), Fraction(9, 10), Fraction(1, 2)], ids=str)
@pytest.mark.parametrize("normalise", ["none", "keys"])
def test_blocks_are_dense_masked_attention(normalise, decay):
    how = replace(LIGHTNING, normalise=normalise, decay=decay)
    q, k, v = drawn(positive=normalise == "keys")
    right = by_definition(how, q, k, v)
    for block in BLOCKS:
        assert apart(mix(how, q, k, v, "linear", block=block), right) < 1e-12
        assert apart(mix(how, q, k, v, "dense", block=block), right) < 1e-12


def test_a_decay_for_each_head():
    rates = (1.0, 0.9, 0.5)
    q, k, v = drawn()
    right = by_definition(LEARNED, q, k, v, rates)
    for block in BLOCKS:
        for method in methods(LEARNED):
            found = mix(LEARNED, q, k, v, method, decay=rates, block=block)
            assert apart(found, right) < 1e-12


def test_decays_that_are_weights_may_be_any_numbers():
    rates = (-0.7, 1.05, 0.0)
    q, k, v = drawn(n=90)
    right = by_definition(LEARNED, q, k, v, rates)
    for method in methods(LEARNED):
        assert apart(mix(LEARNED, q, k, v, method, decay=rates), right) < 1e-12


@pytest.mark.parametrize("rate", [1.0, 0.9])
def test_a_hundred_thousand_tokens(rate):
    n = 100_000
    q, k, v = np.random.default_rng(0).standard_normal((3, n, 2))
    out = mix(LEARNED, q, k, v, "linear", decay=rate)
    state = np.zeros((2, 2))
    for i in range(n):
        state = rate * state + np.outer(k[i], v[i])
        if i % 9999 == 0 or i == n - 1:
            assert np.allclose(q[i] @ state, out[i], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("block", [None, 64, 2000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers_that_underflow_are_zero(dtype, block):
    how = replace(LIGHTNING, decay=Fraction(1, 2))
    q, k, v = np.random.default_rng(0).standard_normal((3, 100_000, 2)).astype(dtype)
    out = mix(how, q, k, v, "linear", block=block)
    assert out.dtype == dtype
    assert np.isfinite(out).all()
    last = slice(-300, None)
    near = by_definition(how, *(x[last][None].astype(float) for x in (q, k, v)))[0, -100:]
    assert apart(out[-100:], near) < (1e-12 if dtype == np.float64 else 1e-5)


@pytest.mark.parametrize("seed", range(12))
def test_chunks_one_by_one_are_one_call(seed):
    rng = np.random.default_rng(seed)
    taylor = int(rng.integers(4))
    how = Mechanism(
        weigh="taylor" if taylor else "identity",
        order=taylor,
        normalise=str(rng.choice(["none", "keys"])),
        feature=str(rng.choice(["none", "square", "exp", "relu", "elu1", "silu"])),
        causal=True,
        decay="learned",
    )
    rates = rng.uniform(0.2, 1, 3)
    q, k, v = drawn(seed, n=150, positive=True)
    cuts = sorted(rng.choice(150, 5, replace=False).tolist())
    parts, state = [], None
    for low, high in zip([0, *cuts], [*cuts, 150], strict=True):
        if low < high:
            own = [x[:, low:high] for x in (q, k, v)]
            block = int(rng.integers(1, 70))
            out, state = feed(how, *own, state, decay=rates, block=block)
            parts.append(out)
    right = mix(how, q, k, v, "dense", decay=rates)
    assert apart(np.concatenate(parts, 1), right) < 1e-12
    assert state.size == state_size(how, Sizes(150, 5, 4, 3))


@pytest.mark.parametrize("seed", range(12))
def test_windows_chunk_by_chunk(seed):
    rng = np.random.default_rng(seed)
    weigh = str(rng.choice(["identity", "exp"]))
    reach = {str(rng.choice(["window", "local"])): int(rng.integers(1, 30))}
    how = Mechanism(
        weigh=weigh,
        normalise="none" if weigh == "identity" else "keys",
        causal=True,
        decay="learned",
        **reach,
    )
    rates = rng.uniform(0.2, 1, 3)
    q, k, v = drawn(seed, n=150)
    right = mix(how, q, k, v, "dense", decay=rates)
    parts, state, low = [], None, 0
    while low < 150:
        high = low + int(rng.integers(1, 40))
        out, state = feed(how, *(x[:, low:high] for x in (q, k, v)), state, decay=rates)
        assert state.size <= state_size(how, Sizes(150, 5, 4, 3))
        parts.append(out)
        low = high
    assert apart(np.concatenate(parts, 1), right) < 1e-13


def test_one_token_at_a_time():
    rates = (0.9, 1.0, 0.3)
    q, k, v = drawn(n=30)
    state, found = None, []
    for i in range(30):
        out, state = feed(LEARNED, q[:, [i]], k[:, [i]], v[:, [i]], state, decay=rates)
        found.append(out)
    right = mix(LEARNED, q, k, v, "dense", decay=rates)
    assert apart(np.concatenate(found, 1), right) < 1e-13


@pytest.mark.parametrize("order", range(1, 9))
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
def test_taylor_features_are_dense(order, causal):
    for normalise in ("none", "keys"):
        how = Mechanism(weigh="taylor", order=order, normalise=normalise, causal=causal)
        q, k, v = drawn(order, a=3, positive=True)
        right = by_definition(how, q, k, v)
        assert apart(mix(how, q, k, v, "linear"), right) < 1e-14
        assert apart(mix(how, q, k, v, "dense"), right) < 1e-14


@pytest.mark.parametrize("a", [1, 2, 5])
@pytest.mark.parametrize("order", range(1, 9))
def test_there_are_as_many_features_as_monomials(a, order):
    rng = np.random.default_rng(order)
    x, y = rng.standard_normal((2, 40, a))
    Phi, Psi, scale = monomials(x, order), monomials(y, order), coefficients(a, order)
    assert Phi.shape == (40, comb(a + order, order))
    assert len(scale) == feature_count(Mechanism(weigh="taylor", order=order), a)
    sizes = polynomial(abs(x) @ abs(y).T, order)
    assert (abs(Phi * scale @ Psi.T - polynomial(x @ y.T, order)) < 1e-14 * sizes).all()


BANDS = [
    *(Mechanism(window=w, causal=c) for w in (0, 1, 9, 70, 500) for c in (False, True)),
    *(Mechanism(local=w, causal=c) for w in (1, 10, 70, 500) for c in (False, True)),
    Mechanism(weigh="identity", normalise="none", window=6),
    replace(LIGHTNING, window=6, decay=Fraction(4, 5)),
    replace(TAYLOR, window=20, causal=True),
    Mechanism(weigh="taylor", order=4, local=33),
    Mechanism(normalise="both", window=5),
    Mechanism(normalise="both", local=8, causal=True),
    Mechanism(window=20, local=33),
]
WHOLE = [
    SOFTMAX,
    Mechanism(causal=True),
    Mechanism(causal=True, decay=Fraction(4, 5)),
    Mechanism(normalise="none"),
    Mechanism(normalise="both"),
    Mechanism(normalise="both", causal=True),
    Mechanism(normalise="both", causal=True, decay=Fraction(4, 5)),
    replace(TAYLOR, normalise="both"),
    replace(TAYLOR, normalise="both", causal=True, decay=Fraction(4, 5)),
    Mechanism(normalise="centred"),
    replace(TAYLOR, normalise="centred"),
    Mechanism(weigh="identity", normalise="none"),
]


@pytest.mark.parametrize("how", [*BANDS, *WHOLE], ids=lambda how: how.text)
def test_bands_and_row_blocks_are_dense_masked_attention(how):
    q, k, v = drawn()
    right = by_definition(how, q, k, v)
    for method in ("auto", *methods(how)):
        for block in (None, 1, 7, 64):
            assert apart(mix(how, q, k, v, method, block=block), right) < 1e-13


def test_doubly_normalised_with_a_negative_decay():
    how = Mechanism(normalise="both", causal=True, decay="learned")
    q, k, v = drawn(n=6, heads=(2,))
    right = by_definition(how, q, k, v, (-0.3, 0.4))
    assert apart(mix(how, q, k, v, decay=(-0.3, 0.4)), right) < 1e-12


def test_large_scores_do_not_overflow():
    q, k, v = drawn(positive=True)
    for how in (SOFTMAX, Mechanism(causal=True), Mechanism(window=3), Mechanism(normalise="both")):
        assert np.isfinite(mix(how, 1e3 * q, 1e3 * k, v)).all()


def test_a_window_as_wide_as_the_sequence_and_decay_one_change_nothing():
    q, k, v = drawn()
    assert np.array_equal(mix(SOFTMAX, q, k, v), mix(Mechanism(window=203), q, k, v, "dense"))
    whole = mix(LIGHTNING, q, k, v, "linear")
    assert apart(mix(LEARNED, q, k, v, "linear", decay=1.0), whole) < 1e-15
    one = replace(LIGHTNING, decay=Fraction(1))
    assert np.array_equal(mix(one, q, k, v, "linear"), whole)


def test_fewer_keys_than_queries():
    q, k, v = drawn()
    k, v = k[:, :50], v[:, :50]
    for how in (SOFTMAX, TAYLOR, Mechanism(normalise="both"), Mechanism(normalise="centred")):
        for method in methods(how):
            assert apart(mix(how, q, k, v, method), by_definition(how, q, k, v)) < 1e-13


@pytest.mark.parametrize("seed", range(40))
def test_random_mechanisms(seed):
    rng = np.random.default_rng(seed)
    causal = bool(rng.integers(2))
    heads = tuple(rng.integers(1, 4, rng.integers(3)).tolist())
    weigh = str(rng.choice(["identity", "exp", "taylor"]))
    how = Mechanism(
        weigh=weigh,
        order=int(rng.integers(1, 5)) if weigh == "taylor" else 0,
        normalise=str(rng.choice(["none", "keys", "both"])),
        causal=causal,
        decay="learned" if causal else "none",
        window=int(rng.integers(0, 40)) if rng.integers(2) else None,
    )
    rates = rng.uniform(0.3, 1, heads[-1] if heads else 1) if causal else (1.0,)
    n, a, dv = (int(x) for x in rng.integers(1, (90, 6, 6)))
    q, k, v = drawn(seed, n, a, dv, heads, positive=True)
    deep = [x.reshape(-1, heads[-1] if heads else 1, *x.shape[-2:]) for x in (q, k, v)]
    right = by_definition(how, *deep, rates)
    for method in methods(how):
        found = mix(how, q, k, v, method, decay=rates)
        assert apart(found.reshape(right.shape), right) < 1e-12


def test_costs_are_those_of_the_method():
    for how in (SOFTMAX, LIGHTNING, TAYLOR, Mechanism(window=8), *BANDS):
        small, large = (Sizes(n, 16, 16, 2) for n in (1 << 14, 1 << 15))
        for method in methods(how):
            grown = (
                method_cost(how, large, method).operations
                / method_cost(how, small, method).operations
            )
            expected = 4 if method == "dense" else 2
            assert expected * 0.98 < grown < expected * 1.02
            assert method_cost(how, large, method).bytes < 1 << 26
    assert choose(LIGHTNING, Sizes(1 << 15, 64, 64)) == "linear"
    assert choose(Mechanism(window=8), Sizes(1 << 15, 64, 64)) == "band"
    assert crossover(SOFTMAX, Sizes(1, 64, 64)) is None
    meets = [crossover(TAYLOR, Sizes(1, a, a)) for a in (16, 32, 64)]
    assert meets == sorted(meets)


def test_states_do_not_grow():
    for how in (LIGHTNING, replace(TAYLOR, causal=True), Mechanism(window=5, causal=True)):
        assert state_size(how, Sizes(100, 4, 4)) == state_size(how, Sizes(1000, 4, 4))
    assert state_size(Mechanism(causal=True), Sizes(100, 4, 3)) == 700
    assert state_size(SOFTMAX, Sizes(100, 4, 4)) is None
    assert state_size(Mechanism(normalise="both", causal=True), Sizes(100, 4, 4)) is None


Q, K, V = drawn(n=6)
NEAR = Mechanism(window=2, causal=True)
NAN = np.where(np.arange(6)[:, None] == 2, np.nan, V)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: mix(SOFTMAX, Q, K, NAN), r"values: 12 of 72 numbers are NaN.*\(0, 2, 0\)"),
        (lambda: mix(SOFTMAX, Q, np.inf * np.abs(K), V), "keys: 90 of 90 numbers"),
        (lambda: mix(SOFTMAX, Q, K[:, :, :2], V), "shapes"),
        (lambda: mix(LIGHTNING, Q, K[:, :2], V[:, :2]), "shapes"),
        (lambda: mix(SOFTMAX, Q[0, 0], K[0], V[0]), "matrices"),
        (lambda: mix(SOFTMAX, Q[:, :0], K, V), "shapes"),
        (lambda: mix(SOFTMAX, Q + 1j, K, V), "complex128 is not allowed"),
        (lambda: mix(SOFTMAX, [["x"]], K, V), "real numbers"),
        (lambda: mix(SOFTMAX, [[1], [1, 2]], K, V), "rectangular"),
        (lambda: mix(LIGHTNING, Q, K, V, block=0), "block: 0"),
        (lambda: mix(LIGHTNING, Q, K, V, block=1.5), "block: 1.5"),
        (lambda: mix(LIGHTNING, Q, K, V, "band"), "no band form; allowed: auto, dense, linear"),
        (lambda: mix(SOFTMAX, Q, K, V, "linear"), "softmax has no linear form"),
        (lambda: mix(SOFTMAX, Q, K, V, "fast"), "allowed: auto, dense, linear, band"),
        (lambda: mix(LEARNED, Q, K, V, decay=(0.5, 0.5)), "2 numbers for 3 heads"),
        (lambda: mix(LEARNED, Q, K, V), "0 numbers for 3 heads"),
        (lambda: mix(LEARNED, Q, K, V, decay=np.nan), "finite"),
        (lambda: feed(Mechanism(causal=True), Q, K, V), "softmax:causal has no state"),
        (lambda: feed(LIGHTNING, Q, K, V, start(LIGHTNING, (3,), 4, 4, Q.dtype)), "state has"),
        (lambda: feed(NEAR, Q, K, V, start(LIGHTNING, (3,), 5, 4, Q.dtype)), "another mechanism"),
        (lambda: feed(LIGHTNING, Q, K, V, feed(NEAR, Q, K, V)[1]), "another mechanism"),
        (lambda: feed(NEAR, Q, K, V, feed(NEAR, Q[:2], K[:2], V[:2])[1]), "state has keys"),
        (lambda: feed(replace(NEAR, normalise="both"), Q, K, V), "has no state"),
    ],
)
def test_bad_input_is_one_line(call, said):
    with pytest.raises(SegreError, match=said) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("decay", [Fraction(6, 5), Fraction(0), Fraction(-1, 2)])
def test_decays_of_mechanisms_are_at_most_one(decay):
    with pytest.raises(SpecError, match="0 < decay <= 1"):
        replace(LIGHTNING, decay=decay)


def test_the_memory_limit():
    with pytest.raises(TooLargeError, match=r"^softmax has no linear-time form; 6 tok.* --memory"):
        mix(SOFTMAX, Q, K, V, memory=100)
    with pytest.raises(TooLargeError, match=r"^6 tokens"):
        mix(LIGHTNING, Q, K, V, memory=100)


@pytest.mark.parametrize(
    "how", [LIGHTNING, SOFTMAX, Mechanism(window=9), TAYLOR], ids=lambda how: how.text
)
def test_memory_is_linear_in_the_number_of_tokens(how):
    """What is held at a time, with the output: never a pattern of n x n."""
    held = []
    for n in (4096, 8192):
        q, k, v = drawn(n=n, heads=())
        tracemalloc.start()
        mix(how, q, k, v)
        held.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert held[1] < 2.2 * held[0]
    assert held[1] < 8192**2
