"""Random architectures for tests, by seed or by hypothesis."""

import random
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from segre.spec import Network


def random_stacks(seed: int, count: int) -> Iterator[Network]:
    """One-head stacks: l <= 4, widths 1..6, a 1..4, t 1..4, both kinds."""
    rng = random.Random(seed)
    for _ in range(count):
        depth = rng.randint(1, 4)
        yield Network.parse(
            {
                "kind": rng.choice(["lightning", "softmax"]),
                "d": [rng.randint(1, 6) for _ in range(depth + 1)],
                "a": [rng.randint(1, 4) for _ in range(depth)],
                "t": rng.randint(1, 4),
            }
        )


@st.composite
def networks(draw: Any, widest: int = 5, deepest: int = 3, most_heads: int = 3) -> Network:
    """Small networks with any number of heads and value dimensions."""
    depth = draw(st.integers(1, deepest))

    def per_layer(values: Any) -> list[Any]:
        return draw(st.lists(values, min_size=depth, max_size=depth))

    widths = st.integers(1, widest)
    return Network.parse(
        {
            "kind": draw(st.sampled_from(["lightning", "softmax"])),
            "d": draw(st.lists(widths, min_size=depth + 1, max_size=depth + 1)),
            "a": per_layer(st.integers(1, 3)),
            "heads": per_layer(st.integers(1, most_heads)),
            "dv": per_layer(st.none() | st.integers(1, 3)),
            "t": draw(st.integers(1, 4)),
        }
    )
