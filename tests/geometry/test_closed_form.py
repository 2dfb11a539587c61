"""The formula against independent vectors, and where it is simple."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segre.certificate import certify
from segre.errors import UnsupportedError
from segre.geometry.closed_form import ambient, closed_form
from segre.geometry.dimension import dimension
from segre.spec import Network

VECTORS = json.loads((Path(__file__).parents[1] / "oracle/dimensions.json").read_text())["stacks"]


def test_independent_vectors() -> None:
    assert len(VECTORS) >= 200
    for vector in VECTORS:
        net = Network.parse({key: vector[key] for key in ("kind", "d", "a", "t")})
        assert net.parameters == vector["parameters"]
        assert closed_form(net).value == vector["dimension"]
        assert dimension(net, method="exact").value == vector["dimension"]


@given(st.integers(1, 6), st.integers(2, 40), st.data())
def test_equal_widths(depth: int, d: int, data) -> None:
    a = data.draw(st.integers(2, d))
    common = depth * a * (2 * d - a) + d * d
    text = f"d={d}/layers={depth}/a={a}/t=3"
    assert closed_form(Network.parse(f"softmax/{text}")).value == common
    assert closed_form(Network.parse(f"lightning/{text}")).value == common - depth


def test_huge_architectures_are_no_problem() -> None:
    net = Network.parse("softmax/d=1000000/layers=1000/a=1000/t=3")
    d, a = 10**6, 1000
    assert closed_form(net).value == 1000 * a * (2 * d - a) + d * d


@pytest.mark.parametrize("text", ["softmax/d=4,4/a=2/heads=2/t=3", "softmax/d=4,4/a=2/dv=2/t=3"])
def test_refused_where_there_is_no_formula(text: str) -> None:
    with pytest.raises(UnsupportedError, match="no closed form"):
        closed_form(Network.parse(text))


@pytest.mark.parametrize(
    ("text", "space"),
    [("lightning/d=2,2/a=2/heads=4/t=2", 12), ("lightning/d=3,2/a=3/heads=6/t=1", 20)],
)
def test_many_heads_fill_the_ambient_space(text: str, space: int) -> None:
    bound = ambient(Network.parse(text))
    assert bound is not None
    assert bound.value == space
    found = dimension(text)
    assert (found.value, found.status) == (space, "proved")
    document = certify(text)
    assert document["upper"]["kind"] in ("ambient", "spaces")
    assert document["claim"]["upper"] == space


def test_ambient_speaks_of_one_lightning_layer_only() -> None:
    assert ambient(Network.parse("softmax/d=2,2/a=2/t=2")) is None
    assert ambient(Network.parse("lightning/d=2,2,2/a=2/t=2")) is None
