"""The forward map, written once over a field, and its Jacobian by the chain rule.

Tokens are the columns of X. What a stage computes is in the room of its kind of network (`stack`,
`transformer`, `polynomial`). Weights are one vector, laid out stage by stage; of a plain stack,
layer by layer as W_K, W_Q, W_V, W_O, each of shape (heads, rows, columns) in row-major order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from itertools import accumulate
from math import prod
from typing import Generic

import numpy as np

from segre.architectures import Architecture
from segre.attention.layer import Layer
from segre.fields.dual import Dual, DualArray
from segre.fields.interface import Array, ArrayField, E, Field
from segre.fields.reverse import Reverse, Traced
from segre.polynomial.spec import Polynomial
from segre.polynomial.stages import stages as polynomial_stages
from segre.polynomial.stages import tensors as polynomial_tensors
from segre.spec import Network
from segre.stack.stages import slots
from segre.stack.stages import stages as stack_stages
from segre.stack.stages import tensors as stack_tensors
from segre.stage import Slot, Stage
from segre.transformer.spec import Transformer
from segre.transformer.stages import stages as transformer_stages
from segre.transformer.tensors import tensors as transformer_tensors


@dataclass(frozen=True, slots=True)
class LayerWeights(Generic[E]):
    """The weights of one layer of a plain stack; axes (..., heads, rows, columns)."""

    W_K: E
    W_Q: E
    W_V: E
    W_O: E | None = None


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


@singledispatch
def stages(spec: Architecture) -> tuple[Stage, ...]:
    """The network as a sequence of stages: one for each layer of a stack."""
    raise TypeError(f"no stages are known for {type(spec).__name__}")


stages.register(Transformer, transformer_stages)
stages.register(Network, stack_stages)
stages.register(Polynomial, polynomial_stages)


@singledispatch
def tensors(spec: Architecture) -> dict[tuple[str, str], Slot]:
    """All weight tensors, by part (of a stack: the number of the layer) and name."""
    raise TypeError(f"no tensors are known for {type(spec).__name__}")


tensors.register(Transformer, transformer_tensors)
tensors.register(Network, stack_tensors)
tensors.register(Polynomial, polynomial_tensors)


def with_head_axes(spec: Architecture, X: Array) -> Array:
    """Inputs (..., rows, t) with an axis of length one for every axis of heads."""
    return X.reshape(*X.shape[:-2], *[1] * spec.head_axes, *X.shape[-2:])


def forward(field: Field[Array], spec: Architecture, weights: Array, X: Array) -> Array:
    """The network on a batch of inputs: (..., rows, t) -> (..., output rows, output columns).

    `weights` is one vector for all inputs, or one for each.

    >>> from segre.fields import Real
    >>> spec = Network.parse("lightning/d=1,1/a=1/t=2")
    >>> forward(Real(), spec, np.array([2.0, 3.0, 5.0]), np.array([[1.0, 10.0]])).tolist()
    [[3030.0, 30300.0]]
    """
    tokens = with_head_axes(spec, X)
    for stage in stages(spec):
        tokens = stage.apply(field, named_tensors(stage, weights), tokens)
    return tokens.reshape(*X.shape[:-2], *tokens.shape[-2:])


def named_tensors(stage: Stage, weights: Array) -> dict[str, Array]:
    """The tensors of a stage from the vector of all weights, or a batch of vectors."""
    batch = weights.shape[:-1]
    return {
        name: weights[..., slot.range].reshape(
            *batch, *[1] * (stage.axes - len(slot.shape) if batch else 0), *slot.shape
        )
        for name, slot in stage.slots.items()
    }


def jacobian(
    field: ArrayField | Sequence[ArrayField],
    spec: Architecture,
    weights: Array,
    X: Array,
    outputs: Array | slice = slice(None),
) -> Array:
    """Derivatives of the outputs by the weights, one matrix per input: (n, outputs, parameters).

    Each stage is differentiated by its own weights and its own input, as dual numbers; the
    stages are then joined by the chain rule from the last to the first. `weights` is one vector
    for all inputs, or one for each. `outputs` chooses among the output entries, in row-major
    order. There may be one field for all stages, or one for each.
    """
    every = stages(spec)
    fields = list(field) if isinstance(field, Sequence) else [field] * len(every)
    tokens = with_head_axes(spec, X)
    local: list[Array] = []
    for own, stage in zip(fields, every, strict=True):
        tokens, derivative = _differentiate(own, stage, weights, tokens, len(local) > 0)
        local.append(derivative)
    local[-1] = local[-1][:, outputs]
    shape = (len(X), local[-1].shape[1], spec.parameters)
    total = np.zeros(shape, dtype=local[-1].dtype)
    base = fields[-1]
    onwards: Array | None = None
    written: set[int] = set()
    for stage, derivative in zip(reversed(every), reversed(local), strict=True):
        if onwards is not None:
            derivative = base.matmul(onwards, derivative)
        column = derivative.shape[-1] - sum(slot.size for slot in stage.slots.values())
        onwards = derivative[..., :column]
        for slot in stage.slots.values():
            mine = derivative[..., column : column + slot.size]
            if slot.start in written:
                mine = base.add(total[..., slot.range], mine)
            total[..., slot.range] = mine
            written.add(slot.start)
            column += slot.size
    return total


def jacobian_rows(
    field: ArrayField, spec: Architecture, weights: Array, X: Array, outputs: Array
) -> Array:
    """Derivatives of one output entry of each input by the weights: (n, parameters).

    In reverse mode: where few of the rows of `jacobian` are asked for, and products are dear.
    """
    tape = Reverse(field)
    tokens = tape.lift(with_head_axes(spec, X))
    each = np.broadcast_to(weights, (len(X), len(weights)))
    used: list[tuple[Slot, Traced]] = []
    for stage in stages(spec):
        own = {name: tape.variable(x) for name, x in named_tensors(stage, each).items()}
        used += [(stage.slots[name], x) for name, x in own.items()]
        tokens = stage.apply(tape, own, tokens)
    shape = tokens.value.shape
    seeds = np.eye(prod(shape[1:]), dtype=np.int64)[outputs]
    tape.backward(tokens, field.constant(seeds).reshape(shape))
    total = field.constant(np.zeros((len(X), spec.parameters)))
    for slot, x in used:
        if x.gradient is not None:
            total[:, slot.range] += x.gradient.reshape(len(X), slot.size)
    return total


def _differentiate(
    field: ArrayField, stage: Stage, weights: Array, tokens: Array, by_input: bool
) -> tuple[Array, Array]:
    """A stage's output, and its derivatives by its input (if asked) and then its weights.

    Tensors come in the order in which they are used, so that what is computed from the first ones
    has tangents in few directions.
    """
    inputs = prod(tokens.shape[-2:]) * by_input

    def seeded(value: Array, one: Array, first: int) -> DualArray:
        seeds = field.identity(one.size, first + one.size, first)
        return DualArray(value, seeds.reshape(*one.shape, first + one.size))

    tensors, first = {}, inputs
    for name, value in named_tensors(stage, weights).items():
        one = value if weights.ndim == 1 else value[:1]
        tensors[name] = seeded(value, one, first)
        first += one.size
    X = seeded(tokens, tokens[:1], 0) if by_input else DualArray(tokens)
    out = stage.apply(Dual(field), tensors, X)
    shape = (len(tokens), prod(out.value.shape[-2:]), first)
    if out.tangent is None:
        return out.value, np.zeros(shape)
    missing = first - out.tangent.shape[-1]
    every = np.broadcast_to(out.tangent, (*out.value.shape, first - missing))
    tangent = every.reshape(*shape[:2], first - missing)
    if missing:
        tangent = np.concatenate([tangent, field.constant(np.zeros((*shape[:2], missing)))], -1)
    return out.value, tangent
