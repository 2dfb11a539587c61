"""The fiber of a function: the normal form of its weights, other points of it, and the way there.

`canonical` is in normal_form.py; here weights are moved along their fiber, and two weights are
connected by the group element between them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from segre.fields.interface import Array
from segre.fields.linear import LinearAlgebra
from segre.geometry.normal_form import (
    Canonical,
    Difference,
    canonical,
    difference,
    forms_read,
    occurring_tokens,
    stacked,
)
from segre.geometry.strata import factor, swapped
from segre.network import LayerWeights
from segre.shown import Brief
from segre.weights import Weights

__all__ = ["Connection", "canonical", "connect", "sample"]

_ZERO = "the zero function: V = 0 or A = 0, the other matrix arbitrary"


def sample(weights: Weights, seed: int = 0) -> Weights:
    """Random other weights with the same function: a random symmetry, and changes without effect.

    `weights` are left as they are. One lightning head with rank V = rank A = 1 may also be swapped
    to its other sheet.

    >>> w = Weights.random("softmax/d=3,3,3/a=2/t=2", exact=True)
    >>> moved = sample(w, seed=1)
    >>> bool((moved.vector == w.vector).all()), canonical(moved).invariants[0][0]
    (False, 'layer 1: scores (A on effective tokens)')
    """
    rng = np.random.default_rng([seed, 1])
    moved = random_element(weights, seed).apply(weights)
    moved = _add_invisible(moved, rng)
    spec = weights.spec
    if spec.depth == 1 and spec.one_headed and spec.mechanism.bilinear and rng.random() < 0.5:
        moved = _swap_sheets(moved)
    return moved


def _add_invisible(weights: Weights, rng: np.random.Generator) -> Weights:
    """Add output that is never read, then weights on inputs that never occur (in this order)."""
    algebra = weights.algebra

    def some(*shape: int) -> Array:
        drawn = rng.integers(-3, 4, shape) if weights.exact else rng.standard_normal(shape)
        return weights.field.constant(drawn)

    layers = []
    for own, form in zip(weights.layers, forms_read(weights), strict=True):
        unread = algebra.null_space(form)
        last = "W_V" if own.W_O is None else "W_O"
        written = getattr(own, last)
        added = unread.T @ some(len(written), len(unread), written.shape[2])
        layers.append(replace(own, **{last: written + added}))
    weights = Weights.of_layers(weights.spec, layers)
    layers = []
    for own, image in zip(weights.layers, occurring_tokens(weights), strict=True):
        blind = algebra.null_space(image.T)
        tensors = {
            name: getattr(own, name) + some(*getattr(own, name).shape[:2], len(blind)) @ blind
            for name in ("W_K", "W_Q", "W_V")
        }
        layers.append(replace(own, **tensors))
    return Weights.of_layers(weights.spec, layers)


def _swap_sheets(weights: Weights) -> Weights:
    own, algebra = weights.layers[0], weights.algebra
    V, A = own.W_V[0], own.W_K[0].T @ own.W_Q[0]
    if algebra.rank(V) != 1 or algebra.rank(A) != 1:
        return weights
    other_V, other_A = swapped(algebra, V, A)
    K, Q = factor(algebra, other_A, weights.spec.layers[0].a)
    return Weights.of_layers(weights.spec, [LayerWeights(K[None], Q[None], other_V[None])])


@dataclass(frozen=True)
class Connection(Brief):
    """Whether two sets of weights lie on one generic fiber, and the symmetry between them.

    `element` maps the first to the second, up to `residual` (relative, zero if exact). It is None
    if the weights also differ in directions without effect on the function, or if the function
    depends only on sums over heads; `note` then says so.
    """

    same: bool
    difference: Difference | None = None
    element: GroupElement | None = None
    swapped: bool = False
    residual: float | None = None
    note: str = ""

    def __str__(self) -> str:
        if self.difference is not None:
            return f"different functions; first difference: {self.difference.invariant}"
        way = "no group element between them is known" if self.element is None else "connected"
        near = "" if self.residual is None else f" to within {self.residual:.1g}, relative"
        return f"the same function; {self.note or f'{way}{near}'}"


def connect(one: Weights, two: Weights) -> Connection:
    """The symmetry that maps `one` to `two`, or the first invariant that differs.

    >>> w = Weights.random("softmax/d=3,3,3/a=2/t=2", exact=True)
    >>> connect(w, sample(w)).residual, connect(w, Weights.random(w.spec, 1, exact=True)).same
    (0.0, False)
    """
    first, second = canonical(one), canonical(two)
    found = difference(first, second)
    if found is not None:
        return Connection(False, found)
    if one.spec != two.spec or one.exact != two.exact:
        return Connection(True, note="equal functions of different architectures or numbers")
    if one.spec.depth == 1 and one.spec.one_headed and one.spec.mechanism.bilinear:
        return _connect_one_layer(one, two)
    merged = any(layer.merged is not None for layer in first.layers)
    if merged or first.widths[1:-1] != one.spec.widths[1:-1]:
        what = (
            "the function depends only on sums over heads"
            if merged
            else "some directions have no effect on the function"
        )
        return Connection(
            True, note=f"equal effective networks; {what}, so no group element is given"
        )
    return _checked(one, two, _element_between(one, two, first, second))


def _checked(
    one: Weights, two: Weights, element: GroupElement | None, swap: bool = False
) -> Connection:
    if element is None:
        note = "the basis of a head is not determined by its rows, so no group element is given"
        return Connection(True, swapped=swap, note=note)
    moved = element.apply(one).vector
    if one.exact:
        residual = 0.0 if (moved == two.vector).all() else float("inf")
    else:
        residual = float(np.linalg.norm(moved - two.vector) / np.linalg.norm(two.vector))
    return Connection(True, None, element, swap, residual)


def _connect_one_layer(one: Weights, two: Weights) -> Connection:
    """(c V, A / c), after the swap to the other sheet if need be."""
    for swap, start in ((False, one), (True, _swap_sheets(one))):
        V, W = start.layers[0].W_V[0], two.layers[0].W_V[0]
        algebra = one.algebra
        if algebra.rank(V) == 0 or algebra.rank(W) == 0:
            return Connection(True, note=_ZERO)
        if algebra.rank(np.stack([V.reshape(-1), W.reshape(-1)])) > 1:
            continue
        place = int(np.argmax(np.abs(V.reshape(-1).astype(float))))
        c = W.reshape(-1)[place] / V.reshape(-1)[place]
        ends = tuple(identity(one, n) for n in one.spec.widths)
        G = _basis_change(algebra, start.layers[0].W_Q[0], two.layers[0].W_Q[0] * c)
        element = None if G is None else GroupElement(ends, ((HeadMove(0, G, None, c),),))
        return _checked(start, two, element, swap)
    return Connection(True, note=_ZERO)


def _element_between(
    one: Weights, two: Weights, first: Canonical, second: Canonical
) -> GroupElement | None:
    algebra = one.algebra
    ends = [identity(one, n) for n in one.spec.widths]
    bases = [
        algebra.solve(q, p) if 0 < i < one.spec.depth else ends[i]
        for i, (p, q) in enumerate(zip(first.projections, second.projections, strict=True))
    ]
    layers = []
    for i, (a, b) in enumerate(zip(first.layers, second.layers, strict=True)):
        around = bases[i], bases[i + 1]
        found: dict[int, HeadMove | None] = {}
        for h, source, s, t in zip(b.order, a.order, a.scales, b.scales, strict=True):
            own = _head(one.layers[i], source), _head(two.layers[i], h)
            found[h] = _head_between(algebra, *own, around, source, s / t)
        known = [found[h] for h in sorted(found)]
        layers.append(tuple(move for move in known if move is not None))
        if len(layers[-1]) < len(known):
            return None
    return GroupElement(tuple(bases), tuple(layers))


def _head(layer: LayerWeights[Array], h: int) -> LayerWeights[Array]:
    """The tensors of one head."""
    out = None if layer.W_O is None else layer.W_O[h]
    return LayerWeights(layer.W_K[h], layer.W_Q[h], layer.W_V[h], out)


def _head_between(
    algebra: LinearAlgebra,
    mine: LayerWeights[Array],
    other: LayerWeights[Array],
    bases: tuple[Array, Array],
    source: int,
    scale: Any,
) -> HeadMove | None:
    """What makes a head of another; None if its bases are not determined."""
    before, after = bases
    G, D = _basis_change(algebra, mine.W_Q, scale * (other.W_Q @ before)), None
    if mine.W_O is not None and other.W_O is not None:
        D = _basis_change(algebra, mine.W_V, other.W_V @ before)
        if D is None:  # more value dimensions than tokens have: read them off W_O
            back = _basis_change(algebra, other.W_O.T, (after @ mine.W_O * scale).T)
            if back is None:
                return None
            D = back.T
    return None if G is None else HeadMove(source, G, D, scale)


def _basis_change(algebra: LinearAlgebra, source: Array, target: Array) -> Array | None:
    """G with G source = target, if the rows of `source` are independent (else not unique)."""
    pivots = algebra.pivots(source)
    if len(pivots) < len(source):
        return None
    return np.asarray(algebra.solve(source[:, pivots].T, target[:, pivots].T).T)


# --- symmetries as maps of weights: apply one, draw one -------------------------------------------


@dataclass(frozen=True)
class HeadMove:
    """What makes a head of another head of the layer: G, D (where values are factored), and c.

    Q = G Q' C^-1 / c, K = G^-T K' C^-1, V = c C' V' C^-1 (or W_V = D W_V' C^-1, W_O = c C' W_O'
    D^-1), where C, C' are the bases before and after the layer and c is 1 for softmax.
    """

    source: int
    query_key: Array
    value_output: Array | None
    scale: Any


@dataclass(frozen=True)
class GroupElement:
    """A symmetry: bases of the tokens between layers (1 at both ends), and the heads it makes."""

    bases: tuple[Array, ...]
    heads: tuple[tuple[HeadMove, ...], ...]

    @property
    def order(self) -> tuple[tuple[int, ...], ...]:
        """Which head each head is made of, layer by layer."""
        return tuple(tuple(head.source for head in layer) for layer in self.heads)

    def apply(self, weights: Weights) -> Weights:
        """The moved weights."""
        algebra = weights.algebra
        layers = []
        for own, moves, before, after in zip(
            weights.layers, self.heads, self.bases, self.bases[1:], strict=False
        ):
            heads = []
            for move in moves:
                h, G, D, c = move.source, move.query_key, move.value_output, move.scale
                Q = _right_divide(algebra, G @ own.W_Q[h], before) / c
                K = _right_divide(algebra, algebra.solve(G.T, own.W_K[h]), before)
                V = _right_divide(algebra, own.W_V[h], before)
                if own.W_O is None or D is None:
                    heads.append((K, Q, c * (after @ V), None))
                else:
                    out = c * (after @ _right_divide(algebra, own.W_O[h], D))
                    heads.append((K, Q, D @ V, out))
            layers.append(stacked(heads))
        return Weights.of_layers(weights.spec, layers)


def _right_divide(algebra: LinearAlgebra, matrix: Array, base: Array) -> Array:
    """matrix base^-1."""
    return np.asarray(algebra.solve(base.T, matrix.T).T)


def random_element(weights: Weights, seed: int = 0) -> GroupElement:
    """A random symmetry of the architecture, well conditioned, in the numbers of `weights`."""
    rng = np.random.default_rng(seed)
    spec = weights.network

    def regular(n: int) -> Array:
        if weights.exact:  # unit triangular times unit triangular: integers, determinant 1
            lower = np.tril(rng.integers(-2, 3, (n, n)), -1) + np.eye(n, dtype=int)
            upper = np.triu(rng.integers(-2, 3, (n, n)), 1) + np.eye(n, dtype=int)
            return weights.field.constant(lower @ upper)
        left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
        return np.asarray(left @ np.diag(rng.uniform(0.5, 2, n)) @ right)

    def scale() -> Any:
        if not spec.mechanism.scales:
            return 1
        if weights.exact:
            top, bottom = rng.integers(1, 6, 2).tolist()
            return weights.field.constant(np.array([top]))[0] / bottom
        return float(rng.uniform(0.5, 2) * rng.choice([-1, 1]))

    first, *inner, last = spec.widths
    bases = [identity(weights, first), *map(regular, inner), identity(weights, last)]
    order = [rng.permutation(layer.heads).tolist() for layer in spec.layers]
    query_key = [[regular(layer.a) for _ in range(layer.heads)] for layer in spec.layers]
    value_output = [
        [None if layer.dv is None else regular(layer.dv) for _ in range(layer.heads)]
        for layer in spec.layers
    ]
    scales = [[scale() for _ in range(layer.heads)] for layer in spec.layers]
    layers = zip(order, query_key, value_output, scales, strict=True)
    heads = (tuple(map(HeadMove, *layer)) for layer in layers)
    return GroupElement(tuple(bases), tuple(heads))


def identity(weights: Weights, n: int) -> Array:
    """The identity matrix, in the numbers of `weights`."""
    return weights.field.constant(np.eye(n, dtype=int))
