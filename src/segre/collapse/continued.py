"""The residuals of a real model past the floor of single precision.

Without skips the layers of bert, albert and gpt2 are attention, MLP and norms, and all three keep
mean and residual apart (`split`). Other families turn queries and keys by position, or gate their
MLPs; their curves end at the floor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from segre.collapse.anatomy import Anatomy, Norm, anatomy, linear
from segre.collapse.floor import Descent
from segre.collapse.models import Loaded
from segre.collapse.split import Split, attend, normalize, transform
from segre.collapse.stack import Heads, Mlp
from segre.collapse.surgery import Variant, modules
from segre.fields.interface import Array

# What the library calls the activations that `activations` has.
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


@dataclass(frozen=True)
class Layer:
    """One layer as split arithmetic takes it."""

    heads: Heads
    mlp: Mlp
    norms: tuple[Norm, Norm]
    post: bool  # whether norms come after attention and MLP
    causal: bool

    def apply(self, state: Split, variant: Variant) -> Split:
        """The layer of a variant without skips."""
        if variant.norm and not self.post:
            state = normalize(self.norms[0], state)
        state = attend(self.heads, state, False, self.causal)
        if variant.norm and self.post:
            state = normalize(self.norms[0], state)
        if not variant.mlp:
            return state
        if variant.norm and not self.post:
            state = normalize(self.norms[1], state)
        state = transform(self.mlp, state, False)
        return normalize(self.norms[1], state) if variant.norm and self.post else state


def can_continue(loaded: Loaded, variant: Variant) -> bool:
    """Whether a variant has layers that keep mean and residual apart."""
    plain = loaded.family in ("bert", "albert", "gpt2") and not loaded.decoder_of_an_encoder
    known = loaded.activation in _ACTIVATIONS or not variant.mlp
    return plain and known and not variant.skip and not (variant.mlp and variant.skips_mlp)


def continued(loaded: Loaded, variant: Variant, X: Array) -> Array:
    """log10 of the relative residual of tokens X (n, d) before the layers and after each."""
    states = [Split.of(X)]
    for layer in _layers(loaded):
        states.append(layer.apply(states[-1], variant))
    return Descent(tuple(states)).relative


def _layers(loaded: Loaded) -> list[Layer]:
    found: dict[Any, Layer] = {}
    parts = zip(modules(loaded), anatomy(loaded), strict=True)
    every = []
    for module, part in parts:
        if module not in found:
            found[module] = _layer(part, loaded)
        every.append(found[module])
    return every


def _layer(part: Anatomy, loaded: Loaded) -> Layer:
    heads, own = part.heads, part.attention
    query, key = _queries_and_keys(own, loaded)
    first, last = linear(part.mlp.first), linear(part.mlp.last)
    assert first.A is not None
    assert last.A is not None
    return Layer(
        Heads(
            *(query[0], key[0], heads.W_V, heads.W_O),
            *(query[1], key[1], heads.b_V, heads.b_O),
            scale=float(own.scaling),
        ),
        Mlp(first.A, last.A, first.a, last.a, _ACTIVATIONS.get(loaded.activation, "identity")),
        part.norms,
        part.post,
        causal=loaded.family == "gpt2",
    )


def _queries_and_keys(own: Any, loaded: Loaded) -> list[tuple[Array, Array | None]]:
    """(H, d, k) and (H, k) of queries, and of keys."""
    maps: list[tuple[Array, Array | None]] = []
    if loaded.family == "gpt2":
        joint = linear(own.c_attn)
        assert joint.A is not None
        assert joint.a is not None
        d = loaded.width
        maps += [(joint.A[:, i * d : (i + 1) * d], joint.a[i * d : (i + 1) * d]) for i in (0, 1)]
    else:
        for module in (own.query, own.key):
            one = linear(module)
            assert one.A is not None
            maps.append((one.A, one.a))
    return [(_of_heads(A, loaded.heads), _of_heads(a, loaded.heads)) for A, a in maps]


def _of_heads(array: Any, heads: int) -> Any:
    if array is None:
        return None
    split = array.reshape(*array.shape[:-1], heads, -1)
    return np.moveaxis(split, -2, 0)
