"""Libraries are imported when they are needed; what is missing or broken is one clear line."""

import subprocess
import sys
from pathlib import Path

import pytest

from segre.checkpoint.example import example
from segre.errors import SegreError, SweepError
from segre.libraries import library
from segre.sweep.run import run
from support.small_sweeps import small

DRAWING = {"matplotlib"}


def segre(before: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command line, after some code; the last line says which drawing libraries are loaded."""
    code = (
        f"{before}\nimport sys\nfrom segre.cli import main\nsys.argv = ['segre', *{arguments!r}]\n"
        "try: main()\n"
        f"finally: print(*sorted({DRAWING} & {{m for m in sys.modules if sys.modules[m]}}))"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=cwd)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, a store, and libraries that cannot be imported."""
    folder = tmp_path_factory.mktemp("place")
    example(folder / "model")
    run(small(draw=6), folder / "s.db", workers=1)
    for name in DRAWING:
        (folder / "broken" / name).mkdir(parents=True)
        (folder / "broken" / name / "__init__.py").write_text("raise AttributeError('_ARRAY_API')")
    return folder


DRAWN = [
    ("matplotlib", "variety slice cone -o cone.png"),
    ("matplotlib", "sweep plot s.db -o s.svg"),
    ("matplotlib", "model info model --plot info.png"),
    ("matplotlib", "model collapse softmax/d=4,4,4/a=2/t=3 --plot collapse.png"),
    ("matplotlib", "model paths model --plot paths.png"),
    ("matplotlib", "reproduce normalized-dimension --widest 3 -o n.png"),
    ("matplotlib", "reproduce circle -o circle.png"),
]


def refusal(before: str, command: str, place: Path) -> str:
    """The one line of a command that draws nothing, and writes nothing."""
    files = set(place.iterdir())
    done = segre(before, *command.split(), cwd=place)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert set(place.iterdir()) == files
    return line


@pytest.mark.parametrize(("name", "command"), DRAWN, ids=lambda value: value)
def test_a_broken_library_is_one_line(name: str, command: str, place: Path) -> None:
    said = refusal(f"import sys; sys.path.insert(0, {str(place / 'broken')!r})", command, place)
    assert said == (
        f"segre: drawing a plot needs {name}, which cannot be imported (AttributeError: "
        f"_ARRAY_API); pip install --force-reinstall {name}"
    )


@pytest.mark.parametrize(("name", "command"), DRAWN[:2], ids=lambda value: value)
def test_a_missing_library_is_one_line(name: str, command: str, place: Path) -> None:
    said = refusal(f"import sys; sys.modules[{name!r}] = None", command, place)
    assert said.endswith(f" needs {name}, which is not installed; pip install {name}")


@pytest.mark.parametrize(
    "command",
    [
        "dim softmax/d=2,2/a=1/t=2",
        "model info model",
        "sweep status s.db",
        "model collapse softmax/d=4,4,4/a=2/t=3",
        "model paths model",
        "analyze softmax/d=2,2/a=1/t=2 --json",
    ],
)
def test_nothing_is_loaded_if_nothing_is_drawn(command: str, place: Path) -> None:
    done = segre("", *command.split(), cwd=place)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == ""


@pytest.mark.parametrize(
    "command", ["analyze softmax/d=2,2/a=1/t=2", "variety slice cone", "sweep plot s.db"]
)
def test_a_page_needs_no_drawing_library(command: str, place: Path, tmp_path: Path) -> None:
    absent = "import sys; sys.modules['matplotlib'] = sys.modules['plotly'] = None"
    done = segre(absent, *command.split(), "-o", str(tmp_path / "page.html"), cwd=place)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == ""
    assert 5e5 < (tmp_path / "page.html").stat().st_size < 1.5e6


def test_drawing_leaves_the_settings_of_others(tmp_path: Path) -> None:
    """Whoever draws in a notebook draws as before."""
    code = (
        "import matplotlib as mpl; mpl.use('svg'); before = dict(mpl.rcParams)\n"
        "from pathlib import Path; from segre.geometry.slices import segre_cone\n"
        "from segre.report.png import draw; draw(segre_cone(), Path('cone.png'))\n"
        "assert dict(mpl.rcParams) == before and mpl.get_backend() == 'svg'\n"
        "import sys; assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "cone.png").stat().st_size > 10_000


def test_a_library_that_lacks_another_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_there.py").write_text("import no_such_module")
    (tmp_path / "stopped.py").write_text("raise KeyboardInterrupt")
    (tmp_path / "wrapping.py").write_text(
        "try: raise KeyboardInterrupt\nexcept BaseException as e: raise ImportError('x') from e"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SweepError) as refused:
        library("half_there", "this", error=SweepError)
    assert "cannot be imported (ModuleNotFoundError: No module named 'no_such_module')" in str(
        refused.value
    )
    with pytest.raises(KeyboardInterrupt):
        library("stopped", "this")
    with pytest.raises(ImportError):
        library("wrapping", "this")
    with pytest.raises(
        SegreError, match=r"^this needs nothing_here, .*; pip install nothing_here$"
    ):
        library("nothing_here.inner", "this")
