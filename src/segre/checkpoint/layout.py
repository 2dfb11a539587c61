"""Where the tensors of an architecture lie in the files of a checkpoint, family by family.

A file's tensor holds one tensor of the spec or several side by side (the joint query, key and
value map of GPT-2), as rows or, in GPT-2, as columns. Names are those of the transformers library.

>>> from segre.families import architecture
>>> spec = architecture("llama/d=4/heads=2/head=2/ff=3/vocab=5/t=3")
>>> [held.file for held in layout(spec, "llama")["1"]][:2]
['model.layers.0.input_layernorm.weight', 'model.layers.0.self_attn.q_proj.weight']
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from segre.errors import UnsupportedError
from segre.fields.interface import Array
from segre.transformer.spec import Transformer
from segre.transformer.tensors import part_shapes, parts

Tensors = dict[str, Array]

PREFIX = {
    "gpt2": "transformer.",
    "bert": "bert.",
    "llama": "model.",
    "mistral": "model.",
    "qwen2": "model.",
    "qwen3": "model.",
}
# Constants that some versions of the library stored beside the weights.
BUFFERS = (".position_ids", ".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq")
# The bias that an untied masked-language model uses; it then ignores `cls.predictions.bias`.
UNTIED_BIAS = "cls.predictions.decoder.bias"
# Heads that a file may have and the class of its config does not use.
UNUSED = ("pooler.", "cls.seq_relationship.")


@dataclass(frozen=True, slots=True)
class Held:
    """One tensor of a file, and the tensors of the spec that it holds."""

    file: str
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    across: bool = False  # stored with inputs (or tokens) as rows

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape in the file."""
        rows = sum(_matrix(n, s)[0] for n, s in zip(self.names, self.shapes, strict=True))
        columns = _matrix(self.names[0], self.shapes[0])[1]
        if self.file.endswith((".bias", ".beta")) or ".gain" in self.names[0]:
            return (rows,)
        return (columns, rows) if self.across else (rows, columns)

    def unpack(self, stored: Array) -> Tensors:
        """The tensors of the spec from the file's."""
        matrix = stored.reshape(stored.shape[0], -1)
        if self.across:
            matrix = matrix.T
        rows = [_matrix(n, s)[0] for n, s in zip(self.names, self.shapes, strict=True)]
        blocks = np.split(matrix, np.cumsum(rows)[:-1])
        return {
            name: _split_heads(block, shape) if name == "W_O" else block.reshape(shape)
            for name, block, shape in zip(self.names, blocks, self.shapes, strict=True)
        }

    def pack(self, tensors: Tensors) -> Array:
        """The file's tensor from those of the spec; inverse of `unpack`."""
        blocks = [
            _join_heads(tensors[name])
            if name == "W_O"
            else tensors[name].reshape(_matrix(name, shape))
            for name, shape in zip(self.names, self.shapes, strict=True)
        ]
        matrix = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        return (matrix.T if self.across else matrix).reshape(self.stored_shape)


def _matrix(name: str, shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a tensor as a matrix: heads are rows, but columns of W_O."""
    if name == "W_O":
        return shape[-2], prod(shape) // shape[-2]
    return prod(shape[:-1]), shape[-1]


def _split_heads(matrix: Array, shape: tuple[int, ...]) -> Array:
    kv, group, d, v = shape
    return matrix.reshape(d, kv, group, v).transpose(1, 2, 0, 3)


def _join_heads(W_O: Array) -> Array:
    kv, group, d, v = W_O.shape
    return W_O.transpose(2, 0, 1, 3).reshape(d, kv * group * v)


def layout(spec: Transformer, family: str) -> dict[str, list[Held]]:
    """The tensors of the files by part of the spec."""
    if family not in PREFIX:
        raise UnsupportedError(
            f"model_type {family!r}: its checkpoints are not read; allowed: {', '.join(PREFIX)}"
        )
    return {part: list(_part(spec, family, part)) for part in parts(spec)}


def _part(spec: Transformer, family: str, part: str) -> Iterator[Held]:
    shapes = part_shapes(spec, part)
    names = {"gpt2": _gpt2, "bert": _bert}.get(family, _decoder)(part)
    if family == "bert" and not spec.tied and "cls.predictions.bias" in names:
        names[UNTIED_BIAS] = names.pop("cls.predictions.bias")
    left = set(shapes)
    for file, held in names.items():
        inside = tuple(name for name in held if name in shapes)
        if not inside:
            continue
        left -= set(inside)
        own = file if file.startswith(("lm_head.", "cls.")) else PREFIX[family] + file
        table = part == "embed" and inside[0] in ("tokens", "positions", "types")
        conv = family == "gpt2" and ".c_" in file and file.endswith(".weight")
        yield Held(own, inside, tuple(shapes[name] for name in inside), table or conv)
    assert not left, left


Names = dict[str, tuple[str, ...]]


def _linear(file: str, *names: str) -> Names:
    return {
        f"{file}.weight": tuple(f"W_{name}" for name in names),
        f"{file}.bias": tuple(f"b_{name}" for name in names),
    }


def _norm(file: str, name: str) -> Names:
    return {f"{file}.weight": (f"{name}.gain",), f"{file}.bias": (f"{name}.bias",)}


def _gpt2(part: str) -> Names:
    if part == "embed":
        return {"wte.weight": ("tokens",), "wpe.weight": ("positions",)}
    if part == "head":
        return {**_norm("ln_f", "norm"), "lm_head.weight": ("W_U",)}
    at = f"h.{int(part) - 1}"
    return {
        **_norm(f"{at}.ln_1", "norm1"),
        **_linear(f"{at}.attn.c_attn", "Q", "K", "V"),
        **_linear(f"{at}.attn.c_proj", "O"),
        **_norm(f"{at}.ln_2", "norm2"),
        **_linear(f"{at}.mlp.c_fc", "up"),
        **_linear(f"{at}.mlp.c_proj", "down"),
    }


def _bert(part: str) -> Names:
    if part == "embed":
        return {
            "embeddings.word_embeddings.weight": ("tokens",),
            "embeddings.position_embeddings.weight": ("positions",),
            "embeddings.token_type_embeddings.weight": ("types",),
            **_norm("embeddings.LayerNorm", "norm"),
        }
    if part == "head":
        return {
            **_linear("pooler.dense", "pool"),
            **_linear("cls.predictions.transform.dense", "T"),
            **_norm("cls.predictions.transform.LayerNorm", "normT"),
            "cls.predictions.decoder.weight": ("W_U",),
            "cls.predictions.bias": ("b_U",),
        }
    at = f"encoder.layer.{int(part) - 1}"
    return {
        **_linear(f"{at}.attention.self.query", "Q"),
        **_linear(f"{at}.attention.self.key", "K"),
        **_linear(f"{at}.attention.self.value", "V"),
        **_linear(f"{at}.attention.output.dense", "O"),
        **_norm(f"{at}.attention.output.LayerNorm", "post1"),
        **_linear(f"{at}.intermediate.dense", "up"),
        **_linear(f"{at}.output.dense", "down"),
        **_norm(f"{at}.output.LayerNorm", "post2"),
    }


def _decoder(part: str) -> Names:
    """llama, mistral, qwen2 and qwen3."""
    if part == "embed":
        return {"embed_tokens.weight": ("tokens",)}
    if part == "head":
        return {"norm.weight": ("norm.gain",), "lm_head.weight": ("W_U",)}
    at = f"layers.{int(part) - 1}"
    own = f"{at}.self_attn"
    return {
        **_norm(f"{at}.input_layernorm", "norm1"),
        **_linear(f"{own}.q_proj", "Q"),
        **_linear(f"{own}.k_proj", "K"),
        **_linear(f"{own}.v_proj", "V"),
        **_norm(f"{own}.q_norm", "normq"),
        **_norm(f"{own}.k_norm", "normk"),
        **_linear(f"{own}.o_proj", "O"),
        **_norm(f"{at}.post_attention_layernorm", "norm2"),
        **_linear(f"{at}.mlp.gate_proj", "gate"),
        **_linear(f"{at}.mlp.up_proj", "up"),
        **_linear(f"{at}.mlp.down_proj", "down"),
    }
