"""Every value that a step of a mechanism may have is known in every room; others raise.

The values are those of the types, so that a new one is tried here without being listed.
"""

from itertools import product
from typing import get_args

import numpy as np
import pytest
from flint import arb, ctx

from segre.attention.mechanism import STEPS, Mechanism
from segre.attention.pattern import mixing, unit_size
from segre.errors import SegreError, SpecError
from segre.fields.real import Real
from segre.kernel.arrays import Evaluation
from segre.kernel.balls import Balls
from segre.kernel.document import _STEPS, RejectionError, parsed_spec
from segre.kernel.graph import evaluate
from segre.kernel.network import graph_of
from segre.kernel.residues import cut
from segre.network import forward
from segre.sequence.forms import methods
from segre.sequence.mix import mix
from segre.spec import Network

T, A = 5, 3


def every() -> list[Mechanism]:
    """Mechanisms with all values of all steps, two steps at a time and all of the first three."""
    found: dict[Mechanism, None] = {}
    choices = {key: get_args(kind) for key, kind in STEPS.items()}
    core = ("weigh", "normalise", "feature")
    for first, second in [("unit", "gate"), ("conv", "bias")]:
        for values in product(*(choices[key] for key in (*core, first, second))):
            given = dict(zip((*core, first, second), values, strict=True))
            order = 3 if given["weigh"] == "taylor" else 0
            kernel = 2 if given.get("conv", "none") != "none" else 1
            found[Mechanism(**given, order=order, kernel=kernel)] = None
    return list(found)


EVERY = every()


def spec_of(one: Mechanism) -> Network:
    return Network.parse(f"mix/d={A},2/a={A}/heads={one.text}*2/t={T}")


def test_there_are_all_values() -> None:
    for key, kind in STEPS.items():
        assert {getattr(one, key) for one in EVERY} == set(get_args(kind))


@pytest.mark.parametrize("causal", [False, True])
def test_every_method_of_long_sequences_is_the_definition(causal: bool) -> None:
    rng = np.random.default_rng(0)
    F, seen = Real(), set()
    for one in EVERY:
        if one.gate != "none" or one.bias != "none" or one.conv != "none":
            continue  # these are done before and after mixing
        try:
            how = Mechanism(**{**vars(one), "causal": causal})
        except SpecError:
            continue  # gapless has no mask
        if how.feature == "relu" and how.unit == "layer":
            continue  # sums may be zero
        q, k, v = np.abs(rng.standard_normal((3, T, A))) + 0.1
        K, Q = (unit_size(F, how, x.T, A) for x in (k, q))
        wanted = mixing(F, how, K, Q, T).T @ v
        for method in methods(how):
            assert np.allclose(mix(how, q, k, v, method), wanted, rtol=1e-6, atol=1e-9), how.text
            seen.add((how.weigh, how.normalise, how.feature, method))
    assert {weigh for weigh, _, _, method in seen if method == "linear"} == {"identity", "taylor"}


def test_the_kernel_computes_every_mechanism_as_the_prover_does() -> None:
    rng = np.random.default_rng(1)
    for one in EVERY[::5]:
        if one.feature == "relu" and one.unit == "layer":
            continue  # sums may be zero
        spec = spec_of(one)
        vector, X = np.abs(rng.standard_normal((2, max(spec.parameters, A * T)))) + 0.1
        vector, X = vector[: spec.parameters] / 4, X[: A * T].reshape(A, T) / 4
        wanted = forward(Real(), spec, vector, X)
        graph = graph_of(spec)
        with ctx.workprec(80):
            numbers = Balls()
            weights = cut(graph, numbers.array([arb(x) for x in vector], (1, len(vector))))
            inputs = numbers.array([arb(x) for x in X.ravel()], (1, A, T))
            found = evaluate(graph, Evaluation(numbers, weights, inputs))[graph.output]
        floats = np.array([float(x.mid()) for x in found.ravel()]).reshape(wanted.shape)
        assert np.allclose(floats, wanted, rtol=1e-6, atol=1e-8), one.text


def test_the_kernel_lists_the_values_itself() -> None:
    """A value added to a type is refused by the kernel until it is described and listed there."""
    assert {key: get_args(kind) for key, kind in STEPS.items()} == _STEPS


@pytest.mark.parametrize("step", STEPS)
def test_unknown_values_raise(step: str) -> None:
    with pytest.raises(SpecError, match="is not allowed; allowed:"):
        Mechanism(**{step: "new"})  # type: ignore[arg-type]


@pytest.mark.parametrize("step", ["weigh", "feature"])
def test_values_that_only_the_type_knows_raise(step: str) -> None:
    """As after adding a value to the type alone."""
    new = Mechanism(window=2)
    object.__setattr__(new, step, "new")
    X = np.ones((T, A))
    with pytest.raises((AssertionError, SegreError)):
        mixing(Real(), new, X.T, X.T, T)
    for method in methods(new):
        with pytest.raises((AssertionError, SegreError)):
            mix(new, X, X, X, method)
    assert "linear" not in methods(new)


@pytest.mark.parametrize("step", STEPS)
def test_the_kernel_refuses_what_it_does_not_describe(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(Mechanism(window=2))
    object.__setattr__(spec.mechanisms[0], step, "new")
    monkeypatch.setattr(Network, "from_mapping", lambda *_: spec)
    with pytest.raises(RejectionError, match="not known to the kernel"):
        parsed_spec({"kind": "mix", "heads": ["softmax"]})
