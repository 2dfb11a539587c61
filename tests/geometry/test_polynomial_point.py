"""Singular filters of convolutional networks, and signatures of quadratic ones."""

import json
from itertools import product
from math import prod
from pathlib import Path

import numpy as np
import pytest

from segre.errors import SegreError, WeightsError
from segre.fields.interface import Array
from segre.fields.rational import Rational
from segre.geometry.polynomial_point import (
    FilterPoint,
    Placements,
    QuadraticPoint,
    classify_polynomial,
    signature,
)
from segre.network import forward
from segre.polynomial.spec import Polynomial
from segre.weights import PolynomialWeights, read_point
from support.polynomials import random_polynomials
from support.terminal import run

exact = Rational().constant
CNNS = [
    "cnn/k=2,2/degree=2",
    "cnn/k=2,2/degree=3",
    "cnn/k=3,2/degree=2",
    "cnn/k=3,2/stride=2,1/degree=2",
    "cnn/k=2,2,2/degree=2",
    "cnn/k=3,1,2/degree=2",
]


def cnn(text: str, filters: list[Array]) -> PolynomialWeights:
    return PolynomialWeights(Polynomial.parse(text), exact(np.concatenate(filters)))


def normal(taps: tuple[int, ...]) -> bool:
    """Whether the first entry that is not zero is one."""
    return next((tap for tap in taps if tap), 0) == 1


def values(weights: PolynomialWeights, X: Array) -> tuple[str, ...]:
    """The function at some inputs, up to scale."""
    found = forward(weights.field, weights.spec, weights.vector, X)
    flat = found.reshape(-1).tolist()
    first = next((value for value in flat if value), 1)
    return tuple(str(value / first) for value in flat)


@pytest.mark.parametrize("text", CNNS)
def test_no_other_filters_have_the_function(text: str) -> None:
    """Of all filters with entries -1, 0, 1, 2, up to scale, against functions by their values."""
    spec = Polynomial.parse(text)
    entries = (0, 1, 2) if spec.parameters > 5 else (-1, 0, 1, 2)
    each = [
        [taps for taps in product(entries, repeat=layer.kernel) if normal(taps)]
        for layer in spec.convolutions
    ]
    X = exact(np.random.default_rng(0).integers(-99, 99, (8, spec.width_in, 1)))
    fibers: dict[tuple[str, ...], set[tuple[tuple[int, ...], ...]]] = {}
    for filters in product(*each):
        weights = cnn(text, [np.array(taps) for taps in filters])
        fibers.setdefault(values(weights, X), set()).add(filters)
    assert any(len(fiber) > 1 for fiber in fibers.values())
    assert any(len(fiber) == 1 for fiber in fibers.values())
    for fiber in fibers.values():
        some = sorted(fiber)[-1]
        found = Placements.of(spec.convolutions, [exact(taps) for taps in some])
        assert found.count() == len(list(found)) == len(fiber)
        moved = {tuple(map(int, found.placed(starts))) for starts in found}
        assert moved == {tuple(tap for taps in filters for tap in taps) for filters in fiber}


@pytest.mark.parametrize(
    "text", [*CNNS, "cnn/k=3,3/degree=2", "cnn/k=2,3/stride=3,2/degree=2/n=11"]
)
def test_the_parametrisation_is_an_immersion(text: str) -> None:
    """At all filters that are not zero; several branches span more than the dimension."""
    spec, rng = Polynomial.parse(text), np.random.default_rng(4)
    seen = set()
    for _ in range(12):
        filters = [rng.integers(0, 3, layer.kernel) for layer in spec.convolutions]
        found = classify_polynomial(cnn(text, filters))
        assert isinstance(found, FilterPoint)
        zero = any(not taps.any() for taps in filters)
        if not zero:
            assert found.tangent == found.dimension
            assert found.tangent_span is not None
            assert (found.tangent_span > found.dimension) == (found.filters > 1)
        assert found.singular == (zero or found.filters > 1)
        seen.add(found.kind)
    assert "smooth" in seen


def test_a_node_with_two_branches() -> None:
    one = classify_polynomial(cnn("cnn/k=2,2/degree=2", [np.array([0, 1]), np.array([1, 0])]))
    two = classify_polynomial(cnn("cnn/k=2,2/degree=2", [np.array([1, 0]), np.array([0, 1])]))
    assert isinstance(one, FilterPoint)
    assert one == two
    assert one.reasons == ("several filters",)
    assert one.branches == ((("0", "1"), ("1", "0")), (("1", "0"), ("0", "1")))
    assert (one.dimension, one.tangent, one.tangent_span) == (3, 3, 5)


def test_the_zero_function_is_singular_unless_functions_are_a_linear_space() -> None:
    for text, singular in (("cnn/k=2,2/degree=2", True), ("cnn/k=1,3/degree=2", False)):
        spec = Polynomial.parse(text)
        found = classify_polynomial(PolynomialWeights(spec, exact([0] * spec.parameters)))
        assert isinstance(found, FilterPoint)
        assert (found.singular, found.filters) == (singular, 0)


def test_deep_networks_are_counted_not_listed() -> None:
    text = {"kind": "cnn", "k": [2] * 40, "degree": 2}
    vector = exact([1, 0] * 20 + [0, 1] * 20)
    found = classify_polynomial(PolynomialWeights(Polynomial.parse(text), vector))
    assert isinstance(found, FilterPoint)
    assert found.filters == prod(range(21, 41)) // prod(range(1, 21))  # 40 choose 20
    assert len(found.branches) == 64
    assert found.tangent is None


def test_floats_say_what_fractions_say() -> None:
    rng = np.random.default_rng(8)
    for text in (*CNNS[:4], "poly/3-2-1/degree=2", "poly/3-4-1/degree=2"):
        spec = Polynomial.parse(text)
        for _ in range(5):
            vector = rng.integers(-1, 3, spec.parameters)
            one = classify_polynomial(PolynomialWeights(spec, exact(vector)))
            two = classify_polynomial(PolynomialWeights(spec, vector.astype(float)))
            assert {**one.document(), "exact": 0, "status": 0} == {
                **two.document(),
                "exact": 0,
                "status": 0,
            }


# --- quadratic networks ---------------------------------------------------------------------------


def quadratic(n: int, c: list[int], W: Array) -> QuadraticPoint:
    spec = Polynomial.parse(f"poly/{n}-{len(c)}-1/degree=2")
    weights = PolynomialWeights(spec, exact(np.concatenate([W.reshape(-1), np.array(c)])))
    found = classify_polynomial(weights)
    assert isinstance(found, QuadraticPoint)
    return found


def test_signatures_are_those_of_eigenvalues() -> None:
    rng = np.random.default_rng(2)
    for _ in range(60):
        n, rank = rng.integers(1, 6), rng.integers(0, 5)
        W = rng.integers(-2, 3, (rank, n))
        M = W.T @ (rng.integers(-2, 3, (rank, 1)) * W) if rank else np.zeros((n, n), int)
        values = np.linalg.eigvalsh(M)
        expected = int((values > 1e-8).sum()), int((values < -1e-8).sum())
        assert signature(exact(M)) == signature(M.astype(float)) == expected


def test_singular_where_the_rank_drops() -> None:
    """And where it does not, generic weights have the whole tangent space."""
    rng = np.random.default_rng(5)
    for _ in range(40):
        n, m = int(rng.integers(1, 5)), int(rng.integers(1, 5))
        W, c = rng.integers(-1, 2, (m, n)), rng.choice([-1, 1, 2], m).tolist()
        found = quadratic(n, c, W)
        M = W.T @ np.diag(c) @ W
        assert found.rank == np.linalg.matrix_rank(M) == sum(found.signature)
        assert found.singular == (m < n and found.rank < m)
        if found.rank == m:
            assert found.tangent == found.dimension


def test_boundaries_are_where_other_signs_are_needed() -> None:
    """By filling the kernel of M with eigenvalues of either sign, as far as the width allows."""
    rng = np.random.default_rng(6)
    seen = set()
    for _ in range(60):
        n, m = int(rng.integers(1, 4)), int(rng.integers(1, 5))
        c = rng.choice([-1, 1, 0], m, p=[0.4, 0.4, 0.2])
        found = quadratic(n, c.tolist(), rng.integers(-1, 2, (m, n)))
        plus, minus, zero = found.outputs
        assert (plus, minus, zero) == ((c > 0).sum(), (c < 0).sum(), (c == 0).sum())
        room = min(n, m) - found.rank
        near = [
            (found.signature[0] + more, found.signature[1] + less)
            for more in range(room + 1)
            for less in range(room + 1 - more)
        ]
        signs = [(plus + split, minus + zero - split) for split in range(zero + 1)]
        reached = [any(p <= a and q <= b for a, b in signs) for p, q in near]
        assert reached[0]
        assert found.boundary == (not all(reached))
        seen.add(found.boundary)
    assert seen == {True, False}


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", random_polynomials(seed=9, count=8), ids=str)
def test_files_give_back_what_was_written(spec: Polynomial, tmp_path: Path) -> None:
    for kind, ending in ((True, "json"), (False, "json"), (False, "npz")):
        weights = PolynomialWeights.random(spec, 3, exact=kind)
        file = tmp_path / f"weights.{ending}"
        weights.write(file)
        for again in (PolynomialWeights.read(file), read_point(file)):
            assert isinstance(again, PolynomialWeights)
            assert again.spec == spec
            assert again.exact == kind
            assert (again.vector == weights.vector).all()


def test_fractions_do_not_fit_npz(tmp_path: Path) -> None:
    weights = PolynomialWeights.random("cnn/k=2,2/degree=2", exact=True)
    with pytest.raises(WeightsError, match="npz files hold floats"):
        weights.write(tmp_path / "weights.npz")
    assert not list(tmp_path.iterdir())


FILTERS = {"spec": "cnn/k=2,2/degree=2", "layers": [{"w": [0, "1/2"]}, {"w": [[1, 0]]}]}
BAD = {
    "a layer is missing": {**FILTERS, "layers": [{"w": [0, 1]}]},
    "a filter is too long": {**FILTERS, "layers": [{"w": [0, 1, 2]}, {"w": [1, 0]}]},
    "another name": {**FILTERS, "layers": [{"W": [0, 1]}, {"w": [1, 0]}]},
    "no number": {**FILTERS, "layers": [{"w": [0, "x"]}, {"w": [1, 0]}]},
    "a bias that the spec has not": {**FILTERS, "layers": [{"w": [0, 1], "b": [1]}, {"w": [1, 0]}]},
    "no such spec": {**FILTERS, "spec": "cnn/k=0/degree=2"},
    "spec is a file": {**FILTERS, "spec": ["cnn.toml"]},
    "not supported": {"spec": "poly/2-1/degree=3", "layers": [{"W": [[1, 2]]}]},
    "linear": {"spec": "cnn/k=2/degree=1", "layers": [{"w": [1, 2]}]},
    "not finite": {**FILTERS, "layers": [{"w": [0, 1e999]}, {"w": [1, 0]}]},
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_one_line(name: str, tmp_path: Path) -> None:
    file = tmp_path / "point.json"
    file.write_text(json.dumps(BAD[name]))
    with pytest.raises(SegreError) as error:
        classify_polynomial(read_point(file))  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "filters.json").write_text(json.dumps(FILTERS))
    document = json.loads(run("variety", "point", "filters.json", "--json", cwd=tmp_path).stdout)
    assert document["kind"] == "singular"
    assert document["branches"] == [[["0", "1/2"], ["1", "0"]], [["1/2", "0"], ["0", "1"]]]
    assert "2  choices up to scale" in run("variety", "point", "filters.json", cwd=tmp_path).stdout
    (tmp_path / "bad.json").write_text(json.dumps(BAD["not supported"]))
    for arguments in (["bad.json"], ["filters.json", "--a", "1"]):
        done = run("variety", "point", *arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
