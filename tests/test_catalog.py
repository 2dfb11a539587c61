"""What segre knows is what the registry has, and what it supports is what it does."""

import csv
import importlib.util
import io
import json
from pathlib import Path
from typing import Any

import pytest

import segre
from segre.checkpoint.served import require_normal_form
from segre.discovery import QUESTIONS, catalog
from segre.errors import SegreError, SpecError
from segre.models import FAMILIES, PRESETS, architecture
from segre.models.instances import PROVED, small_instance
from support.terminal import run

ROOT = Path(__file__).parents[1]


def test_all_families_and_presets_are_there() -> None:
    found = catalog()
    assert [entry.name for entry in found.families] == list(FAMILIES)
    assert {entry.name for entry in found.presets} == set(PRESETS)
    for entry in found.presets:
        assert entry.spec == architecture(entry.name)
        assert entry.parameters == architecture(entry.name).parameters
    assert segre.catalog().value == found.value


@pytest.mark.parametrize("name", PRESETS)
def test_what_is_said_is_what_happens(name: str) -> None:
    """Each yes by doing it, each no by the same refusal."""
    entry = next(one for one in catalog(name).entries if one.kind == "preset")
    spec = entry.spec
    small = small_instance(spec)
    asked = {
        "counted": lambda: segre.dimension(spec, "count"),
        "normal form": lambda: require_normal_form(spec),
        "collapse": lambda: segre.collapse.measure(small, inputs=1, length=3),
        "paths": lambda: segre.collapse.decompose(small, length=3),
    }
    for question, ask in asked.items():
        if entry.refusals[question]:
            with pytest.raises(SegreError):
                ask()
        else:
            ask()
    known = [architecture(one) for one in PROVED]
    assert (small in known) == (not entry.refusals["small proof"])
    if entry.redundant is not None:
        redundancy = segre.dimension(spec, "count").redundancy
        assert entry.redundant == (redundancy or {"total": 0})["total"]


def test_names_and_filters() -> None:
    assert [entry.kind for entry in catalog("GPT2").entries] == ["family", "preset"]
    assert catalog("deepseek_v3").value[0] == "deepseek-v3"
    assert {entry.family.name for entry in catalog(match="QWEN3").entries} >= {"qwen3"}
    some = catalog(supports="normal-form")
    assert all("normal form" in entry.supports for entry in some.entries)
    assert catalog(match="no such thing").entries == ()
    with pytest.raises(SpecError, match=r"closest names: llama, .*segre model list"):
        catalog("lama")
    with pytest.raises(SpecError, match="allowed: counted"):
        catalog(supports="everything")


# --- on the command line --------------------------------------------------------------------------


def test_the_list_in_every_format() -> None:
    shown = run("model", "list", columns=80).stdout
    for name in (*FAMILIES, *PRESETS):
        assert name in shown
    document = json.loads(run("model", "list", "--json").stdout)
    assert [question["name"] for question in document["questions"]] == list(QUESTIONS)
    assert [family["name"] for family in document["families"]] == list(FAMILIES)
    rows = list(
        csv.DictReader(io.StringIO(run("model", "list", "--filter", "llama", "--csv").stdout))
    )
    assert [row["name"] for row in rows] == catalog(match="llama").value
    assert rows[0]["parameters"] == "6738415616"


def test_one_of_them() -> None:
    shown = run("model", "list", "Albert-Base-v2").stdout
    assert "11,221,680" in shown
    for question in QUESTIONS:
        assert f"\n{question} " in shown
    ended = run("model", "list", "alberto")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "closest names: albert" in ended.stderr


# --- in the documentation -------------------------------------------------------------------------


def script() -> Any:
    spec = importlib.util.spec_from_file_location("support", ROOT / "scripts/support_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_the_page_is_what_the_command_says() -> None:
    made = script()
    page = made.PAGE.read_text(encoding="utf-8")
    wanted = made.table(json.loads(json.dumps(catalog().document())))
    assert made.filled(page, wanted) == page, "run: python scripts/support_table.py"
    assert set(QUESTIONS) <= {
        word.strip()
        for line in page.splitlines()
        for cell in line.split("|")[1:2]
        for word in cell.split(",")
    }
