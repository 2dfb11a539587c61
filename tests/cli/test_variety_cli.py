"""`segre variety degree` and `segre variety critical` as processes."""

import json
from pathlib import Path

import pytest

from support.terminal import run


def test_both_numbers_are_printed() -> None:
    shown = run("variety", "degree", "cnn/k=3,2/degree=2").stdout
    assert "degree     12  proved by a formula" in shown
    assert "counted    12  points on a random linear space mod 8388587" in shown
    document = json.loads(run("variety", "critical", "cnn/k=2,2/degree=2", "--json").stdout)
    assert (document["value"], document["count"]["functions"]) == (14, 14)
    assert document["metric"] == "generic"


def test_nothing_known_is_inconclusive() -> None:
    ended = run("variety", "degree", "poly/3-2-1/degree=3", "--seconds", 0)
    assert ended.returncode == 3
    assert "not finished within 0 seconds" in ended.stdout


def test_a_landscape_and_its_picture(tmp_path: Path) -> None:
    ended = run(
        *("variety", "critical", "poly/4-2-1/degree=2", "--target", "3,2,1,-1.5", "--descent", 3),
        *("--plot", "descent.png"),
        cwd=tmp_path,
    )
    assert ended.returncode == 0
    assert "--            nothing        52.75  boundary, spurious         3" in ended.stdout
    assert (tmp_path / "descent.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["variety", "degree", "cnn/k=2,2/degree=0"], "degree: '0' is not allowed"),
        (["variety", "degree", "gpt2"], "supported only for polynomial networks"),
        (["variety", "critical", "poly/4-2-1/degree=2", "--descent", "3"], "add --target"),
        (
            ["variety", "critical", "poly/2-1-1/degree=2", "--target", "2,1", "--plot", "x.png"],
            "add --descent",
        ),
        (
            [
                *("variety", "critical", "poly/2-1-1/degree=2", "--target", "2,1"),
                "--descent",
                "1",
                "--plot",
                "x.y",
            ],
            "allowed: .png, .svg, .pdf",
        ),
    ],
)
def test_bad_input_is_one_line(given: list[str], message: str, tmp_path: Path) -> None:
    ended = run(*given, cwd=tmp_path)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
