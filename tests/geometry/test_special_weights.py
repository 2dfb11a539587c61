"""Weights on which normal forms may stumble: no traceback, and what is moved is never different."""

import pytest
from bench.faults.specs import Tried, compare
from bench.random_specs import random_stack

from segre.geometry.same import same_function
from segre.spec import Network
from segre.weights import Weights


@pytest.mark.parametrize("start", range(0, 200, 50))
def test_special_weights_of_random_stacks(start: int) -> None:
    tried = Tried()
    for seed in range(start, start + 50):
        compare(tried, random_stack(seed), seed)
    assert tried.wrong == []
    assert tried.count["moved: same"] > 25


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("spec", ["lightning/d=3,1,3,2/a=1,2,2/t=2", "softmax/d=2,2,2/a=1/t=2"])
def test_zero_functions_are_the_same(spec: str, exact: bool) -> None:
    zero = [Weights.random(Network.parse(spec), seed=n, exact=exact) for n in (0, 1)]
    for weights in zero:
        for layer in weights.layers:
            layer.W_V[:] = layer.W_V * 0
    found = same_function(*(Weights.of_layers(w.spec, list(w.layers)) for w in zero))
    assert found.verdict != "different"
