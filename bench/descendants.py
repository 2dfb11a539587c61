"""What can be done to a checkpoint, other than training it: moved, rounded, noised, pruned, ..."""

from __future__ import annotations

import re
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


NF4 = (0.0, 0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.723, 1.0)
NF4_CODE = np.array([-1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, *NF4])
FP4_CODE = np.array([0.0, 0.5, 1, 1.5, 2, 3, 4, 6])
FP4_CODE = np.concatenate([-FP4_CODE[:0:-1], FP4_CODE])


def _nearest(x: Array, code: Array) -> Array:
    """Every number replaced by the nearest of a code."""
    at = np.clip(np.searchsorted(code, x), 1, len(code) - 1)
    lower, upper = code[at - 1], code[at]
    return np.asarray(np.where(x - lower < upper - x, lower, upper))


def _scaled(x: Array, group: int, top: float, to: Callable[[Array], Array], scale: Any) -> Array:
    """Groups of a matrix scaled so that the largest number is `top`, rounded, and scaled back.

    A group of 0 is a row, one of -1 the whole matrix. Scales are of a type, or powers of two.
    """
    groups = x.reshape({0: (-1, x.shape[-1]), -1: (1, -1)}.get(group, (-1, group)))
    by = np.abs(groups).max(axis=1, keepdims=True) / top
    by = np.where(by > 0, by, 1)
    if scale == "power":
        by = 2.0 ** np.ceil(np.log2(by))
    elif scale is not None:
        coarse = by.max() / 448  # of the scales, which are floats of 8 bits
        by = (by / coarse).astype(scale).astype(np.float64) * coarse
        by = np.where(by > 0, by, 1)
    return np.asarray((to(groups / by) * by).reshape(x.shape))


def _as(dtype: Any) -> Callable[[Array], Array]:
    return lambda x: x.astype(np.float32).astype(dtype).astype(np.float64)


def _gguf(name: str) -> Callable[[Array], Array]:
    def through(x: Array) -> Array:
        import gguf

        kind = gguf.GGMLQuantizationType[name]
        rows = np.ascontiguousarray(x.reshape(-1, 32), np.float32)
        return np.asarray(gguf.quants.dequantize(gguf.quants.quantize(rows, kind), kind), float)

    return lambda x: through(x).reshape(x.shape)


def _integers(bits: int, group: int) -> Callable[[Array], Array]:
    return lambda x: _scaled(x, group, 2 ** (bits - 1) - 1, np.round, None)


# What stores weights in few bits: by name, what is left of a matrix.
SCHEMES: dict[str, Callable[[Array], Array]] = {
    "int8, rows": _integers(8, 0),
    "int8, whole matrices": _integers(8, -1),
    "int4, rows": _integers(4, 0),
    "int4, groups of 16": _integers(4, 16),
    "int4, groups of 32": _integers(4, 32),
    "int3, groups of 64": _integers(3, 64),
    "NF4, groups of 64": lambda x: _scaled(x, 64, 1, lambda y: _nearest(y, NF4_CODE), None),
    "MXFP4": lambda x: _scaled(x, 32, 6, lambda y: _nearest(y, FP4_CODE), "power"),
    "NVFP4": lambda x: _scaled(x, 16, 6, lambda y: _nearest(y, FP4_CODE), ml_dtypes.float8_e4m3fn),
    "fp8 (E4M3), rows": lambda x: _scaled(x, 0, 448, _as(ml_dtypes.float8_e4m3fn), None),
    "fp8 (E5M2), whole matrices": lambda x: _scaled(x, -1, 448, _as(ml_dtypes.float8_e5m2), None),
    **{name: _gguf(name) for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")},
}


def dequantised(checkpoint: Checkpoint, scheme: str, dtype: Any) -> Checkpoint:
    """Matrices of layers stored by a scheme, then all tensors in a float type."""
    arrays, config = checkpoint
    done = {
        name: SCHEMES[scheme](x.astype(np.float64))
        if x.ndim == 2 and x.size % 64 == 0 and re.search(r"\.\d+\.", name)
        else x
        for name, x in arrays.items()
    }
    return {name: x.astype(np.float32).astype(dtype) for name, x in done.items()}, config


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
