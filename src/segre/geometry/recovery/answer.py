"""What was recovered, how, and how well: the answer of `segre.geometry.recover`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from segre.errors import SegreError
from segre.fields.interface import Array
from segre.finding import Status, Unbounded
from segre.geometry.recovery.fit import Search, triangle
from segre.geometry.recovery.lightning import Head
from segre.geometry.recovery.samples import NotDetermined, Samples, relative
from segre.geometry.recovery.visible import canonical, derivatives
from segre.json_data import stated
from segre.spec import Network
from segre.weights import Weights

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


_EPS = float(np.finfo(np.float64).eps)


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
