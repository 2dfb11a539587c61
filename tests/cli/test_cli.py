"""The command line as a user meets it: real processes, exit codes, one-line errors."""

import json
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from support.processes import computing
from support.terminal import SEGRE, run


def test_dim_prints_what_is_proved() -> None:
    result = run("dim", "softmax/d=10,10,10/a=2,2/t=3")
    assert result.returncode == 0
    assert result.stderr == ""
    assert re.search(r"^dimension +172 +proved by computation$", result.stdout, re.MULTILINE)
    assert "token basis GL(10), between layers 1 and 2" in result.stdout


def test_dim_as_json() -> None:
    result = run("dim", "lightning/d=6,6/a=2/heads=3/t=3", "--json")
    found = json.loads(result.stdout)
    assert found["status"] == "proved"
    assert found["parameters"] == 180
    assert found["dimension"] == found["lower"] == found["upper"] == 165
    assert found["fiber_dimension"] == 15
    assert sum(s["dimension"] for s in found["symmetries"]) == 15
    keys = {"name", "where", "dimension", "group", "holds"}
    assert all(set(s) == keys for s in found["symmetries"])
    assert re.fullmatch(r"[0-9a-f]{64}", found["digest"])


def test_an_estimate_is_never_called_proved() -> None:
    result = run("dim", "softmax/d=3,3/a=1/t=2", "--method", "estimate")
    assert re.search(r"^dimension +about 14  an estimate, not proved$", result.stdout, re.M)
    found = json.loads(run("dim", "softmax/d=3,3/a=1/t=2", "--method", "estimate", "--json").stdout)
    assert (found["status"], found["lower"], found["upper"]) == ("estimate", None, None)
    assert found["dimension"] is None
    assert found["estimate"] == 14


def test_bounds_that_do_not_meet_are_shown_as_such() -> None:
    result = run("dim", "lightning/d=2,4/a=2/heads=3/dv=1/t=2", "--method", "exact")
    assert result.returncode == 0
    assert re.search(
        r"dimension +21\.\.24 +between two bounds, both proved by computation", result.stdout
    )
    result = run("dim", "lightning/d=2,4/a=2/heads=3/dv=1/t=2")
    assert result.returncode == 0
    assert re.search(r"dimension +21 +certain \(error < 2\^-60\)", result.stdout)
    assert "3 of them are explained by no known symmetry" in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("dim", "softmax/d=4,x/a=2/t=3"),
        ("dim", "nothing"),
        ("dim",),
        ("dim", "softmax/d=4,4/a=2/t=3", "--seed", "-1"),
        ("dim", "softmax/d=4,4/a=2/t=3", "--colour", "blue"),
        ("dim", "softmax/d=4,4/a=2/t=3", "more"),
        ("nonsense",),
        ("dim", "missing.toml"),
        ("dim", "softmax/d=4,4/a=2/t=3", "--method", "guess"),
        ("dim", "softmax/d=4,4/a=2/t=3", "--memory", "lots"),
        ("dim", "softmax/d=4,4/a=2/residual=true/t=3"),
        ("dim", "softmax/d=999999,999999/a=2/t=3", "--method", "exact"),
        ("dim", "lightning/d=999999,999999/a=2/heads=2/t=3"),
        ("dim", "softmax/d=4,4/a=2/t=1", "--method", "theorem"),
        ("dim", "softmax/d=4,4/a=2/heads=2/t=3", "--method", "closed-form"),
        ("certify", "softmax/d=4,4/a=2", "-o", "cert.json"),
        ("certify", "softmax/d=4,4/a=2/t=3", "-o", "no/such/folder/cert.json"),
        ("verify", "missing.json"),
        ("reproduce", "normalized-dimension", "--widest", "3", "-o", "figure.docx"),
    ],
    ids=" ".join,
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: tuple[str, ...], tmp_path: Path) -> None:
    result = run(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stdout == ""
    assert re.fullmatch(r"segre: [^\n]+\n", result.stderr), result.stderr
    assert list(tmp_path.iterdir()) == []


def test_certify_then_verify(tmp_path: Path) -> None:
    path = tmp_path / "cert.json"
    made = run("certify", "softmax/d=4,4,4/a=2/t=3", "-o", str(path))
    assert made.returncode == 0
    assert "dimension 40 of 64 parameters, proved" in made.stdout
    checked = run("verify", str(path))
    assert checked.returncode == 0
    assert "valid: dimension 40 of 64 parameters, proved" in checked.stdout
    as_json = json.loads(run("verify", str(path), "--json").stdout)
    assert as_json["valid"] is True
    assert as_json["claim"]["upper"] == 40


def test_a_changed_certificate_is_invalid_and_a_cut_one_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "cert.json"
    run("certify", "lightning/d=3,3/a=1/t=2", "-o", str(path))
    document = json.loads(path.read_text())
    document["claim"]["lower"] += 1
    (tmp_path / "changed.json").write_text(json.dumps(document))
    changed = run("verify", str(tmp_path / "changed.json"))
    assert changed.returncode == 1
    assert changed.stdout.startswith("invalid: ")
    (tmp_path / "cut.json").write_text(path.read_text()[:-20])
    cut = run("verify", str(tmp_path / "cut.json"))
    assert cut.returncode == 2
    assert cut.stdout == ""


def test_the_certificate_of_open_bounds_says_certain_and_not_proved(tmp_path: Path) -> None:
    path = tmp_path / "cert.json"
    made = run("certify", "lightning/d=2,4/a=2/heads=3/dv=1/t=2", "-o", str(path))
    assert made.returncode == 0
    assert "dimension 21 of 42 parameters, certain (error < 2^-60" in made.stdout
    assert "proved" not in made.stdout
    assert run("verify", str(path)).returncode == 0


def test_reproduce_prints_the_table_and_writes_the_plot(tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    result = run("reproduce", "normalized-dimension", "--widest", "4", "-o", str(path))
    assert result.returncode == 0
    assert "Claims: 2 reproduced." in result.stdout
    assert path.read_text().lstrip().startswith("<?xml")
    found = run("reproduce", "normalized-dimension", "--widest", "4", "-o", str(path), "--json")
    (table,) = json.loads(found.stdout)["tables"]
    certified = table["columns"].index("certified")
    assert [(row[0], row[1], row[certified]) for row in table["rows"]] == [
        ("softmax", 3, 25),
        ("softmax", 4, 40),
        ("lightning", 3, 23),
        ("lightning", 4, 38),
    ]


def test_the_version() -> None:
    assert re.fullmatch(r"segre \d+\.\d+\.\d+\n", run("--version").stdout)


def test_an_interrupted_or_killed_certify_leaves_nothing(tmp_path: Path) -> None:
    """The file appears whole or not at all, whenever the process dies."""
    path = tmp_path / "cert.json"
    for attempt in range(6):
        process = subprocess.Popen(
            [str(SEGRE), "certify", "softmax/d=12,12,12,12/a=2/t=3", "-o", str(path), "-q"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if attempt:  # the first is killed as it starts, the last may be over
            far = computing(process, 0.1 * attempt)
            while process.poll() is None and not far():
                time.sleep(0.002)
        process.send_signal(signal.SIGINT if attempt % 2 else signal.SIGKILL)
        _, errors = process.communicate()
        assert "Traceback" not in errors
        if path.exists():
            json.loads(path.read_text())
