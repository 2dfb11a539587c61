"""Certificates of mixed stacks are accepted, and what is altered in them is noticed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.faults.certificates import altered, at, places, sealed
from bench.referee import hostile

from segre.certificate import certify, write_certificate
from segre.errors import SpecError, TooLargeError
from segre.referee import verify
from segre.referee.claims import sha256
from segre.referee.meter import Meter
from segre.referee.mixed.weights import Layout, parameter_count
from segre.spec import Network
from support.certificates import (
    certificate,
    holds,
    malformed,
    rank_is_recounted,
    refused,
    refused_at_once,
    replaced,
)
from support.random_mechanisms import random_mixed

ONE_LAYER = [
    "softmax:causal",
    "softmax:window=1",
    "softmax:window=0*2",
    "softmax:local=2",
    "softmax:normalise=none",
    "softmax:normalise=both",
    "softmax:normalise=centred",
    "softmax:feature=square",
    "softmax:feature=exp",
    "softmax:feature=silu",
    "softmax:feature=relu",
    "softmax:feature=elu1",
    "softmax:unit=sphere",
    "softmax:unit=layer",
    "softmax:bias=key",
    "softmax:bias=query",
    "softmax:bias=both",
    "softmax:decay=9/10",
    "softmax:decay=learned",
    "softmax:decay=slope(1/2)+softmax:decay=slope(3/2;1/4)",
    "softmax:conv=full:kernel=2",
    "softmax:conv=depthwise:kernel=2",
    "softmax:conv=shared:kernel=2:stride=2",
    "softmax:gate=head",
    "softmax:gate=element",
    "lightning:causal*2",
    "lightning:window=0*2",
    "lightning:normalise=keys",
    "lightning:normalise=both",
    "lightning:feature=exp:bias=both",
    "lightning:feature=square",
    "lightning:bias=key*2",
    "lightning:decay=learned:window=0",
    "linear",
    "linear:feature=silu",
    "linear:feature=exp",
    "linear:feature=relu:normalise=none",
    "fast",
    "fast:order=1:unit=none",
    "fast:order=3:unit=sphere",
    "double",
    "double:bias=query",
    "gapless",
    "gapless:conv=shared:kernel=2",
    "lightning+softmax:causal",
]
STACKS = [
    "mix/d=3,2,3/a=2/heads=lightning:causal*2,double/dv=2,none/t=2",
    "mix/d=2,1,3/a=2/heads=linear:feature=exp,lightning:causal*2/t=3",
    "mix/d=2,3,2/a=1/heads=lightning:normalise=both*2,softmax:gate=element/dv=2/t=2",
    "mix/d=2,2/a=2/heads=gapless/t=1",
    "mix/d=2,2/a=3/heads=lightning:causal*6/t=2",
    "mix/d=4,2/a=2/heads=lightning:decay=1/2*7/t=2",
]
SMALL = "mix/d=2,1/a=2/heads=fast+softmax:causal/t=2"
SMALL_BALLS = "mix/d=2,1/a=1/heads=linear:normalise=none/t=2"


# What is honest is accepted.


@pytest.mark.parametrize("heads", ONE_LAYER)
def test_every_mechanism_and_option(heads: str) -> None:
    document = certificate(f"mix/d=2,2/a=2/heads={heads}/t=3")
    assert document["version"] == 4
    holds(document)


@pytest.mark.parametrize("spec", [*STACKS, SMALL, SMALL_BALLS])
def test_stacks(spec: str, tmp_path: Path) -> None:
    document = certificate(spec)
    holds(document)
    path = tmp_path / "certificate.json"
    write_certificate(document, path)
    assert verify(path).valid
    assert len(verify(path).checks) >= 4


@pytest.mark.parametrize("seed", range(12))
def test_random_stacks(seed: int) -> None:
    for net in random_mixed(seed, 15, most=24):
        document = certify(str(net))
        assert document["version"] == 4
        assert document["claim"]["parameters"] == parameter_count(net) == Layout(net).parameters
        holds(document)


def test_progress_is_reported() -> None:
    seen: list[tuple[str, int, int]] = []
    assert verify(certificate(SMALL), progress=lambda *step: seen.append(step)).valid
    last = {what: (done, total) for what, done, total in seen}
    assert set(last) >= {"Jacobian rows", "symmetries"}
    assert all(done == total for done, total in last.values())


def test_less_may_be_claimed() -> None:
    """No rows prove nothing, but are no error; the ranks of symmetries are exact."""
    for spec in (SMALL, SMALL_BALLS):
        document = certificate(spec)
        document["claim"].update(lower=0, status="lower-bound")
        document["lower"].update(rows=[], columns=[])
        if "determinant" in document["lower"]:
            document["lower"].update(determinant=1, salts={})
        assert verify(sealed(document)).valid
        document["claim"]["upper"] += 1
        document["upper"]["rank"] -= 1
        assert "upper.rank" in refused(sealed(document)).reason


# Alterations.


MODULAR = "mix/d=2,1/a=2/heads=softmax:unit=sphere:gate=head/t=2"


@pytest.mark.parametrize("spec", [MODULAR, SMALL_BALLS])
def test_what_is_malformed_is_refused(spec: str) -> None:
    document = certificate(spec)
    assert verify(document).valid
    count = 0
    for changed in altered(document):
        # Of long lists the first entries will do.
        refused(changed)
        count += 1
    assert count > 500


@pytest.mark.parametrize("spec", [MODULAR, SMALL_BALLS])
def test_malformed_with_a_new_seal(spec: str) -> None:
    document = certificate(spec)
    for path in places(document):
        if not path or path[0] in ("format", "version", "checksum"):
            continue
        if any(isinstance(step, int) and step > 1 for step in path):
            continue  # of long lists the first entries will do
        for variant in malformed(at(document, path)):
            # The last salts of a root may be left out.
            short = path[0] == "roots" and path[2:] == ("salts",)
            if short and isinstance(variant, list) and variant != [[[]]]:
                continue
            changed = replaced(document, path, variant)
            if path[0] == "spec":
                with contextlib.suppress(TypeError, ValueError):
                    changed["digest"] = sha256(changed["spec"])
            refused(sealed(changed))


@pytest.mark.parametrize(
    ("path", "change", "reason"),
    [
        (("claim", "lower"), lambda x: x - 1, ""),
        (("claim", "upper"), lambda x: x + 1, ""),
        (("lower", "determinant"), lambda x: x ^ 1, "lower.determinant"),
        (("lower", "rows"), lambda x: [x[1], x[0], *x[2:]], "lower.determinant"),
        (("lower", "rows"), lambda x: [x[1], *x[1:]], "listed twice"),
        (("lower", "columns"), lambda x: [x[1], x[0], *x[2:]], "lower.determinant"),
        (("lower", "columns"), lambda x: [x[1], *x[1:]], "listed twice"),
        (("lower", "salts", "0", 0, 0), lambda x: x ^ 1, ""),
        (("lower", "salts", "0", 1, 0), lambda x: x ^ 1, ""),
        (("lower", "salts"), lambda x: {**x, "77": x["0"]}, "not allowed"),
        (("independence",), lambda _: None, "independence"),
        (("independence", "determinant"), lambda x: x ^ 1, "independence.determinant"),
        (("independence", "arguments"), lambda x: x + 1, "independence.arguments"),
        (("independence", "points"), lambda x: [x[1], *x[1:]], "listed twice"),
        (("independence", "points"), lambda x: [*x[:-1], 2**62], "independence.points"),
        (("independence", "points", 0), lambda x: x + 1000, ""),
        (("roots",), lambda x: x[:-1], "roots"),
        (("roots",), lambda x: [x[1], *x[1:]], "listed twice"),
        (("roots", 1, "root"), lambda x: 1 - x, "roots"),
        (("roots", 1, "entry"), lambda x: 1 - x, "roots"),
        (("upper", "rank"), lambda x: x + 1, "claim.upper"),
        (("upper", "kind"), lambda _: "closed-form", "upper.kind"),
        (("upper", "salts"), lambda x: {"0": x["0"]}, "missing"),
        (("lower", "kind"), lambda _: "ball-minor", "lower"),
        (("prime",), lambda _: 2147483629, "3 mod 4"),
        (("prime",), lambda _: 2147483647, ""),
        (("seed",), lambda x: x + 1, ""),
        (("spec", "kind"), lambda _: "softmax", "'mix'"),
    ],
)
def test_one_change(path: tuple[Any, ...], change: Callable[[Any], Any], reason: str) -> None:
    document = certificate(MODULAR)
    changed = replaced(document, path, change(at(document, path)))
    if path[0] == "spec":
        changed["digest"] = sha256(changed["spec"])
    assert reason in refused(sealed(changed)).reason


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("spec", [SMALL, SMALL_BALLS, *STACKS[:3]])
def test_ranks_are_recounted(spec: str, step: int) -> None:
    rank_is_recounted(spec, step)


def true(document: dict[str, Any]) -> None:
    """A real point can be regular for another stack too; then it proves the truth."""
    assert document["lower"]["kind"] == "ball-minor"
    own, claim = certificate(str(Network.parse(document["spec"])))["claim"], document["claim"]
    assert own["upper"] == claim["upper"]
    assert own["lower"] >= claim["lower"]


# Another mechanism under the same proof, with all that follows from it put right.

OTHERS = [
    ("softmax:causal", "softmax:window=1"),
    ("softmax:causal", "softmax:decay=9/10"),
    ("softmax:window=1", "softmax:window=2"),
    ("softmax:window=1", "softmax:local=2"),
    ("softmax:local=2", "softmax:local=3"),
    ("softmax:decay=9/10", "softmax:decay=1/2"),
    ("softmax:decay=9/10", "softmax:decay=slope(1)"),
    ("softmax:decay=slope(1)", "softmax:decay=slope(2)"),
    ("softmax:decay=slope(1)", "softmax:decay=slope(1;1/2)"),
    ("softmax:gate=head", "softmax:causal:gate=head"),
    ("softmax:feature=square", "softmax:feature=exp"),
    ("softmax:feature=square", "softmax:feature=silu"),
    ("softmax:feature=relu", "softmax:feature=square"),
    ("softmax:feature=relu", "softmax:feature=elu1"),
    ("softmax:unit=sphere", "softmax:unit=layer"),
    ("softmax:unit=sphere", "softmax:feature=square"),
    ("softmax:bias=key", "softmax:bias=query"),
    ("fast:order=2:unit=none", "fast:order=3:unit=none"),
    ("fast:order=1:unit=none", "fast:order=2:unit=none"),
    ("double", "gapless"),
    ("double", "softmax:causal"),
    ("gapless", "softmax:normalise=none"),
    ("lightning:normalise=keys", "lightning:normalise=both"),
    ("lightning:causal", "lightning:window=1"),
    ("linear", "linear:feature=relu"),
    ("linear", "linear:normalise=both"),
    ("softmax:conv=shared:kernel=2", "double:conv=shared:kernel=2"),
    ("softmax:gate=element", "softmax:gate=head"),
    ("softmax:bias=key", "softmax:bias=both"),
    ("softmax:decay=learned", "softmax:decay=1/2"),
    ("softmax:conv=shared:kernel=2", "softmax:conv=shared:kernel=2:stride=2"),
    ("softmax:conv=full:kernel=2", "softmax:conv=full:kernel=3"),
]


@pytest.mark.parametrize(("first", "second"), OTHERS)
def test_another_mechanism_under_the_same_proof(first: str, second: str) -> None:
    """It is refused, unless what it claims of the other stack is true."""
    for one, other in ((first, second), (second, first)):
        document = certificate(f"mix/d=3,2/a=3/heads={one}/t=3")
        net = Network.parse(f"mix/d=3,2/a=3/heads={other}/t=3")
        document["spec"], document["digest"] = net.document(), net.digest
        claim = document["claim"]
        claim["parameters"] = net.parameters
        claim["upper"] = net.parameters - document["upper"]["rank"]
        claim["status"] = "proved" if claim["upper"] == claim["lower"] else "lower-bound"
        verdict = verify(sealed(document))
        assert "\n" not in verdict.reason
        if verdict.valid:
            true(document)


# What is large or hostile.


@pytest.mark.parametrize("spec", [SMALL, SMALL_BALLS])
@pytest.mark.parametrize(
    "change",
    [
        {"t": 3},
        {"t": 10**9},
        {"d": [2, 3]},
        {"d": [10**9, 1]},
        {"d": [1] * 100_000},
        {"a": [3]},
        {"a": [10**9]},
        {"a": 2},
        {"dv": [2]},
        {"dv": [10**9]},
        {"dv": [None]},
        {"heads": ["softmax"]},
        {"heads": ["softmax*1000000000"]},
        {"heads": ["softmax*10000"] * 100_000},
        {"heads": ["lightning+" * 50_000 + "softmax"]},
        {"heads": ["softmax:causal*9999999999999999999999"]},
        {"heads": ["softmax:conv=full:kernel=1000000000"], "t": 10**9},
        {"heads": ["softmax:decay=slope(" + "9" * 40 + ")"]},
        {"heads": ["softmax:decay=slope(1/" + "9" * 38 + ")"]},
        {"heads": ["softmax:decay=slope(200)"]},
        {"heads": ["softmax:decay=slope(1;1/3)"]},
        {"heads": ["softmax:decay=" + "9" * 5000]},
        {"heads": ["softmax:decay=1e999999999"]},
        {"heads": ["softmax:window=" + "9" * 5000]},
        {"heads": ["softmax:nothing=1"]},
        {"heads": ["no\nline"]},
        {"heads": [1]},
        {"heads": 1},
        {"heads": []},
        {"causal": True},
        {"kind": "softmax"},
        {"version": True},
        {"layers": 1},
    ],
    ids=lambda change: str(change)[:60],
)
def test_another_spec_under_the_same_proof(spec: str, change: dict[str, Any]) -> None:
    """The spec is altered, and all that follows from it cheaply is recomputed."""
    document = certificate(spec)
    changed = {**document["spec"], **change}
    document["spec"] = changed
    document["digest"] = sha256(changed)
    claim = document["claim"]
    if len(str(change)) < 100:
        with contextlib.suppress(SpecError):
            claim["parameters"] = parameter_count(Network.parse(changed))
    claim["upper"] = claim["parameters"] - document["upper"]["rank"]
    claim["status"] = "proved" if claim["upper"] == claim["lower"] else "lower-bound"
    meter = Meter()
    with contextlib.suppress(TooLargeError):
        verdict = verify(sealed(document), meter=meter)
        assert "\n" not in verdict.reason
        assert len(verdict.reason) < 1000
        if verdict.valid:
            true(document)
    assert meter.spent < 10, "work, not time: it is charged by what is done"


@pytest.mark.parametrize(
    "spec",
    [
        "mix/d=1,1/a=1/heads=softmax:causal*10000/t=1",
        "mix/d=1000000000,1000000000/a=1000000000/heads=double/t=100000",
        "mix/d=100,100,100/a=10/heads=double/t=3",
        "mix/d=1,1/a=1/heads=double/t=20000",
        "mix/d=1,1/a=1/heads=double/t=1000",
        "mix/d=1,1/a=1/heads=lightning:decay=1/2*6000/t=1",
        "mix/d=1,1/a=1/heads=softmax:conv=shared:kernel=9000/t=10000",
        "mix/d=2,2/a=2/heads=lightning:causal*1600/t=2",
    ],
)
def test_what_is_too_large_is_refused_at_once(spec: str) -> None:
    refused_at_once(hostile(spec), seconds=300)
