"""Every trait of a mechanism holds on random keys and queries; what is not claimed does fail."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from segre.attention.mechanism import NAMED, Mechanism
from segre.attention.pattern import mixing, pattern, seen, unit_size
from segre.attention.reading import heads_of, one_of
from segre.errors import SpecError
from segre.fields.formal import Formal
from segre.fields.prime import Prime
from segre.fields.rational import Rational
from segre.fields.real import Real

OPTIONS = ("", ":causal", ":window=1", ":local=2", ":decay=0.9", ":causal:window=2")
TEXTS = [
    f"{name}{extra}{mask}"
    for name, extra, mask in product(
        (
            *("softmax", "lightning", "linear", "double", "fast", "fast:order=1:unit=none"),
            *("fast:order=2:unit=none", "fast:order=3:unit=sphere", "lightning:feature=square"),
            *("linear:feature=exp", "lightning:feature=relu", "linear:feature=silu"),
            *("linear:feature=square", "softmax:normalise=none", "fast:normalise=none:unit=none"),
        ),
        ("",),
        OPTIONS,
    )
] + ["gapless", "lightning:normalise=centred:feature=exp"]
every = pytest.mark.parametrize("mechanism", [one_of(text) for text in TEXTS], ids=TEXTS)
T, A = 4, 3


def weights(mechanism: Mechanism, K, Q, t: int = T):
    F = Real()
    K, Q = (unit_size(F, mechanism, X, len(X)) for X in (K, Q))
    return mixing(F, mechanism, K, Q, t)


def drawn(count: int = 20, t: int = T, a: int = A):
    rng = np.random.default_rng(5)
    return [2 * rng.standard_normal((2, a, t)) for _ in range(count)]


def always(found) -> bool:
    return bool(np.all(list(found)))


@every
def test_sums_to_one(mechanism: Mechanism) -> None:
    found = always(np.allclose(weights(mechanism, *KQ).sum(0), 1) for KQ in drawn())
    assert found == mechanism.sums_to_one


@every
def test_non_negative(mechanism: Mechanism) -> None:
    found = always((weights(mechanism, *KQ) >= 0).all() for KQ in drawn(200))
    assert found == mechanism.non_negative


@every
def test_every_key_gets_its_floor(mechanism: Mechanism) -> None:
    if not mechanism.sums_to_one:
        assert not mechanism.key_floor
        return
    least = min(weights(mechanism, 3 * K, 3 * Q).sum(1).min() for K, Q in drawn(200))
    if mechanism.key_floor:
        assert least >= 1 / T - 1e-12
    elif not mechanism.roots and mechanism.local is None:
        assert least < 1 / T


@every
def test_bilinear(mechanism: Mechanism) -> None:
    used = seen(mechanism, T)
    used = np.ones((T, T)) if used is None else used
    if mechanism.decay != "none":
        ago = np.arange(T)[None] - np.arange(T)[:, None]
        used = used * 0.9 ** np.maximum(ago, 0)
    found = always(np.allclose(weights(mechanism, K, Q), K.T @ Q * used) for K, Q in drawn())
    assert found == mechanism.bilinear


@every
def test_scales(mechanism: Mechanism) -> None:
    """A factor of queries is a factor of the weights, or its square is."""
    power = 2 if mechanism.feature == "square" else 1
    found = always(
        np.allclose(3**power * weights(mechanism, K, Q), weights(mechanism, K, 3 * Q))
        for K, Q in drawn()
    )
    assert found == mechanism.scales


@every
def test_homogeneous(mechanism: Mechanism) -> None:
    """A factor of all queries is one of every column: what normalising over keys removes."""
    if mechanism.unit != "none" or mechanism.normalise != "keys":
        return
    found = always(
        np.allclose(weights(mechanism, K, Q), weights(mechanism, K, 3 * Q)) for K, Q in drawn()
    )
    assert found == mechanism.homogeneous


@every
def test_ignores_shifts(mechanism: Mechanism) -> None:
    F, rng, used = Real(), np.random.default_rng(2), seen(mechanism, T)
    shown = None if used is None else F.constant(used)
    shift = np.array([1.0, -2, 3, 5])
    for trait, move in (("ignores_shifts", shift), ("ignores_key_shifts", shift[:, None])):
        found = always(
            np.allclose(
                pattern(F, mechanism, S, shown, used), pattern(F, mechanism, S + move, shown, used)
            )
            for S in rng.standard_normal((10, T, T))
        )
        assert found == getattr(mechanism, trait)


@every
def test_what_is_not_seen_has_no_weight(mechanism: Mechanism) -> None:
    used = seen(mechanism, T)
    assert (used is not None) == mechanism.masked
    for K, Q in drawn(5):
        P = weights(mechanism, K, Q)
        assert used is None or not P[used == 0].any()


@every
def test_alone_and_silent(mechanism: Mechanism) -> None:
    for t in (1, 2, 5):
        one, two = (weights(mechanism, *KQ, t=t) for KQ in drawn(2, t))
        off = [weights(mechanism, *KQ, t=t)[~np.eye(t, dtype=bool)] for KQ in drawn(5, t)]
        assert mechanism.alone(t) == (not np.any(off))
        if mechanism.silent(t):
            assert np.allclose(one, two)
        elif t > 1:
            assert not np.allclose(one, two)


@every
def test_features_bound_the_rank(mechanism: Mechanism) -> None:
    """The weights of many tokens, before normalising, have exactly this rank."""
    a, t = 3, 40
    features = mechanism.features(a)
    if mechanism.masked or mechanism.normalise == "both":
        return
    rng = np.random.default_rng(1)
    K, Q = rng.standard_normal((2, a, t)) / 3
    rank = np.linalg.matrix_rank(weights(mechanism, K, Q, t), tol=1e-9)
    assert features is None or rank == features
    if features is None:
        assert rank > 10


@pytest.mark.parametrize(
    ("text", "a", "size"),
    [
        *(("fast:unit=none:order=1", 5, 6), ("fast:unit=none", 5, 21)),
        *(("fast:unit=none:order=3", 5, 56), ("fast:order=1", 5, 5), ("fast", 5, 14)),
        *(("fast:order=3", 5, 30), ("lightning", 7, 7), ("softmax", 5, None)),
    ],
)
def test_sizes_of_feature_maps(text: str, a: int, size: int | None) -> None:
    assert one_of(text).features(a) == size


@every
def test_exponentials_and_roots_are_heard(mechanism: Mechanism) -> None:
    listener = Formal(Prime(), free_roots=True)
    keys, queries = (listener.constant(np.arange(k, k + 12).reshape(3, 4) ** 2) for k in (1, 5))
    keys, queries = (unit_size(listener, mechanism, x[None], 3) for x in (keys, queries))
    if not mechanism.piecewise:
        mixing(listener, mechanism, keys, queries, 4)
        assert bool(listener.exp_arguments) == mechanism.exponentials
    assert listener.took_roots == mechanism.roots


@every
def test_exactly(mechanism: Mechanism) -> None:
    """What is rational has the same traits over the rationals."""
    if mechanism.exponentials or mechanism.roots or mechanism.piecewise:
        return
    F = Rational()
    rng = np.random.default_rng(3)
    K, Q = (F.constant(rng.integers(1, 9, (A, T))) for _ in range(2))
    P = mixing(F, mechanism, K, Q, T)
    sums = [Fraction(str(x)) for x in P.sum(axis=0)]
    assert all(x == 1 for x in sums) == mechanism.sums_to_one
    floats = weights(mechanism, *(np.vectorize(float)(X) for X in (K, Q)))
    assert np.allclose(np.vectorize(lambda x: float(Fraction(str(x))))(P), floats)


@pytest.mark.parametrize("text", [*TEXTS, *NAMED])
def test_texts_read_back(text: str) -> None:
    one = one_of(text)
    assert one_of(one.text) == one


@pytest.mark.parametrize(
    ("one", "two", "t"),
    [
        *(("softmax:window=9", "softmax", 4), ("softmax:local=4", "softmax", 4)),
        *(("lightning:decay=1", "lightning:causal", 4), ("softmax:local=1", "softmax:window=0", 4)),
        *(("lightning:decay=0.5", "lightning:window=0", 1),),
    ],
)
def test_restrictions_that_do_not_restrict(one: str, two: str, t: int) -> None:
    K, Q = drawn(1, t)[0]
    first, second = one_of(one), one_of(two)
    assert np.array_equal(weights(first, K, Q, t), weights(second, K, Q, t))
    assert first.on(t) == second.on(t)


def test_heads_of_a_layer() -> None:
    found = heads_of("heads", "softmax*2+lightning:decay=slopes*4", NAMED["softmax"])
    assert [one.text for one in found[:3]] == ["softmax", "softmax", "lightning:decay=slope(2)"]
    rates = [one.decay.value for one in found[2:]]
    assert np.allclose(rates, np.exp(-(2.0 ** -np.array([2, 4, 6, 8]))))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lightning:decay=1.2", "allowed: 0 < decay <= 1"),
        ("lightning:decay=0", "allowed: 0 < decay <= 1"),
        ("lightning:decay=x", "decay: 'x' is not allowed"),
        ("gapless:causal", "with a mask"),
        ("softmax:window=x", "window: 'x' is not allowed"),
        ("fast:order=9", "order: 9 is not allowed"),
        ("softmax:order=2", "order: 2 is not allowed"),
        ("softmax:conv=full:kernel=2:causal", "a compressed key has no position"),
        ("softmax:gate=both", "gate: 'both' is not allowed"),
        ("softmax:colour=red", "unknown option 'colour'"),
        ("softmax:gate=head:gate=head", "given twice"),
        ("hard", "mechanism: 'hard' is not allowed"),
        ("softmax:local=0", "local: '0' is not allowed"),
    ],
)
def test_bad_mechanisms_are_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(SpecError) as error:
        one_of(text)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("mask", ["", ":causal", ":decay=0.5", ":local=2"])
def test_double_does_not_underflow(mask: str) -> None:
    """Scores of any size: all weights are there, and columns sum to one."""
    one = one_of(f"double{mask}")
    for K, Q in drawn(20):
        P = weights(one, 40 * K, 40 * Q)
        assert np.isfinite(P).all()
        assert np.allclose(P.sum(axis=0), 1)
        assert P.sum(axis=1).min() >= 1 / T - 1e-9
