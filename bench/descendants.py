"""What can be done to a checkpoint, other than training it: moved, rounded, noised, pruned, ..."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

import segre
from bench.tiny_models import Checkpoint
from segre.checkpoint.layout import layout
from segre.checkpoint.model import Model
from segre.checkpoint.saving import saving
from segre.fields.interface import Array
from segre.models.registry import from_config
from segre.transformer.tensors import part_shapes


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
    with Model.open(checkpoint) as model, saving(model) as save:
        for part in model.parts:
            tensors = model.part(part)
            for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V"):
                if name in tensors:
                    tensors[name] = tensors[name].copy()
                    tensors[name][-count:] = 0
            save.part(part, tensors)
        return save.arrays, model.store.config


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


def relayered(checkpoint: Checkpoint, order: Sequence[int]) -> Checkpoint:
    """A model made of these layers of another, counted from 0."""
    arrays, config = checkpoint
    depth = "n_layer" if "n_layer" in config else "num_hidden_layers"
    per = re.compile(r"(.*(?:layers?|h)\.)(\d+)(\..*)")
    out = {name: x for name, x in arrays.items() if not per.fullmatch(name)}
    for at, source in enumerate(order):
        for name, x in arrays.items():
            found = per.fullmatch(name)
            if found and int(found[2]) == source:
                out[f"{found[1]}{at}{found[3]}"] = x
    given = {key: [x[i] for i in order] for key, x in config.items() if key == "layer_types" and x}
    return out, {**config, depth: len(order), **given}


def with_tokens_permuted(checkpoint: Checkpoint, seed: int = 0) -> Checkpoint:
    """Token rows in another order, in all tables."""
    arrays, config = checkpoint
    vocab = config["vocab_size"]
    order = np.random.default_rng(seed).permutation(vocab)
    table = re.compile(
        r".*(wte|embed_tokens|word_embeddings|embed_in|embed_out|lm_head|decoder|predictions)\.(weight|bias)"
    )
    return {
        name: x[order] if table.fullmatch(name) and len(x) == vocab else x
        for name, x in arrays.items()
    }, config


def narrowed(checkpoint: Checkpoint, width: int = 24, seed: int = 0) -> Checkpoint:
    """Some coordinates of the stream, and the first heads where their number follows from it."""
    with Model.open(checkpoint) as model:
        config, d = dict(model.store.config), model.spec.d
        kept = np.sort(np.random.default_rng(seed).permutation(d)[:width])
        config["n_embd" if "n_embd" in config else "hidden_size"] = width
        if model.family in ("gpt2", "gpt_neox", "bert"):
            heads = "n_head" if "n_head" in config else "num_attention_heads"
            config[heads] = width * config[heads] // d
        else:
            config["head_dim"] = model.spec.head
        spec = replace(from_config(config, "narrowed"), output=model.spec.output)
        out: dict[str, Array] = {}
        for part, every in layout(spec, model.family, config).items():
            tensors = model.part(part)
            shapes = part_shapes(spec, part)
            small = {
                name: x[
                    np.ix_(*(_kept(n, m, kept) for n, m in zip(x.shape, shapes[name], strict=True)))
                ]
                for name, x in tensors.items()
            }
            out |= {held.file: held.pack(small).astype(np.float32) for held in every}
        return out, config


def _kept(many: int, few: int, stream: Array) -> Array:
    """Which places of an axis stay."""
    return stream if (many, few) == (32, len(stream)) else np.arange(few)
