"""Are two polynomial networks the same function? Moved copies are, changed ones are not."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from segre.errors import SegreError
from segre.fields.rational import Rational
from segre.geometry.same import same_function
from segre.polynomial.spec import Convolution
from segre.weights import PolynomialWeights, Weights
from support.polynomials import random_polynomials
from support.terminal import run


def moved(weights: PolynomialWeights, rng: random.Random) -> PolynomialWeights:
    """Hidden units rescaled by fractions, and those of dense layers in another order."""
    layers = [{name: tensor.copy() for name, tensor in own.items()} for own in weights.layers]
    spec = weights.spec
    for i, layer in enumerate(spec.layers[:-1]):
        dense = not isinstance(layer, Convolution)
        own, after = layers[i], layers[i + 1]
        reader = "W" if dense else "w"
        numbers = [Fraction(rng.randint(1, 9), rng.randint(1, 9)) for _ in range(layer.units)]
        scales = Rational().constant([str(number) for number in numbers])
        for name, tensor in own.items():
            own[name] = tensor * scales[:, None]
        after[reader] = after[reader] / (scales[None, :] if dense else scales[0]) ** spec.degree
        if dense:
            order = rng.sample(range(layer.units), layer.units)
            for name, tensor in own.items():
                own[name] = tensor[order]
            after[reader] = after[reader][:, order]
    return PolynomialWeights.of_layers(spec, layers)


def test_moved_copies_are_the_same_and_changed_ones_are_not() -> None:
    rng = random.Random(0)
    for number, spec in enumerate(random_polynomials(11, 60, widest=3)):
        w = PolynomialWeights.random(spec, number, exact=True)
        found = same_function(w, moved(w, rng))
        assert (found.verdict, found.proved) == ("same", True), spec
        vector = w.vector.copy()
        vector[-1] = vector[-1] + 1  # of the last layer, which every output reads
        other = same_function(w, PolynomialWeights(spec, vector))
        assert (other.verdict, other.proved) == ("different", True), spec


def test_what_no_symmetry_relates_is_compared_by_coefficients() -> None:
    """Rotated squares, and linear networks of different widths."""
    one = PolynomialWeights.of_layers(
        "poly/2-2-1/degree=2",
        [{"W": _exact([[1, 0], [0, 1]])}, {"W": _exact([[1, 1]])}],
    )
    two = PolynomialWeights.of_layers(
        "poly/2-2-1/degree=2",
        [{"W": _exact([["3/5", "4/5"], ["-4/5", "3/5"]])}, {"W": _exact([[1, 1]])}],
    )
    found = same_function(one, two)
    assert (found.verdict, found.reason) == ("same", "all coefficients of the outputs are equal")
    wide = PolynomialWeights.of_layers(
        "poly/1-2-1/degree=1", [{"W": _exact([[1], [2]])}, {"W": _exact([[1, 1]])}]
    )
    thin = PolynomialWeights.of_layers(
        "poly/1-1-1/degree=1", [{"W": _exact([[3]])}, {"W": _exact([[1]])}]
    )
    assert same_function(wide, thin).verdict == "same"


def test_placements_of_filters_are_the_same_function() -> None:
    spec = "cnn/k=2,2/degree=2"
    one, two = (
        PolynomialWeights.of_layers(spec, [{"w": _exact(a)}, {"w": _exact(b)}])
        for a, b in (([0, 1], [1, 0]), ([1, 0], [0, 1]))
    )
    assert same_function(one, two).verdict == "same"


def test_floats_are_measured() -> None:
    w = PolynomialWeights.random("poly/3-4-2/degree=3", 1)
    scaled = w.vector.copy()
    scaled[:3] *= 2
    scaled[[12, 16]] /= 8
    found = same_function(w, PolynomialWeights(w.spec, scaled))
    assert (found.verdict, found.proved) == ("same", False)
    assert same_function(w, PolynomialWeights(w.spec, w.vector + 1e-3)).verdict == "different"


def test_what_cannot_be_compared_is_refused() -> None:
    w = PolynomialWeights.random("poly/3-4-2/degree=3")
    with pytest.raises(SegreError, match="input length is 3 in the first and 2 in the second"):
        same_function(w, PolynomialWeights.random("poly/2-4-2/degree=3"))
    with pytest.raises(SegreError, match="one is a polynomial network"):
        same_function(w, Weights.random("lightning/d=3,2/a=1/t=2"))


def test_the_command_reads_both_kinds(tmp_path: Path) -> None:
    w = PolynomialWeights.random("poly/3-4-2/degree=3", exact=True)
    w.write(tmp_path / "one.json")
    moved(w, random.Random(1)).write(tmp_path / "two.json")
    done = run("same", "one.json", "two.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "same" in done.stdout


def _exact(values: object) -> np.ndarray:
    return Rational().constant(np.vectorize(str)(np.array(values, dtype=object)))
