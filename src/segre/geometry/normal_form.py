"""The normal form of weights, which decides whether two have the same function.

The normal form of weights is their effective network (geometry/effective.py): bilinear forms and
value maps on canonical coordinates, heads in canonical order, lightning scales fixed. Equal normal
forms mean equal functions, for all weights. On generic fibers equal functions mean equal normal
forms; for one lightning layer (its polynomial) and one softmax layer this holds for all weights,
up to heads with equal scores.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from segre.fields.interface import Array
from segre.fields.linear import Floats, LinearAlgebra, Rationals
from segre.geometry.effective import Effective, effective
from segre.geometry.strata import factor, factor_through, padded
from segre.network import LayerWeights
from segre.shown import Brief
from segre.spec import Network
from segre.symmetry.reach import silent
from segre.weights import Weights, common_kind

TOLERANCE = 1e-8


@dataclass(frozen=True)
class Canonical(Brief):
    """The normal form: named invariants in a fixed order.

    For floats, `condition` is the largest condition number of the bases used: invariants are
    accurate to about condition times 1e-16.
    """

    effective: Effective
    invariants: tuple[tuple[str, Array], ...]
    exact: bool

    def __str__(self) -> str:
        lines = [f"normal form of {self.effective.spec}{'' if self.exact else ', in floats'}:"]
        for name, values in self.invariants:
            size = " x ".join(map(str, np.shape(values))) or "one number"
            lines.append(f"  {name} ({size})")
        return "\n".join(lines)

    @property
    def condition(self) -> float:
        """The factor by which rounding may have been amplified (1 if exact)."""
        return self.effective.condition

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
    reduced = effective(weights)
    invariants: list[tuple[str, Array]] = []
    for i, layer in enumerate(reduced.layers, 1):
        if layer.merged is not None:
            invariants.append((f"layer {i}: {_merged_name(weights.spec)}", layer.merged))
        for h, (A, V) in enumerate(zip(layer.A, layer.V, strict=True), 1):
            head = f", head {h}" if len(layer.A) > 1 else ""
            invariants.append((f"layer {i}{head}: scores (A on effective tokens)", A))
            invariants.append((f"layer {i}{head}: values (V on effective tokens)", V))
    return Canonical(reduced, tuple(invariants), weights.exact)


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
    reduced = form.effective
    spec = reduced.spec
    algebra: LinearAlgebra = Rationals() if form.exact else Floats()
    if any(layer.merged is not None for layer in reduced.layers):
        return None
    layers = []
    for i, (layer, target) in enumerate(zip(reduced.layers, spec.layers, strict=True)):
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


Head = tuple[Array, Array, Array, Array | None]


def stacked(heads: Iterable[Head]) -> LayerWeights[Array]:
    """The tensors of a layer from (W_K, W_Q, W_V, W_O) of its heads."""
    K, Q, V, outs = zip(*heads, strict=True)
    return LayerWeights(
        np.stack(K), np.stack(Q), np.stack(V), None if outs[0] is None else np.stack(outs)
    )
