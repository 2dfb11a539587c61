"""The normal form of weights, which decides whether two have the same function.

It is the smallest network with the same function, in canonical coordinates. Tokens between layers
fill only a subspace, and of that only some linear forms are read later. Dividing both out leaves
spaces E_i on which the layers act by bilinear forms (scores) and linear maps (values). A basis of
E_i is fixed by the maps that write into it: the first independent columns of all heads' value maps,
side by side, become unit vectors. What results depends on the point of the fiber only through the
order of the heads and the scales of lightning heads, which are fixed too.

Equal normal forms mean equal functions, for all weights. On generic fibers equal functions mean
equal normal forms; for one lightning layer (its polynomial) and one softmax layer this holds for
all weights, up to heads with equal scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from segre.fields.interface import Array
from segre.fields.linear import Floats, LinearAlgebra, Rationals
from segre.geometry.strata import coefficient_tensor, factor, factor_through, padded, scale_place
from segre.network import LayerWeights
from segre.shown import Brief
from segre.spec import Network
from segre.symmetry.reach import parallel_tokens, silent
from segre.weights import Weights, common_kind

TOLERANCE = 1e-8
Head = tuple[Array, Array, Array, Array | None]


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
class Canonical(Brief):
    """The normal form: its layers, and how the given tokens map to its tokens.

    `projections[i]` sends tokens after layer i to E_i. For floats, `condition` is the largest
    condition number of the bases used, by which rounding may have been amplified: invariants are
    accurate to about condition times 1e-16. It is 1 if exact.
    """

    spec: Network
    layers: tuple[EffectiveLayer, ...]
    projections: tuple[Array, ...]
    condition: float
    exact: bool

    def __str__(self) -> str:
        lines = [f"normal form of {self.spec}{'' if self.exact else ', in floats'}:"]
        for name, values in self.invariants:
            size = " x ".join(map(str, np.shape(values))) or "one number"
            lines.append(f"  {name} ({size})")
        return "\n".join(lines)

    @property
    def widths(self) -> tuple[int, ...]:
        """Dimensions of E_0, ..., E_l."""
        return tuple(p.shape[0] for p in self.projections)

    @cached_property
    def invariants(self) -> tuple[tuple[str, Array], ...]:
        """Named invariants in a fixed order."""
        return tuple(self._invariants())

    def _invariants(self) -> Iterator[tuple[str, Array]]:
        for i, layer in enumerate(self.layers, 1):
            if layer.merged is not None:
                yield f"layer {i}: {_merged_name(self.spec)}", layer.merged
            for h, (A, V) in enumerate(zip(layer.A, layer.V, strict=True), 1):
                head = f", head {h}" if len(layer.A) > 1 else ""
                yield f"layer {i}{head}: scores (A on effective tokens)", A
                yield f"layer {i}{head}: values (V on effective tokens)", V

    def weights(self) -> Weights | None:
        """Weights of the same spec in normal form; None if only sums of heads matter."""
        return _normal_weights(self)


@dataclass(frozen=True)
class Difference:
    """The first invariant in which two weights differ, and by how much (relative)."""

    invariant: str
    residual: float


def canonical(weights: Weights) -> Canonical:
    """The normal form of `weights`.

    >>> from segre.geometry.fiber import sample
    >>> w = Weights.random(Network.parse("softmax/d=3,3,3/a=2/t=3"), exact=True)
    >>> difference(canonical(w), canonical(sample(w, seed=1))) is None
    True
    """
    algebra, spec = weights.algebra, weights.spec
    forms = forms_read(weights)
    identity = _identity(weights, spec.widths[0])
    projections, section = [identity], identity
    layers: list[EffectiveLayer] = []
    condition = 1.0
    for i, own in enumerate(weights.layers):
        values = value_maps(own)
        A = [section.T @ (k.T @ q) @ section for k, q in zip(own.W_K, own.W_Q, strict=True)]
        V = [value @ section for value in values]  # into all of R^{d_i}, coordinates follow
        layer = _canonical_heads(weights, i, A, V)
        columns = _columns(layer)
        if i + 1 == spec.depth:
            projection = _identity(weights, spec.widths[-1])
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
        layers.append(_projected(layer, projection))
    return Canonical(spec, tuple(layers), tuple(projections), condition, weights.exact)


def difference(one: Canonical, two: Canonical, tolerance: float = TOLERANCE) -> Difference | None:
    """The first invariant that differs, or None; floats are compared relative to their size."""
    for (name, x), (other, y) in zip(one.invariants, two.invariants, strict=False):
        if name != other or x.shape != y.shape:
            return Difference(f"{name}: shape {x.shape} against {y.shape}", float("inf"))
        x, y = common_kind([x, y])
        if x.dtype == object:
            if not all(a == b for a, b in zip(x.reshape(-1), y.reshape(-1), strict=True)):
                return Difference(name, _relative(*common_kind([x, y.astype(float)])))
        elif _relative(x, y) > tolerance:
            return Difference(name, _relative(x, y))
    if len(one.invariants) != len(two.invariants):
        return Difference("number of heads and layers", float("inf"))
    return None


def largest_residual(one: Canonical, two: Canonical) -> float:
    """The largest relative difference of two normal forms of the same shape.

    Zero functions have no invariants, and then there is no difference.
    """
    pairs = zip(one.invariants, two.invariants, strict=True)
    found = (_relative(*common_kind([x, y.astype(float)])) for (_, x), (_, y) in pairs)
    return max(found, default=0.0)


def _relative(x: Array, y: Array) -> float:
    size = max(float(np.linalg.norm(x)), float(np.linalg.norm(y)))
    return float(np.linalg.norm(x - y)) / size if size else 0.0


def _merged_name(spec: Network) -> str:
    if silent(spec):
        return "sum of value maps"
    return "coefficients of the polynomial" if spec.depth == 1 else "sum of V (x) A over heads"


def _normal_weights(form: Canonical) -> Weights | None:
    """Put the effective network into the shapes of the spec, padded with zeros."""
    spec = form.spec
    algebra: LinearAlgebra = Rationals() if form.exact else Floats()
    if any(layer.merged is not None for layer in form.layers):
        return None
    layers = []
    for i, (layer, target) in enumerate(zip(form.layers, spec.layers, strict=True)):
        heads: list[Head] = []
        for A, V in zip(layer.A, layer.V, strict=True):
            if algebra.rank(A) > target.a:
                return None  # a symmetric part: its rank may exceed that of the scores
            K, Q = factor(algebra, A, target.a)
            wide = padded(V, target.width_out if i + 1 < spec.depth else len(V), target.width_in)
            K, Q = (padded(M, target.a, target.width_in) for M in (K, Q))
            if target.dv is None:
                heads.append((K, Q, wide, None))
                continue
            out_T, value = factor_through(algebra, wide, target.dv)
            heads.append((K, Q, value, out_T))
        layers.append(stacked(heads))
    return Weights.of_layers(spec, layers)


def stacked(heads: Iterable[Head]) -> LayerWeights[Array]:
    """The tensors of a layer from (W_K, W_Q, W_V, W_O) of its heads."""
    K, Q, V, outs = zip(*heads, strict=True)
    return LayerWeights(
        np.stack(K), np.stack(Q), np.stack(V), None if outs[0] is None else np.stack(outs)
    )


# --- the smallest network -------------------------------------------------------------------------


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
