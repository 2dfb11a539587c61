"""What all commands have in common: help, examples that can be typed, --json, --quiet."""

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command

from segre.cli.app import app
from segre.cli.tree import FIRST
from segre.reproduce.experiment import command_of
from segre.reproduce.registry import experiments
from segre.spec import Network
from segre.weights import Weights
from support.small_sweeps import TOML
from support.terminal import environment, run

FRONT: Any = get_command(app)
Words = tuple[str, ...]


def leaves(group: Any = FRONT, words: Words = ()) -> Iterator[tuple[Words, Any]]:
    """Every command with the words that call it, in groups of any depth."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, (*words, name))
        else:
            yield (*words, name), command


COMMANDS = dict(leaves())
RANDOM = {
    *("analyze", "dim", "compare", "certify", "explain", "same", "diff"),
    *(f"variety {name}" for name in ("degree", "critical", "samples", "ci", "slice")),
    *(f"model {name}" for name in ("diagnose", "trace", "move", "recover", "collapse", "paths")),
    *("model canonical", "model align", "model merge", "sweep fit", "sweep verify"),
    *(f"reproduce {one.name}" for one in experiments() if one.seeded),
}
every_command = pytest.mark.parametrize("words", COMMANDS, ids=" ".join)


def options(command: Any) -> dict[str, Any]:
    """Every spelling of every option."""
    return {name: param for param in command.params for name in param.opts if name[0] == "-"}


def examples(text: str) -> list[list[str]]:
    """The words of every command in a help text, without what the shell does with it."""
    lines = re.findall(r"(?:^|  )(segre .*)$", text.replace("\b", ""), re.MULTILINE)
    typed = [part for line in lines for part in line.split("&&")]
    return [shlex.split(re.split(" [<>] ", part)[0])[1:] for part in typed]


def understand(words: list[str]) -> None:
    """Read a command as the command line would, without running it."""
    command = FRONT
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context("segre", words)


@every_command
def test_a_command_explains_itself(words: Words) -> None:
    command = COMMANDS[words]
    assert command.help
    assert re.match("\b\nExamples?:\n    segre ", command.epilog), command.epilog
    for param in command.params:
        assert getattr(param, "help", None), f"{param.name} has no help"


@every_command
def test_examples_can_be_typed(words: Words) -> None:
    given = examples(COMMANDS[words].epilog)
    assert any(tuple(example[: len(words)]) == words for example in given)
    for example in given:
        understand(example)


def test_examples_of_the_front_page_can_be_typed() -> None:
    given = examples(FRONT.help)
    assert len(given) >= 8
    for example in given:
        understand(example)


@every_command
def test_a_help_page_is_plain_and_fits_a_terminal(words: Words) -> None:
    command = COMMANDS[words]
    context = command.context_class(command, info_name=" ".join(words), terminal_width=80)
    shown = command.get_help(context)
    assert max(map(len, shown.splitlines())) <= 80
    usage = shown.partition("\n\n")[0]
    assert not re.search(r"[{<]|\[\[", usage)
    assert not re.search(r"<(str|int|float|path|list)|x[<>]=", shown), "the reader's own notation"
    named = re.findall(r"[A-Z]+", usage.partition("[OPTIONS]")[2])
    assert len(named) == len(set(named)), "two arguments have one name"


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("merge a b", "Did you mean segre model merge?"),
        ("lineage a b", "Did you mean segre model lineage?"),
        ("gap", "Did you mean segre reproduce gap?"),
        ("dmi gpt2", "Did you mean segre dim"),
        ("help", "Did you mean segre --help?"),
        ("version", "Did you mean segre --version?"),
        ("xyzzy", "No such command 'xyzzy'. (try segre --help)"),
        ("--json dim gpt2", "the options of a command come after it"),
        ("same a", "usage: segre same A B;"),
        ("dim softmax d=4,4 a=2 t=3", "write slashes instead of blanks"),
        ("dim softmax/d=4,4/a=2,t=3", "as in a=2/t=3"),
        ("certify mixtral-8x7b -o c.json", "no theorem covers this design"),
        ("dim llama-3-8b --method estimate", "use segre dim with --method auto"),
    ],
)
def test_a_mistake_is_answered_with_the_next_step(line: str, advice: str) -> None:
    found = run(*line.split())
    assert found.returncode == 2
    assert found.stdout == ""
    assert advice in found.stderr
    assert found.stderr.count("\n") == 1


@every_command
def test_common_options_are_spelled_alike(words: Words) -> None:
    found = options(COMMANDS[words])
    assert found["--json"].opts == ["--json"]
    assert set(found["--quiet"].opts) == {"--quiet", "-q"}
    assert found["--quiet"].help == "Do not show progress."
    if "-o" in found or "--output" in found:
        assert set(found["-o"].opts) == {"--output", "-o"}
    if "--plot" in found:
        assert found["--plot"].help == "Also draw a plot: .png, .svg or .pdf."


# what is written, how it is computed, and letters of formulas
OF_SEVERAL_MEANINGS = {
    *("--output", "-o", "--method", "--seconds", "--memory", "--target", "--text", "--against"),
    *("--compare", "--ranks", "--sample", "--spec", "--t"),
}


def test_an_option_has_one_wording() -> None:
    """Those of one name mean one thing, but for a few; experiments declare their own."""
    told: dict[str, set[str]] = {}
    for words, command in COMMANDS.items():
        if words[0] != "reproduce":
            for name, param in options(command).items():
                told.setdefault(name, set()).add(param.help)
    assert {name for name, helps in told.items() if len(helps) > 1} == OF_SEVERAL_MEANINGS


def test_what_draws_at_random_has_a_seed() -> None:
    """A sweep has its seed in its file, where it belongs to what the store holds."""
    seeded = {
        " ".join(words) for words, command in COMMANDS.items() if "--seed" in options(command)
    }
    assert seeded == RANDOM


def test_the_front_page_fits_a_screen_and_is_in_order() -> None:
    shown = run("--help").stdout
    assert len(shown.splitlines()) <= 50
    assert max(map(len, shown.splitlines())) <= 100
    assert not re.search(r"[^\]]\.\.\.$", shown, re.MULTILINE), "a line is cut"
    listed = re.findall(r"^  ([a-z][a-z-]+)  +[A-Z]", shown.partition("Commands:")[2], re.MULTILINE)
    assert listed == list(FIRST)
    assert set(FRONT.commands) == set(FIRST)
    assert len(FIRST) <= 14
    for option in ("--install-completion", "--show-completion", "--version", "--full-paths"):
        assert option in shown
    assert "130 interrupted" in shown


@pytest.mark.parametrize(
    "group", [name for name in FRONT.commands if "commands" in dir(FRONT.commands[name])]
)
def test_no_line_of_a_group_is_cut(group: str) -> None:
    shown = run(group, "--help", columns=80).stdout
    assert not re.search(r"[^\]]\.\.\.$", shown, re.MULTILINE)


# --- every command, once, for its JSON -------------------------------------------------------

STACK = "softmax/d=4,4,4/a=2/heads=2/t=3"
FOLD = {"V": [["1/2", 1], [1, 2]], "A": [[1, 0], [2, 0]], "a": 1}
WIDTHS = """
kind = "lightning"
exhaustive = true
seed = 0
compute = ["exact"]
fields = { layers = 1, d = "2..9", a = 1, t = 2 }
"""
CASES = {
    "analyze": "analyze lightning/d=3,3/a=1/t=2",
    "dim": "dim lightning/d=3,3/a=1/t=2",
    "explain": "explain gpt2",
    "compare": "compare lightning/d=3,3/a=1/t=2 softmax/d=3,3/a=1/t=2",
    "explore": "explore -o page.html",
    "variety samples": "variety samples lightning/d=3,3/a=1/t=3",
    "variety ci": "variety ci --grid 2x3 --s 2 --t 3 --d 3",
    "certify": "certify lightning/d=3,3/a=1/t=2 -o new.json",
    "verify": "verify cert.json",
    "model optimum": "model optimum training.npz",
    "variety degree": "variety degree cnn/k=2,2/degree=2",
    "variety critical": "variety critical cnn/k=2,2/degree=2",
    "same": "same one.json one.json",
    "diff": "diff model other",
    "model diagnose": "model diagnose model --length 8",
    "model trace": "model trace model --length 8",
    "model move": "model move one.json -o two.json",
    "variety point": "variety point fold.json",
    "model recover": "model recover samples.npz --spec lightning/d=3,2/a=3/t=3",
    "model run": f"model run {STACK} --weights one.json --input x.npy -o y.npy",
    "model cost": f"model cost {STACK} --t 4k,32k",
    "model collapse": f"model collapse {STACK}",
    "model paths": f"model paths {STACK}",
    "model list": "model list --filter gpt2",
    "model demo": "model demo",
    "doctor": "doctor",
    "model info": "model info model",
    "model canonical": "model canonical model -o canonical --report",
    "model check": "model check model other turn.safetensors",
    "model align": "model align model model -o aligned",
    "model merge": "model merge model other -o merged --weight 0.3 --by activations",
    "model barrier": "model barrier model other --text text.txt --length 4 --points 3",
    "model shrink": "model shrink model -o smaller",
    "model expand": "model expand small -o again",
    "model convert": "model convert model.gguf -o converted",
    "model lineage": "model lineage model other",
    "model hash": "model hash model",
    "sweep run": "sweep run sweep.toml -o new.db",
    "sweep status": "sweep status sweep.db",
    "sweep verify": "sweep verify sweep.db --sample 1 --workers 1",
    "sweep export": "sweep export sweep.db -o table.csv",
    "sweep plot": "sweep plot sweep.db -o sweep.png",
    "sweep fit": "sweep fit widths.db --fresh 1",
    "sweep list": "sweep list",
    "variety slice": "variety slice fiber -o fiber.svg",
    "reproduce theorems": "reproduce theorems -o stores --limit 0 --workers 1",
    **{
        f"reproduce {one.name}": command_of(one, 0, 1, False, one.small).removeprefix("segre ")
        for one in experiments()
    },
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a file of every kind that commands read."""
    from checkpoint.test_gguf import small as small_gguf  # here: torch takes seconds
    from support.checkpoints import write_tokenizer
    from support.zoo import save_tiny

    folder = tmp_path_factory.mktemp("desk")
    Weights.random(Network.parse(STACK), 0, exact=True).write(folder / "one.json")
    (folder / "fold.json").write_text(json.dumps(FOLD))
    (folder / "sweep.toml").write_text(TOML.format(draw=12))
    (folder / "widths.toml").write_text(WIDTHS)
    X = np.random.default_rng(0).standard_normal((20, 3, 3))
    Y = np.ones((2, 3)) @ X @ (X.transpose(0, 2, 1) @ np.diag([1.0, 2, 3]) @ X)
    np.savez(folder / "samples.npz", X=X, Y=Y)
    weights = {"W_QK": np.ones((1, 3, 3)), "W_OV": np.ones((1, 3, 2)), "beta": np.ones(1)}
    tokens = X[:4].transpose(0, 2, 1)
    np.savez(folder / "training.npz", X=tokens, Y=Y[:4].transpose(0, 2, 1), **weights)
    np.save(folder / "x.npy", np.ones((5, 4)))
    write_tokenizer(save_tiny("llama", folder / "model"), [f"w{i}" for i in range(8)])
    (folder / "text.txt").write_text(" ".join(f"w{i % 8}" for i in range(40)))
    small_gguf(folder / "model.gguf")
    for line in (
        "certify lightning/d=3,3/a=1/t=2 -o cert.json",
        "model move model -o other",
        "same model other --witness turn.safetensors",
        "model shrink model -o small",
        "sweep run sweep.toml -o sweep.db --workers 1",
        "sweep run widths.toml -o widths.db --workers 1",
    ):
        done = run(*shlex.split(line), cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder


def test_no_command_is_left_out() -> None:
    assert {" ".join(words) for words in COMMANDS} == set(CASES)


def with_whole_paths(line: str, folder: Path) -> list[str]:
    """The words of a command, every file in it by its absolute path."""
    words = shlex.split(line)
    start = 1 if words[0] in CASES else 2  # the name of the command
    found = words[:start]
    for before, word in zip(words[start - 1 :], words[start:], strict=False):
        named = before in {"-o", "--witness"} or (folder / word).exists()
        found.append(str(folder / word) if named else word)
    return found


@pytest.mark.parametrize("line", CASES.values(), ids=CASES)
def test_json_is_one_object_and_nothing_else(line: str, desk: Path) -> None:
    """Nor does it tell where on this machine anything is, unless that is what was asked."""
    done = run(*with_whole_paths(line, desk), "--json", cwd=desk)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert isinstance(json.loads(done.stdout), dict)
    if line != "doctor":
        assert str(desk) not in done.stdout
        assert str(desk.parent) not in done.stdout


def test_written_files_do_not_tell_where_they_are_from(desk: Path) -> None:
    written = desk / "written"
    written.mkdir()
    for line in (
        "analyze model -o written/report.html --only what,redundancy,weights,heads",
        "model canonical model -o written/canonical",
        "same model other --witness written/turn.safetensors",
        "model shrink model -o written/small",
        "sweep export sweep.db -o written/table.csv",
        "sweep plot sweep.db -o written/sweep.html",
        "variety slice fiber -o written/fiber.svg",
    ):
        done = run(*with_whole_paths(line, desk), cwd=desk)
        assert done.returncode == 0, done.stderr
    for file in (*written.rglob("*"), desk / "cert.json", desk / "sweep.db"):
        if file.is_file():
            assert os.fsencode(desk) not in file.read_bytes(), file


def test_paths_are_shown_to_who_asks(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(*options: str) -> str:
        return json.loads(run(*options, "verify", desk / "cert.json", "--json").stdout)["file"]

    assert shown() == "cert.json"
    assert shown("--full-paths") == str(desk / "cert.json")
    monkeypatch.setenv("SEGRE_PATHS", "1")
    assert shown() == str(desk / "cert.json")


def on_a_terminal(line: str, cwd: Path) -> bytes:
    """What a command writes to standard error, if that is a terminal; no moment is too short."""
    at_once = "import segre.report.progress as p; p._MOMENT = 0; from segre.cli import main; main()"
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", at_once, *shlex.split(line)],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        cwd=cwd,
        env=environment(TERM="xterm"),
    )
    os.close(theirs)
    seen = b""
    try:
        while data := os.read(ours, 1 << 16):
            seen += data
    except OSError:  # the terminal is closed: the process has ended
        pass
    os.close(ours)
    assert process.wait() == 0
    return seen


@pytest.mark.parametrize(
    "line",
    ["certify softmax/d=6,6,6/a=2/t=3 -o cert.json", "model collapse softmax/d=4,4,4/a=2/t=3"],
)
def test_quiet_and_json_show_no_progress(line: str, tmp_path: Path) -> None:
    """With a bar, and with a spinner."""
    assert b"\x1b[" in on_a_terminal(line, tmp_path)
    assert on_a_terminal(f"{line} --quiet", tmp_path) == b""
    assert on_a_terminal(f"{line} --json", tmp_path) == b""
