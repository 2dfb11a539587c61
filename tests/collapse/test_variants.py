"""Variants of transformers: what they compute, against the library and layers written by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from segre.checkpoint.model import Model
from segre.collapse.variants import (
    ALL,
    ALONE,
    FULL,
    PAPER,
    PUBLISHED,
    Variant,
    WithGates,
    variant,
    what_if,
)
from segre.errors import SpecError, UnsupportedError
from segre.fields import Real
from segre.transformer.forward import Place, Tokens, outputs, run
from support import by_hand
from support.small_models import (
    CAUSAL,
    FAMILIES,
    PLAIN,
    POST,
    at_depths,
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
    loaded: Model, ids: np.ndarray, cuts: list[Variant], dtype: Any = np.float64
) -> list[list[np.ndarray]]:
    """Of every variant, the streams before the layers and after each: (inputs, tokens, width)."""
    found: list[list[np.ndarray]] = [[] for _ in cuts]

    def see(depth: int, place: Place, x: np.ndarray) -> None:
        assert len(found[place.edit]) == depth
        found[place.edit].append(x[:, 0, 0].swapaxes(1, 2))

    run(loaded, [Tokens(ids)], Real(dtype), [cut.edit for cut in cuts], at_depths(see))
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
        last = outputs(loaded, Tokens(ids), Real(dtype))  # with the final norm
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
    with pytest.raises(SpecError, match=r"unknown variant 'nothing'; allowed: attention, "):
        variant("nothing")


# --- attention changed -----------------------------------------------------------------------


def changed_by_hand(loaded: Model, X: np.ndarray, layer: int, cut: Variant) -> np.ndarray:
    """One attention of a BERT without skip and norm, from the weights: tokens are rows."""
    w = WithGates(loaded, seed=5).part(str(layer))
    n = len(X)
    out = np.zeros_like(X)
    for h in range(loaded.spec.heads):
        Q, K, V = (X @ w[f"W_{name}"][h, 0].T + w[f"b_{name}"][h, 0, :, 0] for name in "QKV")
        scores = Q @ K.T / np.sqrt(Q.shape[1])
        if cut.window:
            apart = np.abs(np.arange(n)[:, None] - np.arange(n))
            scores[apart >= cut.window] = -np.inf
        P = np.exp(scores - scores.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        mixed = (P - 1 / n if cut.gapless else P) @ V
        if cut.gate:
            mixed = mixed / (1 + np.exp(-X @ w["W_G"][h, 0].T))
        out += mixed @ w["W_O"][h, 0].T
    return out + w["b_O"][:, 0]


@pytest.mark.parametrize("name", ["gapless", "window=3", "gate", "gapless:gate", "window=2:gate"])
def test_changed_attention_is_what_its_definition_says(name: str) -> None:
    loaded, ids = small("bert"), tokens(1)
    cut = variant(f"attention-norm:{name}")
    cut.require(loaded.spec)
    (found,) = streams(replace(loaded, tensors=WithGates(loaded, 5)), ids, [cut])
    X = found[0][0]
    for depth in range(1, loaded.spec.layers + 1):
        X = changed_by_hand(loaded, X, depth, cut)
        assert furthest(X, found[depth][0]) < 1e-12
    assert str(variant(str(cut))) == str(cut)


@pytest.mark.parametrize("family", ["llama", "mistral", "gpt_neox", "gemma2", "qwen3"])
def test_a_window_of_everything_and_a_gate_on_nothing_change_nothing(family: str) -> None:
    loaded, ids = small(family), tokens(2)
    wide, plain = streams(loaded, ids, [variant("full:window=9"), FULL])
    assert np.array_equal(wide[-1], plain[-1])
    narrow = streams(loaded, ids, [variant("full:window=1")])[0]
    (alone,) = streams(loaded, ids[:, :1], [FULL])
    assert furthest(alone[-1][0, 0], narrow[-1][0, 0]) < 1e-12  # the first token sees itself alone
    gates = WithGates(loaded, 3)
    gated, bare = streams(replace(loaded, tensors=gates), ids, [variant("full:gate"), FULL])
    assert np.array_equal(bare[-1], plain[-1])  # W_G is there, and nothing reads it
    assert not np.allclose(gated[-1], plain[-1])


def test_removing_the_gap_removes_what_all_tokens_share() -> None:
    """Weights that are all alike, 1/t, become 0: attention writes its bias and nothing else."""
    still = tuple((name, 0.0) for name in ("W_Q", "b_Q"))
    loaded, ids = small("bert", still), tokens(1)
    (found,) = streams(loaded, ids, [variant("attention-norm:gapless")])
    bias = loaded.part("1")["b_O"][:, 0]
    assert np.abs(found[1][0] - bias).max() < 1e-12


@pytest.mark.parametrize(
    ("family", "name", "said"),
    [
        ("gpt2", "full:gapless", "causal=true"),
        ("gpt_oss", "full:gapless", "causal=true"),
        ("deepseek_v3", "full:gate", "gate cannot be combined with latent attention"),
        ("minimax", "full:window=2", "attn by layer"),
        ("bert", "full:gapless:window=3", "window=3"),
    ],
)
def test_a_change_that_a_design_does_not_allow_is_refused(
    family: str, name: str, said: str
) -> None:
    with pytest.raises(UnsupportedError, match=said):
        variant(name).require(small(family).spec)


def test_what_ifs_are_those_that_a_design_allows() -> None:
    found, refused = what_if(small("bert").spec, 32)
    assert [str(one) for one in found] == [
        *("attention", "full", "attention:gapless", "full:gapless"),
        *("attention:window=8", "full:window=8", "attention:gate", "full:gate"),
    ]
    assert not refused
    found, refused = what_if(small("llama").spec, 32)
    assert not any(one.gapless for one in found)
    assert [("causal=true" in one) for one in refused] == [True]
    assert what_if(small("minimax").spec, 32)[0] == (ALONE, FULL)


@pytest.mark.parametrize("name", ["full:", "full:window=0", "full:window=x", "full:gates"])
def test_names_of_changes_are_checked(name: str) -> None:
    with pytest.raises(SpecError, match="allowed: gapless, window=N, gate"):
        variant(name)
