"""Are two polynomial networks the same function? Their outputs are polynomials: compare those.

For fractions: an input at which the outputs differ mod p proves that they differ. Equal normal
forms, in which every hidden unit has its scale and its place fixed, prove that they are the same.
Otherwise the outputs are expanded into coefficients, if there are not too many.
"""

from __future__ import annotations

import numpy as np
from flint import Ordering, fmpq_mpoly_ctx

from segre.errors import SegreError
from segre.fields.interface import Array
from segre.fields.rational import Rational
from segre.fields.real import Real
from segre.geometry.normal_form import TOLERANCE
from segre.geometry.verdict import Comparison, differ_mod_p
from segre.network import forward
from segre.polynomial.bounds import forms
from segre.polynomial.spec import Convolution
from segre.weights.polynomial import PolynomialWeights

_INPUTS = 64
_MOST_TERMS = 20_000  # of one output


def same_polynomials(
    one: PolynomialWeights,
    two: PolynomialWeights,
    *,
    tolerance: float = TOLERANCE,
    seed: int = 0,
) -> Comparison:
    """Compare two polynomial networks on inputs of the same length.

    >>> w = PolynomialWeights.random("poly/2-3-1/degree=2", exact=True)
    >>> swapped = [{"W": w.layers[0]["W"][::-1]}, {"W": w.layers[1]["W"][:, ::-1]}]
    >>> same_polynomials(w, PolynomialWeights.of_layers(w.spec, swapped)).reason
    'the normal forms are equal'
    """
    for what, place in (("input length", 0), ("number of outputs", -1)):
        a, b = one.spec.widths[place], two.spec.widths[place]
        if a != b:
            raise SegreError(
                f"the networks cannot be compared: {what} is {a} in the first and {b} in the second"
            )
    if not (one.exact and two.exact):
        return _measure(one, two, tolerance, seed)
    found = differ_mod_p(one, two, seed)
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
        name = "w" if isinstance(layer, Convolution) else "W"
        own, after = layers[i], layers[i + 1]
        reader = "w" if isinstance(spec.layers[i + 1], Convolution) else "W"
        for unit in range(layer.units):
            row = [*own[name][unit], *(own["b"][unit] if spec.bias else ())]
            scale = next((entry for entry in row if entry != 0), None)
            if scale is None:
                continue
            for tensor in own.values():
                tensor[unit] = tensor[unit] / scale
            read = slice(None) if name == "w" else (slice(None), unit)
            after[reader][read] = after[reader][read] * scale**spec.degree
        if name == "W":
            rows = [tuple(row) for row in np.concatenate(list(own.values()), axis=1)]
            order = sorted(range(layer.units), key=rows.__getitem__)
            for key, tensor in own.items():
                own[key] = tensor[order]
            after[reader] = after[reader][:, order]
    return np.concatenate([tensor.reshape(-1) for own in layers for tensor in own.values()])


def _measure(
    one: PolynomialWeights, two: PolynomialWeights, tolerance: float, seed: int
) -> Comparison:
    X = np.random.default_rng(seed).standard_normal((_INPUTS, one.spec.width_in, 1))
    Y, Z = (forward(Real(), w.spec, w.vector.astype(float), X) for w in (one, two))
    size = max(float(np.linalg.norm(Y)), float(np.linalg.norm(Z)), np.finfo(float).tiny)
    apart = float(np.linalg.norm(Y - Z)) / size
    if apart > tolerance:
        reason = f"outputs differ by {apart:.1e} (relative)"
        return Comparison("different", False, reason, output_residual=apart)
    reason = f"outputs agree at {_INPUTS} random inputs within the tolerance"
    return Comparison("same", False, reason, output_residual=apart)
