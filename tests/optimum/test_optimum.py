"""Convex duality: bounds that hold for all weights, and files that are not believed."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from segre.errors import SegreError, TooLargeError
from segre.fields.real import Real
from segre.json_data import strict_json
from segre.optimum import Problem, certify_optimum
from segre.optimum.certificate import lower_bound
from segre.optimum.files import NAMES, read_run
from segre.optimum.problem import dual_point, float_gap, heads_of, minimiser
from segre.report.fibers import down, up
from segre.reproduce.convex import best_of, float_objective, teacher
from support.terminal import run


def random_problem(seed: int, beta: float = 5.0) -> Problem:
    rng = np.random.default_rng(seed)
    N, n, d, c = (int(value) for value in rng.integers(1, 4, size=4))
    return Problem(rng.standard_normal((N, n, d)), rng.standard_normal((N, n, c)), beta)


def random_weights(problem: Problem, rng: np.random.Generator) -> tuple[Any, Any]:
    heads, scale = int(rng.integers(1, 5)), 10.0 ** rng.uniform(-2, 1)
    W_QK = scale * rng.standard_normal((heads, problem.d, problem.d))
    return W_QK, scale * rng.standard_normal((heads, problem.d, problem.c))


@pytest.mark.parametrize("seed", range(8))
def test_weak_duality(seed: int) -> None:
    """Every R gives a bound below every weights, whatever they are: exactly."""
    problem, rng = random_problem(seed, 10.0 ** (seed % 3 - 1)), np.random.default_rng([seed, 1])
    Z = minimiser(problem)
    points = [dual_point(problem, Z), dual_point(problem, 0 * Z), problem.targets]
    points += [rng.standard_normal(problem.targets.shape)]
    bounds = [lower_bound(problem, R) for R in points]
    assert bounds[0] == max(bounds)
    weights = [random_weights(problem, rng) for _ in range(10)] + [heads_of(problem, Z)]
    for W_QK, W_OV in weights:
        assert problem.objective(W_QK, W_OV) >= bounds[0]


@pytest.mark.parametrize("seed", range(6))
def test_the_convex_problem_is_that_of_training(seed: int) -> None:
    problem, rng = random_problem(seed), np.random.default_rng([seed, 2])
    W_QK, W_OV = random_weights(problem, rng)
    Z = W_QK.reshape(len(W_QK), -1).T @ W_OV.reshape(len(W_OV), -1)
    said = problem.predictions(W_QK, W_OV, Real()).swapaxes(-1, -2).reshape(problem.samples, -1)
    assert np.allclose(problem.map @ problem.columns(Z), said)
    rows = [X @ A @ X.T @ X @ B for X in problem.X for A, B in [(W_QK[0], W_OV[0])]]
    one = problem.predictions(W_QK[:1], W_OV[:1], Real()).swapaxes(-1, -2)
    assert np.allclose(one, rows)
    exact = problem.objective(W_QK, W_OV)
    assert float(exact) == pytest.approx(float_objective(problem, W_QK, W_OV), rel=1e-9)
    assert float(exact) >= problem.convex(Z) * (1 - 1e-12)
    best = minimiser(problem)
    own = heads_of(problem, best)
    assert float(problem.objective(*own)) == pytest.approx(problem.convex(best), rel=1e-9)
    gap, value = float_gap(problem, best)
    assert gap <= 1e-9 * value


def test_the_objective_is_exact() -> None:
    """By fractions of Python, written out."""
    problem = random_problem(3)
    W_QK, W_OV = random_weights(problem, np.random.default_rng(0))

    def exact(x: Any) -> Any:
        return np.vectorize(Fraction, otypes=[object])(x)

    total = Fraction(0)
    for X, Y in zip(exact(problem.X), exact(problem.Y), strict=True):
        said = sum(X @ exact(A) @ X.T @ X @ exact(B) for A, B in zip(W_QK, W_OV, strict=True))
        total += ((said - Y) ** 2).sum() / 2
    decay = (exact(W_QK) ** 2).sum() + (exact(W_OV) ** 2).sum()
    assert problem.objective(W_QK, W_OV) == total + Fraction(problem.beta) * decay / 2


def test_training_with_enough_heads_is_certified_and_with_few_is_not() -> None:
    problem = Problem(*teacher(0), 60.0)
    rng = np.random.default_rng(0)
    enough = certify_optimum(problem, *best_of(problem, 6, 2, rng))
    few = certify_optimum(problem, *best_of(problem, 1, 2, rng))
    assert 0 <= enough.relative < 1e-9
    assert few.relative > 0.1
    assert few.gap >= few.certain > 0
    assert few.bound == enough.bound
    assert few.document()["gap"] >= few.gap


def test_a_solver_that_is_wrong_still_gives_a_true_bound() -> None:
    """Of a point that is not proved to be feasible nothing is used: the bound is 0."""
    problem = random_problem(5)
    good = lower_bound(problem, dual_point(problem, minimiser(problem)))
    bad = lower_bound(problem, 1e3 * problem.targets)
    assert bad <= good
    assert bad == 0


def test_numbers_are_rounded_towards_the_safe_side() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        value = Fraction(int(rng.integers(1, 10**9)), int(rng.integers(1, 10**9)))
        assert Fraction(down(value, 4)) <= value <= Fraction(up(value, 4))


@pytest.mark.parametrize(
    ("x", "y", "beta", "w"),
    [
        *((0, 1, 1, 1), (1, 0, 1, 1), (0, 0, 1, 0), (1, 1, 1e-300, 1), (1e-200, 1, 1, 1)),
        *((1, 1, 1e300, 1), (1, 1, 1, 1e200), (1, 1e200, 1e10, 1e-200), (1e-160, 1, 1, 1e160)),
    ],
)
def test_numbers_of_every_size(x: float, y: float, beta: float, w: float) -> None:
    rng = np.random.default_rng(0)
    X, Y = x * rng.standard_normal((2, 3, 2)), y * rng.standard_normal((2, 3, 1))
    problem = Problem(X, Y, beta)
    W_QK, W_OV = (w * rng.standard_normal(shape) for shape in ((1, 2, 2), (1, 2, 1)))
    found = certify_optimum(problem, W_QK, W_OV)
    assert 0 <= found.bound <= found.objective
    assert 0 <= found.relative <= 1
    said = found.document()
    assert Fraction(found.bound) >= Fraction(said["lower bound"])
    assert said["objective"] >= found.objective
    assert "gap: " in str(found)


# --- files and the command ------------------------------------------------------------------------


def document(**changed: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    shapes = {"X": (2, 3, 2), "Y": (2, 3, 1), "W_QK": (2, 2, 2), "W_OV": (2, 2, 1)}
    given = {name: rng.standard_normal(shape).tolist() for name, shape in shapes.items()}
    return {**given, "beta": 2.0, **changed}


def test_files_are_read_back_to_the_last_bit(tmp_path: Path) -> None:
    given = document()
    file = tmp_path / "run.json"
    file.write_text(json.dumps(given))
    problem, W_QK, W_OV = read_run(file)
    assert W_QK.tolist() == given["W_QK"]
    values = (problem.X, problem.Y, W_QK, W_OV, problem.beta)
    (tmp_path / "again.json").write_text(strict_json(dict(zip(NAMES, values, strict=True))))
    again = read_run(tmp_path / "again.json")
    assert (again[0].X == problem.X).all()
    arrays = {name: np.array(value) for name, value in given.items()}
    save_file(arrays, tmp_path / "run.safetensors")
    np.savez(tmp_path / "run.npz", **arrays)
    for other in ("run.safetensors", "run.npz"):
        found = read_run(tmp_path / other)
        assert found[0].beta == 2.0
        assert (found[2] == W_OV).all()


WRONG = {
    "no object": "[1]",
    "cut off": '{"X": [[',
    "a key is missing": json.dumps({k: v for k, v in document().items() if k != "Y"}),
    "a key too many": json.dumps(document(more=1)),
    "shapes": json.dumps(document(W_OV=[[[1.0]]])),
    "ragged": json.dumps(document(X=[[[1.0, 2.0]], [[1.0]]])),
    "tokens": json.dumps(document(Y=[[[1.0]]])),
    "nan": json.dumps(document(beta=float("nan"))),
    "infinite": json.dumps(document(X=[[[1e999, 1.0]] * 3] * 2)),
    "negative": json.dumps(document(beta=-1)),
    "several": json.dumps(document(beta=[1, 2])),
    "text": json.dumps(document(X="X")),
    "no float": json.dumps(document(beta="1/3")),
    "too large": json.dumps(document(X=[[[1e200, 1e200]] * 3] * 2)),
    "empty": json.dumps(document(X=[])),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_files_are_refused_in_one_line(what: str, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(WRONG[what])
    with pytest.raises(SegreError) as caught:
        certify_optimum(*read_run(file))
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_the_size_is_limited() -> None:
    with pytest.raises(TooLargeError, match="over the limit"):
        Problem(np.ones((100, 100, 40)), np.ones((100, 100, 1)), 1.0)


def test_the_command(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps(document()))
    said = run("model", "optimum", str(file))
    assert said.returncode == 0, said.stderr
    assert "proved for any number of heads: at least" in said.stdout
    found = json.loads(run("model", "optimum", str(file), "--json").stdout)
    exact = {name: Fraction(value) for name, value in found["exact"].items()}
    assert found["lower bound"] <= exact["lower bound"] <= exact["objective"] <= found["objective"]
    file.write_text("nothing")
    said = run("model", "optimum", str(file))
    assert (said.returncode, said.stdout) == (2, "")
    assert len(said.stderr.splitlines()) == 1
