"""The forward map, written once over a field, and its Jacobian by the chain rule.

Tokens are the columns of X. One layer is

    X  ->  sum_h  W_O^h W_V^h X . pattern(W_K^h X, W_Q^h X)

(no W_O when the value map is not factored). Weights are one vector, laid out layer by layer
as W_K, W_Q, W_V, W_O, each of shape (heads, rows, columns) in row-major order.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Generic

import numpy as np

from segre.errors import UnsupportedError
from segre.fields.dual import Dual, DualArray
from segre.fields.interface import Array, ArrayField, E, Field
from segre.scores import attention_pattern
from segre.spec import Layer, Network, Norm


@dataclass(frozen=True, slots=True)
class LayerWeights(Generic[E]):
    """The weights of one layer; axes (..., heads, rows, columns)."""

    W_K: E
    W_Q: E
    W_V: E
    W_O: E | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """Where one weight tensor lies in the vector of all weights."""

    name: str
    start: int
    shape: tuple[int, int, int]

    @property
    def range(self) -> slice:
        """Its range of indices."""
        return slice(self.start, self.start + prod(self.shape))


def require_supported(spec: Network) -> None:
    """Refuse by name what the spec can say and this engine does not compute yet."""
    for number, layer in enumerate(spec.layers, 1):
        given = {
            "residual=true": layer.residual,
            f"norm={layer.norm.kind}": layer.norm.kind != "none",
            f"place={layer.norm.place}": layer.norm.place != Norm().place,
            f"mlp={layer.mlp.kind}": layer.mlp.kind != "none",
            f"ff={layer.mlp.hidden}": layer.mlp.hidden is not None,
            "causal=true": layer.attention.causal,
            f"pos={layer.attention.position}": layer.attention.position != "none",
        }
        for key, present in given.items():
            if present:
                raise UnsupportedError(
                    f"spec {str(spec)!r}: layer {number} has {key}, which this version does not "
                    "compute with yet; leave it out (attention layers with any widths, heads, "
                    "a and dv are computed)"
                )


def slots(layer: Layer, start: int = 0) -> list[Slot]:
    """The weight tensors of a layer whose first weight has index `start`."""
    head = layer.attention
    inner = layer.width_out if head.dv is None else head.dv
    shapes = {
        "W_K": (head.heads, head.a, layer.width_in),
        "W_Q": (head.heads, head.a, layer.width_in),
        "W_V": (head.heads, inner, layer.width_in),
    }
    if head.dv is not None:
        shapes["W_O"] = (head.heads, layer.width_out, head.dv)
    starts = accumulate((prod(shape) for shape in shapes.values()), initial=start)
    return [
        Slot(name, first, shape)
        for (name, shape), first in zip(shapes.items(), starts, strict=False)
    ]


def layer_starts(spec: Network) -> list[int]:
    """Index of the first weight of each layer."""
    return list(accumulate((layer.parameters for layer in spec.layers[:-1]), initial=0))


def unflatten(layer: Layer, vector: Array) -> LayerWeights[Array]:
    """The tensors of a layer from its weights, a vector (or a batch of vectors)."""
    return LayerWeights(
        **{
            slot.name: vector[..., slot.range].reshape(*vector.shape[:-1], *slot.shape)
            for slot in slots(layer)
        }
    )


def apply_layer(field: Field[E], layer: Layer, weights: LayerWeights[E], X: E) -> E:
    """One layer on tokens of shape (..., 1, width, t): the axis of length one is for heads."""
    keys = field.matmul(weights.W_K, X)
    queries = field.matmul(weights.W_Q, X)
    mixed = field.matmul(X, attention_pattern(field, layer.attention.score, keys, queries))
    out = field.matmul(weights.W_V, mixed)
    if weights.W_O is not None:
        out = field.matmul(weights.W_O, out)
    return out if layer.attention.heads == 1 else field.sum(out, axis=-3)


def forward(field: Field[Array], spec: Network, weights: Array, X: Array) -> Array:
    """The network on a batch of inputs: (..., d0, t) -> (..., dl, t).

    `weights` is one vector for all inputs, or one for each.

    >>> from segre.fields import Real
    >>> spec = Network.parse("lightning/d=1,1/a=1/t=2")
    >>> forward(Real(), spec, np.array([2.0, 3.0, 5.0]), np.array([[1.0, 10.0]])).tolist()
    [[3030.0, 30300.0]]
    """
    require_supported(spec)
    tokens = X[..., None, :, :]
    for layer, start in zip(spec.layers, layer_starts(spec), strict=True):
        own = unflatten(layer, weights[..., start : start + layer.parameters])
        tokens = apply_layer(field, layer, own, tokens)
    return tokens[..., 0, :, :]


def jacobian(
    field: ArrayField,
    spec: Network,
    weights: Array,
    X: Array,
    outputs: Array | slice = slice(None),
) -> Array:
    """Derivatives of the outputs by the weights, one matrix per input: (n, dl t, parameters).

    Each layer is differentiated by its own weights and its own input, as dual numbers; the
    layers are then joined by the chain rule from the last to the first. `outputs` chooses
    among the dl t output entries, in row-major order.
    """
    require_supported(spec)
    tokens = X[:, None, :, :]
    local: list[Array] = []
    for layer, start in zip(spec.layers, layer_starts(spec), strict=True):
        tokens, derivative = _differentiate(field, layer, weights[start:], tokens, start > 0)
        local.append(derivative)
    local[-1] = local[-1][:, outputs]
    blocks: list[Array] = []
    onwards: Array | None = None
    for layer, derivative in zip(reversed(spec.layers), reversed(local), strict=True):
        if onwards is not None:
            derivative = field.matmul(onwards, derivative)
        inputs = derivative.shape[-1] - layer.parameters
        blocks.append(derivative[..., inputs:])
        onwards = derivative[..., :inputs]
    return np.concatenate(blocks[::-1], axis=-1)


def _differentiate(
    field: ArrayField, layer: Layer, weights: Array, tokens: Array, by_input: bool
) -> tuple[Array, Array]:
    """A layer's output, and its derivatives by its input (if asked) and then its weights.

    Tensors come in the order in which they are used, so that what is computed from the first ones
    has tangents in few directions.
    """
    t = tokens.shape[-1]
    inputs = layer.width_in * t * by_input

    def seeded(value: Array, first: int) -> DualArray:
        size = prod(value.shape[-3:])
        seeds = field.constant(np.eye(size, first + size, first))
        return DualArray(value, seeds.reshape(*value.shape[-3:], first + size))

    tensors = {
        slot.name: seeded(weights[slot.range].reshape(slot.shape), inputs + slot.start)
        for slot in slots(layer)
    }
    X = DualArray(tokens)
    if by_input:
        X = DualArray(tokens, seeded(tokens[:1], 0).tangent)
    out = apply_layer(Dual(field), layer, LayerWeights(**tensors), X)
    assert out.tangent is not None
    directions = inputs + layer.parameters
    return out.value, out.tangent.reshape(len(tokens), layer.width_out * t, directions)
