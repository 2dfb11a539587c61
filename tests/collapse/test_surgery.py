"""Variants of real models: what they compute, and that the model is itself again afterwards."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from collapse import by_hand
from collapse.small_models import CAUSAL, FAMILIES, POST, small, tokens
from segre.collapse.double import in_double
from segre.collapse.models import Loaded
from segre.collapse.surgery import (
    ALL,
    ATTENTION,
    FULL,
    PAPER,
    PUBLISHED,
    Variant,
    modules,
    operated,
    run,
    variant,
)
from segre.errors import SpecError

BARE_MLP = Variant(mlp_skip=False)
EVERY = [*ALL, PUBLISHED[1], BARE_MLP, replace(PUBLISHED[1], norm=False)]
NAMES = [str(each) for each in ALL]
ROTARY = ("llama", "mistral", "qwen2", "qwen3")


def streams(loaded: Loaded, ids: torch.Tensor) -> list[Any]:
    found: list[Any] = []
    run(loaded, ids, lambda depth, X: found.append((depth, X.numpy().copy())))
    assert [depth for depth, _ in found] == list(range(loaded.layers + 1))
    return [X for _, X in found]


def whole(loaded: Loaded, ids: torch.Tensor) -> tuple[Any, ...]:
    """All hidden states as the library returns them."""
    with torch.inference_mode():
        out = loaded.model(input_ids=ids, output_hidden_states=True)
    return (*out.hidden_states, out.last_hidden_state)


def equal(left: Any, right: Any) -> bool:
    return all(torch.equal(x, y) for x, y in zip(left, right, strict=True))


# --- the model is itself again ---------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("cut", EVERY, ids=str)
def test_afterwards_the_model_is_bit_for_bit_the_same(family: str, cut: Variant) -> None:
    loaded, ids = small(family), tokens()
    whole(loaded, ids)  # the library leaves its own hooks at the first call
    before = whole(loaded, ids)
    inner = {module: dict(vars(module)) for module in loaded.model.modules()}
    with operated(loaded, cut):
        changed = whole(loaded, ids)
    assert equal(before, whole(loaded, ids))
    assert inner == {module: dict(vars(module)) for module in loaded.model.modules()}
    assert equal(before, changed) == (cut == FULL)


@pytest.mark.parametrize("family", FAMILIES)
def test_afterwards_it_is_the_same_however_it_ends(family: str) -> None:
    loaded, ids = small(family), tokens()
    before = whole(loaded, ids)

    def stop(depth: int, _X: Any) -> None:
        if depth == 2:
            raise KeyboardInterrupt

    for cut in EVERY:
        with pytest.raises(KeyboardInterrupt), operated(loaded, cut):
            run(loaded, ids, stop)
        assert equal(before, whole(loaded, ids))


# --- what is computed ------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_the_full_variant_has_the_hidden_states_of_the_library(family: str) -> None:
    loaded, ids = small(family), tokens()
    library = [X.numpy() for X in whole(loaded, ids)[:-1]]
    with operated(loaded, FULL):
        found = streams(loaded, ids)
    assert all(np.array_equal(x, y) for x, y in zip(found[:-1], library[:-1], strict=True))
    if family in POST:
        assert np.array_equal(found[-1], library[-1])
    else:  # the library's last state is after the final norm
        norm = loaded.model.ln_f if family == "gpt2" else loaded.model.norm
        with torch.inference_mode():
            assert np.array_equal(norm(torch.from_numpy(found[-1])).numpy(), library[-1])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("cut", EVERY, ids=str)
def test_every_variant_is_what_its_definition_says(family: str, cut: Variant) -> None:
    """Against layers written out by hand, in double precision."""
    loaded, ids = small(family), tokens(2)
    with in_double(loaded), operated(loaded, cut):
        found = streams(loaded, ids)
    for b in range(len(ids)):
        X = found[0][b]
        for depth, layer in enumerate(modules(loaded), start=1):
            X = expected(family, layer, X, cut, loaded.model)
            error = np.abs(X - found[depth][b]).max() / np.abs(X).max()
            assert error < (1e-6 if family in ROTARY else 1e-12)  # their frequencies are float32


def expected(family: str, layer: Any, X: Any, cut: Variant, model: Any) -> Any:
    first, second = by_hand.norms(family, layer) if cut.norm else ((lambda X: X),) * 2
    maps = [(first, lambda X: by_hand.ATTENTION[family](layer, X, model), cut.skip)]
    if cut.mlp:
        maps.append((second, lambda X: by_hand.mlp(family, layer, X), cut.skips_mlp))
    for norm, f, skip in maps:
        if family in POST:
            X = norm(X + f(X) if skip else f(X))
        else:
            X = X + f(norm(X)) if skip else f(norm(X))
    return X


@pytest.mark.parametrize("family", FAMILIES)
def test_all_variants_start_from_the_same_tokens(family: str) -> None:
    loaded, ids = small(family), tokens()
    starts = []
    for cut in ALL:
        with operated(loaded, cut):
            starts.append(streams(loaded, ids)[0])
    assert all(np.array_equal(starts[0], start) for start in starts)


@pytest.mark.parametrize("family", FAMILIES)
def test_inputs_of_a_batch_do_not_see_each_other(family: str) -> None:
    loaded, ids = small(family), tokens(3)
    with operated(loaded, ATTENTION):
        together, alone = streams(loaded, ids), streams(loaded, ids[1:2])
    assert np.allclose(together[-1][1], alone[-1][0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_without_positions_permuted_tokens_give_permuted_streams(name: str) -> None:
    loaded, ids, order = small("bert"), tokens(1), torch.randperm(9)
    table = loaded.model.embeddings.position_embeddings.weight
    kept = table.detach().clone()
    with torch.no_grad():
        table.zero_()
    try:
        with in_double(loaded), operated(loaded, variant(name)):
            straight, permuted = streams(loaded, ids), streams(loaded, ids[:, order])
    finally:
        with torch.no_grad():
            table.copy_(kept)
    for x, y in zip(straight, permuted, strict=True):
        assert np.allclose(x[:, order], y, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("family", CAUSAL)
@pytest.mark.parametrize("cut", PAPER, ids=str)
def test_tokens_of_causal_models_do_not_see_later_ones(family: str, cut: Variant) -> None:
    loaded, ids = small(family), tokens(1)
    other = ids.clone()
    other[0, -1] = (ids[0, -1] + 1) % 61
    with operated(loaded, cut):
        before, after = streams(loaded, ids), streams(loaded, other)
    assert np.allclose(before[-1][:, :-1], after[-1][:, :-1], rtol=1e-4, atol=1e-5)


# --- names -----------------------------------------------------------------------------------


def test_names_tell_variants_apart() -> None:
    assert len(set(ALL)) == len(set(NAMES)) == 8
    assert [variant(name) for name in NAMES] == list(ALL)
    assert len({str(each) for each in EVERY}) == len(EVERY)
    assert variant("attention+skipped-mlp") == PUBLISHED[1]
    assert [str(each) for each in PAPER] == ["attention", "attention+mlp", "attention+skip", "full"]
    with pytest.raises(SpecError, match=r"variant 'nothing': not known; allowed: attention, "):
        variant("nothing")
