"""How one layer changes the residual of tokens that are nearly alike, and stacks of such layers."""

import numpy as np
import pytest
from tests.support.mixed_stacks import random_mixed_stack

from segre.collapse.commands import measure
from segre.collapse.mechanisms import expected_order, mechanism_study
from segre.errors import UnsupportedError
from segre.models import architecture
from segre.spec import Network

TABLE = {
    "softmax:bias=query": 3,
    "double": 3,
    "fast": 3,
    "fast:order=1:unit=none": 3,
    "fast:unit=sphere": 3,
    "linear": 3,
    "linear:feature=exp": 3,
    "linear:feature=silu": 3,
    "lightning:normalise=keys": 3,
    "softmax:conv=full:kernel=2": 3,
    "softmax:gate=head": 1,
    "softmax:gate=element": 1,
    "softmax:causal": 1,
    "softmax:window=1": 1,
    "softmax:local=2": 1,
    "double:causal": 1,
    "fast:window=1": 1,
    "lightning:gate=head": 1,
    "lightning:feature=square": 1,
    "softmax:normalise=none": 1,
    "softmax:window=0": 1,
    "lightning:causal": 0,
    "lightning:decay=0.9": 0,
    "lightning:window=1": 0,
    "gapless": 1,
    "gapless:gate=head": 1,
}


@pytest.mark.parametrize("text", TABLE)
def test_the_exponent_of_one_layer(text: str) -> None:
    found = mechanism_study(f"mix/d=5,4/a=3/heads={text}/t=4", seed=1, inputs=1)
    (step,) = found.steps
    assert step.expected == TABLE[text]
    assert abs(step.relative - TABLE[text]) < 0.01


@pytest.mark.parametrize("seed", range(60))
def test_what_traits_say_is_what_is_measured(seed: int) -> None:
    spec = random_mixed_stack(seed)
    spec = Network(spec.layers[:1], spec.t)
    expected = expected_order(spec.layers[0], spec.t)
    if expected is None:
        with pytest.raises(UnsupportedError, match="all tokens are equal"):
            mechanism_study(spec, seed, inputs=1)
    elif not any(one.feature == "relu" for one in spec.mechanisms):  # which may all be off
        (step,) = mechanism_study(spec, seed, inputs=1).steps
        assert abs(step.relative - expected) < 0.05


def test_softmax_is_as_the_other_way_says() -> None:
    """Plain softmax, in balls here and with mean and residual apart there."""
    plain = "softmax/d=6,6,6,6/a=3/t=4"
    here = mechanism_study(Network.parse(architecture(plain).document()), seed=3, inputs=2)
    there = measure(plain, seed=3, inputs=2).found
    assert np.allclose(here.relative, there.own.relative, atol=1e-5)


@pytest.mark.parametrize("text", ["double", "fast:unit=none", "lightning:normalise=keys"])
def test_cures_that_do_not_cure(text: str) -> None:
    """The logarithm of the residual triples with every layer, past every float."""
    found = mechanism_study(f"mix/d=6,6,6,6,6,6/a=3/heads={text}/t=4", seed=2, inputs=1)
    assert found.relative[0, -1] < -20
    assert 2.7 < found.orders[-1] < 3.5


def test_what_has_no_cubic_step() -> None:
    for text in ("gapless", "lightning", "softmax:window=1"):
        found = mechanism_study(f"mix/d=6,6,6,6,6/a=3/heads={text}/t=4", seed=2, inputs=1)
        assert found.relative[0, -1] > -2
    gated = mechanism_study("mix/d=6,6,6,6,6/a=3/heads=softmax:gate=element/t=4", seed=2, inputs=1)
    assert gated.orders[-1] < 2.5
