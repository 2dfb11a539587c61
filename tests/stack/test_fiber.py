"""The symmetries that the formula names and counts are those that generators have at a point."""

import pytest

from segre.geometry.point import Point
from segre.geometry.rank import symmetry_rank
from segre.geometry.stack_formula import parts
from segre.spec import Network


@pytest.mark.parametrize(
    "text",
    [
        "softmax/d=3,3,3/a=2/gate=element/t=3",
        "softmax/d=4,4/a=2/heads=2/dv=2/bias=both/t=3",
        "fast/d=4,4/a=4/t=3",
        "linear/d=3,3/a=2/feature=exp/t=3",
        "lightning/d=4,4/a=2/dv=4/feature=square/decay=1/2/t=3",
        "double/d=3,3/a=2/conv=depthwise/kernel=2/t=4",
        "softmax/d=3,3/a=3/unit=sphere/conv=none/t=3",
        "softmax/d=3,3,3/a=2/conv=shared/kernel=2/t=4",
    ],
)
def test_names_and_counts_are_those_of_the_generators(text: str) -> None:
    spec = Network.parse(text)
    found: dict[tuple[str, str], int] = {}
    for one in symmetry_rank(Point.draw(spec, 0)).symmetries:
        found[one.group, one.name] = found.get((one.group, one.name), 0) + one.dimension
    assert parts(spec) == found
