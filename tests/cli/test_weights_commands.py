"""The commands on given weights and the pictures, as real processes."""

import json
from pathlib import Path

import numpy as np
import pytest

from segre.spec import Network
from segre.weights import Weights
from support.terminal import run


@pytest.fixture
def files(tmp_path: Path) -> Path:
    net = Network.parse("softmax/d=3,3,3/a=2/heads=2/t=2")
    Weights.random(net, 0, exact=True).write(tmp_path / "one.json")
    Weights.random(net, 1, exact=True).write(tmp_path / "other.json")
    Weights.random(net, 0).write(tmp_path / "one.npz")
    return tmp_path


def test_move_and_same(files: Path) -> None:
    moved = run("model", "move", "one.json", "-o", "two.json", "--seed", "3", cwd=files)
    assert moved.returncode == 0
    assert (files / "one.json").read_text() != (files / "two.json").read_text()
    same = run("same", "one.json", "two.json", cwd=files)
    assert same.returncode == 0
    assert same.stdout.startswith("same (proved)")
    different = run("same", "one.json", "other.json", "--json", cwd=files)
    assert different.returncode == 1
    found = json.loads(different.stdout)
    assert (found["verdict"], found["proved"]) == ("different", True)
    run("model", "move", "one.npz", "-o", "two.npz", cwd=files)
    floats = run("same", "one.npz", "two.npz", cwd=files)
    assert floats.returncode == 0
    assert "same (not proved)" in floats.stdout
    assert "outputs differ by" in floats.stdout


def test_point(files: Path) -> None:
    fold = {"V": [["1/2", 1], [1, 2]], "A": [[1, 0], [2, 0]], "a": 1}
    (files / "fold.json").write_text(json.dumps(fold))
    result = run("variety", "point", "fold.json", cwd=files)
    assert result.returncode == 0
    assert "singular: fold" in result.stdout
    assert "exact" in result.stdout
    found = json.loads(run("variety", "point", "fold.json", "--json", cwd=files).stdout)
    assert found["boundary"] is True
    assert found["tangent"] < found["dimension"]
    np.savez(files / "smooth.npz", V=np.eye(2), K=np.eye(2), Q=np.array([[1.0, 2], [3, 4]]))
    assert "smooth" in run("variety", "point", "smooth.npz", cwd=files).stdout


def test_symmetries() -> None:
    result = run("explain", "lightning/d=4,4/a=2/t=3")
    assert result.returncode == 0
    assert "W_Q W_Q^T - W_K W_K^T (3 scalars)" in result.stdout
    found = json.loads(run("explain", "lightning/d=4,4/a=2/t=3", "--json").stdout)
    assert found["redundancy"]["total"] == 5
    assert found["conserved"]["independent"] == 4
    [choice] = found["choices"]
    assert choice["instead_of"] == "softmax attention"
    assert choice["change"]["VO"] == choice["total"] == -1


@pytest.mark.parametrize("spec", ["lightning/d=4,4/a=2/t=3", "gpt2"])
def test_explain_and_symmetries_are_one(spec: str) -> None:
    for rest in ((), ("--json",)):
        assert run("explain", spec, *rest).stdout == run("explain", spec, *rest).stdout != ""


def test_recover(files: Path) -> None:
    rng = np.random.default_rng(0)
    V, A = rng.standard_normal((2, 3)), rng.standard_normal((3, 3))
    X = rng.standard_normal((20, 3, 3))
    np.savez(files / "data.npz", X=X, Y=V @ X @ (X.transpose(0, 2, 1) @ A @ X))
    result = run(
        "model", "recover", "data.npz", "--spec", "lightning/d=3,2/a=3/t=3", "--json", cwd=files
    )
    assert result.returncode == 0
    found = json.loads(result.stdout)["heads"][0]
    product = np.multiply.outer(np.array(found["V"]), np.array(found["A"]))
    assert np.allclose(product, np.multiply.outer(V, A), rtol=1e-9)
    text = run("model", "recover", "data.npz", "--spec", "lightning/d=3,2/a=3/t=3", cwd=files)
    assert "V =" in text.stdout
    np.savez(files / "few.npz", X=X[:2], Y=np.ones((2, 2, 3)))
    few = run("model", "recover", "few.npz", "--spec", "lightning/d=3,2/a=3/t=3", cwd=files)
    assert few.returncode == 3
    assert few.stderr.count("\n") == 1


@pytest.mark.parametrize("ending", ["png", "svg", "html"])
@pytest.mark.parametrize("kind", ["cone", "discriminant", "fiber"])
def test_plot_slice(kind: str, ending: str, files: Path) -> None:
    point = {"V": [["1/2", 1], [1, 2]], "A": [[1, 0], [3, 0]], "a": 1}
    (files / "P.json").write_text(json.dumps(point))
    more = ("--point", "P.json") if kind == "discriminant" else ()
    result = run("variety", "slice", kind, "-o", f"picture.{ending}", *more, cwd=files)
    assert result.returncode == 0, result.stderr
    data = (files / f"picture.{ending}").read_bytes()
    start = {"png": b"\x89PNG", "svg": b"<?xml", "html": b"<!doctype"}[ending]
    assert data.lstrip()[:10].startswith(start)
    if ending == "html":
        assert b"https://cdn" not in data[:5000]  # self-contained: no network


@pytest.mark.parametrize(
    "arguments",
    [
        ("same", "one.json", "missing.json"),
        ("same", "one.json", "broken.json"),
        ("same", "one.json", "small.json"),
        ("model", "move", "one.json", "-o", "two.npz"),
        ("model", "move", "one.json", "-o", "no/such/two.json"),
        ("variety", "point", "one.json"),
        ("variety", "point", "broken.json"),
        ("model", "recover", "one.npz", "--spec", "lightning"),
        ("model", "recover", "broken.json", "--spec", "lightning"),
        ("variety", "slice", "torus", "-o", "x.png"),
        ("variety", "slice", "cone", "-o", "x.docx"),
        ("explain", "softmax/d=4"),
    ],
    ids=" ".join,
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: tuple[str, ...], files: Path) -> None:
    (files / "broken.json").write_text('{"V": [[1')
    Weights.random(Network.parse("softmax/d=2,3/a=1/t=2"), exact=True).write(files / "small.json")
    before = sorted(files.iterdir())
    result = run(*arguments, cwd=files)
    assert result.returncode == 2, result.stderr
    assert result.stderr.startswith("segre: ")
    assert result.stderr.count("\n") == 1
    assert sorted(files.iterdir()) == before


def test_the_normal_form_of_a_small_network(files: Path) -> None:
    """`model canonical` takes small networks as well as checkpoints: copies have one form."""
    run("model", "move", "one.json", "-o", "two.json", cwd=files)
    for name in ("one", "two"):
        done = run("model", "canonical", f"{name}.json", "-o", f"{name}-normal.json", cwd=files)
        assert (done.returncode, done.stderr) == (0, "")
    assert (files / "one-normal.json").read_text() == (files / "two-normal.json").read_text()
    assert run("same", "one.json", "two-normal.json", cwd=files).returncode == 0


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("same one.json .", "one is the weights of a small network, the other a checkpoint"),
        ("same one.json one.json --witness w.safetensors", "a witness is of two checkpoints"),
        ("model move one.json -o new.json --report", "compare small networks with segre same"),
    ],
)
def test_what_is_for_checkpoints_only(line: str, why: str, files: Path) -> None:
    done = run(*line.split(), cwd=files)
    assert done.returncode == 2
    assert why in done.stderr
    assert done.stderr.count("\n") == 1
