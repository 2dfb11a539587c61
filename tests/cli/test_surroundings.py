"""segre in unusual surroundings: the same answers, and nothing else on the screen."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import segre
from support.terminal import SEGRE, environment, run

NET = "softmax/d=3,3/a=1/t=2"
MODEL = "mod\u00e8le \u6a21\u578b"
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a model, whose name is neither one word nor ASCII."""
    here = tmp_path_factory.mktemp("surroundings") / "na\u00efve directory"
    here.mkdir()
    segre.checkpoints.example(here / MODEL)
    return here


def answered(words: list[str], cwd: Path, **variables: str) -> str:
    """What a command prints; it says nothing else."""
    done = subprocess.run(
        list(map(str, words)),
        capture_output=True,
        cwd=cwd,
        env=environment(**variables),
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode("utf-8")


@pytest.mark.parametrize("flags", [["-W", "error"], ["-O"]])
def test_flags_of_the_interpreter(flags: list[str], tmp_path: Path) -> None:
    command = [sys.executable, *flags, "-m", "segre"]
    assert answered([*command, "--version"], tmp_path) == f"segre {segre.__version__}\n"
    assert answered([*command, "dim", NET], tmp_path) == run("dim", NET).stdout


def test_a_terminal_that_knows_only_ascii(folder: Path) -> None:
    """Names are found although they cannot be shown; the plot and the page are written."""
    assert answered([SEGRE, "dim", NET], folder, **ASCII) == run("dim", NET).stdout
    model = str(folder / MODEL)
    ours, theirs = (
        run("explain", model).stdout,
        answered([SEGRE, "explain", model], folder, **ASCII),
    )
    assert theirs.isascii()
    assert theirs.splitlines()[1:] == ours.splitlines()[1:]
    plotted = ["collapse", model, "--quiet", "--plot", str(folder / "\u00e9.png")]
    assert "plot: " in answered([SEGRE, *plotted], folder, **ASCII)
    assert (folder / "\u00e9.png").stat().st_size


def test_no_home_to_write_to(folder: Path) -> None:
    """Nor do matplotlib's remarks on it reach the screen, or on characters that it cannot draw."""
    said = answered(
        [SEGRE, "model", "collapse", str(folder / MODEL), "--quiet", "--plot", "plot.png"],
        folder,
        HOME="/dev/null",
        MPLCONFIGDIR="",
    )
    assert said.endswith("plot: plot.png\n")


def test_commands_to_copy_are_quoted(folder: Path) -> None:
    said = answered([SEGRE, "certify", NET, "-o", str(folder / "it's.json")], folder)
    words = shlex.split(said.splitlines()[-1].partition("segre ")[2])
    assert words == ["verify", str(folder / "it's.json")]
    assert run(*words, cwd=folder).returncode == 0
    made = answered([SEGRE, "model", "demo", str(folder / "three models")], folder)
    line = next(one for one in made.splitlines() if one.startswith("  segre same"))
    assert run(*shlex.split(line)[1:], cwd=folder).returncode == 0
