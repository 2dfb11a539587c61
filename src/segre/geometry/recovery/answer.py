"""What was recovered, how, and how well: the answer of `segre.geometry.recover`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from segre.errors import SegreError, UnsupportedError
from segre.fields.dual import Dual, DualArray
from segre.fields.interface import Array, E, Field
from segre.fields.real import Real
from segre.finding import Status, Unbounded
from segre.geometry.recovery.fit import Search, triangle
from segre.geometry.recovery.lightning import Head
from segre.geometry.recovery.samples import NotDetermined, Samples, relative
from segre.geometry.strata import scale_place
from segre.json_data import stated
from segre.network import LayerWeights, layer_starts, unflatten
from segre.spec import Network
from segre.stack.stages import slots
from segre.weights import Weights

_EPS = float(np.finfo(np.float64).eps)
_STEEP = 1e5  # an error this many times the residual is beyond linearisation


@dataclass(frozen=True, eq=False)
class Recovered(Unbounded):
    """The weights of a function, as far as the function determines them.

    `heads` are the heads of one layer, the largest V first; a stack of one-head layers has
    `products` (L, M_1, ..., M_l) instead. `deviations` are standard errors of the same shapes.
    `alternatives` are other heads with the same function. `residual` is relative, on held-out
    inputs if there were any, otherwise on all. `inputs` is the number of inputs used.
    """

    spec: Network
    status: Status
    residual: float
    inputs: int
    heads: tuple[Head, ...] = ()
    products: tuple[Array, ...] = ()
    deviations: tuple[Head, ...] | tuple[Array, ...] = ()
    alternatives: tuple[Head, ...] = ()
    search: Search | None = None
    weights: Weights | None = None
    notes: tuple[str, ...] = ()

    @property
    def value(self) -> tuple[Head, ...] | tuple[Array, ...]:
        """What was found: the heads of one layer, or the products of a stack."""
        return self.heads or self.products

    @property
    def how(self) -> str:
        """How the weights were found."""
        if self.search is not None:
            return f"fitted from {self.starts} starts, verified on held-out inputs"
        return f"linear algebra, in {'fractions' if self.exact else 'float64'}"

    @property
    def kind(self) -> str:
        """lightning or softmax."""
        return self.spec.score

    @property
    def exact(self) -> bool:
        """Whether the matrices are exact fractions."""
        return self.status == "exact"

    @property
    def V(self) -> Array:
        """The value map of the only head."""
        return self._head.V

    @property
    def A(self) -> Array:
        """The attention matrix of the only head."""
        return self._head.A

    @property
    def error(self) -> float | None:
        """The estimated relative error of the worst matrix; None if exact or not known."""
        if not self.deviations:
            return None
        pairs = zip(_flat(self.deviations), _flat(self.value), strict=True)
        estimate = max(relative(deviation, matrix) for deviation, matrix in pairs)
        return max(estimate, float(np.finfo(np.float64).eps))

    @property
    def starts(self) -> int | None:
        """Number of starts of the fit, if there was one."""
        return None if self.search is None else self.search.starts

    @property
    def success_rate(self) -> float | None:
        """The share of starts that predicted the held-out inputs, if there was a fit."""
        return None if self.search is None else self.search.success_rate

    @property
    def _head(self) -> Head:
        if len(self.heads) != 1:
            raise SegreError(
                f"{str(self.spec)!r} has more than one V and A; use .heads or .products"
            )
        return self.heads[0]

    def document(self) -> dict[str, Any]:
        """The answer as plain data, for JSON; fractions are strings."""
        names = "spec status residual error inputs heads products deviations alternatives"
        made = {name: _numbers(getattr(self, name)) for name in names.split()[5:]}
        return stated(self, f"{names} starts success_rate notes", spec=str(self.spec), **made)


def measured(
    spec: Network,
    vector: Array,
    samples: Samples,
    status: Status,
    residual: float,
    *,
    search: Search | None = None,
    notes: tuple[str, ...] = (),
) -> Recovered:
    """The answer for float64 weights, with the errors that the residuals at the samples suggest."""
    answer = Recovered(
        spec=spec,
        status=status,
        residual=residual,
        inputs=len(samples),
        search=search,
        weights=Weights(spec, vector),
        notes=notes,
    )
    heads = max(layer.heads for layer in spec.layers)
    if spec.depth > 1 and heads > 1:
        note = "the invariants of a stack with several heads are not known: only weights are given"
        return replace(answer, notes=(*notes, note))
    found = canonical(spec, vector)
    order = np.argsort(-np.linalg.norm(found[0], axis=(1, 2)), kind="stable")
    if spec.mechanism.bilinear and heads > 1:
        note = "several lightning heads: other heads may have the same sum, so no errors are given"
        return replace(answer, heads=_heads(found, order), notes=(*notes, note))
    errors = standard_errors(spec, vector, samples)
    if spec.depth > 1:
        products, deviations = (tuple(matrix[0] for matrix in x) for x in (found, errors))
        return _warned(replace(answer, products=products, deviations=deviations))
    return _warned(replace(answer, heads=_heads(found, order), deviations=_heads(errors, order)))


def _warned(answer: Recovered) -> Recovered:
    """Add a note if the problem is too ill-conditioned for linearised errors."""
    error, eps = answer.error or 0.0, float(np.finfo(np.float64).eps)
    if error < _STEEP * max(answer.residual, eps):
        return answer
    note = (
        f"ill-conditioned: the error is {error / max(answer.residual, eps):.0e} times the residual"
    )
    return replace(answer, notes=(*answer.notes, note + ", and may be larger than estimated"))


def _heads(found: list[Array], order: Array) -> tuple[Head, ...]:
    return tuple(Head(found[0][h], found[1][h]) for h in order)


def _flat(found: tuple[Head, ...] | tuple[Array, ...]) -> list[Array]:
    return [matrix for item in found for matrix in (item if isinstance(item, Head) else (item,))]


def _numbers(found: Any) -> Any:
    """Heads, products and matrices as plain data."""
    if isinstance(found, Head):
        return {"V": _numbers(found.V), "A": _numbers(found.A)}
    if isinstance(found, tuple):
        return [_numbers(one) for one in found]
    if found.dtype == object:
        return [[str(x) for x in row] for row in found.tolist()]
    return found.tolist()


# --- what a function determines of its weights ----------------------------------------------------


def standard_errors(spec: Network, vector: Array, samples: Samples) -> list[Array]:
    """How far off each entry of `canonical` may be, if residuals are independent noise.

    The variance of the noise is that of the residuals. It passes through the Jacobian of the
    outputs to the weights, and through the derivative of `canonical`. Along the fiber both are
    zero up to rounding; singular values are not taken for smaller than their own rounding
    errors, so that such directions add no more than the noise itself, while directions that
    outputs see, however weakly, add what they should. No tolerance tells one from the other.
    """
    R, _, squares = triangle(spec, vector, samples)
    norms = np.linalg.norm(R, axis=0)
    norms[norms == 0] = 1.0
    _, sizes, rows = np.linalg.svd(R / norms, full_matrices=False)
    floor = _EPS * R.shape[1] * sizes[0]
    rank = int((sizes > floor).sum())
    freedom = samples.Y.size - rank
    if freedom <= 0:
        raise NotDetermined(
            f"{samples.Y.size} outputs for {rank} unknowns are too few to estimate errors; give "
            "more inputs"
        )
    noise = np.sqrt(squares / freedom)
    spread = rows.T / (np.maximum(sizes, floor) * norms[:, None])
    return [
        np.asarray(noise * np.linalg.norm(slope @ spread, axis=-1))
        for slope in derivatives(spec, vector)
    ]


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
    """[L, M_1, ..., M_l] of a one-head stack, [V, A] of a layer; the first axis is for heads.

    A layer determines V and A = K^T Q of each head, and a stack of one-head layers determines
    L = V_l ... V_1 and M_i = U^T A_i U with U = V_{i-1} ... V_1 (docs/mathematics.md, section 2).
    In lightning attention a scale can move between V and A; `normalise_scale` says where it is put.
    """
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
