"""What of each layer's token space the network can fill, and what of it is read afterwards.

Between layers i and i+1 tokens live in R^d. They fill only the image of what came before
(dimension `reached`), and later layers read them only through their keys, queries and values
(`read` linear forms). Weights that act outside the image, or write outside what is read, are
invisible. Both dimensions are the generic ones, known from the spec alone; bases at given
weights are computed exactly and rejected if the weights are not generic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from segre.attention.layer import Layer
from segre.errors import UnluckyError
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.fields.profile import SMALL, new_rows
from segre.fields.rank import Echelon
from segre.network import LayerWeights
from segre.spec import Network


def reached(spec: Network) -> list[int]:
    """Generic dimension of the space that tokens span before each layer and at the end.

    >>> reached(Network.parse("softmax/d=3,1,4,4/a=2/heads=2/t=3"))
    [3, 1, 2, 4]
    """
    out = [spec.widths[0]]
    for layer in spec.layers:
        out.append(min(layer.width_out, _through(spec, layer, out[-1], 0)))
    return out


def read(spec: Network) -> list[int]:
    """Generic number of linear forms of the tokens read from before each layer on.

    >>> read(Network.parse("softmax/d=9,9,1/a=2,1/t=3"))
    [7, 3, 1]
    """
    out = [spec.widths[-1]]
    for layer in reversed(spec.layers):
        out.append(min(layer.width_in, _through(spec, layer, out[-1], 2 * layer.a)))
    return out[::-1]


def _through(spec: Network, layer: Layer, dimension: int, scores: int) -> int:
    """How many dimensions pass the heads of a layer, with `scores` more read by each head."""
    head = layer
    if silent(spec):  # the heads add up to one linear map
        return dimension if head.dv is None else min(dimension, head.heads * head.dv)
    return head.heads * ((dimension if head.dv is None else min(dimension, head.dv)) + scores)


def parallel_tokens(spec: Network) -> list[bool]:
    """Before each lightning layer: must all tokens be multiples of one vector?

    Then the layer sees only the symmetric part of K^T Q. It happens with one token, and
    after a layer of rank one.
    """
    rank = [min(spec.widths[0], spec.t)]
    for layer in spec.layers:
        head = layer
        each = min(rank[-1], head.a, head.a if head.dv is None else head.dv)
        rank.append(min(layer.width_out, spec.t, head.heads * each))
    return [r == 1 for r in rank[:-1]]


def silent(spec: Network) -> bool:
    """Whether scores have no effect at all: a softmax over one token is 1."""
    return spec.mechanism.silent(spec.t)


@dataclass(frozen=True)
class Passage:
    """What passes through each layer at given weights mod p, as bases.

    images[i]      columns spanning the tokens before layer i + 1 (after layer i)
    forms[i]       rows spanning the linear forms of these tokens that are read later
    """

    images: list[Array]
    forms: list[Array]

    @classmethod
    def of(cls, field: Prime, spec: Network, weights: list[LayerWeights[Array]]) -> Passage:
        """Compute the bases; raises UnluckyError where a dimension is not the generic one."""
        values = [
            pooled.W_V if pooled.W_O is None else field.matmul(pooled.W_O, pooled.W_V)
            for pooled in (_pool(spec, w) for w in weights)
        ]
        images = [np.eye(spec.widths[0])]
        for dimension, value in zip(reached(spec)[1:], values, strict=True):
            columns = field.matmul(value, images[-1])
            rows = columns.transpose(0, 2, 1).reshape(-1, columns.shape[1])
            images.append(rows[_generic_rows(field, rows, dimension)].T)
        forms, dimensions = [np.eye(spec.widths[-1])], read(spec)
        for i in reversed(range(spec.depth)):
            w = weights[i]
            through = field.matmul(forms[-1], values[i])
            parts = [through] if silent(spec) else [w.W_K, w.W_Q, through]
            rows = np.concatenate([part.reshape(-1, part.shape[-1]) for part in parts])
            forms.append(rows[_generic_rows(field, rows, dimensions[i])])
        return cls(images, forms[::-1])


def _pool(spec: Network, weights: LayerWeights[Array]) -> LayerWeights[Array]:
    """Where scores are silent the heads act as one, with the sum of their value maps."""
    if not silent(spec):
        return weights
    V, O = weights.W_V, weights.W_O  # noqa: E741
    if O is None:
        return replace(weights, W_V=V.sum(axis=0, keepdims=True))
    heads, dv, columns = V.shape
    side_by_side = O.transpose(1, 0, 2).reshape(1, -1, heads * dv)
    return replace(weights, W_V=V.reshape(1, heads * dv, columns), W_O=side_by_side)


def annihilator(field: Prime, rows: Array) -> Array:
    """A basis (rows) of the vectors orthogonal to `rows`, which must have full generic rank."""
    space = _generic_span(field, rows, min(rows.shape))
    return field.reduce(space.kernel())


def _generic_rows(field: Prime, rows: Array, dimension: int) -> list[int]:
    """Rows that are a basis of all of them."""
    if rows.size > SMALL:
        return _generic_span(field, rows, dimension).pivot_rows
    found = new_rows(rows, field)
    _require_generic(len(found), dimension)
    return found


def _generic_span(field: Prime, rows: Array, dimension: int) -> Echelon:
    space = Echelon(rows.shape[1], field, capacity=dimension)
    space.add(rows)
    _require_generic(space.rank, dimension)
    return space


def _require_generic(rank: int, dimension: int) -> None:
    if rank != dimension:
        raise UnluckyError(
            f"this random point is special: it spans {rank} dimensions instead of {dimension}; "
            "try another seed"
        )
