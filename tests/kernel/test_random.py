"""The rank at random points: which claims it confirms and refuses, and how large errors are."""

from __future__ import annotations

import copy
from dataclasses import replace
from math import log2
from typing import Any

import numpy as np
import pytest
from bench.faults.certificates import sealed

from segre.geometry.random_rank import derivatives
from segre.kernel import random, verify
from segre.kernel.degrees import VARIABLE, Degrees, Size
from segre.kernel.document import RejectionError, examine
from segre.kernel.graph import evaluate
from segre.kernel.network import graph_of
from segre.models import architecture
from support.certificates import certificate, refused

CERTAIN = "lightning/d=2,4/a=2/heads=3/dv=1/t=2"
CONFIRMED = (
    "lightning/d=4,4,4/a=2/t=3",
    "softmax/d=5,5,5/a=2/t=3",
    "mix/d=3,3,3/a=2/heads=lightning:decay=slope(1),softmax/t=3",
    "transformer/d=4/heads=2/norm=rms/mlp=swiglu/ff=6/eps=1e-5/t=3",
    "transformer/d=4/norm=layer/mlp=gelu/ff=3/bias=all/pos=rope/causal=true/eps=1e-5/t=3",
    "transformer/d=4/norm=rms/mlp=silu/ff=4/vocab=5/eps=1e-5/tied=true/output=logits/t=2",
    "poly/3-5-2/degree=3",
)


def claimed(spec: str, lower: int | None = None) -> dict[str, Any]:
    """A certificate by random points, of the lower bound or of fewer rows of its minor."""
    document = certificate(spec)
    claim, minor = document["claim"], document["lower"]
    size = claim["lower"] if lower is None else lower
    minor["rows"], minor["columns"] = minor["rows"][:size], minor["columns"][:size]
    if "salts" in minor:
        used = {str(n) for n, _ in minor["rows"]}
        minor["salts"] = {n: salts for n, salts in minor["salts"].items() if n in used}
    claim.update(lower=size, upper=size, upper_by="random", status="certain")
    document["upper"] = {"kind": "random"}
    found = examine(sealed(document))
    document["upper"] = random.section(found, graph_of(found.spec))
    return sealed(document)


@pytest.mark.parametrize("spec", CONFIRMED)
def test_proved_dimensions_are_confirmed(spec: str) -> None:
    verdict = verify(claimed(spec))
    assert verdict.valid, verdict.reason
    assert verdict.status == "certain"
    assert "certain up to an error below 2^-6" in verdict.checks[-1] or "2^-7" in verdict.checks[-1]


@pytest.mark.parametrize("spec", CONFIRMED)
def test_a_dimension_that_is_too_small_is_refused(spec: str) -> None:
    """Rows of the minor are left out, with all that follows from it; only the points can tell."""
    original = certificate(spec)
    certain = claimed(spec, original["claim"]["lower"] - 1)
    found = examine(certain)
    with pytest.raises(RejectionError, match="at a random point the rank is"):
        random.check(found, graph_of(found.spec), lambda *_: None)


def test_where_no_spaces_are_known_the_points_decide() -> None:
    document = certificate(CERTAIN)
    assert document["claim"]["status"] == "certain"
    assert document["claim"]["lower"] == document["claim"]["upper"] == 21
    assert verify(document).valid
    for key in ("points", "degree", "height", "bits"):
        for step in (-1, 1):
            changed = copy.deepcopy(document)
            changed["upper"][key] += step
            assert f"upper.{key}" in refused(sealed(changed)).reason
    for key in (*document["upper"], "seed", "prime"):
        changed = copy.deepcopy(document)
        changed["upper"] = {k: v for k, v in changed["upper"].items() if k != key}
        changed["upper"] |= {} if key in document["upper"] else {key: 1}
        refused(sealed(changed))


@pytest.mark.parametrize("spec", CONFIRMED)
def test_degrees_are_those_of_the_prover(spec: str) -> None:
    """Two programs bound the same polynomials; each may know a little more than the other."""
    net = architecture(spec)
    graph = graph_of(net)
    words = bool(getattr(net, "vocab", 0))
    inputs = Size(1, log2(graph.input_shape[0])) if words else VARIABLE
    own = evaluate(graph, Degrees(graph, inputs))[graph.output].slope
    _, other = derivatives(net)
    assert own.degree == pytest.approx(other.degree, rel=0.2)
    assert own.height == pytest.approx(other.height, rel=0.2)


@pytest.mark.parametrize("mlp", ["relu", "swiglu/experts=3/active=1/eff=2"])
def test_nothing_is_said_of_piecewise_functions(mlp: str) -> None:
    spec = architecture(f"transformer/d=3/mlp={mlp}/t=2" + ("/ff=2" if mlp == "relu" else ""))
    with pytest.raises(RejectionError, match="random points say nothing"):
        random.bounds(graph_of(spec), 5, 2)


def test_the_error_is_what_is_promised() -> None:
    found = random.Bounds(Size(1000, 2000.0), ((100, Size(20, 50.0)),))
    points = found.points()
    assert found.error(points) < -random.BITS <= found.error(points - 1)
    hopeless = replace(found, minor=Size(1 << 31, 0.0))
    with pytest.raises(RejectionError, match="too large"):
        hopeless.points()


def test_primes_are_drawn_evenly_and_from_the_digest_alone() -> None:
    primes = [random._drawn("0" * 64, 0, i)[0] for i in range(200)]
    assert len(set(primes)) == 200
    assert all(1 << 30 < p < 1 << 31 for p in primes)
    above = np.mean(np.array(primes) > 3 << 29)
    assert 0.35 < above < 0.65
    assert random._drawn("1" * 64, 0, 0) != random._drawn("0" * 64, 0, 0)
