"""Samples from arrays, files and black boxes: what is read, and what is refused in one line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segre.errors import SegreError, WeightsError
from segre.fields.rational import Rational
from segre.geometry.recover import Samples, normalise_scale, recover


def test_json_with_fractions_is_exact(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = Rational().constant(rng.integers(-4, 5, (12, 2, 2))) / 3
    V, A = (Rational().constant(x) for x in ([[1, "2/3"], [5, 7]], [["1/2", 1], [0, "1/5"]]))
    Y = np.stack([V @ x @ (x.T @ A @ x) for x in X])
    path = tmp_path / "samples.json"
    path.write_text(
        json.dumps({"X": np.vectorize(str)(X).tolist(), "Y": np.vectorize(str)(Y).tolist()})
    )
    samples = Samples.read(path)
    assert samples.exact
    found = recover(samples, "lightning")
    truth = normalise_scale(V, A)
    assert (truth[0] == found.V).all()
    assert (truth[1] == found.A).all()
    floats = recover(samples.floats(), "lightning")
    assert floats.status == "least-squares"
    assert np.allclose(floats.A, samples_as_floats(truth[1] / truth[1].max()), rtol=1e-9)


def samples_as_floats(matrix: Any) -> Any:
    return np.array([[int(x.p) / int(x.q) for x in row] for row in matrix])


def test_npz_and_json_with_floats_are_float64(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((12, 2, 2)), rng.standard_normal((12, 3, 2))
    np.savez(tmp_path / "samples.npz", X=X, Y=Y)
    (tmp_path / "samples.json").write_text(json.dumps({"X": X.tolist(), "Y": Y.tolist()}))
    for name in ("samples.npz", "samples.json"):
        samples = Samples.read(tmp_path / name)
        assert not samples.exact
        assert (samples.X == X).all()
        assert (samples.Y == Y).all()
    np.savez(tmp_path / "whole.npz", X=np.ones((2, 2, 2), dtype=np.int32), Y=np.ones((2, 1, 2)))
    assert Samples.read(tmp_path / "whole.npz").X.dtype == np.float64


GOOD = [[[1, 2], [3, 4]]]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[1, 2]",
        '{"X": [[[1.0]]]}',
        json.dumps({"X": GOOD, "Y": GOOD, "Z": 1}),
        json.dumps({"X": GOOD, "Y": [[[1, 2], [3]]]}),
        json.dumps({"X": GOOD, "Y": [[1, 2], [3, 4]]}),
        json.dumps({"X": GOOD, "Y": [[[1, 2]], [[1, 2]]]}),
        json.dumps({"X": GOOD, "Y": [[[1, 2, 3]]]}),
        json.dumps({"X": [], "Y": []}),
        json.dumps({"X": GOOD, "Y": [[[1, "one"]]]}),
        json.dumps({"X": GOOD, "Y": [[[1, "1/0"]]]}),
        json.dumps({"X": GOOD, "Y": [[[1, True]]]}),
        json.dumps({"X": GOOD, "Y": [[[1, None]]]}),
        json.dumps({"X": GOOD, "Y": [[[1.0, float("nan")]]]}),
        json.dumps({"X": GOOD, "Y": [[[1.0, float("inf")]]]}),
        json.dumps({"X": [[[1e200, 1.0]]], "Y": [[[1.0, 1.0]]]}),
        json.dumps({"X": {"a": 1}, "Y": GOOD}),
        "[" * 100_000,
    ],
)
def test_bad_files_are_one_line(content: str, tmp_path: Path) -> None:
    path = tmp_path / "samples.json"
    path.write_text(content)
    with pytest.raises(WeightsError) as caught:
        Samples.read(path)
    assert str(caught.value).startswith(f"samples {str(path)!r}: ")
    assert "\n" not in str(caught.value)


def test_bad_archives_are_one_line(tmp_path: Path) -> None:
    np.savez(tmp_path / "nan.npz", X=np.ones((2, 2, 2)), Y=np.full((2, 2, 2), np.nan))
    np.savez(tmp_path / "complex.npz", X=np.ones((2, 2, 2)), Y=1j * np.ones((2, 2, 2)))
    np.savez(tmp_path / "text.npz", X=np.ones((2, 2, 2)), Y=np.full((2, 2, 2), "x"))
    np.savez(tmp_path / "pickled.npz", X=np.ones((2, 2, 2)), Y=np.array([[[{}]]], dtype=object))
    np.savez(tmp_path / "other.npz", A=np.ones((2, 2, 2)))
    (tmp_path / "broken.npz").write_bytes(b"PK not a zip")
    (tmp_path / "samples.csv").write_text("1,2,3")
    names = ["nan", "complex", "text", "pickled", "other", "broken", "missing"]
    for name in [*(f"{name}.npz" for name in names), "samples.csv", "missing.json"]:
        with pytest.raises(WeightsError, match=r"^samples ") as caught:
            Samples.read(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_a_black_box_is_checked_and_cannot_change_its_inputs() -> None:
    X = np.random.default_rng(0).standard_normal((3, 2, 2))
    kept = X.copy()

    def greedy(x: Any) -> Any:
        x += 1
        return x

    assert (kept == Samples.ask(greedy, X, 2).X).all()
    assert (kept == X).all()
    for bad in (lambda x: x[:1], lambda x: x * np.inf, lambda x: [["a", "b"]] * 2):
        with pytest.raises(SegreError) as caught:
            Samples.ask(bad, X, 2)
        assert "\n" not in str(caught.value)


def test_samples_can_be_chosen_and_joined() -> None:
    X = np.arange(12.0).reshape(3, 2, 2) + 1
    samples = Samples(X, 2 * X)
    assert len(samples[:2].joined(samples[2:])) == 3
    assert (X[[2, 0]] == samples[np.array([2, 0])].X).all()
