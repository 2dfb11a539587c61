"""Recorded passes: the matrices reproduce the hidden states of the model, in double precision."""

import numpy as np
import pytest
import torch
from bench.double import Double

from collapse.test_paths import all_paths
from collapse.test_variants import streams
from segre.checkpoint.runnable import load
from segre.collapse.paths import head_shares, path_sums, path_term
from segre.collapse.record import record
from segre.collapse.variants import ALL, BARE, FULL, PUBLISHED, Variant
from segre.errors import SpecError, TooLargeError, UnsupportedError
from support.small_models import CAUSAL, RECORDED, WHOLE, library, small, tokens

EVERY = [*ALL, PUBLISHED[1]]


@pytest.mark.parametrize("family", RECORDED)
def test_replaying_the_matrices_gives_the_hidden_states(family: str) -> None:
    loaded, ids = small(family), tokens(2)
    for cut, states in zip(EVERY, streams(loaded, ids, EVERY), strict=True):
        done = record(loaded, ids, cut)
        assert np.array_equal(done.X, states[0])
        assert np.array_equal(done.output, states[-1])
        for ours, theirs in zip(done.replay(), states, strict=True):
            assert np.abs(ours - theirs).max() <= 1e-12 * np.abs(theirs).max()


@pytest.mark.parametrize("family", RECORDED)
def test_the_sum_over_all_paths_is_the_output(family: str) -> None:
    loaded, ids = small(family), tokens(1)[0]
    for cut in (FULL, Variant(skip=False), BARE):
        done = record(loaded, ids, cut)
        sums = path_sums(done)
        size = np.abs(done.output).max()
        assert np.abs(sums.total - done.output).max() <= 1e-11 * size
        paths = list(all_paths(done))
        assert len(paths) == sum(sums.counts)
        some = sum(path_term(done, path) for path in paths)
        assert np.abs(some + sums.bias - done.output).max() <= 1e-11 * size


@pytest.mark.parametrize("family", RECORDED)
def test_patterns_are_those_of_the_library(family: str) -> None:
    loaded, ids = small(family), tokens(2)
    with torch.inference_mode(), Double():
        out = library(family)(input_ids=torch.tensor(ids), output_attentions=True)
    done = record(loaded, ids, FULL)
    for layer, theirs in zip(done.layers, out.attentions, strict=True):
        assert layer.P.shape == (2, 4, 9, 9)
        assert np.abs(layer.P - theirs.numpy()).max() < 1e-10
        assert (layer.P >= 0).all()
        if family in WHOLE:
            assert np.allclose(layer.P.sum(-1), 1, rtol=0, atol=1e-14)
        else:
            assert (layer.P.sum(-1) < 1).all()
        if family in CAUSAL:
            assert not np.triu(layer.P, 1).any()


@pytest.mark.parametrize("family", [f for f in WHOLE if f != "deepseek_v3"])
def test_bare_layers_are_sums_over_heads(family: str) -> None:
    """X' = sum_h P_h X W_V W_O + 1 b^T, with one b for all tokens."""
    done = record(small(family), tokens(1)[0])
    X = done.X
    for layer in done.layers:
        W = layer.W_V @ layer.W_O
        b = np.zeros(X.shape[1]) if layer.b_O is None else layer.b_O
        if layer.b_V is not None:
            b = b + np.einsum("hv,hvd->d", layer.b_V, layer.W_O)
        X = sum(P @ X @ W_h for P, W_h in zip(layer.P, W, strict=True)) + b
    assert np.abs(X - done.output).max() <= 1e-12 * np.abs(done.output).max()


@pytest.mark.parametrize("family", RECORDED)
def test_a_batch_is_its_inputs(family: str) -> None:
    loaded, ids = small(family), tokens(2)
    for cut in (BARE, FULL):
        both, one = record(loaded, ids, cut), record(loaded, ids[1].tolist(), cut)
        assert one.X.shape == (9, 24)
        assert np.allclose(both.output[1], one.output, rtol=1e-10, atol=1e-12)
        assert np.allclose(both.layers[-1].P[1], one.layers[-1].P, rtol=1e-10, atol=1e-12)
        assert np.allclose(path_sums(both).bias[1], path_sums(one).bias, rtol=1e-9, atol=1e-11)
        shares = [layer[:, 1] for layer in head_shares(both)]
        assert np.allclose(shares, head_shares(one), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    "family",
    [
        "llama",
        "mistral",
        "qwen2",
        "qwen3",
        "gemma",
        "gemma2",
        "gemma3_text",
        "smollm3",
        "granite",
        "phi3",
        "olmo2",
    ],
)
def test_queries_of_a_group_share_their_values(family: str) -> None:
    layer = record(small(family), tokens(1)[0]).layers[0]
    assert layer.W_V.shape[0] == layer.W_O.shape[0] == 4
    assert np.array_equal(layer.W_V[0], layer.W_V[1])
    assert np.array_equal(layer.W_V[2], layer.W_V[3])
    assert not np.array_equal(layer.W_V[1], layer.W_V[2])


def test_a_skip_is_recorded_as_one() -> None:
    done = record(small("bert"), tokens(1)[0], Variant(mlp=False, norm=False))
    assert all(layer.past for layer in done.layers)
    without = done.layers[0].apply(done.X) - done.X
    with_none = record(small("bert"), tokens(1)[0]).layers[0].apply(done.X)
    assert np.allclose(without, with_none, rtol=1e-12, atol=1e-12)


def test_what_cannot_be_recorded_is_refused() -> None:
    loaded = small("bert")
    with pytest.raises(SpecError, match=r"tokens have shape \[1, 2, 3\]"):
        record(loaded, np.zeros((1, 2, 3), dtype=int))
    with pytest.raises(SpecError, match=r"tokens have shape \[0\]"):
        record(loaded, np.zeros(0, dtype=int))
    with pytest.raises(SpecError, match="not in the vocabulary"):
        record(loaded, [0, 61])
    with pytest.raises(TooLargeError, match="over the limit"):
        record(loaded, tokens(1), memory=1000)
    lightning = load("transformer/d=4/heads=2/attn=lightning/vocab=9/t=4")
    with pytest.raises(UnsupportedError, match="lightning attention is not supported"):
        record(lightning, [0, 1])
