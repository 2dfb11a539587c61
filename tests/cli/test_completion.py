"""Completion in a real bash: the script that segre prints, and what it offers for each word."""

import os
import subprocess
from pathlib import Path

import pytest

from support.terminal import SEGRE, environment, run, warm

# What readline does: it sets the words and which of them is completed, and calls the function.
ASK = """
eval "$(_SEGRE_COMPLETE=source_bash segre)"
complete -p segre >&2
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_segre_completion segre "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def with_path(program: Path, **more: str) -> dict[str, str]:
    return environment(**more) | {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}


def offered(folder: Path, *words: str) -> list[str]:
    """What bash offers for the last word."""
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK, "bash", "segre", *words],
        capture_output=True,
        text=True,
        cwd=folder,
        env=with_path(warm()),
    )
    assert done.stderr == "complete -o default -F _segre_completion segre\n"
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "some"),
    [
        (["mod"], ["model"]),
        (["doc"], ["doctor"]),
        (["model", "c"], ["canonical", "check", "collapse", "convert", "cost"]),
        (["dim", "llama-3"], ["llama-3-8b", "llama-3-70b", "llama-3.2-1b", "llama-3.toml"]),
        (["dim", "transf"], ["transformer/"]),
        (["dim", "gpt2", "bert-base"], ["bert-base-uncased"]),
        (["explain", "soft"], ["softmax/", "softly/"]),
        (["certify", "gpt2-x"], ["gpt2-xl"]),
        (["model", "collapse", "gpt2-m"], ["gpt2-medium"]),
        (["dim", "gpt2", "--method", "c"], ["closed-form", "count"]),
        (["dim", "gpt2", "--head", ""], ["logits", "softmax", "hidden"]),
        (["dim", "llama/d", "=", "8", "--metho"], ["--method"]),  # bash breaks words at =
        (["model", "collapse", "gpt2", "--variants", "pa"], ["paper"]),
        (["model", "collapse", "gpt2", "--variants", "full,full"], ["full,full", "full,full-norm"]),
        (["variety", "slice", ""], ["cone", "discriminant", "fiber"]),
        (["sweep", "run", "deep"], ["deep-softmax", "deep-softmax-equal"]),
        (["reproduce", "rank-collapse", "--model", "a"], ["albert"]),
        (["certify", "gpt2", "--ou"], ["--output"]),
        # nothing of ours: bash goes on with files, as `complete -o default` says
        (["dim", "./"], []),
        (["verify", "c"], []),
        (["model", "info", ""], []),
    ],
    ids=str,
)
def test_offers(words: list[str], some: list[str], tmp_path: Path) -> None:
    for folder in ("softly", ".softer"):
        (tmp_path / folder).mkdir()
    for file in ("llama-3.toml", "llama-3.txt", "cert.json"):
        (tmp_path / file).touch()
    assert sorted(offered(tmp_path, *words)) == sorted(some)


def test_nothing_typed_offers_every_preset_and_family(tmp_path: Path) -> None:
    from segre.models import KINDS, PRESETS

    assert set(offered(tmp_path, "dim", "")) == {*PRESETS, *(f"{kind}/" for kind in KINDS)}


@pytest.mark.parametrize(
    ("shell", "asked", "answer"),
    [
        ("zsh", {}, "llama-3-8b"),
        ("fish", {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}, "llama-3-8b"),
    ],
)
def test_other_shells(shell: str, asked: dict[str, str], answer: str) -> None:
    def ask(**more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([warm()], capture_output=True, text=True, env=environment(**more))

    script = ask(_SEGRE_COMPLETE=f"source_{shell}")
    assert (script.returncode, script.stderr) == (0, "")
    assert f"_SEGRE_COMPLETE=complete_{shell}" in script.stdout
    done = ask(
        _SEGRE_COMPLETE=f"complete_{shell}", _TYPER_COMPLETE_ARGS="segre dim llama-3-8", **asked
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert answer in done.stdout


def test_installing_it(tmp_path: Path) -> None:
    """For the shell that asks; a new shell of that user then knows segre."""
    home = with_path(SEGRE, HOME=str(tmp_path))  # it asks which shell started it
    script = "segre --show-completion; segre --install-completion"
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{script}; exit"], capture_output=True, text=True, env=home
    )
    assert done.returncode == 0, done.stderr
    assert "complete -o default -F _segre_completion segre" in done.stdout
    known = subprocess.run(
        ["bash", "-c", ". ~/.bashrc; complete -p segre"], capture_output=True, text=True, env=home
    )
    assert known.stdout == "complete -o default -F _segre_completion segre\n", known.stderr


def test_help_shows_both() -> None:
    shown = run("--help").stdout
    assert "--install-completion" in shown
    assert "--show-completion" in shown
