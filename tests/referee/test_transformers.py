"""Certificates of transformers are accepted, and what is altered in them is noticed."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.faults.certificates import at, places, sealed

from segre.certificate import certify, write_certificate
from segre.errors import SpecError, TooLargeError
from segre.referee import verify
from segre.referee.claims import sha256
from segre.referee.meter import Meter
from segre.referee.transformers.stages import sources
from segre.referee.transformers.weights import Layout
from segre.transformer.spec import Transformer
from support.certificates import (
    certificate,
    malformed,
    rank_is_recounted,
    refused,
    refused_at_once,
    replaced,
)

MODULAR = [
    "transformer/d=4/layers=2/heads=2/kv=1/head=2/ff=3/mlp=swiglu/norm=rms/pos=rope/causal=true/t=3",
    "transformer/d=3/head=4/pos=rope/layout=interleaved/base=100/mlp=bilinear/ff=2/t=2",
    "transformer/d=3/head=5/rotary=2/pos=rope/t=2",
    "transformer/d=3/heads=2/head=2/qknorm=true/mlp=silu/ff=2/t=2",
    "transformer/d=3/norm=layer/bias=all/mlp=gelu/ff=3/pos=learned/t=2",
    "transformer/d=3/norm=layer/place=post/bias=qkv/mlp=gelu-tanh/ff=2/eps=1e-5/t=2",
    "transformer/d=3/norm=layer/place=sandwich/gain=false/mlp=geglu/ff=2/t=2",
    "transformer/d=2/heads=2/head=1/layers=2/attn=lightning/residual=false/t=2",
    "transformer/d=3/cap=5/mlp=swiglu/ff=2/causal=true/t=2",
    "transformer/d=4/kvrank=2/qrank=3/heads=2/head=2/rotary=2/pos=rope/norm=rms/t=3",
    "transformer/d=3/norm=rms/final=true/share=true/layers=2/t=2",
    "transformer/d=2/t=1",
    "transformer/d=3/norm=layer/bias=all/mlp=gelu/ff=2/parallel=true/head=3/rotary=2/pos=rope/t=2",
    "transformer/d=3/layers=2/mlp=silu/ff=2/bias=all/parallel=true/t=2",
    "transformer/d=3/heads=2/head=2/sinks=true/bias=attn/norm=rms/causal=true/t=2",
    "transformer/d=3/sinks=true/bias=all/mlp=silu/ff=2/t=2",
    "transformer/d=4/heads=2/kv=1/head=2/gate=element/norm=rms/eps=1e-5/t=3",
    "transformer/d=3/heads=2/head=2/gate=head/bias=all/norm=layer/t=2",
    "transformer/d=3/head=2/gate=element/attn=lightning/causal=true/t=2",
    "transformer/d=3/head=2/gate=head/norm=rms/place=sandwich/bias=qkv/t=2",
    "transformer/d=3/heads=2/head=2/attn=lightning/feature=silu/mixnorm=true/gate=element/t=2",
    "transformer/d=3/heads=2/head=2/attn=lightning/mixnorm=true/gate=element/bias=qkv/t=2",
    "transformer/d=3/head=2/attn=lightning/feature=silu/mixnorm=true/gate=element/t=1",
    "transformer/d=3/layers=2/heads=2/kv=1/head=2/attn=lightning,softmax/feature=silu/mixnorm=true"
    "/gate=element/decay=slopes/norm=rms/place=post/skip=2/pos=rope/causal=true/t=2",
    "transformer/d=3/layers=2/head=2/dv=3/norm=rms/place=sandwich/gain=false/attn=lightning"
    "/gate=element/feature=silu/mixnorm=true/t=2",
]
BALLS = [
    "transformer/d=3/mlp=relu/ff=2/bias=all/t=2",
    "transformer/d=2/mlp=relu2/ff=1/pos=rope/causal=true/t=2",
    "transformer/d=3/mlp=gelu-tanh/ff=2/pos=rope/head=2/t=2",
    "transformer/d=3/mlp=swiglu/experts=3/active=2/eff=2/shared=1/norm=rms/t=2",
    "transformer/d=3/mlp=swiglu/experts=3/active=2/eff=2/router=softmax/norm=layer/t=2",
    "transformer/d=3/mlp=swiglu/experts=3/active=2/eff=2/router=softmax-raw/norm=rms/t=2",
    "transformer/d=3/mlp=swiglu/experts=3/active=2/eff=2/router=sigmoid-raw/norm=rms/t=2",
    "transformer/d=2/mlp=swiglu/experts=4/active=2/eff=1/groups=2/within=1/norm=rms/t=2",
    "transformer/d=3/norm=rms/mlp=swiglu/ff=2/vocab=5/tied=true/pos=rope/head=2/t=3",
    "transformer/d=3/norm=layer/bias=all/mlp=gelu/ff=2/vocab=4/pos=learned/t=2",
    "transformer/d=3/layers=2/share=true/norm=layer/place=post/bias=all/mlp=gelu-tanh/ff=2/vocab=5"
    "/types=2/embed=2/embnorm=true/transform=true/tied=true/outbias=true/pos=learned/t=3",
    "transformer/d=3/norm=rms/place=post/vocab=4/types=2/pooler=true/output=hidden/t=2",
    "transformer/d=3/layers=2/mlp=silu/ff=2/bias=all/parallel=true/vocab=4/outbias=true/t=2",
    "transformer/d=3/mlp=clamped/limit=0.5/experts=3/active=2/eff=2/expbias=true/router=softmax"
    "/norm=rms/sinks=true/bias=attn/t=2",
    "transformer/d=3/mlp=swiglu/experts=2/active=1/eff=2/expbias=true/norm=rms/t=2",
    "transformer/d=3/head=4/pos=rope/base=16/rescale=yarn:4:16:truncate=0/t=3",
    "transformer/d=3/norm=layer/place=post/bias=all/vocab=5/pooler=true/labels=2/read=first"
    "/outbias=true/embnorm=true/t=2",
    "transformer/d=3/norm=rms/vocab=5/labels=2/read=last/causal=true/pos=rope/head=2/t=3",
    "transformer/d=3/norm=layer/place=post/bias=all/mlp=relu/ff=2/vocab=5/embnorm=true/tied=true"
    "/transform=true/outbias=true/pooler=true/relation=2/t=2",
    "transformer/d=3/norm=layer/place=post/bias=all/mlp=relu/ff=2/vocab=5/embed=2/project=true"
    "/tied=true/pos=learned/causal=true/t=2",
    "transformer/d=4/norm=layer/mlp=silu/ff=2/vocab=4/embed=2/project=true/pos=learned/t=2",
    "transformer/d=3/heads=2/kv=1/head=2/gate=element/norm=rms/qknorm=true/vocab=5/t=2",
    "transformer/d=3/mlp=swiglu/experts=3/active=2/eff=2/shared=1/sharedgate=true/norm=rms/t=2",
    "transformer/d=3/mlp=bilinear/experts=2/active=1/eff=3/shared=3/sharedgate=true/norm=rms/t=2",
    "transformer/d=3/head=1/dv=2/attn=lightning/mixnorm=true/gate=element/bias=qkv/t=2",
    "minimax/d=3/layers=2/heads=2/kv=1/head=2/mlp=none/eps=1e-5/vocab=8/t=2",
    "vit/d=3/heads=1/layers=2/ff=2/patch=2/labels=2/t=3",
    "modernbert/d=3/heads=1/head=2/ff=2/eps=1e-5/vocab=4/tied=false/t=2",
    "transformer/d=3/norm=layer/place=post/bias=all/mlp=gelu/ff=2/vocab=4/labels=1/output=logits"
    "/transform=true/headnorm=false/outbias=true/t=2",
    "transformer/d=3/norm=layer/place=post/bias=all/mlp=gelu/ff=2/vocab=4/labels=2/read=first"
    "/transform=true/embed=2/outbias=true/t=2",
    "dinov2/d=3/heads=1/ff=2/patch=2/masked=true/t=2",
    "vit/d=5/heads=1/head=2/ff=2/patch=1/output=hidden/t=2",
]
SMALL = "transformer/d=2/norm=rms/mlp=silu/ff=1/t=2"
SMALL_BALLS = "transformer/d=2/mlp=relu/ff=1/t=2"


@pytest.mark.parametrize("spec", [*MODULAR, *BALLS])
def test_certificates_are_accepted(spec: str, tmp_path: Path) -> None:
    document = certificate(spec)
    assert document["lower"]["kind"] == ("minor-mod-p" if spec in MODULAR else "ball-minor")
    path = tmp_path / "certificate.json"
    write_certificate(document, path)
    verdict = verify(path)
    assert verdict.valid, verdict.reason
    assert verdict.claim == document["claim"]
    assert len(verdict.checks) >= 4


def test_progress_is_reported() -> None:
    seen: list[tuple[str, int, int]] = []
    assert verify(certificate(SMALL), progress=lambda *step: seen.append(step)).valid
    last = {what: (done, total) for what, done, total in seen}
    assert set(last) == {"Jacobian rows", "witness points", "radicands", "symmetries"}
    assert all(done == total for done, total in last.values())


# What a certificate may leave open.


def test_roots_come_in_any_order_and_with_short_salts() -> None:
    document = certificate(SMALL)
    document["roots"].reverse()
    for root in document["roots"]:
        while root["salts"] and not any(root["salts"][-1]):
            root["salts"].pop()
    assert verify(sealed(document)).valid


def test_any_precision_will_do() -> None:
    document = certificate(SMALL_BALLS)
    for bits in (64, 65, 4096):
        document["lower"]["bits"] = bits
        assert verify(sealed(document)).valid
    for bits in (63, 4097, 64.0, "64"):
        document["lower"]["bits"] = bits
        assert "bits" in refused(sealed(document)).reason or isinstance(bits, float)


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


# Alterations of one place.


def shorter(path: tuple[Any, ...]) -> bool:
    """Whether a list may also be shorter: the salts of a root."""
    return len(path) == 3 and path[0] == "roots" and path[2] == "salts"


@pytest.mark.parametrize("spec", [SMALL, SMALL_BALLS, "transformer/d=2/vocab=2/t=1"])
def test_what_is_malformed_is_refused(spec: str) -> None:
    document = certificate(spec)
    assert verify(document).valid
    # Of long lists the first entries will do.
    paths = [
        path
        for path in places(document)
        if path and path[0] not in ("format", "version", "checksum")
        if all(not isinstance(step, int) or step < 2 for step in path)
    ]
    for path in paths:
        for variant in malformed(at(document, path)):
            if shorter(path) and isinstance(variant, list) and variant != [[[]]]:
                continue
            refused(sealed(replaced(document, path, variant)))


def test_the_seal_is_checked() -> None:
    document = certificate(SMALL)
    document["seed"] += 1
    assert "checksum" in refused(document).reason
    document = certificate(SMALL)
    document["digest"] = sha256("other")
    assert "digest" in refused(sealed(document)).reason


def exact(path: tuple[Any, ...]) -> bool:
    """Whether any other number in this place is wrong."""
    if path[0] in ("seed", "prime") or path[:2] in (("lower", "rows"), ("lower", "columns")):
        return True
    if path[:2] in (("lower", "salts"), ("independence", "points")):
        return True
    return path[-1] in ("determinant", "rank", "lower", "upper", "parameters", "stage", "entry")


def test_every_number_matters() -> None:
    document = certificate(SMALL)
    count = 0
    for path in places(document):
        if path and isinstance(at(document, path), int) and exact(path):
            number = at(document, path)
            for other in (number + 1, number - 1):
                refused(sealed(replaced(document, path, other)))
                count += 1
    assert count > 120


@pytest.mark.parametrize(
    ("path", "change", "reason"),
    [
        (("lower", "determinant"), lambda x: x + 1, "lower.determinant"),
        (("lower", "rows"), lambda x: [x[1], x[0], *x[2:]], "lower.determinant"),
        (("lower", "rows"), lambda x: [x[1], *x[1:]], "listed twice"),
        (("lower", "columns"), lambda x: [x[1], *x[1:]], "listed twice"),
        (("lower", "salts", "0", 0, 0), lambda x: x ^ 1, ""),
        (("lower", "salts", "0", 1, 0), lambda x: x ^ 1, ""),
        (("lower", "salts"), lambda x: {**x, "77": x["0"]}, "not allowed"),
        (("independence",), lambda _: None, "independence"),
        (("independence", "determinant"), lambda x: x - 1, "independence.determinant"),
        (("independence", "arguments"), lambda x: x + 1, "independence.arguments"),
        (("independence", "points"), lambda x: [x[1], *x[1:]], "listed twice"),
        (("independence", "points"), lambda x: [*x[:-1], 2**62], "independence.points"),
        (("independence", "salts", 3), lambda x: x[::-1], ""),
        (("roots",), lambda x: x[:-1], "roots"),
        (("roots",), lambda x: [x[1], *x[1:]], "listed twice"),
        (("roots",), lambda _: None, "roots"),
        (("roots", 1, "stage"), lambda x: 1 - x, "roots"),
        (("roots", 1, "root"), lambda x: x + 1, "roots"),
        (("roots", 1, "salts"), lambda _: [[0, 0]] * 4, "sources"),
        (("roots", 1, "salts"), lambda x: [[2**20] * len(x[0])], "salts[0][0]"),
        (("upper", "rank"), lambda x: x + 1, "claim.upper"),
        (("upper", "kind"), lambda _: "closed-form", "upper.kind"),
        (("upper", "salts"), lambda x: {"0": x["0"]}, "missing"),
        (("lower", "kind"), lambda _: "ball-minor", "lower"),
        (("prime",), lambda _: 2147483629, "3 mod 4"),
        (("prime",), lambda _: 2147483647, ""),
        (("spec", "kind"), lambda _: "softmax", "transformer"),
        (("version",), lambda _: 1, ""),
    ],
)
def test_one_change(path: tuple[Any, ...], change: Callable[[Any], Any], reason: str) -> None:
    document = certificate(SMALL)
    altered = replaced(document, path, change(at(document, path)))
    if path[0] == "spec":
        altered["digest"] = sha256(altered["spec"])
    assert reason in refused(sealed(altered)).reason


def test_exchanged_roots_are_noticed() -> None:
    document = certificate(SMALL)
    for key in ("stage", "entry"):
        changed = copy.deepcopy(document)
        first = changed["roots"][0]
        other = next(root for root in changed["roots"] if root[key] != first[key])
        names = ("stage", "root", "entry")
        old = [{name: root[name] for name in names} for root in (first, other)]
        first.update(old[1])
        other.update(old[0])
        assert "the first radicand without a root" in refused(sealed(changed)).reason


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("spec", [SMALL, SMALL_BALLS])
def test_ranks_are_recounted(spec: str, step: int) -> None:
    rank_is_recounted(spec, step)


def test_singular_minors_are_refused() -> None:
    """Two outputs of a softmax of a vocabulary of two depend on each other."""
    document = certificate("transformer/d=2/vocab=2/t=1")
    columns = document["lower"]["columns"][:2]
    document["lower"].update(rows=[[0, 0], [0, 1]], columns=columns)
    document["claim"].update(lower=2, upper=2, status="proved")
    assert "at 4096 bits, the minor is not certainly" in refused(sealed(document)).reason


@pytest.mark.parametrize("spec", [SMALL, SMALL_BALLS, MODULAR[8], BALLS[4]])
@pytest.mark.parametrize(
    "change",
    [
        {"t": 3},
        {"t": 10**9},
        {"d": 3},
        {"heads": 2},
        {"heads": 10**9},
        {"layers": 2},
        {"layers": 10_000, "share": True},
        {"mlp": "swiglu"},
        {"mlp": "bilinear", "ff": 2},
        {"mlp": "reglu"},
        {"ff": 2},
        {"norm": "layer"},
        {"norm": "rms", "place": "post"},
        {"norm": "rms", "gain": False},
        {"norm": "rms", "eps": "1e-05"},
        {"norm": "rms", "eps": "1e999999999"},
        {"norm": "rms", "eps": "0.00001"},
        {"norm": "rms", "final": True},
        {"pos": "rope", "head": 2, "base": 10},
        {"pos": "learned"},
        {"bias": "all"},
        {"causal": True},
        {"causal": False},
        {"residual": False},
        {"qknorm": True},
        {"vocab": 4},
        {"vocab": 10**9},
        {"attn": "lightning"},
        {"cap": 3},
        {"kvrank": 2},
        {"heads": 1},
        {"kind": "softmax"},
        {"version": True},
        {"unknown": 1},
    ],
    ids=str,
)
def test_another_spec_under_the_same_proof(spec: str, change: dict[str, Any]) -> None:
    """The spec is altered, and all that follows from it cheaply is recomputed."""
    document = certificate(spec)
    changed = {**document["spec"], **change}
    if changed == document["spec"] and "version" not in change:
        return
    document["spec"] = changed
    document["digest"] = sha256(changed)
    if "999" not in str(change):
        with contextlib.suppress(SpecError):
            document["claim"]["parameters"] = Layout(Transformer.from_mapping(changed)).parameters
    claim = document["claim"]
    claim["upper"] = claim["parameters"] - document["upper"]["rank"]
    claim["status"] = "proved" if claim["upper"] == claim["lower"] else "lower-bound"
    meter = Meter()
    with contextlib.suppress(TooLargeError):
        verdict = verify(sealed(document), meter=meter)
        assert "\n" not in verdict.reason
        if verdict.valid:
            # A real point can be regular for another architecture too; then it proves the truth.
            assert document["lower"]["kind"] == "ball-minor"
            own = certify(str(Transformer.from_mapping(changed)))["claim"]
            assert own["upper"] == claim["upper"]
            assert own["lower"] >= claim["lower"]
            return
    assert meter.spent < 10, "work, not time: it is charged by what is done"


def hostile(spec: str, **parts: Any) -> dict[str, Any]:
    """A certificate with all cheap fields right and nothing computed."""
    net = Transformer.parse(spec)
    parameters = Layout(net).parameters
    salts = [[0] * net.t] * sources(net)
    return sealed(
        {
            "format": "segre-certificate",
            "version": 2,
            "spec": net.document(),
            "digest": net.digest,
            "claim": {
                "parameters": parameters,
                "lower": 1,
                "upper": parameters,
                "status": "lower-bound",
            },
            "prime": 2147483647,
            "seed": 0,
            "lower": {
                "kind": "ball-minor",
                "rows": [[0, 0]],
                "columns": [0],
                "bits": 64,
                "seed": 0,
            },
            "independence": None,
            "roots": None,
            "upper": {"kind": "symmetries", "rank": 0, "salts": {"0": salts, "1": salts}},
            **parts,
        }
    )


@pytest.mark.parametrize(
    "spec",
    [
        "transformer/d=2/heads=100000/head=1/t=1",
        "transformer/d=1000000000/layers=10000/t=1",
        "transformer/d=2/vocab=1000000/t=1",
        "transformer/d=2/t=50000",
        "transformer/d=2/layers=10000/share=true/mlp=gelu/ff=2/norm=rms/t=30",
        "transformer/d=40/heads=2/head=50/vocab=100/t=20",
        "transformer/d=2/mlp=swiglu/experts=1000/active=1/eff=1/layers=2000/share=true/t=10",
    ],
)
def test_what_is_too_large_is_refused_at_once(spec: str) -> None:
    refused_at_once(hostile(spec))


def test_numbers_of_inputs_are_bounded() -> None:
    minor = {"kind": "ball-minor", "rows": [[2**62, 0]], "columns": [0], "bits": 64, "seed": 0}
    assert "lower.rows[0][0]" in refused(hostile(SMALL_BALLS, lower=minor)).reason
    document = certificate(SMALL)
    document["roots"][0]["input"] = 2**62
    assert "roots[0].input" in refused(sealed(document)).reason


def test_minors_mod_p_are_for_some_architectures_only() -> None:
    minor = {"kind": "minor-mod-p", "rows": [[0, 0]], "columns": [0], "determinant": 1}
    for spec in (SMALL_BALLS, "transformer/d=2/vocab=2/t=1", BALLS[2]):
        document = hostile(spec, lower={**minor, "salts": {}}, roots=[])
        assert "proves nothing" in refused(document).reason
