"""Which packages does segre need, and which are installed? Found without importing any."""

from __future__ import annotations

import csv
import importlib.metadata
import importlib.util
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import PurePosixPath
from typing import Literal

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

import segre

State = Literal["ok", "missing", "wrong version", "broken"]
NEEDED_FOR = {
    "models": "model convert (GGUF), texts (--text), training (reproduce)",
    "cluster": "sweep run --dask",
    "tables": "to_pandas, sweep export to .parquet",
    "docs": "building the documentation",
    "dev": "working on segre itself: tests, linters, benchmarks",
}
_PATIENCE = 120  # seconds for an import
_CODE = (".py", ".so")  # suffixes of modules

_PEERS = "bench"  # an extra of benchmarks: nothing of segre itself needs it


@dataclass(frozen=True)
class Package:
    """A required package, and what was found."""

    name: str
    wanted: str  # such as >=2.0; nothing if any version will do
    version: str | None
    state: State
    problem: str = ""


@dataclass(frozen=True)
class Extra:
    """Packages that some commands need, and how to install them."""

    name: str
    packages: tuple[Package, ...]

    @property
    def needed_for(self) -> str:
        """The commands that need it."""
        return NEEDED_FOR.get(self.name, "")

    @property
    def command(self) -> str:
        """The command that installs it."""
        return f"pip install 'segre[{self.name}]'"

    @property
    def state(self) -> State:
        """The worst state among its packages."""
        states = [package.state for package in self.packages]
        order: tuple[State, ...] = ("broken", "wrong version", "missing")
        return next((state for state in order if state in states), "ok")


def wanted_by(own: Distribution | None) -> tuple[list[Package], list[Extra]]:
    """What segre always needs, and its extras, according to its metadata."""
    if own is None:
        return [], []
    wanted = [Requirement(text) for text in own.requires or ()]
    core = [_found(one) for one in wanted if _applies(one)]
    extras = [
        Extra(name, tuple(found for one in wanted if _of(one, name) for found in _whole(one)))
        for name in own.metadata.get_all("Provides-Extra") or ()
        if name != _PEERS
    ]
    return core, extras


def own_metadata() -> Distribution | None:
    """The installed distribution of segre; None if it runs without being installed."""
    try:
        return importlib.metadata.distribution("segre")
    except PackageNotFoundError:
        return None


def python(own: Distribution | None) -> Package:
    """The interpreter, as if it were a package."""
    wanted = "".join((own and own.metadata.get_all("Requires-Python")) or ())
    return _compared(Requirement(f"python{wanted}"), platform.python_version())


def segre_itself(own: Distribution | None) -> Package:
    """segre itself: the running code, and the metadata installed with it."""
    version = segre.__version__
    if own is None:
        problem = (
            "runs without being installed, so its requirements are unknown; install it with pip"
        )
        return Package("segre", "", version, "missing", problem)
    if own.version != version:
        problem = f"its metadata are of version {own.version}; reinstall it with pip"
        return Package("segre", "", version, "wrong version", problem)
    return Package("segre", "", version, "ok")


def _applies(wanted: Requirement, extra: str = "") -> bool:
    """Whether it is required on this machine, by the package itself or by one of its extras."""
    return wanted.marker is None or wanted.marker.evaluate({"extra": extra})


def _of(wanted: Requirement, extra: str) -> bool:
    return _applies(wanted, extra) and not _applies(wanted) and wanted.name != "segre"


def _whole(wanted: Requirement) -> Iterator[Package]:
    """A package and its requested extras, such as dask[distributed]."""
    found = _found(wanted)
    yield found
    if found.version is None:
        return
    for extra in sorted(wanted.extras):
        for text in importlib.metadata.requires(wanted.name) or ():
            if _of(inner := Requirement(text), extra):
                yield _found(inner)


def _found(wanted: Requirement) -> Package:
    """The state of a package, found without importing it."""
    try:
        there = importlib.metadata.distribution(wanted.name)
    except PackageNotFoundError:
        return Package(wanted.name, str(wanted.specifier), None, "missing", "not installed")
    package = _compared(wanted, there.version)
    module = _module(there, wanted.name)
    if package.state == "ok" and module and importlib.util.find_spec(module) is None:
        problem = f"its module {module} is missing; reinstall it with pip"
        return replace(package, state="broken", problem=problem)
    return package


def _compared(wanted: Requirement, version: str | None) -> Package:
    needed = str(wanted.specifier)
    try:
        fits = wanted.specifier.contains(Version(version or ""), prereleases=True)
    except InvalidVersion:
        problem = "its metadata are damaged; reinstall it with pip"
        return Package(wanted.name, needed, version, "broken", problem)
    if not fits:
        return Package(wanted.name, needed, version, "wrong version", f"needs {needed}")
    return Package(wanted.name, needed, version, "ok")


def _module(there: Distribution, name: str) -> str | None:
    """The module that a package provides; None if there is none."""
    listed = (there.read_text("top_level.txt") or "").split()
    if not listed:
        # Not `there.files`: since Python 3.12 it leaves out the files that are missing.
        rows = csv.reader((there.read_text("RECORD") or "").splitlines())
        files = [PurePosixPath(row[0]) for row in rows if row]
        listed = [file.parts[0].partition(".")[0] for file in files if file.suffix in _CODE]
    public = [one for one in listed if one.isidentifier() and not one.startswith("_")]
    alike = [one for one in public if canonicalize_name(one) == canonicalize_name(name)]
    return next(iter([*alike, *public]), None)


def import_problem(name: str) -> str:
    """What goes wrong when a package is imported in a separate process; None if nothing does."""
    module = _module(importlib.metadata.distribution(name), name)
    if module is None:
        return ""
    path = os.pathsep.join(filter(None, sys.path))
    try:
        done = subprocess.run(
            [sys.executable, "-c", f"import {module}"],
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            env={**os.environ, "PYTHONPATH": path},
        )
    except subprocess.TimeoutExpired:
        return f"import {module} takes more than {_PATIENCE} seconds"
    if done.returncode < 0:
        return f"import {module} ends with {signal.Signals(-done.returncode).name}"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return f"import {module} fails: {last}"
    return ""


def judged(package: Package, problems: dict[str, str]) -> Package:
    """The package, marked broken if it has one of these problems."""
    problem = problems.get(package.name, "")
    return replace(package, state="broken", problem=problem) if problem else package
