"""Designs side by side say what each of them says alone."""

import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import segre
from segre.cli.app import app
from segre.errors import SegreError
from segre.report.comparison import rows
from segre.report.page.render import write_answer
from segre.report.png import plot
from segre.sequence.cost import cost
from support.architectures import random_stacks, random_transformers

SPECS = (
    "softmax/d=3,3/a=2/t=3",
    "double/d=3,3/a=2/t=3",
    "mix/d=3,3,3/a=2/heads=lightning:decay=0.9,softmax:gate=head/t=3",
    "llama/d=8/heads=2/ff=8/t=3",
)


@pytest.fixture(scope="module")
def found():
    return segre.compare(*SPECS, t=[64, 1024])


def test_each_is_what_it_is_alone(found) -> None:
    assert found.names == SPECS
    for spec, design in zip(SPECS, found.designs, strict=True):
        alone = segre.dimension(spec, symmetries=True)
        assert (design.finding.value, design.finding.upper) == (alone.value, alone.upper)
        assert sum(design.pieces.values()) == design.redundant
        assert [design.cost.total(n) for n in (64, 1024)] == list(cost(spec, [64, 1024]).value)


def test_exponents_and_guarantees_follow_from_the_mechanisms(found) -> None:
    assert [one.exponents for one in found.designs] == [(3,), (3,), (0, 1), None]
    assert [one.guaranteed("key_floor") for one in found.designs] == [False, True, False, False]
    assert [one.guaranteed("sums_to_one") for one in found.designs] == [True, True, False, True]


def test_every_format_says_the_same(found) -> None:
    run = CliRunner().invoke(app, ["compare", *SPECS[:3], "--t", "64,1k", "--json"])
    document = json.loads(run.stdout)
    assert [one["dimension"] for one in document["designs"]] == [
        one.finding.value for one in found.designs[:3]
    ]
    run = CliRunner().invoke(app, ["compare", *SPECS[:3], "--t", "64", "--csv"])
    rows = list(csv.DictReader(io.StringIO(run.stdout)))
    assert [int(row["dimension"]) for row in rows] == [
        one.finding.value for one in found.designs[:3]
    ]
    text = CliRunner().invoke(app, ["compare", *SPECS[:3], "--t", "64"]).stdout
    assert all(f"{letter}  {spec}" in text for letter, spec in zip("ABC", SPECS, strict=False))


def test_a_page_and_a_picture(found, tmp_path: Path) -> None:
    write_answer(found, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert all(spec in page for spec in SPECS)
    plot(found, tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 10_000
    assert "3" in found._repr_html_()
    assert list(found.to_pandas()["parameters"]) == [one.parameters for one in found.found]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["softmax/d=3,3/a=2/t=3", "--plot", "x.doc"], "x.doc"),
        (["softmax/d=3,3/a=2/t=3", "-o", "x.pdf"], "allowed: .html"),
        (["softmax/d=3,3/a=2/t=3", "--t", "many"], "many"),
        (["nothing"], "nothing"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], said: str) -> None:
    run = CliRunner().invoke(app, ["compare", *arguments])
    assert isinstance(run.exception, SegreError)
    assert said in str(run.exception)
    assert "\n" not in str(run.exception)


def test_rows_add_up_to_what_is_redundant() -> None:
    """Pieces and what no symmetry explains, also of designs that are certain and not proved."""
    designs = [*random_stacks(7, 10), *random_transformers(7, 6)]
    found = segre.compare("lightning/d=2,4/a=2/heads=3/dv=1/t=2", *designs, t=(16,))
    assert found.designs[0].finding.status == "certain"
    assert found.designs[0].unexplained == found.designs[0].finding.unexplained == 3
    for one in found.designs:
        assert one.unexplained >= 0
        assert sum(one.pieces.values()) + one.unexplained == one.redundant, one.name
    assert "  no known symmetry" in dict(rows(found))
