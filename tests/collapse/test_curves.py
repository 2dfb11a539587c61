"""Curves of real models: the measures of their streams, and what attention does to tokens."""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from collapse.small_models import CAUSAL, CONFIGS, FAMILIES, POST, small, tokens
from segre.collapse import curves as module
from segre.collapse.curves import Curve, cost, curves
from segre.collapse.inputs import Inputs, random_tokens
from segre.collapse.models import Loaded, load
from segre.collapse.residual import Measures
from segre.collapse.surgery import ALL, ATTENTION, FULL, PAPER, Variant, operated, run

MEASURES = ("relative", "relative_frobenius", "cosine", "size")


def deep(family: str, layers: int = 8, seed: int = 0) -> Loaded:
    """A model as the library initialises it."""
    key = {"gpt2": "n_layer", "xlnet": "n_layer"}.get(family, "num_hidden_layers")
    return load({**CONFIGS[family], key: layers}, seed)


@contextmanager
def scaled(loaded: Loaded, name: str, factor: float) -> Iterator[None]:
    """Inside, weights of this name are larger or smaller."""
    kept = {key: weight.clone() for key, weight in loaded.model.state_dict().items()}
    with torch.no_grad():
        for key, weight in loaded.model.named_parameters():
            if name in key:
                weight *= factor
    try:
        yield
    finally:
        loaded.model.load_state_dict(kept)


# --- what is measured ------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_curves_are_the_measures_of_the_streams(family: str) -> None:
    loaded, inputs = small(family), random_tokens(small(family), 5, 9)
    found = curves(loaded, inputs, ALL, ranks=True)
    for curve in found.curves:
        streams: list[Any] = []
        with operated(loaded, curve.variant):
            run(loaded, inputs.batches[0], lambda _, X, s=streams: s.append(X.numpy().copy()))
        for depth, X in enumerate(streams):
            every = Measures.of(X)
            size = np.sqrt((X.astype(float) ** 2).mean(axis=(1, 2)))
            for name in MEASURES:
                right = size if name == "size" else vars(every)[name]
                error = np.abs(curve.values[name][depth] - right)
                assert (error <= 1e-5 * np.abs(right) + 3e-6).all()
            assert np.array_equal(curve.values["rank"][depth], every.rank)
            assert np.allclose(curve.spectrum[depth], every.spectrum.mean(0))


@pytest.mark.parametrize("n", [2, 3, 100, 129])
def test_equal_tokens_have_no_residual(n: int) -> None:
    X = torch.randn(4, 1, 50).expand(4, n, 50)
    found = module._of_streams(torch, X)
    assert not found["relative"].any()
    assert not found["relative_frobenius"].any()
    assert np.allclose(found["cosine"].numpy(), 1, atol=1e-5)
    nothing = module._of_streams(torch, torch.zeros(2, n, 50))
    assert not any(value.any() for value in nothing.values())


def test_means_and_spreads_are_over_inputs_whatever_their_batches() -> None:
    loaded = small("qwen2")
    whole = random_tokens(loaded, 6, 7)
    parts = replace(whole, batches=whole.batches[0].split(4))
    one, two = curves(loaded, whole, PAPER), curves(loaded, parts, PAPER)
    for left, right in zip(one.curves, two.curves, strict=True):
        for name in MEASURES:
            assert left.values[name].shape == (4, 6)
            assert np.allclose(left.values[name], right.values[name], rtol=1e-4, atol=1e-6)
            assert np.array_equal(left.mean(name), left.values[name].mean(1))
            assert np.array_equal(left.spread(name), left.values[name].std(1))


def test_inputs_of_several_lengths_are_measured_together() -> None:
    loaded = small("bert")
    mixed = Inputs((tokens(2, 5), tokens(3, 9)), "mixed")
    found = curves(loaded, mixed, [ATTENTION], ranks=True)
    apart = [curves(loaded, Inputs((batch,), "one"), [ATTENTION]) for batch in mixed.batches]
    joined = np.concatenate([part[ATTENTION].values["relative"] for part in apart], axis=1)
    assert np.array_equal(found[ATTENTION].values["relative"], joined)
    assert found[ATTENTION].spectrum.shape == (4, 9)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_model_is_the_same_afterwards(family: str) -> None:
    loaded, ids = small(family), tokens()
    with torch.inference_mode():
        before = loaded.model(input_ids=ids).last_hidden_state
        curves(loaded, random_tokens(loaded, 2, 6), ALL)
        assert torch.equal(before, loaded.model(input_ids=ids).last_hidden_state)


# --- what attention does ---------------------------------------------------------------------


@pytest.mark.parametrize("family", POST)
@pytest.mark.parametrize("seed", [0, 1])
def test_without_skips_tokens_become_alike_and_with_skips_they_do_not(
    family: str, seed: int
) -> None:
    loaded = deep(family, seed=seed)
    found = curves(loaded, random_tokens(loaded, 4, 16, seed), ALL)
    for curve in found.curves:
        means = curve.mean()
        if curve.variant.skip:
            assert means.min() > 0.2
        else:
            assert curve.below(1e-3) is not None
            assert means[-1] < 1e-5
            assert curve.mean("cosine")[-1] > 1 - 1e-5


@pytest.mark.parametrize("family", CAUSAL)
def test_behind_a_causal_mask_it_takes_longer(family: str) -> None:
    """Where all tokens are seen, a few layers suffice; here residuals fall layer by layer."""
    loaded = deep(family, layers=12)
    found = curves(loaded, random_tokens(loaded, 4, 16), [ATTENTION, FULL])
    means = found[ATTENTION].mean()
    assert found[ATTENTION].below(1e-3) is None
    assert means[-1] < means[6] < means[0]
    assert means[-1] < found[FULL].mean()[-1]


def test_ranks_fall_to_one() -> None:
    loaded = deep("bert")
    curve = curves(loaded, random_tokens(loaded, 2, 16), [ATTENTION], ranks=True)[ATTENTION]
    assert (curve.values["rank"][0] == 16).all()
    assert (curve.values["rank"][-1] == 1).all()
    assert np.allclose(curve.values["stable_rank"][-1], 1)


def test_equal_tokens_stay_equal() -> None:
    """Of one token, many times: xlnet has no positions but in its patterns."""
    loaded = small("xlnet")
    inputs = Inputs((torch.full((2, 8), 5),), "one token")
    for curve in curves(loaded, inputs, ALL).curves:
        assert curve.mean().max() < 1e-6


# --- numbers that are lost -------------------------------------------------------------------


def test_overflow_is_seen_and_written_as_null() -> None:
    loaded = small("gpt2")
    bare = Variant(norm=False)
    with scaled(loaded, "mlp.c_proj.weight", 1e15):
        found = curves(loaded, random_tokens(loaded, 2, 6), [bare, FULL], ranks=True)
    curve = found[bare]
    assert curve.lost == 3
    assert curve.below(1e9) == 0
    assert curve.below(1e-3) is None
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    assert document["curves"][0]["relative"]["mean"][3] is None
    assert document["curves"][0]["lost"] == 3


def test_streams_that_vanish_do_not_count_as_collapsed() -> None:
    loaded = small("gpt2")
    bare = Variant(skip=False, mlp=False, norm=False)
    with scaled(loaded, "attn.c_proj", 1e-35):
        curve = curves(loaded, random_tokens(loaded, 2, 6), [bare])[bare]
    assert curve.lost == 1
    assert curve.below(1e-3) is None


# --- documents, progress, cost ---------------------------------------------------------------


def test_documents_say_what_was_measured_and_how() -> None:
    loaded = small("llama")
    found = curves(loaded, random_tokens(loaded, 3, 5, seed=8), PAPER)
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    assert document["inputs"] == {"kind": "random tokens", "count": 3, "length": 5, "seed": 8}
    assert [curve["variant"] for curve in document["curves"]] == [str(each) for each in PAPER]
    assert document["curves"][0]["skip"] is False
    for curve in document["curves"]:
        for name in MEASURES:
            assert len(curve[name]["mean"]) == found.layers + 1 == 4
            assert curve[name]["lowest"][1] <= curve[name]["mean"][1] <= curve[name]["highest"][1]


def test_progress_is_told_and_ends() -> None:
    told: list[tuple[str, int, int]] = []
    loaded = small("bert")
    inputs = Inputs((tokens(1), tokens(2)), "two")
    curves(loaded, inputs, PAPER, progress=lambda *now: told.append(now))
    assert [done for _, done, _ in told] == list(range(9))
    assert {total for _, _, total in told} == {8}


def test_the_cost_of_measuring_can_be_measured() -> None:
    loaded = small("bert")
    found = cost(loaded, random_tokens(loaded, 2, 8), repeats=2)
    assert found.plain > 0
    assert found.ratio == found.measured / found.plain


def test_numbers_that_are_not_finite_are_told_quietly() -> None:
    values = np.array([[1.0, 2.0], [np.inf, 1.0], [np.inf, np.nan]])
    curve = Curve(FULL, {"relative": values, "size": values})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = curve.document()
    assert found["relative"]["mean"] == [1.5, None, None]
    assert found["relative"]["spread"] == [0.5, None, None]
    assert found["lost"] == 1
