"""The command at the end of a page, "This report again", gives the same page."""

import html
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from segre.cli.app import app
from support.once import once
from support.terminal import environment, run, warm

TEXT = "--text segre-demo/dialect.txt"
STACKS = "softmax/d=3,3/a=1/t=2 lightning/d=3,3/a=1/t=2"
TINY = "gpt2/d=8/layers=2/heads=2/ff=8/vocab=20/t=8"
PAGES = {
    "analyze": (
        f"{TINY} --only depth,what --inputs 2 --length 6 --seed 3 --memory 1G",
        f"segre-demo/base {TEXT} --only findings --length 9",
        "softmax/d=3,3/a=1/t=2 --only depth --seed 1",
        "segre-demo/base/config.json --defaults --only what",
        f"segre-demo/base --against segre-demo/moved --only depth {TEXT} --inputs 2 --seed 2",
    ),
    "compare": (
        f"{STACKS} --t 100,2k --seed 4 --memory 2G --plot p.png",
        "- --t 64",
        "segre-demo/base/config.json --defaults",
    ),
    "diff": (
        f"segre-demo/base segre-demo/fine-tune {TEXT} --inputs 2 --length 12 --seed 5",
        "segre-demo/base segre-demo/fine-tune --seed 7 --json",
    ),
    "model diagnose": (
        f"segre-demo/base {TEXT} --length 10 --control --seed 6",
        f"{TINY} --length 7 --seed 2 --set 1:0:3=median --ablate 1.1 --ablate mlp:2 --csv",
    ),
    "model trace": (
        f"segre-demo/base {TEXT} --length 9 --target 4:7",
        f"{TINY} --length 5 --target -2 --seed 8 --dense d.npy -q",
    ),
    "reproduce": ("--all --only localise --seeds 1 --seed 4",),
}


def made_again(page: str) -> str:
    """The command at the end of a page."""
    (found,) = re.findall(r'label="the command that made this report"><code>(.*?)</code>', page)
    return html.unescape(re.sub("<[^>]*>", "", found))


def timeless(page: str) -> str:
    """A page without how long things took."""
    return re.sub(r'"seconds": [0-9.e-]+|<small>took .*?</small>|took [^<]*', "", page)


def writes_a_page(command: Any) -> bool:
    return any(getattr(one, "metavar", None) == "FILE.html" for one in command.params)


def test_every_command_that_writes_a_page_is_here() -> None:
    first = get_command(app).commands  # type: ignore[attr-defined]
    inner = {f"model {name}": command for name, command in first["model"].commands.items()}
    pages = {name for name, command in {**first, **inner}.items() if writes_a_page(command)}
    assert pages - {"explore"} == {*PAGES} - {"reproduce"}  # an explorer says no command


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(here: Path) -> None:
        assert run("model", "demo", cwd=here).returncode == 0

    return once(tmp_path_factory, "again", make)


@pytest.mark.parametrize(
    ("command", "given"), [(name, given) for name, several in PAGES.items() for given in several]
)
def test_a_page_again(command: str, given: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "segre-demo").symlink_to(folder / "segre-demo")
    where = "pages" if command == "reproduce" else "page.html"
    first = write(tmp_path, [*command.split(), *shlex.split(given), "-o", where])
    asked = shlex.split(made_again(first))
    assert " ".join(asked).startswith(f"segre {command} ")
    second = write(tmp_path, asked[1:])
    assert timeless(second) == timeless(first)
    assert made_again(second) == made_again(first)


def write(folder: Path, arguments: list[str]) -> str:
    """Run a command; the one page that it writes, which is then gone."""
    done = subprocess.run(
        [str(warm()), *arguments],
        input=STACKS.replace(" ", "\n"),
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    (page,) = {*folder.glob("*.html"), *folder.glob("pages/*.html")}
    text = page.read_text()
    page.unlink()
    return text
