"""Are two small networks the same function? Exactly for fractions, with residuals for floats.

Equal normal forms prove equality. An input at which the outputs differ proves difference: found
mod p for lightning (a polynomial identity would hold mod p too), in balls for softmax. One
lightning layer is decided by its coefficients. What is left is said to be undecided.
"""

from __future__ import annotations

import numpy as np

from segre.errors import SegreError
from segre.fields.ball import Ball
from segre.fields.interface import Array
from segre.fields.real import Real
from segre.geometry.normal_form import (
    TOLERANCE,
    canonical,
    difference,
    largest_residual,
)
from segre.geometry.same_polynomial import same_polynomials
from segre.geometry.verdict import INPUTS, Comparison, Verdict, differ_mod_p
from segre.network import forward
from segre.weights import PolynomialWeights, Weights, common_kind

_ROUNDING = 2**-44


def same_function(
    one: Weights | PolynomialWeights,
    two: Weights | PolynomialWeights,
    *,
    tolerance: float = TOLERANCE,
    seed: int = 0,
) -> Comparison:
    """Compare two networks, `one` and `two`, on inputs of the same shape.

    Fractions are compared exactly; floats agree if they differ by at most `tolerance`, relative.

    >>> from segre.geometry.fiber import sample
    >>> from segre.spec import Network
    >>> w = Weights.random(Network.parse("lightning/d=3,3,3/a=2/t=2"), exact=True)
    >>> same_function(w, sample(w)).verdict, same_function(w, w).proved
    ('same', True)
    """
    if isinstance(one, PolynomialWeights) and isinstance(two, PolynomialWeights):
        return same_polynomials(one, two, tolerance=tolerance, seed=seed)
    if isinstance(one, PolynomialWeights) or isinstance(two, PolynomialWeights):
        raise SegreError(
            "the networks cannot be compared: one is a polynomial network, the other has attention"
        )
    for what, a, b in (
        ("kind of attention", one.network.score, two.network.score),
        ("tokens t", one.spec.t, two.spec.t),
        ("input width", one.spec.widths[0], two.spec.widths[0]),
        ("output width", one.spec.widths[-1], two.spec.widths[-1]),
    ):
        if a != b:
            raise SegreError(
                f"the networks cannot be compared: {what} is {a} in the first and {b} in the second"
            )
    if one.exact and two.exact:
        return _decide(one, two, seed)
    return _measure(one, two, tolerance, seed)


def _decide(one: Weights, two: Weights, seed: int) -> Comparison:
    gap = difference(canonical(one), canonical(two))
    if gap is None:
        return Comparison("same", True, "the normal forms are equal", 0.0)
    if one.spec.mechanism.bilinear and one.spec.depth == two.spec.depth == 1:
        reason = "the coefficients of the two polynomials differ"
        return Comparison("different", True, reason, first_difference=gap)
    found = (
        differ_mod_p(one, two, seed)
        if one.spec.mechanism.bilinear
        else _differ_in_balls(one, two, seed)
    )
    if found is not None:
        return Comparison("different", True, found, first_difference=gap)
    reason = (
        f"the normal forms differ ({gap.invariant}), but outputs agree at {INPUTS} inputs: the "
        "weights may be special"
    )
    return Comparison("undecided", False, reason, first_difference=gap)


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


def _measure(one: Weights, two: Weights, tolerance: float, seed: int) -> Comparison:
    vectors = common_kind([one.vector, two.vector.astype(float) if two.exact else two.vector])
    first, second = (Weights(w.spec, v) for w, v in zip((one, two), vectors, strict=True))
    X = np.random.default_rng(seed).standard_normal((INPUTS, one.spec.widths[0], one.spec.t))
    Y, Z = (forward(Real(), w.spec, w.vector, X) for w in (first, second))
    size = max(float(np.linalg.norm(Y)), float(np.linalg.norm(Z)), np.finfo(float).tiny)
    apart = float(np.linalg.norm(Y - Z))
    # of the zero function all that floats give is rounding: then outputs do not tell
    output = apart / size if apart > _rounding(first, second, X) else 0.0
    forms = canonical(first), canonical(second)
    gap = difference(*forms, tolerance)
    residual = largest_residual(*forms) if gap is None else gap.residual
    condition = max(form.condition for form in forms)
    verdict: Verdict
    if output > tolerance:
        verdict, reason = "different", f"outputs differ by {output:.1e} (relative)"
    elif gap is None:
        verdict, reason = "same", "normal forms and outputs agree within the tolerance"
    else:
        verdict = "undecided"
        reason = f"outputs agree within the tolerance, but {gap.invariant} does not"
    return Comparison(verdict, False, reason, residual, output, condition, gap)
