"""Closed form = exact rank = parameters - symmetries, on thousands of random architectures."""

import pytest

from segre.geometry.closed_form import closed_form
from segre.geometry.dimension import dimension
from support.architectures import random_stacks

BATCHES, EACH = 12, 90  # 1,080 architectures; `segre reproduce theorems` compares 3,500


@pytest.mark.parametrize("batch", range(BATCHES))
def test_closed_form_is_the_exact_dimension(batch: int) -> None:
    for net in random_stacks(seed=batch, count=EACH):
        found = dimension(net, method="exact", seed=batch)
        assert found.status == "proved", (str(net), found)
        assert found.upper_evidence is not None
        assert found.upper_evidence.kind in {"symmetries", "ambient"}
        assert found.value == closed_form(net).value, str(net)
        assert found.fiber_dimension >= sum(s.dimension for s in found.symmetries)
