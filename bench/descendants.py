"""What can be done to a checkpoint, other than training it: moved, rounded, noised, pruned, ..."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import segre
from bench.tiny_models import Checkpoint
from segre.checkpoint.model import Kept, Model, Saving
from segre.fields.interface import Array


def each(checkpoint: Checkpoint, change: Callable[[Array], Array]) -> Checkpoint:
    """Every matrix changed, in the type that it has."""
    arrays, config = checkpoint
    return {
        name: change(x).astype(x.dtype) if x.ndim > 1 else x for name, x in arrays.items()
    }, config


def moved(checkpoint: Checkpoint, seed: int = 1) -> Checkpoint:
    """Other weights of the same function."""
    out = segre.checkpoints.move(checkpoint, seed=seed, report=False)
    return dict(out.tensors), dict(out.config)


def rounded(checkpoint: Checkpoint) -> Checkpoint:
    """Rounded to bfloat16, in files of float32."""
    arrays, config = checkpoint
    return {n: x.astype(ml_dtypes.bfloat16).astype(x.dtype) for n, x in arrays.items()}, config


def stored_as(checkpoint: Checkpoint, dtype: Any) -> Checkpoint:
    """All tensors of another type."""
    arrays, config = checkpoint
    return {name: x.astype(dtype) for name, x in arrays.items()}, config


def noised(checkpoint: Checkpoint, size: float, seed: int = 0) -> Checkpoint:
    """Gaussian noise, relative to the spread of every matrix."""
    rng = np.random.default_rng(seed)
    return each(checkpoint, lambda x: x + size * x.std() * rng.standard_normal(x.shape))


def multiplied(checkpoint: Checkpoint, size: float, seed: int = 0) -> Checkpoint:
    """Noise relative to every number."""
    rng = np.random.default_rng(seed)
    return each(checkpoint, lambda x: x * (1 + size * rng.standard_normal(x.shape)))


def pruned(checkpoint: Checkpoint, share: float = 0.3) -> Checkpoint:
    """The smallest numbers of every matrix are zero."""
    return each(checkpoint, lambda x: np.where(np.abs(x) < np.quantile(np.abs(x), share), 0, x))


def quantised(checkpoint: Checkpoint, bits: int, group: int = 0) -> Checkpoint:
    """Levels of so many bits, with a scale for every row, or every so many numbers of it."""

    def levels(x: Array) -> Array:
        rows = x.reshape(-1, group) if group and x.shape[-1] % group == 0 else x
        step = np.abs(rows).max(axis=-1, keepdims=True) / (2 ** (bits - 1) - 1)
        step = np.where(step > 0, step, 1)
        return np.asarray((np.round(rows / step) * step).reshape(x.shape))

    return each(checkpoint, levels)


def without_heads(checkpoint: Checkpoint, count: int = 1) -> Checkpoint:
    """The last key-value heads of every layer write nothing, and read nothing."""
    with Model.open(checkpoint) as model:
        kept = Kept(model)
        save = Saving(model, kept)
        for part in model.parts:
            tensors = model.part(part)
            for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V"):
                if name in tensors:
                    tensors[name] = tensors[name].copy()
                    tensors[name][-count:] = 0
            save.part(part, tensors)
        return kept.arrays, model.store.config


def smaller_llama(checkpoint: Checkpoint, heads: int, units: int) -> Checkpoint:
    """A Llama with the first so many heads and units of every layer, the others taken out."""
    arrays, config = checkpoint
    size = config["hidden_size"] // config["num_attention_heads"]
    cut = {
        "q_proj.weight": np.s_[: heads * size],
        "k_proj.weight": np.s_[: heads * size],
        "v_proj.weight": np.s_[: heads * size],
        "o_proj.weight": np.s_[:, : heads * size],
        "gate_proj.weight": np.s_[:units],
        "up_proj.weight": np.s_[:units],
        "down_proj.weight": np.s_[:, :units],
    }
    out = {n: x[cut.get(".".join(n.split(".")[-2:]), np.s_[:])] for n, x in arrays.items()}
    fewer = {"num_attention_heads": heads, "num_key_value_heads": heads, "head_dim": size}
    return out, {**config, **fewer, "intermediate_size": units}
