"""The dimensions of one mechanism after the other, computed independently: exactly these."""

import pytest
from tests.support.mixed_stacks import random_mixed_stack

from segre.certificate import certify
from segre.geometry.dimension import dimension
from segre.kernel import verify

# docs/mechanisms.md says why each is what it is
TABLE = [
    ("mix/d=4,3/a=2/heads=lightning:causal/t=3", 23),
    ("lightning/d=4,3/a=2/decay=3/7/t=3", 23),
    ("lightning/d=4,3/a=2/decay=learned/t=3", 24),
    ("lightning/d=4,3/a=2/normalise=keys/t=3", 23),
    ("lightning/d=4,3/a=1/normalise=keys/t=3", 15),
    ("lightning/d=4,3/a=2/feature=square/t=3", 25),
    ("lightning/d=4,3/a=2/feature=square/normalise=keys/t=3", 25),
    ("lightning/d=4,3/a=2/feature=relu/t=3", 25),
    ("lightning/d=4,3/a=2/feature=relu/normalise=keys/t=3", 25),
    ("lightning/d=4,3/a=2/feature=exp/normalise=keys/t=3", 24),
    ("lightning/d=4,3/a=2/feature=exp/t=3", 28),
    ("linear/d=4,3/a=2/t=3", 28),
    ("linear/d=4,3/a=2/normalise=none/t=3", 28),
    ("double/d=4,3/a=2/t=3", 24),
    ("gapless/d=4,3/a=2/t=3", 24),
    ("fast/d=4,3/a=2/unit=none/order=1/t=3", 24),
    ("fast/d=4,3/a=2/unit=none/order=2/t=3", 24),
    ("fast/d=4,3/a=2/unit=none/order=3/t=3", 24),
    ("fast/d=4,3/a=2/unit=none/order=2/normalise=none/t=3", 24),
    ("fast/d=4,3/a=3/order=1/t=3", 25),
    ("fast/d=4,3/a=3/order=2/t=3", 25),
    ("fast/d=4,3/a=4/order=1/t=3", 31),
    ("fast/d=4,3/a=4/order=2/t=3", 31),
    ("fast/d=4,3/a=2/order=2/t=3", 12),
    ("fast/d=4,3/a=2/unit=sphere/t=3", 25),
    ("fast/d=4,3/a=3/unit=sphere/t=3", 31),
    ("double/d=4,3/a=2/t=1", 12),
    ("fast/d=4,3/a=2/unit=none/t=1", 12),
    ("linear/d=4,3/a=2/t=1", 12),
    ("gapless/d=4,3/a=2/t=1", 0),
    ("softmax/d=4,3/a=2/bias=key/t=3", 24),
    ("softmax/d=4,3/a=2/bias=query/t=3", 26),
    ("double/d=4,3/a=2/bias=key/t=3", 26),
    ("double/d=4,3/a=2/bias=query/t=3", 24),
    ("fast/d=4,3/a=2/unit=none/bias=key/t=3", 26),
    ("fast/d=4,3/a=2/unit=none/bias=query/t=3", 26),
    ("fast/d=4,3/a=2/unit=none/bias=both/t=3", 28),
    ("softmax/d=4,4/a=2/dv=3/gate=head/t=3", 31),
    ("softmax/d=4,4/a=2/dv=3/gate=element/t=3", 45),
    ("softmax/d=4,4/a=2/dv=3/heads=2/gate=head/t=3", 62),
    ("softmax/d=4,4/a=2/dv=3/heads=2/gate=element/t=3", 90),
    ("lightning/d=4,4/a=2/dv=2/gate=element/t=3", 33),
    ("mix/d=3,3,3/a=2/heads=lightning,softmax/t=3", 24),
    ("mix/d=3,3,3/a=2/heads=softmax,lightning/t=3", 24),
    ("mix/d=3,2,2,3/a=2/heads=lightning,lightning,softmax/t=3", 22),
    ("mix/d=3,3/a=1/heads=softmax+softmax:window=1/t=4", 28),
    ("mix/d=3,3/a=1/heads=softmax+lightning/t=4", 27),
    ("mix/d=3,3/a=1/heads=softmax+double/t=4", 28),
    ("mix/d=3,3/a=1/heads=softmax+softmax:window=0/t=4", 23),
    ("mix/d=3,3/a=1/heads=softmax:window=0*2/t=4", 9),
    ("mix/d=3,3/a=2/heads=lightning:window=0/t=4", 14),
    ("lightning/d=2,2/a=2/heads=2/decay=0.5/t=3", 12),
    ("mix/d=2,2/a=2/heads=lightning:decay=0.5+lightning:decay=0.7/t=3", 14),
    ("lightning/d=2,2/a=2/heads=3/decay=0.5/t=3", 12),
    ("mix/d=2,2/a=2/heads=lightning:decay=0.5+lightning:decay=0.7+lightning:decay=0.9/t=3", 21),
    ("lightning/d=2,2/a=2/heads=3/decay=slopes/t=3", 21),
    ("softmax/d=3,3/a=2/conv=full/kernel=2/t=3", 32),
    ("softmax/d=3,3/a=2/conv=full/kernel=3/stride=2/t=5", 47),
    ("softmax/d=3,3/a=2/conv=shared/kernel=2/t=3", 19),
    ("softmax/d=3,3/a=2/conv=shared/kernel=3/stride=2/t=5", 21),
]


@pytest.mark.parametrize(("text", "value"), TABLE, ids=[text for text, _ in TABLE])
def test_the_table(text: str, value: int) -> None:
    found = dimension(text, "exact")
    assert (found.value, found.status) == (value, "proved")


@pytest.mark.parametrize("seed", range(120))
def test_bounds_hold_for_random_stacks(seed: int) -> None:
    """Symmetries are checked to lie in the kernel, and the lower bound never exceeds the upper."""
    found = dimension(random_mixed_stack(seed + 1000, 90), "exact", seed)
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower <= found.upper


def test_most_random_stacks_are_proved() -> None:
    proved = [dimension(random_mixed_stack(seed, 90), "exact").value for seed in range(60)]
    assert sum(value is not None for value in proved) >= 52


@pytest.mark.parametrize("text", ["double/d=3,2/a=2/gate=element/t=3", "fast/d=3,2/a=3/t=2"])
def test_certificates_are_made(text: str) -> None:
    document = certify(text)
    assert document["version"] == 6
    assert document["claim"]["status"] == "proved"


FILTERED = [
    "mix/d=3,2/a=2/heads=lightning:unit=sphere:bias=key:conv=shared:kernel=2/t=3",
    "mix/d=3,2/a=2/heads=lightning:unit=sphere:bias=key:conv=depthwise:kernel=2/t=3",
    "mix/d=3,2/a=3/heads=lightning:unit=layer:conv=depthwise:kernel=2/t=3",
    "mix/d=3,2/a=2/heads=lightning:normalise=both:feature=exp:conv=depthwise:kernel=2/t=3",
]


@pytest.mark.parametrize("text", FILTERED)
def test_filters_beside_biases_and_means(text: str) -> None:
    """A filter scales no bias, and rows that are filtered apart have no common mean."""
    found = dimension(text, "exact")  # every symmetry is checked to lie in the kernel
    assert found.upper - 2 <= found.lower <= found.upper


@pytest.mark.parametrize(
    "text",
    [
        "mix/d=2,2,1/a=2/heads=double,lightning:unit=sphere*3/t=2",
        "mix/d=3,2,4/a=2/heads=linear:feature=silu*2,fast:unit=sphere*2/dv=3,2/t=2",
    ],
)
def test_certificates_list_the_salts_that_were_used(text: str) -> None:
    assert verify(certify(text)).valid
