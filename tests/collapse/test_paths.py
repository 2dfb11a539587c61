"""Sums over paths are those of the paths one by one, and add up to the network."""

import json
from collections import Counter
from itertools import product
from math import comb, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segre.collapse.commands import decompose
from segre.collapse.passes import SAME, Affine, Pass, RecordedLayer, TokenMap
from segre.collapse.paths import (
    head_products,
    head_shares,
    isolated,
    path_counts,
    path_shares,
    path_sums,
    path_term,
    sample_paths,
    share,
    shares_of,
)
from segre.collapse.residual import norm_inf
from segre.collapse.stack import FloatNetwork
from segre.errors import SegreError
from segre.models import architecture

N, D = 4, 5


def close(one, two, tolerance=1e-12) -> bool:
    return bool(np.abs(one - two).max() <= tolerance * max(1e-300, np.abs(two).max()))


def tokens(seed: int = 0):
    return np.random.default_rng(seed).standard_normal((N, D))


stacks = st.builds(
    FloatNetwork.random,
    layers=st.integers(1, 4),
    heads=st.integers(1, 3),
    d=st.just(D),
    k=st.integers(1, 3),
    v=st.integers(1, 3),
    ff=st.sampled_from([0, 0, 6]),
    bias=st.sampled_from([0.0, 0.4]),
    skip=st.booleans(),
    causal=st.booleans(),
    seed=st.integers(0, 10**6),
)


def all_paths(done: Pass):
    """Every path, one after the other: for small networks."""
    return product(*(range(1 - (layer.past is not None), layer.heads + 1) for layer in done.layers))


def brute(done: Pass) -> tuple[np.ndarray, dict]:
    """All paths listed, summed by length and by (layer, head)."""
    lengths = np.zeros((len(done.layers) + 1, N, D))
    heads: dict[tuple[int, int], np.ndarray] = {}
    for path in all_paths(done):
        term = path_term(done, path)
        lengths[sum(h > 0 for h in path)] += term
        for layer, h in enumerate(path):
            heads[layer, h] = heads.get((layer, h), 0) + term
    return lengths, heads


@given(stacks)
def test_sums_are_those_of_all_paths_listed(stack: FloatNetwork) -> None:
    done = stack.forward(tokens())
    lengths, heads = brute(done)
    found, against = path_sums(done), tokens(9)
    through = head_products(done, against)
    assert close(found.by_length, lengths)
    assert found.counts == tuple(
        Counter(sum(h > 0 for h in p) for p in all_paths(done))[k] for k in range(len(lengths))
    )
    for (layer, h), term in heads.items():
        along = (term * against).sum()
        if h:
            assert np.allclose(through[layer][h - 1], along, atol=1e-11)
        else:
            past = (found.by_length.sum(axis=0) * against).sum() - through[layer].sum()
            assert np.allclose(past, along, atol=1e-11)


@given(stacks)
def test_shares_add_up_to_one(stack: FloatNetwork) -> None:
    """By length with the biases; and in every layer, by head, past it, and the biases."""
    done = stack.forward(tokens())
    found, through = path_sums(done), head_shares(done)
    _, heads = brute(done)
    assert found.shares.sum() + found.bias_share == pytest.approx(1)
    for layer, own in enumerate(through):
        past = share(heads.get((layer, 0), np.zeros((N, D))), done.output)
        assert own.sum() + past + found.bias_share == pytest.approx(1)
        for h, one in enumerate(own, 1):
            assert one == pytest.approx(share(heads[layer, h], done.output), abs=1e-9)


def test_a_term_that_others_cancel_has_a_large_norm_and_no_share() -> None:
    """Two heads that write opposite things: what goes through them is gone."""
    rng = np.random.default_rng(0)
    V, W = rng.standard_normal((D, 2)), 100 * rng.standard_normal((2, D))
    P = np.full((N, N), 1 / N)
    layer = RecordedLayer(np.stack([P, P]), np.stack([V, V]), np.stack([W, -W]), past=SAME)
    done = Pass(tokens(), (layer,), tokens())
    found = path_sums(done)
    assert found.shares == pytest.approx([1, 0])
    assert np.abs(head_shares(done)[0]).max() > 1
    assert head_shares(done)[0].sum() == pytest.approx(0, abs=1e-9)


def test_of_nothing_there_are_no_shares() -> None:
    nothing = np.zeros((N, D))
    assert np.isnan(share(tokens(), nothing))


@given(stacks)
def test_paths_and_bias_add_up_to_the_network(stack: FloatNetwork) -> None:
    done = stack.forward(tokens())
    assert close(path_sums(done).total, done.output)


@pytest.mark.parametrize("skip", [True, False])
def test_more_paths_than_could_be_listed(skip: bool) -> None:
    done = FloatNetwork.random(12, 12, 24, bias=0.1, skip=skip, seed=1).forward(
        np.random.default_rng(1).standard_normal((6, 24))
    )
    found = path_sums(done)
    assert sum(found.counts) == (13**12 if skip else 12**12)
    assert close(found.total, done.output)


@given(stacks)
def test_a_path_of_length_k_is_in_the_sums_of_k_heads(stack: FloatNetwork) -> None:
    done = stack.forward(tokens())
    found = path_sums(done)
    weighted = sum(k * term for k, term in enumerate(found.by_length))
    through = head_products(done, against := tokens(3))
    assert np.allclose(
        sum(layer.sum() for layer in through), (weighted * against).sum(), atol=1e-10
    )


@given(stacks, st.floats(-2, 2))
def test_sums_are_linear_in_the_tokens(stack: FloatNetwork, c: float) -> None:
    """With the patterns of one pass; the bias does not depend on the tokens at all."""
    layers = stack.forward(tokens()).layers

    def sums(X: np.ndarray):
        return path_sums(Pass(X, layers, X))

    Y, Z = tokens(1), tokens(2)
    both = sums(Y + c * Z)
    assert np.allclose(both.by_length, sums(Y).by_length + c * sums(Z).by_length, atol=1e-11)
    assert (both.bias == sums(Y).bias).all()


@given(stacks.filter(lambda stack: stack.layers[0][1] is None))
def test_biases_are_alike_for_all_tokens_masked_or_not(stack: FloatNetwork) -> None:
    """And follow b <- b (sum_h W_h [+ 1]) + b_O + sum_h b_V W_O."""
    done = stack.forward(tokens())
    b = np.zeros(D)
    for heads, _ in stack.layers:
        step = b @ (heads.W_V @ heads.W_O).sum(axis=0) + b * stack.skip
        if heads.b_V is not None and heads.b_O is not None:
            step = step + heads.b_O + (heads.b_V[:, None] @ heads.W_O).sum(axis=0)[0]
        b = step
    assert np.allclose(path_sums(done).bias, b, atol=1e-12)


def contraction(P: np.ndarray) -> float:
    """By how much rows come closer at least (Dobrushin): half the largest distance of rows."""
    return float(np.abs(P[:, None] - P[None]).sum(axis=-1).max() / 2)


def diameter(X: np.ndarray) -> float:
    return float(np.abs(X[:, None] - X[None]).sum(axis=-1).max())


@given(stacks.filter(lambda stack: stack.layers[0][1] is None))
def test_tokens_of_long_paths_are_no_farther_apart_than_their_patterns_allow(
    stack: FloatNetwork,
) -> None:
    done = stack.forward(tokens())
    limits = np.zeros(len(done.layers) + 1)
    limits[0] = diameter(done.X)
    for layer in done.layers:
        W = layer.W_V @ layer.W_O
        factor = sum(contraction(P) * norm_inf(w) for P, w in zip(layer.P, W, strict=True))
        limits = limits * (layer.past is not None) + factor * np.concatenate([[0], limits[:-1]])
    for term, limit in zip(path_sums(done).by_length, limits, strict=True):
        assert diameter(term) <= limit * (1 + 1e-9) + 1e-12


def test_without_skips_all_paths_have_full_length() -> None:
    done = FloatNetwork.random(3, 2, D, k=2, v=2).forward(tokens())
    found = path_sums(done)
    assert found.counts == (0, 0, 0, 8)
    assert not found.by_length[:3].any()


def test_a_batch_is_one_at_a_time() -> None:
    stack = FloatNetwork.random(3, 2, D, k=2, v=2, bias=0.2, skip=True, ff=4)
    X = np.stack([tokens(1), tokens(2)])
    done = stack.forward(X)
    together, heads = path_sums(done), head_shares(done)
    for i, one in enumerate(X):
        alone = stack.forward(one)
        assert close(together.by_length[:, i], path_sums(alone).by_length)
        for both, own in zip(heads, head_shares(alone), strict=True):
            assert close(both[:, i], own)


def test_norms_and_layers_that_differ() -> None:
    """A layer behind a norm with a skip, then one with more heads, without, and a norm after it."""
    rng = np.random.default_rng(7)

    def norm_map(s: np.ndarray) -> TokenMap:
        shift = Affine(a=rng.standard_normal(D))
        return TokenMap((Affine(np.eye(D) - 1 / D, s=s), shift))

    def layer(heads: int, **more) -> RecordedLayer:
        P = rng.random((heads, N, N))
        W_V, W_O = rng.standard_normal((heads, D, 2)), rng.standard_normal((heads, 2, D))
        b_V, b_O = rng.standard_normal((heads, 2)), rng.standard_normal(D)
        return RecordedLayer(P / P.sum(-1, keepdims=True), W_V, W_O, b_V, b_O, **more)

    layers = (
        layer(1, past=SAME, before=norm_map(rng.random((N, 1)))),
        layer(3),
        layer(2, past=SAME, after=(norm_map(rng.random((N, D))),)),
    )
    done = Pass(tokens(7), layers, tokens(7))
    found, through = path_sums(done), head_products(done, tokens(8))
    lengths, heads = brute(done)
    assert found.counts == (0, 3, 9, 6)
    assert close(found.by_length, lengths)
    assert close(found.total, done.replay()[-1])
    assert through[1][2] == pytest.approx((heads[1, 3] * tokens(8)).sum())
    assert {len(path_term(done, path)) for path in sample_paths(done, 2, 20)} == {N}


# --- single paths ---------------------------------------------------------------------------


def test_samples_are_paths_of_the_length_and_uniform() -> None:
    done = FloatNetwork.random(3, 2, D, k=2, v=2, skip=True).forward(tokens())
    drawn = Counter(sample_paths(done, 2, 12_000, seed=3))
    assert set(drawn) == {p for p in all_paths(done) if sum(h > 0 for h in p) == 2}
    expected = 12_000 / len(drawn)
    assert sum((n - expected) ** 2 / expected for n in drawn.values()) < 31  # chi^2, 11, 0.1 %
    assert sample_paths(done, 2, 5, seed=3) == sample_paths(done, 2, 5, seed=3)


def test_samples_of_deep_networks() -> None:
    done = FloatNetwork.random(40, 3, 3, k=1, v=1, init=0.3, skip=True).forward(np.eye(2, 3))
    for length in (0, 1, 20, 40):
        for path in sample_paths(done, length, 3):
            assert sum(h > 0 for h in path) == length
            assert np.isfinite(path_term(done, path)).all()


def test_paths_that_are_not_there_are_refused() -> None:
    done = FloatNetwork.random(2, 2, D, k=2, v=2).forward(tokens())
    with pytest.raises(SegreError, match="allowed: 2"):
        sample_paths(done, 1, 1)
    with pytest.raises(SegreError, match="no step 0 in layer 1; allowed: 1 to 2"):
        path_term(done, (0, 1))
    with pytest.raises(SegreError, match="3 steps for 2 layers"):
        path_term(done, (1, 1, 1))


def test_an_isolated_path_is_the_term_only_in_the_first_layer() -> None:
    stack = FloatNetwork.random(2, 2, D, k=2, v=2, skip=True, seed=2)
    done = stack.forward(tokens())
    for path in [(1, 0), (2, 0)]:
        assert close(isolated(stack, path).forward(tokens()).output, path_term(done, path))
    alone = isolated(stack, (1, 2)).forward(tokens())
    assert [layer.heads for layer in alone.layers] == [1, 1]
    assert not close(alone.output, path_term(done, (1, 2)), 1e-3)
    assert close(isolated(stack, (0, 0)).forward(tokens()).output, tokens())


def test_sums_are_plain_data() -> None:
    done = FloatNetwork.random(2, 3, 6, bias=0.1, skip=True).forward(np.eye(4, 6))
    document = json.loads(json.dumps(path_sums(done).document()))
    assert document["counts"] == [1, 6, 9]
    assert len(document["norm"]) == len(document["residual"]) == 3
    found = decompose("softmax/d=6,6,6/a=2/heads=3/dv=2/t=4", skip=True)
    through = json.loads(json.dumps(found.document()))["through"]
    assert len(through["heads"]) == len(through["layers"]["share"]) == 2
    assert len(through["heads"][0]["share"]) == 3


# --- shares ---------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 6), max_size=6))
def test_counts_are_the_coefficients_of_a_product(heads: list[int]) -> None:
    counts = path_counts(heads)
    assert counts[0] == 1
    assert counts[-1] == prod(heads)
    for x in (1, 2, 10):
        assert sum(c * x**k for k, c in enumerate(counts)) == prod(1 + h * x for h in heads)


@given(st.integers(1, 120), st.integers(1, 128))
def test_shares_are_binomial(layers: int, heads: int) -> None:
    shares = path_shares(layers, heads)
    assert sum(shares) == pytest.approx(1)
    for k in (0, layers // 2, layers):
        assert path_counts([heads] * layers)[k] == comb(layers, k) * heads**k
    chance = heads / (heads + 1)
    mean = sum(k * share for k, share in enumerate(shares))
    assert mean == pytest.approx(layers * chance)


# layers, heads, and the shares of the two longest lengths, as published
PUBLISHED = {
    "DistilBERT": (6, 12, 0.6186, 0.3093),
    "BERT-base": (12, 12, 0.3827, 0.3827),
    "BERT-large": (24, 16, 0.2334, 0.3501),
    "ViT-H": (32, 16, 0.1437, 0.2874),
    "T5-3B": (24, 32, 0.4778, 0.3584),
    "T5-11B": (24, 128, 0.8296, 0.1556),
    "GPT-3": (96, 96, 0.3698, 0.3698),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_shares(name: str) -> None:
    layers, heads, longest, next_longest = PUBLISHED[name]
    shares = path_shares(layers, heads)
    assert shares[-1] == pytest.approx(longest, abs=5e-5)
    assert shares[-2] == pytest.approx(next_longest, abs=5e-5)


def test_shares_of_architectures() -> None:
    assert shares_of("gpt2") == shares_of("bert-base-uncased") == path_shares(12, 12)
    assert shares_of(architecture("bert-large-uncased")) == path_shares(24, 16)
    assert shares_of("softmax/d=4,4,4/a=2/heads=3/t=3") == [0, 0, 1]
    assert shares_of("transformer/d=4/heads=2/layers=2/residual=false/t=3") == [0, 0, 1]
