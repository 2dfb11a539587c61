"""Where bounds do not meet: the examples of the page, and random stacks."""

import re
from pathlib import Path

import pytest

from segre.geometry.dimension import dimension
from segre.geometry.gap import suspects
from segre.models import architecture
from support.random_mechanisms import random_mixed

PAGE = Path(__file__).parents[2] / "docs" / "mechanisms.md"
ROWS = re.findall(r"^\| .* \| `(\S+)` \| (\d+)\.\.(\d+) \|$", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize(("spec", "lower", "upper"), ROWS)
def test_the_examples_of_the_page(spec: str, lower: str, upper: str) -> None:
    found = dimension(spec, "exact")
    assert (found.lower, found.upper) == (int(lower), int(upper))
    assert dimension(spec).number == int(lower)
    assert "gaps are known to occur with: " in " ".join(found.notes)


def test_there_are_examples() -> None:
    assert len(ROWS) >= 5
    assert all(suspects(architecture(spec)) for spec, _, _ in ROWS)


@pytest.mark.parametrize("seed", range(1, 4))
def test_random_stacks_with_a_gap_have_a_feature_of_the_list(seed: int) -> None:
    for net in random_mixed(seed, 8, 45):
        found = dimension(net, "exact")
        if found.value is None:
            assert suspects(net), f"{net}: {found.lower}..{found.upper} is a new kind of gap"
