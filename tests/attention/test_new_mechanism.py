"""A mechanism that is added by the recipe of CONTRIBUTING.md is right everywhere, or refused.

The toy weighs a score by its cube. It is added as the recipe says: a value of a step with what is
true of it, what the step does over any field, and a name.
"""

import re
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import segre
from segre.attention import pattern
from segre.attention.mechanism import NAMED, STEPS, WEIGHINGS, Mechanism, Weighing
from segre.certificate import certify
from segre.collapse.mechanisms import mechanism_study
from segre.errors import SegreError
from segre.fields.real import Real
from segre.geometry.dimension import dimension
from segre.geometry.explain import Explanation, explain
from segre.geometry.stack_formula import fiber
from segre.network import forward, tensors
from segre.sequence.choice import Sizes, method_cost
from segre.sequence.forms import methods
from segre.sequence.mix import mix
from segre.spec import Network

SOURCE = Path(segre.__file__).parent
SPECS = [
    "mix/d=3,2/a=2/heads=cube/t=3",
    "mix/d=2,3/a=1/heads=cube*2/t=2",
    "mix/d=3,3/a=1/heads=cube:normalise=keys/t=3",
    "mix/d=2,2,2/a=2/heads=cube,softmax/t=2",
    "mix/d=3,2/a=2/heads=cube:causal+lightning/t=3",
    "mix/d=2,2/a=2/heads=cube:gate=head/dv=1/t=2",
    "mix/d=2,3/a=2/heads=cube:feature=square/t=2",
    "mix/d=2,2/a=1/heads=cube:window=0/t=2",
]


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = Literal["identity", "exp", "taylor", "cube"]
    monkeypatch.setitem(STEPS, "weigh", kinds)
    cube = Weighing(polynomial=True, power=3, operations=2)
    monkeypatch.setitem(WEIGHINGS, "cube", cube)
    monkeypatch.setitem(pattern.WEIGHED, "cube", lambda F, _how, x, _used: F.mul(F.mul(x, x), x))
    monkeypatch.setitem(NAMED, "cube", Mechanism(weigh="cube", normalise="none"))  # type: ignore[arg-type]


def by_hand(spec: Network, vector: np.ndarray, X: np.ndarray) -> np.ndarray:
    """The stack in plain NumPy; only what the specs above contain."""
    at = tensors(spec)
    for number, layer in enumerate(spec.layers, 1):
        total: np.ndarray | int = 0
        for g, group in enumerate(layer.groups):
            one, part = group.mechanism, f"{g + 1}." if g else ""
            W = {
                name.removeprefix(part): vector[slot.range].reshape(slot.shape)
                for (place, name), slot in at.items()
                if place == str(number) and (name.startswith(part) if g else "." not in name)
            }
            for h in range(group.heads):
                K, Q = W["W_K"][h] @ X, W["W_Q"][h] @ X
                if one.feature == "square":
                    K, Q = K * K, Q * Q
                s = K.T @ Q
                w = {"cube": s**3, "identity": s, "exp": np.exp(s)}[one.weigh]
                i, j = np.indices(w.shape)
                w = w * (i <= j) if one.causal else w
                w = w * (abs(i - j) <= one.window) if one.window is not None else w
                w = w / w.sum(axis=0) if one.normalise == "keys" else w
                out = W["W_V"][h] @ X @ w
                if one.gate == "head":
                    out = out / (1 + np.exp(-(W["W_G"][h] @ X)))
                total = total + (W["W_O"][h] @ out if "W_O" in W else out)
        X = np.asarray(total)
    return X


def float_rank(spec: Network) -> int:
    """The rank of the Jacobian in float64, by complex steps."""
    rng = np.random.default_rng(0)
    vector = rng.standard_normal(spec.parameters) / 2
    rows = []
    for _ in range(spec.parameters):
        X = rng.standard_normal((spec.width_in, spec.t))
        columns = []
        for n in range(spec.parameters):
            moved = vector.astype(complex)
            moved[n] += 1e-30j
            columns.append(by_hand(spec, moved, X).imag.ravel() / 1e-30)
        rows.append(np.array(columns).T)
    J = np.concatenate(rows)
    sizes = np.linalg.norm(J, axis=0)
    J = np.where(sizes > 1e-9 * sizes.max(), J, 0) / sizes.clip(1e-9 * sizes.max())
    values = np.linalg.svd(J, compute_uv=False)
    return int((values > 1e-9 * values[0]).sum())


@pytest.mark.parametrize("text", SPECS)
def test_the_forward_map_and_the_dimension_are_right(text: str) -> None:
    spec = Network.parse(text)
    rng = np.random.default_rng(1)
    vector, X = rng.standard_normal(spec.parameters), rng.standard_normal((spec.width_in, spec.t))
    assert np.allclose(forward(Real(), spec, vector, X), by_hand(spec, vector, X))
    found = dimension(spec, "exact")
    assert found.upper is not None
    assert found.lower == float_rank(spec) <= found.upper


@pytest.mark.parametrize("text", SPECS)
def test_formulas_do_not_guess(text: str) -> None:
    """The formula for redundancy was never compared with ranks of this mechanism."""
    assert fiber(Network.parse(text)) is None


@pytest.mark.parametrize("text", SPECS[:2])
def test_the_kernel_refuses_it_in_one_line(text: str) -> None:
    with pytest.raises(SegreError, match="weigh=cube is not known to the kernel"):
        certify(text, method="exact")


def test_explain_and_collapse_answer_or_refuse() -> None:
    for text in SPECS:
        found = explain(text)
        assert isinstance(found, Explanation)
        assert found.lower == dimension(text, "exact").lower
    study = mechanism_study("mix/d=4,4/a=2/heads=cube:normalise=keys/t=3", inputs=2)
    assert [(step.expected, round(step.relative)) for step in study.steps] == [(3, 3)]
    alone = "mix/d=3,3/a=1/heads=cube:normalise=keys/t=3"  # where the query cancels
    with pytest.raises(SegreError, match="all tokens are equal"):
        mechanism_study(alone)


def test_long_sequences_are_the_definition() -> None:
    rng = np.random.default_rng(2)
    q, k, v = rng.standard_normal((3, 6, 2))
    how = NAMED["cube"]
    assert methods(how) == ("dense",)
    assert np.allclose(mix(how, q, k, v), ((q @ k.T) ** 3) @ v)
    with pytest.raises(SegreError):
        mix(how, q, k, v, "linear")
    pairs = 6 * 6
    assert method_cost(how, Sizes(n=6, a=2, dv=2, heads=1), "dense").operations == pairs * (
        2 * (2 + 2) + 2
    )


def test_no_room_compares_how_scores_are_weighed() -> None:
    """Except for the kernel, which has its own list and refuses what is not on it."""
    found = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if re.search(r"\.weigh\b|\bweigh=", path.read_text())
    ]
    rooms = {name.split("/")[0] for name in found}
    assert rooms == {"attention", "kernel"}, sorted(found)
