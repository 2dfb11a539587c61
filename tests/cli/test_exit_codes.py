"""Exit codes, as docs/command-line.md lists them, and readers that go away early."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from segre.spec import Network
from segre.weights import Weights
from support.small_sweeps import TOML
from support.terminal import SEGRE, environment, run

NET = "softmax/d=3,3,3/a=2/t=2"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("desk")
    Weights.random(Network.parse(NET), 0, exact=True).write(folder / "one.json")
    Weights.random(Network.parse(NET), 1, exact=True).write(folder / "other.json")
    rng = np.random.default_rng(0)
    np.savez(folder / "few.npz", X=rng.standard_normal((2, 3, 3)), Y=np.ones((2, 2, 3)))
    assert run("certify", NET, "-o", "cert.json", cwd=folder).returncode == 0
    document = json.loads((folder / "cert.json").read_text())
    document["claim"]["lower"] -= 1
    (folder / "false.json").write_text(json.dumps(document))
    (folder / "cut.json").write_text((folder / "cert.json").read_text()[:-20])
    refuted = TOML.format(draw=6).replace("dimension == closed_form", "dimension == 1")
    (folder / "refuted.toml").write_text(refuted)
    return folder


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (0, f"dim {NET}"),
        (0, "dim lightning/d=2,4/a=2/heads=3/dv=1/t=2"),  # bounds that do not meet are an answer
        (0, "verify cert.json"),
        (0, "same one.json one.json"),
        (0, "sweep list"),
        (0, "doctor"),
        (0, "--help"),
        (0, "--version"),
        (0, "same --help"),
        (1, "verify false.json"),
        (1, "same one.json other.json"),
        (1, "sweep run refuted.toml -o refuted.db --workers 1"),
        (1, "sweep status refuted.db"),
        (2, ""),
        (2, "nonsense"),
        (2, "weights"),
        (2, "dim"),
        (2, "dim softmax/d=4"),
        (2, f"dim {NET} --no-such-option"),
        (2, f"dim {NET} --seed x"),
        (2, f"dim {NET} --memory 1K"),
        (2, "verify cut.json"),
        (2, "verify missing.json"),
        (2, "model info missing"),
        (2, "sweep run missing -o x.db"),
        (2, "sweep status missing.db"),
        (2, "model collapse missing"),
        (2, "variety slice cone -o cone.docx"),
        (3, "model recover few.npz --spec lightning/d=3,2/a=3/t=3"),
    ],
    ids=lambda value: str(value) or "no arguments",
)
def test_exit_code(code: int, line: str, desk: Path) -> None:
    done = run(*shlex.split(line), cwd=desk)
    assert done.returncode == code, done.stderr
    said = done.stderr.splitlines()
    if code in {0, 1}:
        assert said == []
    elif line in {"", "weights"}:  # help is the answer, but nothing was asked
        assert done.stdout.startswith("Usage: ")
    else:
        assert done.stdout == ""
        assert len(said) == 1
        assert said[0].startswith("segre: ")


@pytest.mark.parametrize("reader", ["true", "head -1 >&2"])
@pytest.mark.parametrize(
    "line", ["dim llama-3-8b", "dim llama-3-8b --json", "explain gpt2", "sweep list", "--help"]
)
def test_a_reader_may_leave_early(line: str, reader: str) -> None:
    command = (
        f"set -o pipefail; {SEGRE} {line} 2>errors | {reader}; code=$?; cat errors; exit $code"
    )
    done = subprocess.run(
        ["bash", "-c", f"cd $(mktemp -d) && {command}"],
        capture_output=True,
        text=True,
        env=environment(),
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_a_module_is_a_command_too() -> None:
    def python(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "segre", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment())

    assert python("--help").stdout == run("--help").stdout
    assert python("dim", NET).stdout == run("dim", NET).stdout
    wrong = python("dim", "softmax/d=4")
    assert (wrong.returncode, wrong.stderr) == (2, run("dim", "softmax/d=4").stderr)


def test_a_package_that_is_not_there_is_named() -> None:
    code = "import sys; sys.modules['numpy'] = None; from segre.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "dim", NET], capture_output=True, text=True, env=environment()
    )
    assert done.returncode == 2
    assert done.stderr.startswith("segre: the package 'numpy' is not installed; run segre doctor")
    assert done.stderr.count("\n") == 1
