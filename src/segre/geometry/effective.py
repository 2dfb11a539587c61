"""The smallest network with the same function as given weights, in canonical coordinates.

Tokens between layers fill only a subspace, and of that only some linear forms are read later.
Dividing both out leaves spaces E_i on which the layers act by bilinear forms (scores) and linear
maps (values). A basis of E_i is fixed by the maps that write into it: the first independent columns
of all heads' value maps, side by side, become unit vectors. What results depends on the point of
the fiber only through the order of the heads and the scales of lightning heads, which are fixed
too. Two weights with equal effective networks have equal functions, always; on generic fibers the
converse holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from segre.fields.interface import Array
from segre.geometry.coefficients import coefficient_tensor, scale_place
from segre.network import LayerWeights
from segre.spec import Network
from segre.symmetry.reach import parallel_tokens, silent
from segre.weights import Weights


@dataclass(frozen=True)
class EffectiveLayer:
    """Heads (A_h, V_h) on effective coordinates, in canonical order; or a sum over them.

    `merged` replaces the heads if the function depends only on a sum over them: the tensor
    sum_h V_h (x) A_h of full-rank lightning heads, or sum_h V_h where scores have no effect.
    """

    A: tuple[Array, ...]
    V: tuple[Array, ...]
    merged: Array | None
    order: tuple[int, ...]
    scales: tuple[Any, ...]


@dataclass(frozen=True)
class Effective:
    """The effective network: its layers, and how the given tokens map to its tokens.

    `projections[i]` sends tokens after layer i to E_i, `sections[i]` sends E_i back into the
    tokens that can occur; their product is the identity.
    """

    spec: Network
    layers: tuple[EffectiveLayer, ...]
    projections: tuple[Array, ...]
    sections: tuple[Array, ...]
    condition: float
    tolerance: float

    @property
    def widths(self) -> tuple[int, ...]:
        """Dimensions of E_0, ..., E_l."""
        return tuple(p.shape[0] for p in self.projections)


def effective(weights: Weights) -> Effective:
    """Reduce given weights to their effective network."""
    algebra, spec = weights.algebra, weights.spec
    forms = forms_read(weights)
    identity = _identity(weights, spec.widths[0])
    projections, sections = [identity], [identity]
    layers: list[EffectiveLayer] = []
    condition = 1.0
    for i, own in enumerate(weights.layers):
        section = sections[-1]
        values = value_maps(own)
        A = [section.T @ (k.T @ q) @ section for k, q in zip(own.W_K, own.W_Q, strict=True)]
        V = [value @ section for value in values]  # into all of R^{d_i}, coordinates follow
        layer = _canonical_heads(weights, i, A, V)
        columns = _columns(layer)
        if i + 1 == spec.depth:
            projection = _identity(weights, spec.widths[-1])
            section = projection
        else:
            seen = forms[i] @ columns
            pivots = algebra.pivots(seen)
            rows = algebra.pivots(seen[:, pivots].T)
            square = seen[rows][:, pivots]
            projection = algebra.solve(square, forms[i][rows])
            section = columns[:, pivots]
            if not algebra.exact and square.size:
                condition = max(condition, float(np.linalg.cond(square)))
        projections.append(projection)
        sections.append(section)
        layers.append(_projected(layer, projection))
    tolerance = 0.0 if algebra.exact else 1e-9
    return Effective(spec, tuple(layers), tuple(projections), tuple(sections), condition, tolerance)


def value_maps(layer: LayerWeights[Array]) -> list[Array]:
    """The value map of each head."""
    if layer.W_O is None:
        return list(layer.W_V)
    return [out @ value for out, value in zip(layer.W_O, layer.W_V, strict=True)]


def occurring_tokens(weights: Weights) -> list[Array]:
    """Bases (columns) of the tokens that can occur before layer 1, ..., l."""
    images = [_identity(weights, weights.spec.widths[0])]
    for own in weights.layers[:-1]:
        values = value_maps(own)
        if silent(weights.spec):
            values = [_total(values)]
        columns = np.concatenate([value @ images[-1] for value in values], axis=1)
        images.append(columns[:, weights.algebra.pivots(columns)])
    return images


def forms_read(weights: Weights) -> list[Array]:
    """Bases (rows) of the linear forms of tokens that are read after layer 1, ..., l."""
    forms = [_identity(weights, weights.spec.widths[-1])]
    for own in reversed(weights.layers[1:]):
        values = value_maps(own)
        if silent(weights.spec):
            rows = forms[-1] @ _total(values)
        else:
            rows = np.concatenate([*own.W_K, *own.W_Q, *(forms[-1] @ v for v in values)])
        forms.append(rows[weights.algebra.pivots(rows.T)])
    return forms[::-1]


def _canonical_heads(weights: Weights, i: int, A: list[Array], V: list[Array]) -> EffectiveLayer:
    """Order the heads, fix their scales, and merge those that matter only as a sum."""
    spec = weights.spec
    if silent(spec):
        return EffectiveLayer((), (), _total(V), (), ())
    if not spec.mechanism.scales:
        order = _order(A)
        ones = tuple(weights.field.constant(np.ones(len(A), dtype=int)))
        return EffectiveLayer(
            tuple(A[h] for h in order), tuple(V[h] for h in order), None, order, ones
        )
    parallel = parallel_tokens(spec)[i]
    if parallel:
        A = [(form + form.T) / 2 for form in A]
    head, width = spec.layers[i], A[0].shape[0]
    full = width <= (2 * head.a if parallel else head.a)
    if spec.depth == 1 or (len(A) > 1 and full):
        return EffectiveLayer((), (), _merge(spec, A, V, parallel), (), ())
    # where no token arrives (all values before are zero) there is no scale either
    scales = [(form.reshape(-1)[scale_place(form)] if form.size else 0) or 1 for form in A]
    A = [form / c for form, c in zip(A, scales, strict=True)]
    V = [value * c for value, c in zip(V, scales, strict=True)]
    order = _order(A)
    return EffectiveLayer(
        tuple(A[h] for h in order),
        tuple(V[h] for h in order),
        None,
        order,
        tuple(scales[h] for h in order),
    )


def _merge(spec: Network, A: list[Array], V: list[Array], parallel: bool) -> Array:
    """The tensor of a lightning layer; with a single layer, its polynomial: nothing else."""
    if spec.depth > 1:
        return np.asarray(
            sum(value[:, :, None, None] * form for value, form in zip(V, A, strict=True))
        )
    tensor = coefficient_tensor(np.stack(V), np.stack(A))
    if parallel:  # a cubic form: symmetric in all three
        tensor = tensor + tensor.transpose(0, 3, 2, 1) + tensor.transpose(0, 1, 3, 2)
    return tensor


def _columns(layer: EffectiveLayer) -> Array:
    """Everything a layer writes, as columns: its span is the tokens that can occur."""
    if layer.merged is not None:
        return layer.merged.reshape(layer.merged.shape[0], -1)
    return np.concatenate(layer.V, axis=1)


def _projected(layer: EffectiveLayer, projection: Array) -> EffectiveLayer:
    merged = layer.merged
    if merged is not None:
        flat = projection @ merged.reshape(merged.shape[0], -1)
        merged = flat.reshape(len(projection), *merged.shape[1:])
    V = tuple(projection @ value for value in layer.V)
    return EffectiveLayer(layer.A, V, merged, layer.order, layer.scales)


def _order(forms: list[Array]) -> tuple[int, ...]:
    """Heads sorted by a fixed generic linear function of their bilinear forms."""
    rng = np.random.default_rng(2025)
    probe = rng.integers(1, 1 << 20, forms[0].size)
    keys = [(form.reshape(-1) * probe).sum() for form in forms]
    return tuple(sorted(range(len(forms)), key=keys.__getitem__))


def _identity(weights: Weights, n: int) -> Array:
    return weights.field.constant(np.eye(n, dtype=int))


def _total(matrices: list[Array]) -> Array:
    return np.asarray(sum(matrices[1:], start=matrices[0]))
