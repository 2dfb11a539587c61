"""Files made to break their readers are refused in one line, by every command that reads them."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from bench.faults.hostile_files import COMMANDS, archive, hostile_files, npy, saved, try_files

from segre.spec import Network
from segre.weights import Weights
from segre.weights.arrays import npz_arrays
from support.terminal import environment, run, warm

SPEC = "lightning/d=3,2/a=2/t=2"


@pytest.mark.parametrize("kind", COMMANDS)
def test_hostile_files_are_refused(kind: str) -> None:
    """Some of each kind; `python -m bench.faults hostile_files` tries all."""
    said = try_files(kind, lambda number: number % 11 == 3, seed=1, damaged=40)
    assert len(said) > 20
    assert {one for one in said if one not in ("answered", "refused")} == set()
    assert said.count("refused") > 0.8 * len(said)


def test_every_file_is_another_one() -> None:
    made = [content for _, _, content in hostile_files("spec", damaged=4)]
    assert len(made) > 100
    assert len(set(made)) > 0.9 * len(made)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["<f8", ">f8", "<f4", "<f2", "<i4", "|u1", "<u8"])
def test_arrays_are_what_numpy_wrote(kind: str, order: str) -> None:
    """Our reader of .npz files against NumPy's writer."""
    rng = np.random.default_rng(0)
    for shape in ((), (1,), (0, 3), (2, 3, 4), (5, 1)):
        array = np.asarray(rng.integers(0, 99, shape), dtype=kind, order=order)  # type: ignore[call-overload]
        found = npz_arrays(saved(a=array, spec=np.array("words")), 1 << 20, ("spec",))
        np.testing.assert_array_equal(found["a"], array.astype(float))
        assert found["a"].dtype == np.float64
        assert found["spec"] == "words"


@pytest.mark.parametrize("ending", [".json", ".npz"])
def test_weights_may_be_piped_in(ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"w{ending}"
    Weights.random(Network.parse(SPEC), 0).write(file)
    with file.open("rb") as stream:
        done = subprocess.run(
            [warm(), "same", "-", file], stdin=stream, capture_output=True, env=environment()
        )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_file_of_weights_names_no_other_file(tmp_path: Path) -> None:
    """Its spec is inline, or a table: a spec that is the name of a file is not opened."""
    other = tmp_path / "spec.json"
    other.write_text(json.dumps(Network.parse(SPEC).document()))
    for spec in (str(other), "-"):
        file = tmp_path / "w.json"
        file.write_text(json.dumps({"spec": spec, "layers": []}))
        done = run("same", file, file)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_one_hostile_file_in_a_real_process(tmp_path: Path) -> None:
    file = tmp_path / "w.npz"
    file.write_bytes(archive({"spec.npy": npy(shape="(1000000000000,)")}))
    done = run("same", file, file)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "its header says" in done.stderr
