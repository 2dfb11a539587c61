"""Routers, experts, shared experts and latents: copies are recognised, and changes are seen."""

from pathlib import Path

import numpy as np
import pytest
import torch

from segre.checkpoint.commands import canonical, move, same
from segre.checkpoint.layout import Tensors
from support.checkpoints import rewritten, stored
from support.zoo import save_tiny, tiny

ROUTED = ("W_R", "W_gate", "W_up", "W_down")
LATENT = ("A_Q", "A_K", "R_Q", "R_K", "W_Q", "W_K", "W_V", "normq.gain", "normk.gain")
CHANGED = {
    "mixtral": ROUTED,
    "qwen3-moe": ROUTED,
    "deepseek-v3": (*ROUTED, "b_R", "S_gate", "S_up", "S_down", *LATENT),
}


@pytest.mark.parametrize("name", CHANGED)
@pytest.mark.parametrize(("dtype", "by"), [(torch.float32, 1e-3), (torch.bfloat16, 0.3)])
def test_every_tensor_counts(name: str, dtype: torch.dtype, by: float, tmp_path: Path) -> None:
    model = tiny(name).to(dtype)
    model.save_pretrained(one := tmp_path / "one")
    move(one, moved := tmp_path / "moved", seed=4)
    assert same(one, moved).verdict.startswith("same")
    some = 0 if dtype == torch.float32 else 1  # types take turns
    for number, tensor in list(enumerate(CHANGED[name]))[some::2]:

        def noise(part: str, w: Tensors, tensor: str = tensor, number: int = number) -> None:
            if part == "2":
                drawn = np.random.default_rng(number).standard_normal(w[tensor].shape)
                w[tensor] = w[tensor] + by * np.abs(w[tensor]).mean() * drawn

        changed = rewritten(moved, tmp_path / f"changed {number}", noise)
        assert same(one, changed).verdict == "different", tensor


def test_the_order_of_experts_is_theirs_alone(tmp_path: Path) -> None:
    """Two experts exchanged without their rows of the router are another function."""
    one = save_tiny("mixtral", tmp_path / "one")

    def exchanged(names: tuple[str, ...]) -> Path:
        def change(part: str, w: Tensors) -> None:
            if part == "2":
                w.update({name: w[name][[1, 0, 2, 3]] for name in names})

        return rewritten(one, tmp_path / "-".join(names), change)

    assert same(one, exchanged(ROUTED)).verdict == "same function"
    assert same(one, exchanged(ROUTED[1:])).verdict == "different"


def test_rows_of_a_softmax_router_sum_to_zero(tmp_path: Path) -> None:
    one = save_tiny("mixtral", tmp_path / "one")
    canonical(one, tmp_path / "normal")
    rows = stored(tmp_path / "normal")["model.layers.1.block_sparse_moe.gate.weight"]
    assert np.abs(rows.sum(axis=0)).max() < 1e-6
    sizes = np.linalg.norm(rows, axis=1)
    assert (np.diff(sizes) < 0).all()
