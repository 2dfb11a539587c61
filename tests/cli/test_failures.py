"""Failures of segre and of its surroundings: one line, and never the code of an answer."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.terminal import SEGRE, environment

NET = "softmax/d=3,3,3/a=2/t=2"
FAULTY = """
import sys
import segre.geometry.dimension as module

def fail(*arguments, **more):
    raise {error}

module.dimension = fail
from segre.cli import main
main()
"""


def faulty(error: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """`segre dim` with an engine that raises."""
    return subprocess.run(
        [sys.executable, "-c", FAULTY.format(error=error), "dim", NET],
        capture_output=True,
        text=True,
        env=environment(**variables),
    )


def shell(line: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, env=environment(**variables)
    )


@pytest.mark.parametrize(
    "error",
    [
        "ValueError('two' + chr(10) + 'lines')",
        "AssertionError()",
        "KeyError('x')",
        "RecursionError('maximum depth')",
        "ZeroDivisionError('x' * 5000)",
        "UnicodeDecodeError('utf-8', b'x', 0, 1, 'bad')",
        "AttributeError(chr(0xdc80))",
        "ExceptionGroup('several', [ValueError('x')])",
        "BaseException('not even an exception')",
    ],
)
def test_an_unexpected_error_is_named_and_has_its_own_code(error: str) -> None:
    done = faulty(error)
    assert (done.returncode, done.stdout) == (70, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"segre: unexpected {error.partition('(')[0]}")
    assert "please report it" in done.stderr
    assert "SEGRE_DEBUG=1" in done.stderr
    assert len(done.stderr) < 500


def test_the_traceback_is_shown_to_who_asks() -> None:
    done = faulty("ValueError('oops')", SEGRE_DEBUG="1")
    assert done.returncode == 70
    assert done.stderr.startswith("Traceback")
    assert done.stderr.splitlines()[-1].startswith("segre: unexpected ValueError: oops;")


@pytest.mark.parametrize(
    ("error", "said", "code"),
    [
        ("OSError(28, 'No space left on device')", "No space left on device", 2),
        ("OSError(30, 'Read-only file system', 'there')", "'there': Read-only file system", 2),
        ("OSError(5, 'Input/output error')", "Input/output error", 70),
        ("MemoryError()", "out of memory", 70),
        ("SystemExit('a library gives up')", "a library gives up", 70),
    ],
)
def test_what_the_system_refuses_is_no_fault_of_segre(error: str, said: str, code: int) -> None:
    done = faulty(error)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "report" not in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "place", "unbuffered"),
    [
        (f"dim {NET}", "/dev/full", ""),
        (f"dim {NET}", "/dev/full", "1"),
        (f"dim {NET}", "&-", ""),
        (f"dim {NET} --json", "/dev/full", "1"),
        ("doctor", "&-", "1"),
        ("--help", "/dev/full", ""),
        ("--version", "&-", ""),
        ("", "/dev/full", ""),
    ],
)
def test_an_answer_that_cannot_be_written(line: str, place: str, unbuffered: str) -> None:
    done = shell(f"{SEGRE} {line} >{place}", PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 70
    assert done.stderr.startswith("segre: cannot write to standard output: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("code", "line"), [(0, f"dim {NET}"), (2, "dim softmax/d=4"), (2, "verify missing.json")]
)
@pytest.mark.parametrize("closed", ["2>/dev/full", "<&- 2>&-"])
def test_no_messages_and_the_same_code(code: int, line: str, closed: str) -> None:
    done = shell(f"{SEGRE} {line} {closed}")
    assert done.returncode == code
    assert bool(done.stdout) == (code == 0), "messages do not move to standard output"


@pytest.mark.parametrize(
    "closed", [" ".join(c) for c in itertools.combinations(("<&-", ">&-", "2>&-"), 2)]
)
def test_files_do_not_take_the_place_of_closed_streams(closed: str, tmp_path: Path) -> None:
    cert = tmp_path / "cert.json"
    done = shell(f"{SEGRE} certify {NET} -o {cert} {closed}")
    assert done.returncode == (70 if ">&-" in closed.split() else 0)
    assert shell(f"{SEGRE} verify {cert}").returncode == 0, "the certificate is whole"


WIDTHS = ("0", "00", "-1", "²", "9" * 5000, "1")


@pytest.mark.parametrize(
    ("line", "widths"), [(f"dim {NET}", WIDTHS), ("explain gpt2", ["0"]), ("--help", ["0"])]
)
def test_every_width_of_a_terminal_prints(line: str, widths: list[str]) -> None:
    expected = shell(f"{SEGRE} {line}", COLUMNS="80").stdout
    for columns in widths:
        done = shell(f"{SEGRE} {line}", COLUMNS=columns, LINES=columns)
        assert (done.returncode, done.stderr) == (0, "")
        assert len("".join(done.stdout.split())) >= 0.9 * len("".join(expected.split()))


def test_names_that_are_no_text_are_printed(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/bad\xff.json"
    made = subprocess.run(
        [SEGRE, "certify", NET, "-o", name], capture_output=True, env=environment()
    )
    assert (made.returncode, made.stderr) == (0, b"")
    assert Path(os.fsdecode(name)).is_file()
