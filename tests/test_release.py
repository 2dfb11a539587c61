"""What is released works where there is no checkout: the sdist, the wheel, and clean environments.

`python -m pytest -m release` runs these alone, with tests/test_alone.py.
"""

import json
import os
import re
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import segre
from blocks import ROOT, check_commands
from support.installation import (
    Environment,
    built,
    core,
    core_of,
    interpreter,
    wheel,
    with_extra,
)

pytestmark = [pytest.mark.release, pytest.mark.slow]

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSIONS = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
LARGEST = 3 << 20
# A command that needs each extra, and what it prints. Without the extra it is refused
# (tests/test_alone.py). Two are not for users: dev is these and tools, bench has peers to measure.
USES = {
    "models": ("-m segre reproduce circle --epochs 1 --steps 3 --json", '"claims"'),
    "tables": ("-m segre sweep export s.db -o s.parquet", "s.parquet"),
    "cluster": ("-m segre sweep run deep-softmax -o t.db --dask tcp://127.0.0.1:9", "127.0.0.1:9"),
    "docs": ("-m mkdocs --version", "mkdocs, version"),
}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(wheel(tmp_path_factory))


@pytest.fixture
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return core(tmp_path_factory)


# --- versions -----------------------------------------------------------------------------------


def test_one_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    newest = re.search(r"^## \[?(\d[\w.]*)\]?.* (\d{4}-\d\d-\d\d)$", changelog(), re.MULTILINE)
    assert newest is not None
    assert f"\nversion: {segre.__version__}\n" in citation
    assert newest[1] == segre.__version__
    assert f"\ndate-released: {newest[2]}\n" in citation


def changelog() -> str:
    return (ROOT / "CHANGELOG.md").read_text()


# --- what is in the files -----------------------------------------------------------------------


def test_the_sdist_makes_the_same_wheel(
    archive: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (direct,) = (built(tmp_path_factory) / "checkout").glob("*.whl")
    with zipfile.ZipFile(direct) as other:
        assert other.namelist() == archive.namelist()
        different = [name for name in other.namelist() if other.read(name) != archive.read(name)]
    assert not different


def test_the_wheel_has_the_package_and_nothing_else(archive: zipfile.ZipFile) -> None:
    inside = set(archive.namelist())
    description = f"segre-{segre.__version__}.dist-info/"
    assert {name.partition("/")[0] for name in inside} == {"segre", description[:-1]}
    package = {str(path.relative_to(ROOT / "src")) for path in files_of(ROOT / "src" / "segre")}
    assert {name for name in inside if not name.startswith(description)} == package
    assert not [name for name in inside if re.search(r"__pycache__|\.pyc$|/tests?/|/test_", name)]
    for name in (
        "py.typed",
        "checkpoint/demo/base.safetensors",
        "checkpoint/demo/tokenizer.json",
        "explore/page.html",
        "explore/page.js",
        "explore/controls.js",
        "report/page/template.html",
        "report/page/style.css",
        "report/cards/card.html",
        "sweep/plans/deep-softmax.toml",
    ):
        assert f"segre/{name}" in inside, name
    assert max(one.file_size for one in archive.infolist()) < LARGEST


def test_the_wheel_states_its_licences(archive: zipfile.ZipFile) -> None:
    """segre's own, and that of the part of plotly.js in the package."""
    description = f"segre-{segre.__version__}.dist-info"
    found = Parser().parsestr(archive.read(f"{description}/METADATA").decode())
    assert found["License-Expression"] == "Apache-2.0 AND MIT"
    files = found.get_all("License-File") or []
    texts = [archive.read(f"{description}/licenses/{file}").decode() for file in files]
    own, plotly = texts
    assert "Apache License" in own
    assert plotly.startswith("MIT License")
    assert "Plotly" in plotly
    assert {ROOT / file for file in files} == {ROOT / "LICENSE", *ROOT.glob("src/**/LICENSE")}


def files_of(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts]


def test_the_sdist_has_what_the_tests_need(tmp_path_factory: pytest.TempPathFactory) -> None:
    (unpacked,) = (built(tmp_path_factory) / "source").iterdir()
    for name in ("tests/conftest.py", "docs", "bench", "examples", "constraints.txt", "Makefile"):
        assert (unpacked / name).exists(), name
    # links of the README, and of the pages: nothing is left behind
    for page in (unpacked / "README.md", *sorted((unpacked / "docs").glob("*.md"))):
        for target in re.findall(r"\]\(([^)#\s:]+\.[a-z]+|[^)#\s:]*/)[#)]", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_description_stands_by_itself(archive: zipfile.ZipFile) -> None:
    """It is the README, but for links to files that an index does not have."""
    text = archive.read(f"segre-{segre.__version__}.dist-info/METADATA").decode()
    found = Parser().parsestr(text)
    assert found["Description-Content-Type"] == "text/markdown"
    description = str(found.get_payload())
    readme = (ROOT / "README.md").read_text()
    assert re.search(r"\]\((?!https?://)", readme), "then scripts/hatch_readme.py is not needed"
    assert not re.search(r"\]\((?!https?://)", description)
    assert description.count("```") == readme.count("```")
    assert [line for line in description.splitlines() if line.startswith("#")] == [
        line for line in readme.splitlines() if line.startswith("#")
    ]


# --- the core alone -----------------------------------------------------------------------------


def test_the_core_is_all_that_the_readme_needs(environment: Environment, tmp_path: Path) -> None:
    """Every command of the README, in an empty directory, without a checkout."""
    where = environment.printed('python -c "import segre; print(segre.__file__)"', tmp_path)
    assert where.startswith(f"{environment.folder}/lib/")
    readme = (ROOT / "README.md").read_text()
    check_commands(readme, tmp_path, environment.printed)
    (tmp_path / "page.md").write_text(readme)
    options = ("-o", "ELLIPSIS", "-o", "NORMALIZE_WHITESPACE")
    done = environment.run("-m", "doctest", *options, "page.md", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_doctor_of_the_core(environment: Environment, tmp_path: Path) -> None:
    done = environment.segre("doctor --json", tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["works"] is True
    assert found["segre"]["version"] == segre.__version__
    assert {package["state"] for package in found["core"]} == {"ok"}
    assert {extra["state"] for extra in found["extras"]} == {"missing"}
    shown = environment.segre("doctor", tmp_path)
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[-1].startswith("segre works")


# --- other versions of Python -------------------------------------------------------------------


def test_the_versions_that_are_named_are_those_of_ci() -> None:
    assert min(VERSIONS, key=minor) == PROJECT["requires-python"].removeprefix(">=")
    (matrix, *_) = re.findall(r"python: (\[.*\])", (ROOT / ".github/workflows/ci.yml").read_text())
    assert json.loads(matrix) == VERSIONS


def minor(version: str) -> int:
    return int(version.partition(".")[2])


def test_the_core_on_another_python(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The newest that the machine has; `PYTHON` names another version."""
    others = [one for one in VERSIONS if minor(one) != sys.version_info.minor]
    wanted = [os.environ["PYTHON"]] if "PYTHON" in os.environ else sorted(others, key=minor)
    found = {one: python for one in wanted if (python := interpreter(one)) is not None}
    if not found:
        pytest.skip(f"none of {', '.join(wanted)} on the path or beside {sys.base_prefix}")
    version, python = list(found.items())[-1]
    with core_of(tmp_path_factory, python) as environment:

        def said(command: str) -> str:
            done = environment.segre(command, tmp_path)
            assert (done.returncode, done.stderr) == (0, ""), f"{command}: {done.stderr}"
            return done.stdout

        health = json.loads(said("doctor --json"))
        assert health["works"] is True
        assert health["python"]["version"].startswith(f"{version}.")
        assert "dimension    28  proved" in said("dim softmax/d=4,4/a=2/t=3")
        said("certify softmax/d=4,4/a=2/t=3 -o proof.json")
        assert "valid: dimension 28" in said("verify proof.json")
        said("model demo")
        same = said("same segre-demo/fine-tune segre-demo/moved")
        assert same.startswith("same function"), same


# --- the extras ---------------------------------------------------------------------------------


def test_every_extra_is_tried() -> None:
    assert {*USES, "dev", "bench"} == set(PROJECT["optional-dependencies"])


@pytest.mark.parametrize("extra", USES)
def test_an_extra_is_whole_and_of_use(
    extra: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with with_extra(tmp_path_factory, extra) as environment:
        done = environment.segre("doctor --json", tmp_path)
        assert done.returncode == 0, done.stderr
        states = {one["name"]: one["state"] for one in json.loads(done.stdout)["extras"]}
        assert {name for name, state in states.items() if state == "ok"} == {extra}
        if extra == "tables":
            environment.segre("sweep run deep-softmax -o s.db --limit 2 --workers 1", tmp_path)
        command, said = USES[extra]
        done = environment.run(*command.split(), cwd=tmp_path)
        assert said in done.stdout + done.stderr, done.stdout + done.stderr
        assert "is not installed" not in done.stderr
