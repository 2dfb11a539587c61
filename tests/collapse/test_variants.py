"""Variants of transformers: what they compute, against the library and layers written by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from segre.collapse.models import Loaded
from segre.collapse.variants import ALL, ALONE, FULL, PAPER, PUBLISHED, Variant, variant
from segre.errors import SpecError
from segre.fields import Real
from segre.transformer.forward import Tokens, outputs, run
from support import by_hand
from support.small_models import (
    CAUSAL,
    FAMILIES,
    PLAIN,
    POST,
    library,
    modules,
    small,
    states,
    tokens,
)

BARE_MLP = Variant(mlp_skip=False)
EVERY = [*ALL, PUBLISHED[1], BARE_MLP, replace(PUBLISHED[1], norm=False)]
NAMES = [str(each) for each in ALL]


def streams(
    loaded: Loaded, ids: np.ndarray, cuts: list[Variant], dtype: Any = np.float64
) -> list[list[np.ndarray]]:
    """Of every variant, the streams before the layers and after each: (inputs, tokens, width)."""
    found: list[list[np.ndarray]] = [[] for _ in cuts]

    def see(depth: int, place: int, _batch: int, x: np.ndarray) -> None:
        assert len(found[place]) == depth
        found[place].append(x[:, 0, 0].swapaxes(1, 2))

    run(loaded.weights, [Tokens(ids)], Real(dtype), [cut.edit for cut in cuts], see)
    return found


def furthest(right: np.ndarray, found: np.ndarray) -> float:
    return float(np.abs(right - found).max() / np.abs(right).max())


@pytest.mark.parametrize("family", FAMILIES)
def test_the_model_as_it_is_has_the_hidden_states_of_the_library(family: str) -> None:
    loaded, ids = small(family), tokens()
    right = states(family, ids)
    for dtype, close in ((np.float64, 1e-10), (np.float32, 1e-5)):
        (found,) = streams(loaded, ids, [FULL], dtype)
        assert found[-1].dtype == dtype
        ends = len(right) if family in POST else len(right) - 1
        if family != "minimax":  # of which the library shows the stream before its norms
            for ours, theirs in zip(found[:ends], right[:ends], strict=True):
                assert furthest(theirs, ours) < close
        last = outputs(loaded.weights, Tokens(ids), Real(dtype))  # with the final norm
        assert furthest(right[-1], last.swapaxes(1, 2)) < close


@pytest.mark.parametrize("family", PLAIN)
def test_every_variant_is_what_its_definition_says(family: str) -> None:
    """Against layers written out by hand, in double precision."""
    loaded, ids = small(family), tokens(2)
    for cut, found in zip(EVERY, streams(loaded, ids, EVERY), strict=True):
        for b in range(len(ids)):
            X = found[0][b]
            for depth, layer in enumerate(modules(family), start=1):
                X = expected(family, layer, X, cut)
                assert furthest(X, found[depth][b]) < 1e-12


def expected(family: str, layer: Any, X: Any, cut: Variant) -> Any:
    first, second = by_hand.norms(family, layer) if cut.norm else ((lambda X: X),) * 2
    attention = by_hand.ATTENTION[family]
    maps = [(first, lambda X: attention(layer, X, library(family)), cut.skip)]
    if cut.mlp:
        maps.append((second, lambda X: by_hand.mlp(family, layer, X), cut.skips_mlp))
    for norm, f, skip in maps:
        if family in POST:
            X = norm(X + f(X) if skip else f(X))
        else:
            X = X + f(norm(X)) if skip else f(norm(X))
    return X


@pytest.mark.parametrize("family", ["gemma2", "deepseek_v3"])
def test_layers_without_skips_are_those_of_the_library_without_its_input(family: str) -> None:
    """y - x of a layer with skips, sub-layer by sub-layer: the modules of the library itself."""
    loaded, ids = small(family), tokens(1)
    with_skip, without = streams(loaded, ids, [Variant(mlp=False), ALONE])
    assert furthest(without[1], with_skip[1] - with_skip[0]) < 1e-12
    full, bare = streams(loaded, ids, [FULL, BARE_MLP])
    assert furthest(bare[1], full[1] - with_skip[1]) < 1e-12
    layer = modules(family)[0]
    with torch.inference_mode():
        norm = layer.pre_feedforward_layernorm if family == "gemma2" else None
        norm = norm or layer.post_attention_layernorm
        X = torch.tensor(np.array(with_skip[1]))
        right = layer.mlp(norm(X))
        right = layer.post_feedforward_layernorm(right) if family == "gemma2" else right
    assert furthest(right.numpy(), bare[1]) < 1e-6  # the library's norms are in float32


@pytest.mark.parametrize("family", FAMILIES)
def test_all_variants_start_from_the_same_tokens_and_run_alike_alone(family: str) -> None:
    loaded, ids = small(family), tokens(3)
    together = streams(loaded, ids, list(ALL))
    assert all(np.array_equal(together[0][0], found[0]) for found in together)
    for cut, found in zip(ALL, together, strict=True):
        (alone,) = streams(loaded, ids[1:2], [cut])
        assert furthest(alone[-1][0], found[-1][1]) < 1e-10


@pytest.mark.parametrize("name", NAMES)
def test_without_positions_permuted_tokens_give_permuted_streams(name: str) -> None:
    loaded, ids = small("bert", (("positions", 0.0),)), tokens(1)
    order = np.random.default_rng(1).permutation(9)
    (straight,) = streams(loaded, ids, [variant(name)])
    (permuted,) = streams(loaded, ids[:, order], [variant(name)])
    for x, y in zip(straight, permuted, strict=True):
        assert np.allclose(x[:, order], y, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("family", CAUSAL)
def test_tokens_of_causal_models_do_not_see_later_ones(family: str) -> None:
    loaded, ids = small(family), tokens(1)
    other = ids.copy()
    other[0, -1] = (ids[0, -1] + 1) % 61
    pairs = zip(streams(loaded, ids, [*PAPER]), streams(loaded, other, [*PAPER]), strict=True)
    for before, after in pairs:
        assert np.allclose(before[-1][:, :-1], after[-1][:, :-1], rtol=1e-10, atol=1e-12)
        assert not np.allclose(before[-1][:, -1], after[-1][:, -1])


def test_lengths_are_those_of_the_inputs() -> None:
    """The first tokens of a causal model are the same however many come after them."""
    loaded, ids = small("llama"), tokens(2, 20)
    (long,), (short,) = streams(loaded, ids, [FULL]), streams(loaded, ids[:, :7], [FULL])
    assert np.allclose(long[-1][:, :7], short[-1], rtol=1e-10, atol=1e-12)


# --- names -----------------------------------------------------------------------------------


def test_names_tell_variants_apart() -> None:
    assert len(set(ALL)) == len(set(NAMES)) == 8
    assert [variant(name) for name in NAMES] == list(ALL)
    assert len({str(each) for each in EVERY}) == len(EVERY)
    assert variant("attention+skipped-mlp") == PUBLISHED[1]
    assert [str(each) for each in PAPER] == ["attention", "attention+mlp", "attention+skip", "full"]
    with pytest.raises(SpecError, match=r"variant 'nothing': not known; allowed: attention, "):
        variant("nothing")
