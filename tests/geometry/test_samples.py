"""How many inputs determine a function: ranks that grow as they must, and bounds that hold."""

import json
from math import prod
from pathlib import Path

import numpy as np
import pytest

import segre
from segre.errors import SegreError, UnsupportedError
from segre.fields.linear import Rationals
from segre.fields.rank import Echelon
from segre.fields.rational import Rational
from segre.geometry.point import Point
from segre.geometry.restricted import at_most, least_inputs
from segre.geometry.samples import samples
from segre.models import architecture
from segre.network import jacobian
from segre.spec import Network
from support.architectures import random_stacks
from support.polynomials import random_polynomials
from support.terminal import run

KNOWN = {
    "lightning/d=3,3/a=1/t=3": (4, 2),
    "lightning/d=4,4/a=2/t=1": (10, 7),
    "softmax/d=4,4/a=2/t=3": (3, 3),
    "softmax/d=8,8/a=4/t=2": (24, 7),
    "poly/4-2-5/degree=2": (5, 4),
    "poly/3-5-2/degree=3": (10, 10),
    "cnn/k=3,2,2/degree=2/n=7": (2, 2),
    "double/d=8,8/a=4/t=2": (24, 7),
    "llama/d=4/heads=2/kv=1/head=2/ff=5/t=3": (9, 9),
}
STACKS = list(random_stacks(seed=5, count=25))
HEADS = [
    Network.parse(text)
    for text in (
        "lightning/d=3,3/a=1/heads=2/t=3",
        "lightning/d=4,4/a=2/heads=2/dv=1/t=2",
        "softmax/d=4,3/a=2/heads=2/dv=2/t=2",
        "softmax/d=3,3,3/a=1/dv=2/t=2",
        "lightning/d=3,3,3/a=1/heads=2/t=2",
    )
]
POLYNOMIALS = random_polynomials(seed=6, count=40)
MIXED = [
    architecture(text)
    for text in (
        "gapless/d=4,4/a=2/t=2",
        "mix/d=4,4/a=2/heads=softmax+lightning:decay=0.9/t=2",
        "softmax/d=4,4/a=1/gate=head/t=2",
        "softmax/d=4,4/a=1/gate=element/t=2",
    )
]
EVERY = [*STACKS, *HEADS, *POLYNOMIALS, *MIXED]


@pytest.mark.parametrize("text", KNOWN)
def test_known_numbers(text: str) -> None:
    found = samples(text)
    assert (found.value, found.naive) == KNOWN[text]
    assert found.status == "proved"
    assert found.lower == found.upper == found.value


@pytest.mark.parametrize("spec", EVERY, ids=str)
def test_ranks_grow_as_they_must(spec: segre.architectures.Architecture) -> None:
    """By less and less, by at least one, up to the dimension, and never past a bound."""
    found = samples(spec)
    gains = found.gains
    assert all(gain >= 1 for gain in gains)
    assert list(gains) == sorted(gains, reverse=True)
    assert gains[0] <= found.outputs
    assert found.ranks[-1] == found.dimension.lower
    for n, rank in enumerate(found.ranks, 1):
        assert rank <= at_most(spec, n).value
    assert found.naive <= found.lower <= len(found.ranks) == found.value
    assert (found.status == "proved") == (found.lower == found.upper)
    bounds = [at_most(spec, n).value for n in range(found.lower + 1)]
    assert bounds == sorted(bounds)
    if found.outputs == 1:
        assert found.value == found.dimension.value


@pytest.mark.parametrize("spec", [*POLYNOMIALS[:12], *HEADS[:2]], ids=str)
def test_ranks_are_those_of_fractions(spec: segre.architectures.Architecture) -> None:
    """At random rational weights and inputs, by another library."""
    found = samples(spec)
    field = Rational()
    rng = np.random.default_rng(3)
    weights = field.constant(rng.integers(-50, 50, spec.parameters))
    X = field.constant(rng.integers(-50, 50, (len(found.ranks), spec.width_in, spec.t)))
    matrix = jacobian(field, spec, weights, X)  # type: ignore[arg-type]
    for n, rank in enumerate(found.ranks, 1):
        assert Rationals().rank(matrix[:n].reshape(-1, spec.parameters)) == rank


def test_bounds_hold_at_any_point() -> None:
    """Also at points that are not generic: all weights are equal."""
    for spec in [*STACKS[:8], *POLYNOMIALS[:12]]:
        if spec.exponentials:
            continue
        point = Point.draw(spec, 1)
        ones = np.ones(spec.parameters)
        space = Echelon(spec.parameters, point.field)
        for n in range(1, 5):
            rows = jacobian(point.field, spec, ones, point.batch(n - 1, 1).X)
            space.add(rows.reshape(-1, spec.parameters))
            assert space.rank <= at_most(spec, n).value


def test_most_counts_are_proved() -> None:
    found = [samples(spec) for spec in [*STACKS, *POLYNOMIALS]]
    proved = sum(one.status == "proved" for one in found)
    assert proved >= 0.9 * len(found)


def test_what_is_not_proved_says_so() -> None:
    found = samples("gapless/d=6,6/a=2/t=2")
    assert found.status == "computed"
    assert (found.value, found.lower, found.upper) == (11, 5, 11)
    assert "computed at 3 random points mod p, not proved" in found.how
    assert "computed, not proved" in str(found)


def test_another_seed_says_the_same() -> None:
    for text in ("lightning/d=5,2,5/a=1/t=2", "poly/3-2-2-4/degree=2/bias=true"):
        assert {samples(text, seed).ranks for seed in range(4)} == {samples(text).ranks}


def test_large_architectures_have_bounds() -> None:
    found = samples("softmax/d=4096,4096,4096/a=128/t=2048")
    assert (found.status, found.value, found.ranks) == ("bounded", None, ())
    assert found.lower == 3 == least_inputs(found.spec, found.dimension.value or 0)
    assert found.upper == found.dimension.value
    assert found.outputs == prod(found.spec.output_shape)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("gpt2", "token sequences, which are not generic points"),
        ("transformer/d=4/heads=2/mlp=relu/ff=4/t=2", "relu is piecewise"),
        ("linear/d=4,4/a=2/t=3", "piecewise"),
        ("softmax/d=4,4/a=2", "t is missing"),
    ],
)
def test_refusals_name_the_reason(text: str, reason: str) -> None:
    with pytest.raises(SegreError, match=reason):
        samples(text)


def test_too_large_without_a_theorem() -> None:
    with pytest.raises(UnsupportedError, match="no theorem gives its dimension"):
        samples("transformer/d=64/heads=2/mlp=gelu/ff=64/t=20")


# --- on the command line --------------------------------------------------------------------------


def test_the_command(tmp_path: Path) -> None:
    done = run(
        "variety",
        "samples",
        "lightning/d=3,3/a=1/t=3",
        "--plot",
        "ranks.svg",
        "--json",
        cwd=tmp_path,
    )
    document = json.loads(done.stdout)
    assert document["samples"] == 4
    assert document["ranks"] == [5, 8, 11, 13]
    assert document["plot"] == "ranks.svg"
    assert (tmp_path / "ranks.svg").stat().st_size > 1000
    table = run("variety", "samples", "lightning/d=3,3/a=1/t=3", "--csv").stdout.splitlines()
    assert table[0] == "inputs,rank,new,outputs"
    assert table[-1] == "4,13,2,36"


@pytest.mark.parametrize(
    "arguments",
    [
        ["variety", "samples", "gpt2"],
        ["variety", "samples", "nothing/d=3"],
        ["variety", "samples", "poly/3-2/degree=0"],
        ["variety", "samples", "poly/3-2-1/degree=2", "--plot", "ranks.txt"],
        ["variety", "samples", "softmax/d=4096,4096/a=128/t=2048", "--plot", "ranks.png"],
    ],
)
def test_bad_input_is_one_line(arguments: list[str], tmp_path: Path) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert not done.stdout
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())
