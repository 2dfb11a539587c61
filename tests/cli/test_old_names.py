"""Names of version 0.2 still work: every line of its pages, with one hint and the same answer.

old_commands.txt has the command lines of its README, documentation and help.
"""

import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from segre.cli.app import app
from segre.cli.renamed import COMMANDS, OPTIONS
from segre.weights import Weights
from support.terminal import run

FRONT: Any = get_command(app)
LINES = (Path(__file__).parent / "old_commands.txt").read_text().splitlines()
STACK = "lightning/d=3,3/a=1/t=2"


def understood(line: str) -> tuple[str, dict[str, Any]]:
    """The command that a line calls, and with what, without running it."""
    command, words = FRONT, shlex.split(line)[1:]
    context = command.context_class(command, info_name="segre")
    while hasattr(command, "commands") and words and words[0][0] != "-":
        name, command, words = command.resolve_command(context, words)
        if hasattr(command, "commands"):
            context = command.context_class(command, info_name=name, parent=context)
    if not hasattr(command, "commands"):
        context = command.make_context(name, words, parent=context)
    return context.command_path, context.params


def test_there_are_many_lines() -> None:
    assert len(LINES) > 300
    for old in COMMANDS:
        assert any(line.startswith(f"segre {old}") for line in LINES), old


@pytest.mark.parametrize("line", LINES)
def test_every_old_line_is_understood(line: str, capfd: pytest.CaptureFixture[str]) -> None:
    """As the line that its hint names; without a hint, its names have not changed."""
    line = line.replace(" --quiet", "").replace(" -q", "")  # which wants no hints
    path, params = understood(line)
    hints = capfd.readouterr().err.splitlines()
    assert len(hints) <= 2  # of a command, and of an option
    present = line
    for hint in hints:
        old, now = hint.split(" is now ")
        if " -" in old:  # an option
            present = present.replace(f" {old.split()[-1]} ", f" {now.split()[-1]} ")
        else:
            assert present.startswith(old)
            present = now + present.removeprefix(old)
    assert understood(present) == (path, params)
    assert capfd.readouterr().err == "", "the present name has no hint"
    assert present.startswith(path)


RUN = {
    "weights same one.json one.json": "same one.json one.json",
    "same one.json one.json": "",
    "move one.json -o two.json --seed 3": "model move one.json -o two.json --seed 3",
    "point fold.json": "variety point fold.json",
    f"samples {STACK}": f"variety samples {STACK}",
    "degree cnn/k=2,2/degree=2": "variety degree cnn/k=2,2/degree=2",
    "critical cnn/k=2,2/degree=2": "variety critical cnn/k=2,2/degree=2",
    "critical poly/2-1-1/degree=2 --target 2,1 --descent 3 -op.svg": (
        "variety critical poly/2-1-1/degree=2 --target 2,1 --descent 3 --plot p.svg"
    ),
    "ci --grid 2x3 --s 2 --t 3 --d 3": "variety ci --grid 2x3 --s 2 --t 3 --d 3",
    f"symmetries {STACK}": f"explain {STACK}",
    "dim gpt2 --output logits": "dim gpt2 --head logits",
    "explain gpt2 --output=softmax": "explain gpt2 --head softmax",
    f"cost {STACK} --t 4k": f"model cost {STACK} --t 4k",
    f"collapse {STACK}": f"model collapse {STACK}",
    f"paths {STACK} --shares": f"model paths {STACK} --shares",
    "models --filter gpt2": "model list --filter gpt2",
    "plot slice fiber -o fiber.svg": "variety slice fiber -o fiber.svg",
    "weights info missing": "model info missing",
}


@pytest.mark.parametrize("old", RUN)
def test_an_old_name_has_the_same_answer(old: str, tmp_path: Path) -> None:
    Weights.random(STACK, 0, exact=True).write(tmp_path / "one.json")
    (tmp_path / "fold.json").write_text('{"V": [[1, 0], [0, 1]], "A": [[1, 0], [0, 0]], "a": 1}')
    for form in ("--json", "--quiet"):
        before = run(*shlex.split(old), form, cwd=tmp_path)
        now = run(*shlex.split(RUN[old] or old), form, cwd=tmp_path)
        assert (before.stdout, before.returncode) == (now.stdout, now.returncode)
        if form == "--quiet" or not RUN[old]:
            assert before.stderr == now.stderr
        else:
            hints = before.stderr.removesuffix(now.stderr).splitlines()
            assert all(" is now segre " in hint for hint in hints)
            assert 1 <= len(hints) <= 2  # of the command, and of an option


def test_hints_name_what_was_typed(tmp_path: Path) -> None:
    def hint(*words: str) -> str:
        return run(*words, cwd=tmp_path).stderr.splitlines()[0]

    assert hint("weights", "info", "none") == "segre weights info is now segre model info"
    assert hint("weights", "--help") == "segre weights is now segre model"
    assert hint("plot", "slice", "--help") == "segre plot slice is now segre variety slice"
    assert hint("weights", "same", "a", "b") == "segre weights same is now segre same"
    assert hint("demo", "x", "--json") == "segre demo is now segre model demo"
    assert hint("dim", "gpt2", "--output", "logits") == "segre dim --output is now segre dim --head"


def test_help_shows_present_names_only() -> None:
    assert not {old.split()[0] for old in COMMANDS} & set(FRONT.commands)
    for command, renamed in OPTIONS.items():
        shown = run(*command.split(), "--help").stdout
        options = shown.partition("Options:")[2].partition("Examples:")[0]
        assert not any(f" {old} " in options or f" {old}," in options for old in renamed)
