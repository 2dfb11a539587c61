"""Every trait that a mechanism declares holds on random scores; every other one fails."""

import numpy as np
import pytest

from segre.attention import MECHANISMS
from segre.attention.mechanism import Mechanism
from segre.fields.formal import Formal
from segre.fields.prime import Prime
from segre.fields.real import Real

every = pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=lambda one: one.name)
masks = pytest.mark.parametrize("masked", [False, True], ids=["all", "causal"])


def patterns(mechanism: Mechanism, masked: bool, change=lambda S: S):
    """Twenty random score matrices, as they are and changed, and their patterns."""
    F, rng = Real(), np.random.default_rng(5)
    used = np.triu(np.ones((4, 4), dtype=int)) if masked else None
    seen = None if used is None else F.constant(used)
    for _ in range(20):
        S = 3 * rng.standard_normal((4, 4))
        yield (
            S * (1 if used is None else used),
            mechanism.pattern(F, S, seen, used),
            mechanism.pattern(F, change(S), seen, used),
        )


def always(found) -> bool:
    return bool(np.all(list(found)))


@every
@masks
def test_sums_to_one(mechanism: Mechanism, masked: bool) -> None:
    found = always(np.allclose(P.sum(0), 1) for _, P, _ in patterns(mechanism, masked))
    assert found == mechanism.sums_to_one


@every
@masks
def test_non_negative(mechanism: Mechanism, masked: bool) -> None:
    assert always((P >= 0).all() for _, P, _ in patterns(mechanism, masked)) == (
        mechanism.non_negative
    )


@every
@masks
def test_bilinear(mechanism: Mechanism, masked: bool) -> None:
    found = always(np.allclose(P, S) for S, P, _ in patterns(mechanism, masked))
    assert found == mechanism.bilinear


@every
@masks
def test_scales(mechanism: Mechanism, masked: bool) -> None:
    triples = patterns(mechanism, masked, lambda S: 3 * S)
    assert always(np.allclose(3 * P, Q) for _, P, Q in triples) == mechanism.scales


@every
@masks
def test_ignores_shifts(mechanism: Mechanism, masked: bool) -> None:
    triples = patterns(mechanism, masked, lambda S: S + np.array([1.0, -2, 3, 5]))
    assert always(np.allclose(P, Q) for _, P, Q in triples) == mechanism.ignores_shifts


@every
@masks
def test_what_is_not_seen_has_no_weight(mechanism: Mechanism, masked: bool) -> None:
    blind = [np.tril(P, -1).any() for _, P, _ in patterns(mechanism, masked)]
    assert any(blind) != masked


@every
@pytest.mark.parametrize("tokens", [1, 2, 5])
def test_silent(mechanism: Mechanism, tokens: int) -> None:
    F, rng = Real(), np.random.default_rng(tokens)
    one, two = (mechanism.pattern(F, rng.standard_normal((tokens, tokens))) for _ in range(2))
    assert np.allclose(one, two) == mechanism.silent(tokens)


@every
def test_exponentials_are_heard(mechanism: Mechanism) -> None:
    listener = Formal(Prime())
    mechanism.pattern(listener, listener.constant(np.arange(4).reshape(2, 2)))
    assert bool(listener.exp_arguments) == mechanism.exponentials
