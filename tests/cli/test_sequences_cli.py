"""`segre model run` and `cost` as processes: files in, files out, one line if it fails."""

import csv
import io
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import segre
from support.terminal import run, warm

SPEC = "mix/d=4,3,2/a=2/heads=lightning:decay=0.9*2,softmax:window=3/t=3"


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal(segre.architecture(SPEC).parameters)
    np.savez(tmp_path / "w.npz", spec=np.array(SPEC), **by_name(weights))
    save_file(by_name(weights), tmp_path / "w.safetensors")
    np.save(tmp_path / "x.npy", rng.standard_normal((300, 4)))
    np.save(tmp_path / "weights.npy", weights)
    return tmp_path


def by_name(weights: np.ndarray) -> dict[str, np.ndarray]:
    from segre.network import tensors

    slots = tensors(segre.architecture(SPEC)).items()
    return {
        f"layer{n}.{name}": weights[slot.range].reshape(slot.shape) for (n, name), slot in slots
    }


@pytest.mark.parametrize("weights", ["w.npz", "w.safetensors"])
@pytest.mark.parametrize("output", ["y.npy", "y.safetensors"])
@pytest.mark.parametrize("method", ["auto", "dense"])
def test_run_writes_what_attend_gives(desk: Path, weights: str, output: str, method: str) -> None:
    words = ("run", SPEC, "-w", weights, "-i", "x.npy", "-o", output, "--method", method)
    done = run(*words, cwd=desk)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{output}: 300 x 2, float64\n"
    path = desk / output
    found = np.load(path) if path.suffix == ".npy" else load_file(path)["Y"]
    right = segre.attend(SPEC, np.load(desk / "weights.npy"), np.load(desk / "x.npy"), method)
    assert np.allclose(found, right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"-w": "x.npy"}, "allowed: .npz, .json, .safetensors files"),
        ({"-w": "none.npz"}, "No such file"),
        ({"-i": "w.npz"}, "allowed: .npy and .safetensors files"),
        ({"-i": "weights.npy"}, "X has shape"),
        ({"-i": "nan.npy"}, "NaN or infinite"),
        ({"-i": "pickle.npy"}, "allowed: real numbers"),
        ({"--method": "linear"}, "softmax:window=3 has no linear form"),
        ({"--method": "quick"}, "allowed: auto, dense, linear, band"),
        ({"--block": "0"}, "block: 0"),
        ({"--memory": "1K"}, "tokens would need about"),
    ],
)
def test_what_fails_is_one_line_and_writes_nothing(
    desk: Path, changed: dict[str, str], said: str
) -> None:
    np.save(desk / "nan.npy", np.full((3, 4), np.nan))
    np.save(desk / "pickle.npy", np.array([{}]), allow_pickle=True)
    (desk / "y.npy").write_text("as it was")
    options = {"-w": "w.npz", "-i": "x.npy", "-o": "y.npy", **changed}
    done = run("model", "run", SPEC, *[word for pair in options.items() for word in pair], cwd=desk)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert (desk / "y.npy").read_text() == "as it was"
    assert not list(desk.glob(".y*"))


def test_tokens_may_be_piped_in(desk: Path) -> None:
    words = ("run", SPEC, "-w", "w.npz", "-i", "-", "-o", "y.npy")
    given = (desk / "x.npy").read_bytes()
    done = subprocess.run([str(warm()), *words], input=given, capture_output=True, cwd=desk)
    assert done.returncode == 0, done.stderr
    assert np.load(desk / "y.npy").shape == (300, 2)


def test_other_architectures_are_refused(desk: Path) -> None:
    for spec, said in (("gpt2", "only stacks"), (SPEC.replace("a=2", "a=3"), "only t may differ")):
        done = run("model", "run", spec, "-w", "w.npz", "-i", "x.npy", "-o", "y.npy", cwd=desk)
        assert (done.returncode, said in done.stderr) == (2, True)


def test_cost_in_every_format(tmp_path: Path) -> None:
    words = ("cost", SPEC, "--t", "4k,32k")
    document = json.loads(run(*words, "--json").stdout)
    assert [one["tokens"] for one in document["costs"]] == [4096, 32768]
    rows = list(csv.DictReader(io.StringIO(run(*words, "--csv").stdout)))
    parts = [part for one in document["costs"] for part in one["parts"]]
    assert [int(row["operations"]) for row in rows] == [part["operations"] for part in parts]
    assert [row["method"] for row in rows] == ["linear", "band"] * 2
    done = run(*words, "--plot", tmp_path / "cost.png")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "cost.png").read_bytes().startswith(b"\x89PNG")
    for wrong in ("", "4x", "0", "-1", "4k,", "1e3", "99999999M"):
        done = run("model", "cost", SPEC, f"--t={wrong}" if wrong else "--t=,")
        assert done.returncode == 2, wrong
        assert len(done.stderr.splitlines()) == 1
