"""Are two small networks the same function? Exactly for fractions, with residuals for floats.

Equal normal forms prove equality. An input at which the outputs differ proves difference: found
mod p for polynomials (an identity would hold mod p too), in balls for softmax. One lightning layer
is decided by its coefficients, and a polynomial network by those of its outputs, if there are not
too many. What is left is said to be undecided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from flint import Ordering, fmpq_mpoly_ctx

from segre.errors import SegreError
from segre.fields.ball import Ball
from segre.fields.draw import Stream
from segre.fields.interface import Array
from segre.fields.prime import PRIMES, Prime
from segre.fields.rational import Rational
from segre.fields.real import Real
from segre.finding import Status, Unbounded
from segre.geometry.normal_form import (
    TOLERANCE,
    Difference,
    canonical,
    difference,
    largest_residual,
)
from segre.json_data import stated
from segre.network import forward
from segre.polynomial.bounds import forms
from segre.polynomial.spec import Convolution
from segre.polynomial.stages import weight_name
from segre.weights import PolynomialWeights, Weights, common_kind

Verdict = Literal["same", "different", "undecided"]
Small = Weights | PolynomialWeights
INPUTS = 8  # at which outputs are compared
_MORE_INPUTS = 64  # where nothing but floating-point outputs is compared
_MOST_TERMS = 20_000  # of one output
_ROUNDING = 2**-44


@dataclass(frozen=True)
class Comparison(Unbounded):
    """The verdict on two networks, and its evidence."""

    verdict: Verdict
    proved: bool
    reason: str
    normal_form_residual: float | None = None
    output_residual: float | None = None
    condition: float | None = None
    first_difference: Difference | None = None

    @property
    def value(self) -> Verdict:
        """The verdict."""
        return self.verdict

    @property
    def same(self) -> bool:
        """Whether the two are the same function."""
        return self.verdict == "same"

    @property
    def status(self) -> Status:
        """Proved for fractions; floats are measured."""
        return "proved" if self.proved else "measured"

    @property
    def how(self) -> str:
        """The evidence for the verdict."""
        return self.reason

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        first = self.first_difference
        names = "verdict proved reason normal_form_residual output_residual condition"
        return stated(self, names, first_difference=None if first is None else first.invariant)


def same_function(
    one: Small, two: Small, *, tolerance: float = TOLERANCE, seed: int = 0
) -> Comparison:
    """Compare two networks, `one` and `two`, on inputs of the same shape.

    Fractions are compared exactly; floats agree if they differ by at most `tolerance`, relative.

    >>> from segre.geometry.fiber import sample
    >>> from segre.spec import Network
    >>> w = Weights.random(Network.parse("lightning/d=3,3,3/a=2/t=2"), exact=True)
    >>> same_function(w, sample(w)).verdict, same_function(w, w).proved
    ('same', True)
    >>> w = PolynomialWeights.random("poly/2-3-1/degree=2", exact=True)
    >>> swapped = [{"W": w.layers[0]["W"][::-1]}, {"W": w.layers[1]["W"][:, ::-1]}]
    >>> same_function(w, PolynomialWeights.of_layers(w.spec, swapped)).reason
    'the normal forms are equal'
    """
    first, second = _shapes(one), _shapes(two)
    if first.keys() != second.keys():
        raise SegreError(
            "the networks cannot be compared: one is a polynomial network, the other has attention"
        )
    for what, a in first.items():
        if a != second[what]:
            raise SegreError(
                f"the networks cannot be compared: {what} is {a} in the first and {second[what]} "
                "in the second"
            )
    exact = one.exact and two.exact
    if isinstance(one, PolynomialWeights) and isinstance(two, PolynomialWeights):
        return _same_polynomials(one, two, seed) if exact else _near(one, two, tolerance, seed)
    assert isinstance(one, Weights)
    assert isinstance(two, Weights)
    return _same_stacks(one, two, seed) if exact else _near_stacks(one, two, tolerance, seed)


def _shapes(one: Small) -> dict[str, Any]:
    """What two networks must have in common to be compared."""
    first, last = one.spec.widths[0], one.spec.widths[-1]
    if isinstance(one, PolynomialWeights):
        return {"input length": first, "number of outputs": last}
    kind = {"kind of attention": one.network.score, "tokens t": one.spec.t}
    return {**kind, "input width": first, "output width": last}


# --- fractions ------------------------------------------------------------------------------------


def _same_stacks(one: Weights, two: Weights, seed: int) -> Comparison:
    gap = difference(canonical(one), canonical(two))
    if gap is None:
        return Comparison("same", True, "the normal forms are equal", 0.0)
    bilinear = one.spec.mechanism.bilinear
    if bilinear and one.spec.depth == two.spec.depth == 1:
        reason = "the coefficients of the two polynomials differ"
        return Comparison("different", True, reason, first_difference=gap)
    found = (_differ_mod_p if bilinear else _differ_in_balls)(one, two, seed)
    if found is not None:
        return Comparison("different", True, found, first_difference=gap)
    reason = (
        f"the normal forms differ ({gap.invariant}), but outputs agree at {INPUTS} inputs: the "
        "weights may be special"
    )
    return Comparison("undecided", False, reason, first_difference=gap)


def _same_polynomials(one: PolynomialWeights, two: PolynomialWeights, seed: int) -> Comparison:
    found = _differ_mod_p(one, two, seed)
    if found is not None:
        return Comparison("different", True, found)
    if one.spec == two.spec and (_normal(one) == _normal(two)).all():
        return Comparison("same", True, "the normal forms are equal", 0.0)
    variables = one.spec.width_in + (one.spec.bias or two.spec.bias)
    degree = max(one.spec.total_degree, two.spec.total_degree)
    if forms(variables, degree, _MOST_TERMS) >= _MOST_TERMS:
        reason = (
            "the normal forms differ, but outputs agree at random inputs; there are too many "
            "coefficients to compare all of them"
        )
        return Comparison("undecided", False, reason)
    if (_expanded(one) == _expanded(two)).all():
        return Comparison("same", True, "all coefficients of the outputs are equal")
    return Comparison("different", True, "the coefficients of the outputs differ")


def _differ_mod_p(one: Small, two: Small, seed: int) -> str | None:
    """An output that differs mod p, in words, for networks that compute polynomials."""
    for p in PRIMES:
        field = Prime(p, seed)
        if any(int(x.q) % p == 0 for w in (one, two) for x in w.vector):
            continue
        X = field.draw(Stream.INPUTS, 0, (INPUTS, one.spec.widths[0], one.spec.t))
        first, second = (
            field.residues(forward(field, w.spec, _reduced(w.vector, field), X)) for w in (one, two)
        )
        for n, row, column in np.argwhere(first != second).tolist()[:1]:
            return (
                f"output ({row}, {column}) differs mod {p} at input {n} of seed {seed}, so the "
                "polynomials differ"
            )
    return None


def _reduced(vector: Array, field: Prime) -> Array:
    p = field.p
    return field.constant(np.array([int(x.p) * pow(int(x.q), -1, p) % p for x in vector]))


def _differ_in_balls(one: Weights, two: Weights, seed: int) -> str | None:
    rng = np.random.default_rng(seed)
    X = rng.integers(-8, 9, (INPUTS, one.spec.widths[0], one.spec.t))
    for bits in (128, 512):
        field = Ball(bits)
        with field.precision():
            outputs = [
                forward(field, w.spec, field.constant(w.vector), field.constant(X))
                for w in (one, two)
            ]
            apart = np.frompyfunc(lambda x, y: not x.overlaps(y), 2, 1)(*outputs)
            for n, row, column in np.argwhere(apart).tolist()[:1]:
                return (
                    f"output ({row}, {column}) differs at integer input {n} of seed {seed}, by "
                    f"ball arithmetic at {bits} bits"
                )
    return None


def _expanded(weights: PolynomialWeights) -> Array:
    """The outputs as polynomials: the forward map evaluated at variables."""
    names = [f"x{n}" for n in range(weights.spec.width_in)]
    context = fmpq_mpoly_ctx.get(names, Ordering.degrevlex)
    X = np.empty((1, len(names), 1), dtype=object)
    for n, variable in enumerate(context.gens()):
        X[0, n, 0] = variable
    return forward(Rational(), weights.spec, weights.vector, X).reshape(-1)


def _normal(weights: PolynomialWeights) -> Array:
    """The weights with the first non-zero weight of each hidden unit 1, and units in order."""
    spec = weights.spec
    layers = [{name: tensor.copy() for name, tensor in own.items()} for own in weights.layers]
    for i, layer in enumerate(spec.layers[:-1]):
        own, read = layers[i], layers[i + 1][weight_name(spec.layers[i + 1])]
        one_for_all = isinstance(layer, Convolution)
        rows = np.concatenate(list(own.values()), axis=1)
        for unit, row in enumerate(rows):
            scale = next((entry for entry in row if entry != 0), None)
            if scale is not None:
                for tensor in own.values():
                    tensor[unit] = tensor[unit] / scale
                readers = slice(None) if one_for_all else (slice(None), unit)
                read[readers] = read[readers] * scale**spec.degree
        if not one_for_all:
            keys = [tuple(row) for row in np.concatenate(list(own.values()), axis=1)]
            order = sorted(range(layer.units), key=keys.__getitem__)
            for tensor in own.values():
                tensor[:] = tensor[order]
            read[:] = read[:, order]
    return np.concatenate([tensor.reshape(-1) for own in layers for tensor in own.values()])


# --- floats ---------------------------------------------------------------------------------------


def _outputs(one: Small, two: Small, X: Array) -> tuple[float, float]:
    """How far apart the outputs at X are, and the larger norm of the two."""
    Y, Z = (forward(Real(), w.spec, w.vector.astype(float), X) for w in (one, two))
    size = max(float(np.linalg.norm(Y)), float(np.linalg.norm(Z)), np.finfo(float).tiny)
    return float(np.linalg.norm(Y - Z)), size


def _near(
    one: PolynomialWeights, two: PolynomialWeights, tolerance: float, seed: int
) -> Comparison:
    X = np.random.default_rng(seed).standard_normal((_MORE_INPUTS, one.spec.width_in, 1))
    far, size = _outputs(one, two, X)
    output = far / size
    if output > tolerance:
        reason = f"outputs differ by {output:.1e} (relative)"
        return Comparison("different", False, reason, output_residual=output)
    reason = f"outputs agree at {_MORE_INPUTS} random inputs within the tolerance"
    return Comparison("same", False, reason, output_residual=output)


def _near_stacks(one: Weights, two: Weights, tolerance: float, seed: int) -> Comparison:
    vectors = common_kind([one.vector, two.vector.astype(float) if two.exact else two.vector])
    first, second = (Weights(w.spec, v) for w, v in zip((one, two), vectors, strict=True))
    X = np.random.default_rng(seed).standard_normal((INPUTS, one.spec.widths[0], one.spec.t))
    far, size = _outputs(first, second, X)
    # of the zero function all that floats give is rounding: then outputs do not tell
    output = far / size if far > _rounding(first, second, X) else 0.0
    both = canonical(first), canonical(second)
    gap = difference(*both, tolerance)
    residual = largest_residual(*both) if gap is None else gap.residual
    condition = max(form.condition for form in both)
    verdict: Verdict
    if output > tolerance:
        verdict, reason = "different", f"outputs differ by {output:.1e} (relative)"
    elif gap is None:
        verdict, reason = "same", "normal forms and outputs agree within the tolerance"
    else:
        verdict = "undecided"
        reason = f"outputs agree within the tolerance, but {gap.invariant} does not"
    return Comparison(verdict, False, reason, residual, output, condition, gap)


def _rounding(one: Weights, two: Weights, X: Array) -> float:
    """How much of outputs at X may be rounding: a small part of all that is added up in them.

    In lightning that is the output of the absolute values of weights and inputs; in softmax, whose
    patterns sum to one, what the values alone can make of the largest token.
    """
    found = 0.0
    for weights in (one, two):
        if weights.spec.mechanism.bilinear:
            reach = forward(Real(), weights.spec, np.abs(weights.vector), np.abs(X))
            found = max(found, float(np.linalg.norm(reach)))
            continue
        token = np.abs(X).max(axis=(0, 2))
        for layer in weights.layers:
            values = np.abs(layer.W_V)
            outs = values if layer.W_O is None else np.abs(layer.W_O) @ values
            token = outs.sum(axis=0) @ token
        found = max(found, float(np.linalg.norm(token)) * len(X) * X.shape[-1])
    return _ROUNDING * found
