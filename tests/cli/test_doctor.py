"""`segre doctor` where something is wrong: real directories of packages, one of them changed.

A process is started without its site-packages (python -S) and with a copy of them made of links,
from which a package is taken, or in which one is replaced.
"""

import json
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import distribution, metadata
from pathlib import Path
from typing import Any

import pytest

import segre
from segre.doctor import machine
from segre.doctor.packages import NEEDED_FOR
from support.terminal import environment, run

SOURCE = Path(segre.__file__).parents[1]
PACKAGES = Path(sysconfig.get_path("purelib"))


class Place:
    """A copy of the packages that can be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for path in PACKAGES.iterdir():
            (folder / path.name).symlink_to(path)

    def remove(self, package: str, module: str) -> None:
        """Take a package out, as pip uninstall does."""
        self._drop(self._described(package).name)
        self._drop(module)

    def replace_version(self, package: str, version: str) -> None:
        """Have another version of a package, as far as its metadata say."""
        there = self._described(package)
        text = (there / "METADATA").read_text()
        own = distribution(package).version
        self._drop(there.name)
        new = self.folder / there.name
        shutil.copytree(PACKAGES / there.name, new)
        (new / "METADATA").write_text(text.replace(f"Version: {own}\n", f"Version: {version}\n", 1))

    def replace_module(self, module: str, text: str) -> None:
        """Have a module that does something else when it is imported."""
        self._drop(module)
        (self.folder / module).mkdir()
        (self.folder / module / "__init__.py").write_text(text)

    def lose_module(self, module: str) -> None:
        """Keep the metadata of a package without the package, as a broken installation does."""
        self._drop(module)

    def _drop(self, name: str) -> None:
        (self.folder / name).unlink()

    def _described(self, package: str) -> Path:
        (found,) = self.folder.glob(f"{package.replace('-', '_')}-*.dist-info")
        return found

    def doctor(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        path = f"{SOURCE}:{self.folder}"
        return subprocess.run(
            [sys.executable, "-S", "-m", "segre", "doctor", *arguments],
            capture_output=True,
            text=True,
            env=environment(PYTHONPATH=path),
        )

    def answer(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        done = self.doctor("--json", *arguments)
        assert done.stderr == ""
        return done.returncode, json.loads(done.stdout)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "packages")


def core(found: dict[str, Any], name: str) -> dict[str, Any]:
    (package,) = [package for package in found["core"] if package["name"] == name]
    return package


def extra(found: dict[str, Any], name: str) -> dict[str, Any]:
    (one,) = [one for one in found["extras"] if one["name"] == name]
    return one


def test_what_is_here_works(place: Place) -> None:
    code, found = place.answer()
    assert code == 0
    assert found["works"] is True
    assert set(found) == {"works", "python", "segre", "core", "extras", "machine", "checks"}
    assert found["segre"]["version"] == segre.__version__
    assert found["segre"]["place"] == str(Path(segre.__file__).parent)
    assert [check["state"] for check in found["checks"]] == ["ok", "ok"]
    assert found["machine"]["blas"]
    assert min(found["machine"]["memory"], found["machine"]["disk"]) > 0
    assert found["machine"]["memory_limit"] == 8 << 30


def test_lists_are_those_of_the_metadata(place: Place) -> None:
    _, found = place.answer()
    wanted = metadata("segre").get_all("Requires-Dist") or []
    assert len(found["core"]) == len([line for line in wanted if "extra ==" not in line])
    names = metadata("segre").get_all("Provides-Extra") or []
    names = [name for name in names if name != "bench"]  # peers, which segre does not need
    assert [one["name"] for one in found["extras"]] == names
    assert set(names) == set(NEEDED_FOR)
    assert all(one["needed_for"] for one in found["extras"])
    torch = {package["name"]: package for package in extra(found, "models")["packages"]}["torch"]
    (pinned,) = {line.partition(";")[0] for line in wanted if line.startswith("torch")}
    assert f"torch{torch['wanted']}" == pinned
    inner = [package["name"] for package in extra(found, "cluster")["packages"]]
    assert inner == ["dask", "distributed"]  # dask[distributed] is two packages


def test_a_missing_extra_is_no_fault(place: Place) -> None:
    place.remove("pyarrow", "pyarrow")
    code, found = place.answer()
    assert code == 0
    tables = extra(found, "tables")
    assert [one for one in tables.pop("packages") if one["state"] != "ok"] == [
        {
            "name": "pyarrow",
            "wanted": ">=18",
            "version": None,
            "state": "missing",
            "problem": "not installed",
        }
    ]
    assert tables == {
        "name": "tables",
        "state": "missing",
        "needed_for": "to_pandas, sweep export to .parquet",
        "command": "pip install 'segre[tables]'",
    }
    assert extra(found, "models")["state"] == "ok"
    text = place.doctor()
    assert text.returncode == 0
    assert "  missing        tables: not installed: pyarrow>=18\n" in text.stdout
    assert (
        "to_pandas, sweep export to .parquet; install it with pip install 'segre[tables]'\n"
        in text.stdout
    )
    assert text.stdout.endswith("segre works; extras not installed completely: dev, tables\n")


def test_an_older_torch_than_the_metadata_asks_for(place: Place) -> None:
    place.replace_version("torch", "2.1.0")
    code, found = place.answer()
    assert code == 0
    assert extra(found, "models")["state"] == "wrong version"
    shown = place.doctor().stdout
    assert "  wrong version  models: torch 2.1.0: needs >=2.13\n" in shown


def test_a_core_package_that_is_too_old(place: Place) -> None:
    place.replace_version("scipy", "1.2.0")
    code, found = place.answer()
    assert (code, found["works"]) == (1, False)
    assert core(found, "scipy")["problem"] == "needs >=1.13"
    assert place.doctor().stdout.endswith("segre does not work: see the problems above\n")


def test_a_core_package_that_is_missing(place: Place) -> None:
    place.remove("python_flint", "flint")
    code, found = place.answer()
    assert (code, found["works"]) == (1, False)
    assert core(found, "python-flint")["state"] == "missing"
    assert [check["state"] for check in found["checks"]] == ["broken", "broken"]


def test_without_numpy_it_still_answers(place: Place) -> None:
    place.remove("numpy", "numpy")
    code, found = place.answer()
    assert code == 1
    assert core(found, "numpy")["state"] == "missing"
    assert found["machine"]["blas"] == []
    assert "  missing        numpy: not installed\n" in place.doctor().stdout


def test_metadata_without_a_package(place: Place) -> None:
    place.lose_module("jinja2")
    code, found = place.answer()
    assert code == 1
    assert core(found, "jinja2")["state"] == "broken"
    assert "its module jinja2 is missing" in core(found, "jinja2")["problem"]


def test_metadata_that_are_damaged(place: Place) -> None:
    place.replace_version("jinja2", "")
    code, found = place.answer()
    assert (code, core(found, "jinja2")["state"]) == (1, "broken")


def test_arithmetic_that_is_wrong(place: Place) -> None:
    """A library that answers, but not with the truth: the self-test tells."""
    place.replace_module(
        "flint",
        f"__path__ = [{str(PACKAGES / 'flint')!r}]\n"
        f"exec(open({str(PACKAGES / 'flint' / '__init__.py')!r}).read())\n"
        "class nmod_mat:\n"
        "    def __init__(self, *_): pass\n"
        "    def rank(self): return 39\n",
    )
    code, found = place.answer()
    assert code == 1
    proof, rank = found["checks"]
    assert (proof["state"], rank["state"]) == ("broken", "broken")  # the kernel counts with it too
    assert "segre finds 40, FLINT finds 39, the correct rank is 40" in rank["words"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("raise ImportError('libarrow.so.2600: cannot open')", "libarrow.so.2600: cannot open"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ends with SIGSEGV"),
    ],
    ids=["raises", "crashes"],
)
def test_an_import_that_fails(text: str, problem: str, place: Place) -> None:
    """Installed, of the right version, and of no use: only trying shows it."""
    place.replace_module("pyarrow", text)
    for package in ("torch", "transformers", "accelerate"):  # which would take a while
        place.remove(package, package)
    assert place.answer()[0] == 0
    code, found = place.answer("--imports")
    assert (code, found["works"]) == (1, False)
    every = extra(found, "tables")["packages"]
    (package,) = [one for one in every if one["name"] == "pyarrow"]
    assert package["state"] == "broken"
    assert problem in package["problem"]
    assert extra(found, "cluster")["state"] == "ok"


def test_without_metadata_it_says_that_it_is_not_installed(place: Place) -> None:
    (place.folder / place._described("segre").name).unlink()
    code, found = place.answer()
    assert code == 0
    assert found["segre"]["state"] == "missing"
    assert "install it with pip" in found["segre"]["problem"]


def test_nothing_heavy_is_imported(place: Place) -> None:
    for module in ("torch", "transformers", "pyarrow", "matplotlib"):
        place.replace_module(module, f"raise SystemExit('{module} is imported')")
    assert place.answer()[0] == 0


def test_words() -> None:
    shown = run("doctor").stdout
    for title in ("segre", "core", "extras", "machine", "self-test"):
        assert f"\n{title}\n" in f"\n{shown}"
    assert "has dimension 25, and the kernel accepts the proof" in shown
    assert "segre uses one thread for matrices up to 1500 columns" in shown
    assert "not needed: GPU, display, browser, network" in shown


def test_the_number_of_threads_that_was_set_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for number, name in enumerate(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")):
        monkeypatch.setenv(name, str(number))
        assert machine()["threads"][name] == str(number)
