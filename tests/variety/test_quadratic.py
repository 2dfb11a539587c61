"""Closed forms of quadratic networks: exact gradients, Hessians, minima and gradient descent."""

from fractions import Fraction
from itertools import product
from math import comb
from pathlib import Path

import numpy as np
import pytest

import segre
from segre.errors import SegreError
from segre.fields.interface import Array
from segre.variety.quadratic import NORMS, CriticalPoint, Norm, critical_points, endings

TARGET = "3,2,1,-1.5"
SPEC = "poly/4-2-1/degree=2"


def draw(size: int, rng: np.random.Generator) -> list[Fraction]:
    """Different rational eigenvalues, descending."""
    found = {Fraction(int(rng.integers(-60, 60)), int(rng.integers(1, 9))) for _ in range(9 * size)}
    return sorted(list(found)[:size], reverse=True)


def rotation(size: int, rng: np.random.Generator) -> Array:
    """A rational orthogonal matrix: reflections of random vectors."""
    out = np.array([[Fraction(int(i == j)) for j in range(size)] for i in range(size)])
    for _ in range(2):
        v = np.array([Fraction(int(x)) for x in rng.integers(1, 9, size)])
        out = out - 2 * np.outer(v, v @ out) / (v @ v)
    return out


def matrix(values: dict[int, Fraction], basis: Array) -> Array:
    """The symmetric matrix with some eigenvalues, by rows of the basis."""
    total = np.full(basis.shape, Fraction(0))
    for i, value in values.items():
        total = total + value * np.outer(basis[i], basis[i])
    return total


def slope(M: Array, T: Array, norm: Norm) -> Array:
    """Half the gradient of the loss."""
    one = np.array([[Fraction(int(i == j)) for j in range(len(T))] for i in range(len(T))])
    return norm.square * (M - T) + norm.trace * np.trace(M - T) * one


@pytest.mark.parametrize("metric", NORMS)
@pytest.mark.parametrize(("size", "rank"), [(2, 1), (3, 1), (3, 2), (4, 2), (5, 3)])
def test_gradients_vanish_exactly(metric: str, size: int, rank: int) -> None:
    """On every tangent vector A M + M A^T, for a target in a rotated basis."""
    rng = np.random.default_rng(size)
    norm = NORMS[metric]  # type: ignore[index]
    target, basis = draw(size, rng), rotation(size, rng)
    T = matrix(dict(enumerate(target)), basis)
    found = critical_points(target, rank, norm)
    assert len(found) == comb(size, rank)
    for point in found:
        M = matrix(dict(zip(point.kept, point.values, strict=True)), basis)
        G = slope(M, T, norm)
        for i, j in product(range(size), repeat=2):
            tangent = np.full((size, size), Fraction(0))
            tangent[i] += M[j]
            tangent[:, i] += M[j]
            assert (G * tangent).sum() == 0
        error = M - T
        assert point.loss == norm.square * (error**2).sum() + norm.trace * np.trace(error) ** 2
        assert len(point.values) == rank


def numerical_index(point: CriticalPoint, target: list[float], norm: Norm) -> int:
    """Negative eigenvalues of the Hessian in the chart A, B of [[A, AB'], [BA, BAB']]."""
    size, rank = len(target), len(point.kept)
    others = [j for j in range(size) if j not in point.kept]
    T = np.diag([target[i] for i in (*point.kept, *others)])
    upper = np.triu_indices(rank)
    start = np.concatenate(
        [np.diag([float(v) for v in point.values])[upper], np.zeros(rank * (size - rank))]
    )

    def loss(x: Array) -> float:
        A = np.zeros((rank, rank))
        A[upper] = x[: len(upper[0])]
        A = A + np.triu(A, 1).T
        B = np.vstack([np.eye(rank), x[len(upper[0]) :].reshape(-1, rank)])
        error = B @ A @ B.T - T
        return float(norm.square * (error**2).sum() + norm.trace * np.trace(error) ** 2)

    h, n = 1e-3, len(start)
    steps = h * np.eye(n)
    hessian = [
        [
            sum(a * b * loss(start + a * steps[i] + b * steps[j]) for a, b in SIGNS) / (4 * h * h)
            for j in range(n)
        ]
        for i in range(n)
    ]
    return int((np.linalg.eigvalsh(np.array(hessian)) < 0).sum())


SIGNS = tuple(product((1, -1), repeat=2))


@pytest.mark.parametrize("metric", NORMS)
def test_indices_are_those_of_numerical_hessians(metric: str) -> None:
    norm = NORMS[metric]  # type: ignore[index]
    rng = np.random.default_rng(4)
    for _ in range(3):
        target = [Fraction(int(x), 2) for x in rng.permutation(np.arange(-9, 10))[:4]]
        target.sort(reverse=True)
        for point in critical_points(target, 2, norm):
            if min(abs(v) for v in point.values) > Fraction(1, 4):
                assert point.index == numerical_index(point, list(map(float, target)), norm)


def test_the_losses_of_the_reference() -> None:
    found = segre.landscape(SPEC, TARGET)
    assert [point.loss for point in found.points] == [
        Fraction(53, 8),
        Fraction(101, 8),
        Fraction(29, 2),
        Fraction(189, 8),
        Fraction(28),
        Fraction(77, 2),
    ]
    kinds = [found.kind(point).split(",")[0] for point in found.points]
    assert kinds == ["global minimum", "saddle", "local minimum", "saddle", "saddle", "saddle"]
    ends = {one.signs: (one.point.loss, one.boundary) for one in found.endings}
    assert ends == {
        (2, 0): (Fraction(53, 8), False),
        (1, 1): (Fraction(29, 2), False),
        (0, 2): (Fraction(211, 4), True),
    }


def test_normal_data_may_keep_another_eigenvalue_than_the_frobenius_norm() -> None:
    kept = {
        metric: segre.landscape("poly/3-1-1/degree=2", "2,1,-2.1", metric).points[0].kept
        for metric in NORMS
    }
    assert kept == {"gaussian": (0,), "identity": (2,)}


def test_nothing_random_is_below_the_global_minimum() -> None:
    rng = np.random.default_rng(2)
    for norm in NORMS.values():
        target = draw(4, rng)
        lowest = critical_points(target, 2, norm)[0].loss
        T = np.diag([float(x) for x in target])
        for _ in range(200):
            W = rng.standard_normal((2, 4)) * 3
            error = W.T @ (rng.choice([-1.0, 1.0], 2)[:, None] * W) - T
            loss = norm.square * (error**2).sum() + norm.trace * np.trace(error) ** 2
            assert loss >= float(lowest)
        assert min(one.point.loss for one in endings(target, 2, norm)) == lowest


@pytest.mark.parametrize("metric", NORMS)
@pytest.mark.parametrize(("size", "rank"), [(3, 1), (4, 2), (3, 4)])
def test_descents_end_at_listed_minima(metric: str, size: int, rank: int) -> None:
    rng = np.random.default_rng(size + rank)
    target = sorted(rng.permutation(np.arange(-8, 9))[:size].tolist(), reverse=True)
    found = segre.landscape(f"poly/{size}-{rank}-1/degree=2", target, metric, descent=6, seed=1)
    assert [run.signs for run in found.runs] == [(p, rank - p) for p in range(rank, -1, -1)]
    assert all(end is not None for run in found.runs for end in run.ends)


def test_targets_as_matrices_and_files(tmp_path: Path) -> None:
    diagonal = np.diag([1.0, 3, -1.5, 2])
    np.save(tmp_path / "T.npy", diagonal)
    (tmp_path / "T.json").write_text(
        '[[1, 0, 0, 0], [0, "3", 0, 0], [0, 0, -1.5, 0], [0, 0, 0, 2]]'
    )
    wanted = segre.landscape(SPEC, TARGET).points
    for given in (diagonal, tmp_path / "T.npy", str(tmp_path / "T.json"), [2, -1.5, 3, 1]):
        found = segre.landscape(SPEC, given)
        assert found.points == wanted
        assert found.status == "exact"
    turned = rotation(4, np.random.default_rng(0)).astype(float)
    measured = segre.landscape(SPEC, np.round(turned @ diagonal @ turned.T, 12))
    assert measured.status == "measured"
    losses = [float(point.loss) for point in wanted]
    assert np.allclose([float(point.loss) for point in measured.points], losses)


@pytest.mark.parametrize(
    ("spec", "target", "metric", "message"),
    [
        (SPEC, "3,2,1", "gaussian", "give 4"),
        (SPEC, "3,2,2,1", "gaussian", "two eigenvalues"),
        (SPEC, "3,2,x,1", "gaussian", "cannot be read"),
        (SPEC, "3,2,nan,1", "gaussian", "cannot be read"),
        (SPEC, "", "gaussian", "cannot be read"),
        (SPEC, [[1, 2], [3, 4]], "gaussian", "allowed: 4 x 4"),
        (SPEC, np.triu(np.ones((4, 4))), "gaussian", "not symmetric"),
        (SPEC, TARGET, "generic", "supported: gaussian, identity"),
        ("cnn/k=2,2/degree=2", TARGET, "gaussian", "poly/n-r-1/degree=2"),
        ("poly/4-2-2/degree=2", TARGET, "gaussian", "poly/n-r-1/degree=2"),
        ("poly/4-2-1/degree=3", TARGET, "gaussian", "poly/n-r-1/degree=2"),
        ("poly/30-15-1/degree=2", range(30), "gaussian", "155,117,520"),
        (SPEC, Path("missing.json"), "gaussian", "missing.json"),
    ],
)
def test_what_is_refused(spec: str, target: object, metric: str, message: str) -> None:
    with pytest.raises(SegreError, match=message) as caught:
        segre.landscape(spec, target, metric)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
