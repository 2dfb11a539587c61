"""Labels speak of the question asked, for the model asked about, and one number has one label."""

import re
from collections import defaultdict
from types import SimpleNamespace
from typing import Any, get_args

import pytest

import segre
from segre.analysis.heads import special_layers
from segre.analysis.part import Status
from segre.analysis.run import Analysis
from segre.checkpoint.info import Product, _special_heads
from segre.checkpoint.strata import Units, special_units
from segre.checkpoint.units import UNITS
from segre.models import PRESETS
from segre.report.blocks import Table
from segre.report.views import page_of
from segre.theorems import apply
from support.architectures import NOT_COUNTED, random_stacks

SIZES = ("dimension", "redundancy", "proof")
TILES = ("Functional dimension", "Redundant parameters", "Certificate")
SMALL = [
    "lightning/d=2,4/a=2/heads=3/dv=1/t=2",  # its bounds do not meet
    "softmax/d=3,2,4,3/a=3,2,3/heads=3,2,2/t=2",  # neither do these
    "softmax/d=6,6/a=2/heads=3/t=3",
    "llama/d=4/layers=2/heads=2/kv=1/head=2/ff=3/t=3",
    "gpt2/d=4/heads=2/ff=4/t=3",
    "qwen3/d=4/heads=2/kv=1/head=2/ff=3/t=2",
]


def said_of(found: Analysis) -> dict[int, set[Status]]:
    """The labels under which each number of dimensions or of redundant parameters is shown."""
    size = found["dimension"].data
    assert size is not None, found["dimension"].reason
    numbers = (size["lower"], size["upper"], size["estimate"])
    bounds = [bound for bound in numbers if bound is not None]
    asked = {*bounds, *(size["parameters"] - bound for bound in bounds)}
    # what random points say is in no certificate, which has the two bounds
    sizes = [key for key in SIZES if key in found and not (key == "proof" and "random" in size)]
    places = [(found[key].lead, found[key].label) for key in sizes]
    places += [(tile.value, tile.status) for tile in page_of(found).tiles if tile.label in TILES]
    labels = defaultdict(set)
    for text, status in places:
        for number in re.findall(r"\d[\d,]*", text):
            value = int(number.replace(",", ""))
            if value in asked and value != size["parameters"]:
                labels[value].add(status)
    return labels


@pytest.mark.parametrize("spec", [*random_stacks(11, 12), *SMALL], ids=str)
def test_one_number_has_one_label(spec: Any) -> None:
    found = segre.analyze(str(spec), only=SIZES)
    labels = said_of(found)
    assert labels
    assert all(len(statuses) == 1 for statuses in labels.values()), labels
    size = found["dimension"].data
    if "random" in size:
        status = size["status"]
        proof = "certain" if status == "certain" else "bounded"
        assert [found[key].label for key in SIZES] == [status, status, proof]
        return
    met = size["dimension"] is not None
    assert {found[key].status for key in SIZES} == {"proved" if met else "bounded"}
    assert {found[key].label for key in SIZES} == {"proved by computation" if met else "bounded"}


@pytest.mark.parametrize("name", PRESETS)
def test_one_number_of_a_large_model_has_one_label(name: str) -> None:
    found = segre.analyze(name, only=SIZES[:2])
    if name in NOT_COUNTED:
        assert {part.status for part in found.parts} == {"not run"}
        return
    theorem = apply(found.spec)
    proved = theorem is not None and theorem.holds
    estimated = found["dimension"].data["upper"] is None
    label = "proved by theorem" if proved else "estimated" if estimated else "bounded"
    assert set(map(frozenset, said_of(found).values())) == {frozenset({label})}
    assert (found["dimension"].data["dimension"] is not None) == proved
    assert ("t most" in found["dimension"].lead) == (label == "bounded")
    assert found["redundancy"].lead.startswith("At least") == (label == "bounded")
    assert ("not a bound" in found["dimension"].lead) == estimated
    assert found["redundancy"].lead.startswith("About") == estimated


def test_what_is_nearly_special_is_not_counted_as_special() -> None:
    """By the words of `segre model info` themselves."""
    near = _special_heads("QK", (Product((1.0, 1e-7), 2),), 1e-16)
    weak = special_units(UNITS, Units(8, dead=(), weak=(3,), duplicates=()))
    lacking = _special_heads("OV", (Product((1.0, 0.0), 1),), 1e-16)
    words = (
        (),
        tuple(near),
        tuple(x.text for x in weak),
        (*tuple(lacking), "QK nearly lacks rank in heads 1"),
    )
    assert [len(one) for one in words] == [0, 1, 1, 2]
    info: Any = SimpleNamespace(
        layers=[SimpleNamespace(number=n, special=one) for n, one in enumerate(words, 1)]
    )
    assert special_layers(info) == ([4], [2, 3])


@pytest.mark.parametrize("name", ["gpt2", "llama-3-8b"])
def test_a_theorem_is_certified_at_the_size_of_the_model(name: str) -> None:
    found = segre.analyze(name, only=["proof"])
    part, page = found["proof"], page_of(found)
    assert part.status == "proved"
    (tile,) = [tile for tile in page.tiles if tile.label == "Certificate"]
    assert (tile.value, tile.status) == ("valid", "proved by theorem")
    assert "not the theorem" in tile.remark
    (certificate,) = part.data["certificates"]
    assert certificate["digest"] == found.spec.digest
    assert certificate == segre.certify(name)
    assert "docs/theorems.md" in part.how


@pytest.mark.parametrize("name", ["albert-base-v2", "qwen3-30b-a3b"])
def test_what_is_proved_of_small_networks_is_not_said_of_the_large_one(name: str) -> None:
    found = segre.analyze(name, only=["proof"])
    part, page = found["proof"], page_of(found)
    assert part.status == "not run"
    assert "no certificate of this model" in part.lead
    (tile,) = [tile for tile in page.tiles if tile.label == "Certificate"]
    assert (tile.value, tile.status) == ("none at this size", "not run")
    certificates = part.data["certificates"]
    (table,) = [block for block in page.sections[0].blocks if isinstance(block, Table)]
    for row, certificate in zip(table.rows, certificates, strict=True):
        assert certificate["digest"] != found.spec.digest
        spec = segre.architecture(certificate["spec"])
        layers = f"{spec.layers} layer{'s' * (spec.layers != 1)}"
        assert row[:2] == (f"{layers}, width {spec.d}", spec.parameters)
        assert row[4] in get_args(Status)
        assert (row[4] == "proved by computation") == (row[2] == row[3])
