"""segre as it is released: the sdist and the wheel, and the wheel in clean environments.

Nothing of the checkout can be imported there. An environment with an extra begins as a copy of the
core's, made of hard links, as that of a user who adds an extra later.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from blocks import ROOT, printed
from support.once import once


@dataclass(frozen=True)
class Environment:
    """A virtual environment that has segre from the wheel."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def run(
        self, *arguments: object, cwd: Path, given: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Its interpreter with arguments, to the end; without a network if that is possible."""
        return subprocess.run(
            [*alone(), str(self.python), *map(str, arguments)],
            input=given,
            capture_output=True,
            text=True,
            cwd=cwd,
            env=clean(),
        )

    def segre(self, command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """A command of segre."""
        return self.run("-m", "segre", *command.split(), cwd=cwd)

    def printed(self, command: str, cwd: Path) -> str:
        """What a shell command prints, where `segre` and `python` are those of this environment."""
        return printed(command, cwd, [self.python.parent], clean(), alone())


def clean() -> dict[str, str]:
    """The variables of a user who has no checkout."""
    names = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    kept = {key: value for key, value in os.environ.items() if key not in names}
    return {**kept, "NO_COLOR": "1", "COLUMNS": "80"}


@cache
def alone() -> tuple[str, ...]:
    """What starts a command without a network, where the system lets us; else nothing."""
    without = ("unshare", "--map-current-user", "--net")
    if shutil.which(without[0]) is None:
        return ()
    return (
        without if subprocess.run([*without, "true"], capture_output=True).returncode == 0 else ()
    )


def built(factory: pytest.TempPathFactory) -> Path:
    """A directory with the sdist, the wheel made from it, and in checkout/ the wheel without it."""

    def make(folder: Path) -> None:
        _build("sdist", ROOT, folder)
        (source,) = folder.glob("*.tar.gz")
        with tarfile.open(source) as archive:
            archive.extractall(folder / "source", filter="data")
        (unpacked,) = (folder / "source").iterdir()
        _build("wheel", unpacked, folder)
        _build("wheel", ROOT, folder / "checkout")

    return once(factory, "dist", make)


def wheel(factory: pytest.TempPathFactory) -> Path:
    """The wheel that is released."""
    (found,) = built(factory).glob("*.whl")
    return found


def core(factory: pytest.TempPathFactory) -> Environment:
    """segre and what it always needs, in an environment that all tests share."""

    def make(folder: Path) -> None:
        place = folder.with_name("core")  # it cannot be renamed: its scripts name it
        _make_core(Path(sys.executable), place, factory)

    return Environment(once(factory, "core-ready", make).with_name("core"))


@contextmanager
def core_of(factory: pytest.TempPathFactory, interpreter: Path) -> Iterator[Environment]:
    """The same for another interpreter; it is deleted afterwards."""
    folder = factory.mktemp("other") / "core"
    try:
        yield _make_core(interpreter, folder, factory)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def interpreter(version: str) -> Path | None:
    """A Python of this version that runs: on the path, or installed beside ours."""
    name = f"python{version}"
    beside = Path(sys.base_prefix).parent.glob(f"*/bin/{name}")
    for found in (shutil.which(name), *sorted(beside)):
        if found is not None and _version(Path(found)) == version:
            return Path(found)
    return None


def _version(python: Path) -> str:
    """The version of an interpreter that can make environments; nothing if it does not run."""
    code = "import sys, venv; print(*sys.version_info[:2], sep='.')"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, env=clean())
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


@contextmanager
def with_extra(factory: pytest.TempPathFactory, extra: str) -> Iterator[Environment]:
    """An environment with one extra; it is deleted afterwards: PyTorch alone takes 800 MB."""
    own = Environment(factory.mktemp("extra") / extra)
    try:
        shutil.copytree(core(factory).folder, own.folder, symlinks=True, copy_function=os.link)
        _install(own, f"segre[{extra}] @ {wheel(factory).as_uri()}")
        yield own
    finally:
        shutil.rmtree(own.folder, ignore_errors=True)


def _make_core(python: Path, place: Path, factory: pytest.TempPathFactory) -> Environment:
    command = [python, "-m", "venv", "--without-pip", "--clear", place]
    subprocess.run(command, check=True, env=clean())
    _install(Environment(place), f"segre @ {wheel(factory).as_uri()}")
    return Environment(place)


def _build(target: str, source: Path, into: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(into)]
    subprocess.run(command, cwd=source, env=clean(), check=True, capture_output=True)


def _install(own: Environment, wanted: str) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(own.python), "install", "--quiet"]
    # what is not compiled now is compiled when it is imported, which is less
    options = ["--no-compile", "--no-input", "-c", str(ROOT / "constraints.txt")]
    done = subprocess.run([*command, *options, wanted], env=clean(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
