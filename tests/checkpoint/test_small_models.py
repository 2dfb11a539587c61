"""Models with few tokens and narrow streams: copies are never called different, changes never same.

Few numbers are rounded in them, and those that are nearly zero lose their signs.
"""

import zlib
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from segre.checkpoint.commands import canonical, check, move, same
from segre.checkpoint.served import require_normal_form
from segre.errors import SegreError
from segre.models import architecture
from support.random_models import HEADS, library_model, random_config

SERVED = [kind for kind in HEADS if kind != "minimax"]  # heads without gates
TYPES = (torch.float32, torch.bfloat16, torch.float16)
SIGNED = ("gemma2", "gemma3_text", "olmo2", "qwen3")  # whose gains have signs in common with rows


def drawn(model_type: str, seed: int) -> Any:
    """A random model with fewer tokens than it is wide, most of the time."""
    rng = Random(f"{model_type} {seed}")
    least = 3 if model_type in ("roberta", "xlm-roberta") else 0
    for _ in range(100):
        config = random_config(model_type, rng)
        config["vocab_size"] = least + rng.choice([2, 3, 3, 5])
        try:
            model = library_model(config, seed)
            require_normal_form(architecture(model))
        except SegreError:
            continue
        return model
    raise AssertionError(model_type)


def perturbed(weights: Any, seed: int) -> Any:
    """All matrices changed by a tenth."""
    out = dict(weights.tensors)
    for name, stored in out.items():
        if stored.ndim > 1:
            rng = np.random.default_rng([seed, zlib.crc32(stored.tobytes())])  # tied ones alike
            values = stored.astype(np.float64)
            out[name] = (values * (1 + 0.1 * rng.standard_normal(values.shape))).astype(
                stored.dtype
            )
    return out, weights.config


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("model_type", SERVED)
def test_copies_are_never_different_and_changes_never_same(model_type: str, seed: int) -> None:
    model = drawn(model_type, seed)
    for dtype in TYPES[seed : 2 + seed]:
        model.to(dtype)
        moved = move(model, seed=seed + 1, report=False)
        assert same(model, moved).verdict != "different", dtype
        changed = same(model, perturbed(moved, seed))
        assert changed.verdict in ("different", "undecided"), dtype


def with_small_gains(model_type: str, seed: int) -> Iterator[Any]:
    """Models of which a third of the gains are nearly zero, or zero."""
    for size in (0.0, 0.003):
        model = drawn(model_type, seed)
        rng = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if name.endswith("norm.weight") and "layers" in name:
                    small = torch.rand(weight.shape, generator=rng) < 0.3
                    small[torch.randint(len(small), (), generator=rng)] = True
                    to = size * torch.randn(weight.shape, generator=rng)
                    zero = -1.0 if model_type.startswith("gemma") else 0.0  # stored less 1
                    weight.copy_(torch.where(small, zero + to.to(weight.dtype), weight))
        yield model


@pytest.mark.parametrize("model_type", SIGNED)
def test_signs_that_rounding_loses(model_type: str) -> None:
    seed = 1
    for model in with_small_gains(model_type, seed):
        for dtype in TYPES:
            model.to(dtype)
            moved = move(model, seed=seed, report=False)
            found = same(model, moved)
            assert found.verdict != "different", (dtype, found.reason)
            assert same(canonical(model), canonical(moved)).verdict != "different", dtype
            changed = same(model, perturbed(moved, seed))
            assert changed.verdict in ("different", "undecided"), dtype


def test_the_witness_has_the_signs(tmp_path: Any) -> None:
    """Gemma 2 with three tokens, in half precision: a gain that the copy has lost the sign of."""
    model = library_model(random_config("gemma2", Random(3)), 3).to(torch.bfloat16)
    model.save_pretrained(tmp_path / "one")
    move(tmp_path / "one", tmp_path / "two", seed=1, report=False)
    found = same(tmp_path / "one", tmp_path / "two")
    assert found.verdict == "same up to bf16 rounding"
    assert found.witness is not None
    assert any(
        (layer[name][1] < 0).any()
        for layer in found.witness.layers.values()
        for name in ("post1", "post2", "normq", "normk")
        if name in layer
    )
    found.witness.write(tmp_path / "witness.safetensors")
    assert check(tmp_path / "one", tmp_path / "two", tmp_path / "witness.safetensors").value
