"""Which numbers does a function determine of its weights?

Of a layer: V and A = K^T Q of each head. Of a stack of one-head layers (docs/mathematics.md,
section 2): L = V_l ... V_1 and M_i = U^T A_i U with U = V_{i-1} ... V_1. In lightning attention a
scale can move between V and A; `normalise_scale` says where it is put.
"""

from __future__ import annotations

import numpy as np

from segre.errors import UnsupportedError
from segre.fields.dual import Dual, DualArray
from segre.fields.interface import Array, E, Field
from segre.fields.real import Real
from segre.geometry.recovery.samples import NotDetermined
from segre.geometry.strata import scale_place
from segre.network import LayerWeights, layer_starts, unflatten
from segre.spec import Network
from segre.stack.stages import slots


def scale_pivot(A: Array) -> tuple[int, int]:
    """The entry of A that the canonical scale makes 1; raises NotDetermined if A is zero.

    It is the convention of the normal form (`coefficients.scale_place`).
    """
    index = scale_place(A)
    if not A.reshape(-1)[index]:
        raise NotDetermined("A is zero: a lightning head without scores is the zero function")
    return index // A.shape[1], index % A.shape[1]


def normalise_scale(V: Array, A: Array) -> tuple[Array, Array]:
    """The canonical (c V, A / c) of a lightning head: the entry `scale_pivot(A)` becomes 1.

    >>> V, A = normalise_scale(np.array([[3.0]]), np.array([[2.0]]))
    >>> V.item(), A.item()
    (6.0, 1.0)
    """
    c = A[scale_pivot(A)]
    return V * c, A / c


def matrices(field: Field[E], spec: Network, layers: list[LayerWeights[E]]) -> list[E]:
    """[L, M_1, ..., M_l] of a one-head stack, [V, A] of a layer; the first axis is for heads."""
    if spec.depth > 1 and any(layer.heads > 1 for layer in spec.layers):
        raise UnsupportedError(
            f"spec {str(spec)!r}: stacks with several heads in a layer are not supported; "
            "allowed: one layer, or one head in each layer"
        )
    below: E | None = None
    scores = []
    for own in layers:
        V = own.W_V if own.W_O is None else field.matmul(own.W_O, own.W_V)
        A = field.matmul(field.transpose(own.W_K), own.W_Q)
        if below is not None:
            A = field.matmul(field.transpose(below), field.matmul(A, below))
            V = field.matmul(V, below)
        scores.append(A)
        below = V
    assert below is not None
    return [below, *scores]


def canonical(spec: Network, vector: Array) -> list[Array]:
    """The visible matrices of float64 weights, at the canonical scale, first axis for heads."""
    field = Real()
    found = matrices(field, spec, _layers(spec, vector))
    return _rescale(field, spec, found, _pivots(spec, found))


def derivatives(spec: Network, vector: Array) -> list[Array]:
    """The derivatives of `canonical` by the weights, which are the last axis."""
    seeds = np.eye(spec.parameters)
    moving = [
        LayerWeights(
            **{
                slot.name: DualArray(
                    vector[slot.range].reshape(slot.shape),
                    seeds[slot.range].reshape(*slot.shape, spec.parameters),
                )
                for slot in slots(layer, start)
            }
        )
        for layer, start in zip(spec.layers, layer_starts(spec), strict=True)
    ]
    pivots = _pivots(spec, matrices(Real(), spec, _layers(spec, vector)))
    dual = Dual(Real())
    found = _rescale(dual, spec, matrices(dual, spec, moving), [DualArray(p) for p in pivots])
    return [matrix.tangent for matrix in found if matrix.tangent is not None]


def _layers(spec: Network, vector: Array) -> list[LayerWeights[Array]]:
    return [
        unflatten(layer, vector[start : start + layer.parameters])
        for layer, start in zip(spec.layers, layer_starts(spec), strict=True)
    ]


def _pivots(spec: Network, found: list[Array]) -> list[Array]:
    """For each M_i, the one entry that the scale makes 1, as a matrix of zeros and a one."""
    pivots = []
    for heads in found[1:] if spec.mechanism.scales else []:
        marked = np.zeros_like(heads)
        for h, A in enumerate(heads):
            marked[(h, *scale_pivot(A))] = 1
        pivots.append(marked)
    return pivots


def _rescale(field: Field[E], spec: Network, found: list[E], pivots: list[E]) -> list[E]:
    """Each M_i divided by its pivot entry; L takes the scales, M_i's to the power 3^(l-i)."""
    if not pivots:
        return found
    L, *scores = found
    scaled = []
    for i, (M, pivot) in enumerate(zip(scores, pivots, strict=True), 1):
        c = field.sum(field.sum(field.mul(M, pivot), -1), -2)
        scaled.append(field.mul(M, field.reciprocal(c)))
        for _ in range(3 ** (spec.depth - i)):
            L = field.mul(L, c)
    return [L, *scaled]
