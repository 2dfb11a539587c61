"""What segre reads from files, computes and writes is what the transformers library does."""

import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from safetensors.torch import save_file

from segre.checkpoint.layout import Held, Tensors, layout
from segre.checkpoint.model import Model
from segre.checkpoint.outputs import outputs, random_tokens
from segre.errors import SpecError
from segre.models.registry import MODEL_TYPES, from_config
from segre.models.stored import Stored
from segre.transformer.tensors import part_shapes, parts
from support.checkpoints import furthest, library_outputs, rewritten, stored
from support.draws import draws
from support.random_models import (
    HEADS,
    library_model,
    prefer_experts,
    random_config,
    without_padding,
)

CLOSE = 1e-10
MODELS = len(draws(8))  # random ones, for each family


@pytest.mark.parametrize("model_type", HEADS)
def test_files_mean_what_the_library_computes(model_type: str, tmp_path: Path) -> None:
    rng = Random(f"{model_type} files")
    for seed in range(MODELS):
        heads = HEADS[model_type]
        config = random_config(model_type, rng, heads[seed % len(heads)])
        model = library_model(config, seed)
        prefer_experts(model, seed)
        model.save_pretrained(directory := tmp_path / f"model {seed}")
        with Model.open(directory) as found:
            tokens = random_tokens(found.spec, seed)
            tokens = replace(tokens, words=without_padding(found.spec, tokens.words))
            ours = outputs(found, tokens)
        theirs = library_outputs(directory, tokens)
        assert furthest(theirs, ours) < CLOSE, config
        again = rewritten(directory, tmp_path / f"again {seed}", lambda _, __: None)
        assert furthest(theirs, library_outputs(again, tokens)) < CLOSE, config


@pytest.mark.parametrize("model_type", HEADS)
def test_what_is_unpacked_packs_to_the_same_numbers(model_type: str, tmp_path: Path) -> None:
    rng = Random(f"{model_type} packing")
    for seed in range(MODELS):
        model = library_model(random_config(model_type, rng), seed)
        model.save_pretrained(directory := tmp_path / f"model {seed}")
        again = rewritten(directory, tmp_path / f"again {seed}", lambda _, __: None)
        before, after = stored(directory), stored(again)
        assert list(before) == list(after)
        with Model.open(directory) as found:
            changed = {
                held.file
                for every in found.held.values()
                for held in every
                if held.plus or held.times != 1
            }
        for name, tensor in before.items():
            if name in changed:
                np.testing.assert_allclose(after[name], tensor, rtol=1e-15, atol=1e-15)
            else:
                assert np.array_equal(after[name], tensor), name


@pytest.mark.parametrize("joined", [("W_Q", "W_K", "W_V"), ("b_Q", "b_K", "b_V"), ("W_O",)])
def test_however_tensors_are_stored_they_come_back(joined: tuple[str, ...]) -> None:
    rng = np.random.default_rng(0)
    for seed in range(60):
        kv, group, k, d = rng.integers(1, 5, size=4).tolist()
        last = 1 if joined[0].startswith("b_") else d
        shapes = [(kv, group if name[-1] in "QO" else 1, k, last) for name in joined]
        how = Stored(
            joined,
            columns=last > 1 and seed % 2 == 0,
            by_head=len(joined) > 1 and seed % 3 == 0,
            times=float(rng.choice([1.0, 2.0])),
            plus=float(rng.choice([0.0, 1.0])),
        )
        held = Held.of(how, "file", shapes)
        stored = rng.integers(-9, 9, size=held.stored_shape).astype(float)
        tensors = held.unpack(stored)
        assert [tensors[name].shape for name in joined] == shapes
        assert np.array_equal(held.pack(tensors), stored)
        if how.by_head and not how.columns:  # the first head is what comes first
            first = np.concatenate([tensors[name][0].ravel() for name in joined])
            assert np.array_equal(first, how.times * stored.ravel()[: first.size] + how.plus)


def test_members_are_put_together() -> None:
    stored = np.arange(24.0).reshape(3, 2, 4)
    into: Tensors = {}
    for i in (2, 0, 1):
        held = Held.of(Stored(("W_up",), member=i), f"expert {i}", [(3, 2, 4)])
        assert held.stored_shape == (2, 4)
        held.put(held.unpack(stored[i]), into)
    assert np.array_equal(into["W_up"], stored)
    assert np.array_equal(held.pack(into), stored[1])


@pytest.mark.parametrize("model_type", ["mixtral", "qwen3_moe", "deepseek_v3"])
def test_experts_of_a_layer_may_lie_in_one_tensor(model_type: str, tmp_path: Path) -> None:
    """Version 5 of the library has them so in memory, and writes each by itself."""
    rng = Random(f"{model_type} stacked")
    for seed in range(4):
        config = random_config(model_type, rng, HEADS[model_type][0])
        model = library_model(config, seed)
        prefer_experts(model, seed)
        model.save_pretrained(apart := tmp_path / f"apart {seed}")
        shutil.copytree(apart, together := tmp_path / f"together {seed}")
        tied = {"lm_head.weight"} if config["tie_word_embeddings"] else set()
        state = {
            name: tensor.clone() for name, tensor in model.state_dict().items() if name not in tied
        }
        save_file(state, together / "model.safetensors")
        with Model.open(apart) as one, Model.open(together) as two:
            for part in parts(one.spec):
                a, b = one.part(part), two.part(part)
                assert a.keys() == b.keys()
                assert all(np.array_equal(a[name], b[name]) for name in a)
        again = rewritten(together, tmp_path / f"again {seed}", lambda _, __: None)
        before, after = stored(together), stored(again)
        assert before.keys() == after.keys()
        for name, tensor in before.items():
            np.testing.assert_allclose(after[name], tensor, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("model_type", HEADS)
def test_every_tensor_of_a_spec_has_its_place_in_the_files(model_type: str) -> None:
    rng = Random(f"{model_type} places")
    for _ in range(40):
        config = random_config(model_type, rng)
        spec = from_config(config, "config")
        found = layout(spec, model_type, config)
        assert list(found) == parts(spec)
        for part, every in found.items():
            held = {name for one in every if not one.shape for name in one.names}
            assert held == set(part_shapes(spec, part))
            labels = [one.label for one in every]
            assert len(set(labels)) == len(labels)


# --- what is refused ----------------------------------------------------------------------------


def test_an_unknown_model_type_is_answered_with_the_registry() -> None:
    with pytest.raises(SpecError) as caught:
        from_config({"model_type": "xlnet"}, "it")
    assert str(caught.value).endswith(f"allowed: {', '.join(MODEL_TYPES)}")
