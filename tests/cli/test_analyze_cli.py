"""`segre analyze`: exit codes, one line for what is wrong, nothing half-written."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.terminal import environment, warm
from support.zoo import save_tiny

STACK = "softmax/d=3,3/a=1/t=2"


def segre(*arguments: object, cwd: Path) -> Any:
    return subprocess.run(
        [warm(), "analyze", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={"NO_COLOR": "1", "COLUMNS": "80", "PATH": "/usr/bin:/bin"},
    )


def test_a_report_and_a_summary(tmp_path: Path) -> None:
    done = segre(STACK, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert "report: report.html" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    for word in ("exact", "proved", "measured", "not run"):
        assert f" {word} " in done.stdout


def test_json_has_all_and_writes_nothing_unless_asked(tmp_path: Path) -> None:
    done = segre(STACK, "--json", "--seed", 3, cwd=tmp_path)
    found = json.loads(done.stdout)
    assert (found["report"], found["seed"], list(tmp_path.iterdir())) == (None, 3, [])
    assert found["command"] == f"segre analyze {STACK} --seed 3"
    assert len(found["parts"]) == 8
    again = subprocess.run(
        ["bash", "-c", f"{warm().parent}/{found['command']} --json"], capture_output=True, text=True
    )
    assert [part["data"] for part in json.loads(again.stdout)["parts"]] == [
        part["data"] for part in found["parts"]
    ]
    done = segre(STACK, "--json", "-o", "r.html", "--only", "what", cwd=tmp_path)
    assert json.loads(done.stdout)["report"] == "r.html"
    assert (tmp_path / "r.html").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["softmax/d=3,x/a=1/t=2"], "d="),
        (["softmax/d=3,3/a=1/t=2", "-o", "report.pdf"], "allowed: .html"),
        (
            ["softmax/d=3,3/a=1/t=2", "-o", "no/such/r.html"],
            "cannot write 'no/such/r.html': No such file or directory",
        ),
        (["softmax/d=3,3/a=1/t=2", "--only", "what,colour"], "'colour' is not known"),
        (["softmax/d=3,3/a=1/t=2", "--memory", "much"], "--memory"),
        (["truncated"], "truncated"),
        (["missing.gguf"], "segre model convert"),
        (["nowhere"], "not a known name"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    model = save_tiny("gpt2", tmp_path / "truncated")
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    before = sorted(tmp_path.rglob("*"))
    done = segre(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


INTERRUPTED = """
import os, signal
import segre.analysis.run as module
answer = module._part

def interrupted(bench, key):
    found = answer(bench, key)
    if key == "redundancy":  # in the middle of its parts
        os.kill(os.getpid(), signal.SIGINT)
    return found

module._part = interrupted
from segre.cli import main
main()
"""


def test_a_report_that_is_there_survives_an_interrupt(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    report.write_text("the one before")
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, "analyze", "softmax/d=3,3,3/a=1/t=3"],
        cwd=tmp_path,
        capture_output=True,
        env=environment(),
    )
    assert (done.returncode, done.stdout) == (130, b"")
    assert len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert report.read_text() == "the one before"


def test_a_part_that_fails_is_exit_code_3_and_the_rest_is_there(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from segre.analysis import run\n"
        "def broken(bench): raise ZeroDivisionError('by zero')\n"
        "run.QUESTIONS['proof'] = ('Proof', broken)\n"
        "from segre.cli import main\n"
        "sys.argv[0] = 'segre'\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "analyze", STACK], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 3
    assert "ZeroDivisionError" in done.stdout
    assert "please report it" in (tmp_path / "report.html").read_text()
