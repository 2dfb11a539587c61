"""Recorded passes: the matrices reproduce the hidden states of the model, in double precision."""

from typing import Any

import numpy as np
import pytest
import torch

from collapse.small_models import CAUSAL, FAMILIES, small, tokens
from segre.collapse.double import in_double
from segre.collapse.recorder import BARE, record
from segre.collapse.surgery import ALL, FULL, PUBLISHED, Variant, operated, run
from segre.errors import SpecError, TooLargeError


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("cut", [*ALL, PUBLISHED[1]], ids=str)
def test_replaying_the_matrices_gives_the_hidden_states(family: str, cut: Variant) -> None:
    loaded, ids = small(family), tokens(2)
    done = record(loaded, ids, cut)
    states: list[Any] = []
    with in_double(loaded), operated(loaded, cut):
        run(loaded, ids, lambda _, X: states.append(X.numpy().copy()))
    assert np.array_equal(done.X, states[0])
    assert np.array_equal(done.output, states[-1])
    for ours, theirs in zip(done.replay(), states, strict=True):
        assert np.abs(ours - theirs).max() <= 1e-12 * np.abs(theirs).max()


@pytest.mark.parametrize("family", FAMILIES)
def test_patterns_are_row_stochastic(family: str) -> None:
    loaded, ids = small(family), tokens(2)
    for layer in record(loaded, ids).layers:
        assert layer.P.shape == (2, 4, 9, 9)
        assert (layer.P >= 0).all()
        assert np.allclose(layer.P.sum(-1), 1, rtol=0, atol=1e-14)
        if family in CAUSAL:
            assert not np.triu(layer.P, 1).any()


@pytest.mark.parametrize("family", FAMILIES)
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


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_is_its_inputs(family: str) -> None:
    loaded, ids = small(family), tokens(2)
    for cut in (BARE, FULL):
        both, one = record(loaded, ids, cut), record(loaded, ids[1].tolist(), cut)
        assert one.X.shape == (9, 24)
        assert np.allclose(both.output[1], one.output, rtol=1e-10, atol=1e-12)
        assert np.allclose(both.layers[-1].P[1], one.layers[-1].P, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_single_and_double_precision_agree_as_far_as_single_goes(family: str) -> None:
    loaded, ids = small(family), tokens(1)
    seen: dict[int, Any] = {}
    run(loaded, ids, lambda depth, X: seen.update({depth: X.numpy().copy()}))
    done = record(loaded, ids, FULL)
    assert np.abs(seen[loaded.layers] - done.output).max() < 1e-4 * np.abs(done.output).max()


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
def test_queries_of_a_group_share_their_values(family: str) -> None:
    layer = record(small(family), tokens(1)[0]).layers[0]
    assert layer.W_V.shape[0] == layer.W_O.shape[0] == 4
    assert np.array_equal(layer.W_V[0], layer.W_V[1])
    assert np.array_equal(layer.W_V[2], layer.W_V[3])
    assert not np.array_equal(layer.W_V[1], layer.W_V[2])


@pytest.mark.parametrize("family", FAMILIES)
def test_afterwards_the_model_is_bit_for_bit_the_same(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, ids = small(family), tokens()
    state = {name: value.clone() for name, value in loaded.model.state_dict().items()}

    def output() -> Any:
        with torch.inference_mode():
            return loaded.model(input_ids=ids).last_hidden_state

    before = output()
    record(loaded, ids, FULL)
    with pytest.raises(IndexError):
        record(loaded, torch.tensor([0, 61]))  # a token that it does not know
    assert torch.equal(before, output())
    for name, value in loaded.model.state_dict().items():
        assert value.dtype == state[name].dtype
        assert torch.equal(value, state[name])


def test_a_skip_is_recorded_as_one() -> None:
    done = record(small("bert"), tokens(1)[0], Variant(mlp=False, norm=False))
    assert all(layer.skip for layer in done.layers)
    without = done.layers[0].apply(done.X) - done.X
    with_none = record(small("bert"), tokens(1)[0]).layers[0].apply(done.X)
    assert np.allclose(without, with_none, rtol=1e-12, atol=1e-12)


def test_what_cannot_be_recorded_is_refused() -> None:
    loaded = small("bert")
    with pytest.raises(SpecError, match=r"tokens of shape \[1, 2, 3\]"):
        record(loaded, torch.zeros(1, 2, 3, dtype=torch.long))
    with pytest.raises(SpecError, match=r"tokens of shape \[0\]"):
        record(loaded, torch.zeros(0, dtype=torch.long))
    with pytest.raises(TooLargeError, match="over the limit"):
        record(loaded, tokens(1), memory=1000)
