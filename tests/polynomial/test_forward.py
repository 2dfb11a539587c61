"""The forward map against its definition, and its symmetries against the map."""

from __future__ import annotations

import numpy as np
import pytest

from segre.fields.real import Real
from segre.geometry.conserved import conserved_quantities
from segre.geometry.explain import explain
from segre.network import forward, jacobian, tensors
from segre.polynomial.spec import Convolution, Polynomial
from support.polynomials import random_polynomials

Array = np.ndarray


def by_definition(spec: Polynomial, weights: Array, x: Array) -> Array:
    """The network, entry by entry."""
    for number, layer in enumerate(spec.layers, 1):
        own = {name: slot for (part, name), slot in tensors(spec).items() if part == str(number)}
        bias = weights[own["b"].range] if spec.bias else np.zeros(layer.units)
        if isinstance(layer, Convolution):
            taps = weights[own["w"].range]
            x = np.array(
                [
                    sum(taps[m] * x[layer.stride * j + m] for m in range(layer.kernel)) + bias[0]
                    for j in range(layer.width_out)
                ]
            )
        else:
            x = weights[own["W"].range].reshape(layer.width_out, layer.width_in) @ x + bias
        if number < spec.depth:
            x = x**spec.degree
    return x


def test_the_map_is_what_it_says() -> None:
    rng = np.random.default_rng(0)
    for spec in random_polynomials(3, 60):
        w, x = rng.standard_normal(spec.parameters), rng.standard_normal(spec.width_in)
        found = forward(Real(), spec, w, x[None, :, None])[0, :, 0]
        assert found == pytest.approx(by_definition(spec, w, x), rel=1e-9, abs=1e-9)


def test_rescaled_units_are_the_same_function() -> None:
    """One finite step along every symmetry of scales: exactly the same outputs."""
    rng = np.random.default_rng(1)
    for spec in random_polynomials(4, 40):
        w, moved = rng.standard_normal(spec.parameters), None
        moved = w.copy()
        for i in range(1, spec.depth):
            own, after = spec.layers[i - 1], spec.layers[i]
            factors = rng.uniform(0.5, 2, own.units)
            for (part, name), slot in tensors(spec).items():
                view = moved[slot.range].reshape(slot.shape)
                if part == str(i):
                    view *= factors[:, None]
                elif part == str(i + 1) and name != "b":
                    view /= factors**spec.degree if after.units > 1 or own.units > 1 else 1
                    if after.units == own.units == 1:
                        view /= factors[0] ** spec.degree
        X = rng.standard_normal((3, spec.width_in, 1))
        one, two = forward(Real(), spec, w, X), forward(Real(), spec, moved, X)
        assert two == pytest.approx(one, rel=1e-8, abs=1e-10), spec


def test_conserved_quantities_are_orthogonal_to_every_gradient() -> None:
    """Along gradient flow d/dt C = -2 <g, X w>: zero at random weights and losses."""
    rng = np.random.default_rng(2)
    for spec in random_polynomials(5, 30):
        if spec.degree == 1 or spec.depth == 1:
            continue
        w = rng.standard_normal(spec.parameters)
        J = jacobian(Real(), spec, w, rng.standard_normal((2, spec.width_in, 1)))
        gradient = rng.standard_normal(J.shape[0] * J.shape[1]) @ J.reshape(-1, spec.parameters)
        for law in conserved_quantities(spec):
            own, after = spec.layers[law.layer - 1], spec.layers[law.layer]
            X = np.zeros((own.units, spec.parameters))
            for (part, name), slot in tensors(spec).items():
                view = X[:, slot.range].reshape(own.units, *slot.shape)
                values = w[slot.range].reshape(slot.shape)
                for unit in range(own.units):
                    if part == str(law.layer):
                        view[unit, unit] = values[unit]
                    elif part == str(law.layer + 1) and name != "b":
                        picked = slice(None) if isinstance(after, Convolution) else unit
                        view[unit, :, picked] = -spec.degree * values[:, picked]
                X[:, slot.range] = view.reshape(own.units, -1)
            size = np.abs(gradient) @ np.abs(X).T
            assert np.all(np.abs(X @ gradient) <= 1e-10 * size + 1e-12), (spec, law)


def test_explain_counts_what_the_dimension_leaves() -> None:
    document = explain("poly/3-5-2/degree=3").document()
    assert document["redundancy"]["total"] == 5
    assert document["dimension"] == 19
    assert any("the defect is 1" in note for note in document["notes"])
