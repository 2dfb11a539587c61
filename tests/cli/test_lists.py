"""Several architectures: from standard input, as a table, as a picture; and sizes by default."""

import csv
import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from segre.models import architecture
from segre.models.lists import listed
from support.terminal import environment, warm


def segre(*words: str, given: str = "", cwd: Path | None = None) -> Any:
    return subprocess.run(
        [str(warm()), *words],
        input=given,
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(),
    )


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_specs_are_read_from_standard_input_one_on_each_line(tmp_path: Path) -> None:
    names = "# what people run\ngpt2\n\n  LLaMA-3-8B  \nbert/d=8/heads=2/vocab=11\n"
    ended = segre("dim", "--compare", "-", "qwen2-7b", "--csv", given=names, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    found = rows(ended.stdout)
    assert [row["model"] for row in found] == [
        *("gpt2", "LLaMA-3-8B", "bert/d=8/heads=2/vocab=11", "qwen2-7b"),
    ]
    for row in found:
        assert int(row["parameters"]) == architecture(row["model"]).parameters
    assert found[1]["redundant"] == "13342720"


def test_a_table_and_a_picture(tmp_path: Path) -> None:
    ended = segre("dim", "--compare", "gpt2", "qwen2-7b", "--plot", "two.svg", cwd=tmp_path)
    assert "plot: two.svg" in ended.stdout
    drawn = (tmp_path / "two.svg").read_text()
    assert drawn.startswith("<?xml")
    again = segre("dim", "--compare", "gpt2", "--plot", "one.png", "--csv", cwd=tmp_path)
    assert len(rows(again.stdout)) == 1
    assert (tmp_path / "one.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("words", "given", "said"),
    [
        (("dim", "gpt2", "--plot", "x.png"), "", "add --compare"),
        (("dim", "--compare", "gpt2", "--plot", "x.gif"), "", "unknown file format"),
        (("dim", "-"), "gpt2\nllama-3-8b\n", "add --compare"),
        (("dim", "-"), "", "kind is missing"),
        (("dim", "--compare", "-"), "gpt2\ngpt9\n", "'gpt9': not a known name"),
        (("dim", "-"), '{"model_type": "llama"}', "lacks"),
        (("explain", "gpt2", "--csv"), "", "--csv"),
    ],
)
def test_bad_input_is_one_line(
    words: tuple[str, ...], given: str, said: str, tmp_path: Path
) -> None:
    ended = segre(*words, given=given, cwd=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert said in ended.stderr


def test_sizes_by_default(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama", "vocab_size": 11}')
    refused = segre("dim", "config.json", cwd=tmp_path)
    assert refused.returncode == 2
    assert "lacks" in refused.stderr
    assert "hidden_size" in refused.stderr
    given = segre("dim", "config.json", "--defaults", "--json", cwd=tmp_path)
    whole = {"model_type": "llama", "vocab_size": 11}
    assert json.loads(given.stdout)["parameters"] == architecture(whole, defaults=True).parameters


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("gpt2", 1),
        ("gpt2\nllama/d=8/ff=4\n", 2),
        ('{"kind": "gpt2", "d": 8}\n{"kind": "llama", "d": 8, "ff": 4}\n', 2),
    ],
)
def test_a_list_of_names_or_of_objects(
    text: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    found = listed(["-", "bert/d=8"])
    assert len(found) == count + 1
    for one in found:
        architecture(one)


@pytest.mark.parametrize(
    "text", ['kind = "llama"\nd = 8\nff = 4', '{"kind": "llama",\n "d": 8, "ff": 4}', ""]
)
def test_one_document_is_one_spec(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert listed(["-"]) == ["-"]
    if text:
        assert architecture("-") == architecture("llama/d=8/ff=4")
