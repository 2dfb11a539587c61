"""Certificates of the prover are accepted, and nothing in them can be altered."""

from __future__ import annotations

import contextlib
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from bench.faults.certificates import STACKS, altered, sealed

from segre.certificate import convert
from segre.errors import CertificateError, SpecError, TooLargeError
from segre.kernel import verify
from segre.kernel.document import sha256
from segre.kernel.meter import Meter
from segre.spec import Network
from support.certificates import certificate, refused, refused_at_once

ACCEPTED = [
    "lightning/d=1,1/a=1/t=1",
    "lightning/d=3,2/a=1/t=2",
    "lightning/d=4,4,4/a=2/t=3",
    "lightning/d=3,3,3/a=2/heads=2/t=1",
    "lightning/d=2,2/a=3/heads=6/t=2",
    "lightning/d=3,4,2,3/a=2,1,2/heads=2,1,2/dv=1,none,2/t=2",
    "softmax/d=3,3/a=2/heads=2/t=1",
    "softmax/d=4,3,4/a=2/heads=2/dv=1/t=1",
    "softmax/d=3,1,3/a=2/t=2",
    "softmax/d=4,4,4/a=2/heads=2,1/dv=2,none/t=3",
    "softmax/d=10,10,10/a=2,2/t=3",
]
TAMPERED = list(STACKS)
BY_SPACES = "transformer/d=3/norm=rms/mlp=swiglu/ff=2/t=2"
CERTAIN = "lightning/d=2,4/a=2/heads=3/dv=1/t=2"
OLD = sorted((Path(__file__).parents[1] / "oracle").glob("certificates-*/*.json"))


@pytest.mark.parametrize("spec", ACCEPTED)
def test_certificates_are_accepted(spec: str, tmp_path: Path) -> None:
    document = certificate(spec)
    verdict = verify(document)
    assert verdict.valid, verdict.reason
    assert verdict.claim == document["claim"]
    assert len(verdict.checks) >= 3
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(document, indent=1))
    assert verify(path) == verify(str(path)) == verdict


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
def test_certificates_of_older_versions_are_converted(path: Path) -> None:
    old = json.loads(path.read_text())
    with pytest.raises(CertificateError, match="--convert"):
        verify(old)
    verdict = verify(convert(path))
    assert verdict.valid, verdict.reason
    assert verdict.claim["status"] == "proved"
    assert verdict.upper == old["claim"]["upper"]


def test_what_cannot_be_converted() -> None:
    old = json.loads(OLD[0].read_text())
    altered = {**old, "seed": old["seed"] + 1}
    for wrong in (
        altered,
        {**old, "version": 6},
        sealed({**old, "lower": {}}),
        sealed({**old, "spec": 3}),
    ):
        with pytest.raises(CertificateError) as error:
            convert(wrong)
        assert "\n" not in str(error.value)


def test_progress_is_reported() -> None:
    seen: list[tuple[str, int, int]] = []
    document = certificate("softmax/d=3,1,3/a=2/t=2")
    assert verify(document, progress=lambda *step: seen.append(step)).valid
    last = {what: (done, total) for what, done, total in seen}
    assert set(last) == {"Jacobian rows", "witness points", "upper bound"}
    assert all(done == total for done, total in last.values())


@pytest.mark.parametrize("spec", ["lightning/d=4,4,4/a=2/t=3", "softmax/d=3,1,3/a=2/t=2"])
def test_the_closed_form_is_another_proof(spec: str) -> None:
    document = {**certificate(spec), "upper": {"kind": "closed-form"}}
    document["claim"]["upper_by"] = "closed-form"
    assert verify(sealed(document)).valid
    document["claim"].update(status="bounds", upper=document["claim"]["upper"] + 1)
    assert "closed-form" in refused(sealed(document)).reason


def test_fewer_rows_prove_less() -> None:
    """Dropping the last row and column leaves a proof only if every other field follows."""
    document = certificate("lightning/d=3,2/a=1/t=2")
    document["lower"]["rows"].pop()
    document["lower"]["columns"].pop()
    assert "entries" in refused(sealed(document)).reason
    document["claim"]["lower"] -= 1
    assert "status" in refused(sealed(document)).reason
    document["claim"]["status"] = "bounds"
    assert "determinant" in refused(sealed(document)).reason


def test_spaces_are_recounted() -> None:
    """Rank and claim are kept consistent, so only a recount can tell."""
    original = certificate(BY_SPACES)
    spaces = original["upper"]["spaces"]
    assert len(spaces) > 3
    for i in range(len(spaces)):
        document = copy.deepcopy(original)
        gone = document["upper"]["spaces"].pop(i)
        verdict = verify(sealed(document))
        assert verdict.valid or "upper.rank" in verdict.reason, gone
    for step in (-1, 1):
        document = copy.deepcopy(original)
        document["upper"]["rank"] += step
        document["claim"]["upper"] -= step
        low, high = document["claim"]["lower"], document["claim"]["upper"]
        document["claim"]["status"] = "proved" if low == high else "bounds"
        assert refused(sealed(document)).reason.startswith(("upper.rank", "claim.upper"))


def test_status_is_what_the_evidence_gives() -> None:
    """Nothing that random points show can be called proved, and nothing less certain."""
    for spec in (BY_SPACES, CERTAIN):
        original = certificate(spec)
        own = original["claim"]["status"]
        assert own == ("proved" if spec == BY_SPACES else "certain")
        for status in {"proved", "certain", "bounds", "lower-bound", "likely", ""} - {own}:
            document = {**original, "claim": {**original["claim"], "status": status}}
            assert "claim.status" in refused(sealed(document)).reason


@pytest.mark.parametrize("spec", TAMPERED)
def test_another_point_under_the_same_proof(spec: str) -> None:
    document = certificate(spec)
    point = document["point"]
    for prime in (65537, 8388593, 2147483629, 2147483647):
        if prime != point["prime"]:
            other = {**document, "point": {**point, "prime": prime}}
            assert "determinant" in refused(sealed(other)).reason
    for seed in range(1, 20):
        other = {**document, "point": {**point, "seed": seed}}
        assert "determinant" in refused(sealed(other)).reason


def test_no_rows_prove_nothing_but_are_no_error() -> None:
    document = certificate("lightning/d=3,2/a=1/t=2")
    document["claim"].update(lower=0, status="bounds")
    document["lower"].update(rows=[], columns=[], determinant=1)
    assert verify(sealed(document)).valid
    document["lower"]["determinant"] = 2
    refused(sealed(document))


@pytest.mark.parametrize("spec", TAMPERED)
def test_every_alteration_is_noticed(spec: str) -> None:
    """But for other spaces of the same rank, and what was left out: these prove the same."""
    document = certificate(spec)
    assert verify(document).valid
    count = 0
    for changed in altered(document):
        refused(changed)
        if changed["checksum"] == document["checksum"]:
            verdict = verify(sealed(changed))
            if verdict.valid:
                assert {**changed, "upper": 0} == {**document, "upper": 0}
            else:
                refused(sealed(changed))
        count += 1
    assert count > 500


@pytest.mark.parametrize("spec", TAMPERED[:1])
def test_keys_are_exact(spec: str) -> None:
    document = certificate(spec)
    refused(sealed({**document, "comment": ""}))
    refused({**document, 7: ""})
    for key in document:
        rest = {other: value for other, value in document.items() if other != key}
        if key in ("format", "version"):
            with pytest.raises(CertificateError):
                verify(rest)
        else:
            assert key in refused(rest if key == "checksum" else sealed(rest)).reason


@pytest.mark.parametrize("spec", TAMPERED)
@pytest.mark.parametrize(
    "change",
    [
        {"t": 3},
        {"t": 10**9},
        {"d": [2, 3]},
        {"d": [1, 1]},
        {"a": [2]},
        {"a": [1]},
        {"heads": [3]},
        {"heads": [10**9]},
        {"dv": [2]},
        {"dv": [10**9]},
        {"kind": "softmax"},
        {"kind": "lightning"},
        {"causal": [True]},
        {"causal": [False]},
        {"pos": ["rope"]},
        {"norm": ["rms"]},
        {"mlp": ["gelu"]},
        {"residual": [True]},
        {"d": [1] * 9_000},
        {"d": [1] * 100_000},
        {"a": 1},
        {"version": True},
        {"version": 6.0},
        {"layers": 1},
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
    with contextlib.suppress(SpecError):
        document["claim"]["parameters"] = Network.from_mapping(changed).parameters
    if document["upper"]["kind"] == "spaces":
        document["claim"]["upper"] = document["claim"]["parameters"] - document["upper"]["rank"]
        proved = document["claim"]["upper"] == document["claim"]["lower"]
        document["claim"]["status"] = "proved" if proved else "bounds"
    meter = Meter()
    with contextlib.suppress(TooLargeError):
        assert not verify(sealed(document), meter=meter).valid
    assert meter.spent < 10, "work, not time: it is charged by what is done"


def hostile(spec: str, **parts: Any) -> dict[str, Any]:
    """A certificate with all cheap fields right and nothing computed."""
    net = Network.parse(spec)
    claim = {"parameters": net.parameters, "lower": 1, "upper": net.parameters}
    by = {"lower_by": "minor", "upper_by": "spaces", "status": "bounds"}
    point = {"prime": 2147483629, "seed": 0}
    return sealed(
        {
            "format": "segre-certificate",
            "version": 6,
            "spec": net.document(),
            "digest": net.digest,
            "claim": {**claim, **by},
            "point": {key: parts.pop(key, value) for key, value in point.items()},
            "lower": {"kind": "minor", "rows": [[0, 0]], "columns": [0], "determinant": 1},
            "independence": None,
            "roots": None,
            "upper": {"kind": "spaces", "spaces": [], "rank": 0},
            **parts,
        }
    )


@pytest.mark.parametrize(
    "spec",
    [
        "lightning/d=1,1/a=1/heads=1000000000/t=1",
        "lightning/d=1000000000,1000000000/a=1000000000/heads=1000000000/t=1000000000",
        "lightning/d=100,100,100/a=10/t=3",
        "lightning/d=1,1/a=1/t=1000000000",
        "lightning/d=1,1/a=1/t=100000",
    ],
)
def test_what_is_too_large_is_refused_at_once(spec: str) -> None:
    refused_at_once(hostile(spec))


def test_hostile_numbers_cost_nothing() -> None:
    small = "lightning/d=2,2/a=1/t=2"
    minor = {"kind": "minor", "rows": [[10**18, 3]], "columns": [7], "determinant": 5}
    meter = Meter()
    assert "lower.determinant" in verify(hostile(small, lower=minor), meter=meter).reason
    assert 0 < meter.spent < 0.1
    minor["rows"] = [[2**62, 0]]
    assert "lower.rows[0]" in refused(hostile(small, lower=minor)).reason
    witness = {"arguments": 4, "coordinates": 4, "points": [2**64] * 8, "determinant": 1}
    soft = "softmax/d=2,2/a=1/t=2"
    assert "independence.points[0]" in refused(hostile(soft, independence=witness)).reason
    for prime in (65537**2, 65521, 2**31 - 3, 2**31 + 11, 2**16 + 2):
        assert "prime" in refused(hostile(small, prime=prime)).reason


# What is no certificate at all.


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "[]",
        "3",
        "null",
        "{}",
        '{"format": "other", "version": 6}',
        '{"format": ["segre-certificate"], "version": 6}',
        '{"format": "segre-certificate"}',
        '{"format": "segre-certificate", "version": 7}',
        '{"format": "segre-certificate", "version": "6"}',
        '{"format": "segre-certificate", "version": true}',
        '{"format": "segre-certificate", "version": 6.0}',
        "[" * 100_000,
        '{"format": "segre-certificate", "version": 6, "spec": ' + "[" * 50 + "]" * 50 + "}",
        "\ufeff{}",
    ],
    ids=range(16),
)
def test_unreadable_files(text: str, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CertificateError) as error:
        verify(path)
    assert "\n" not in str(error.value)
    assert "c.json" in str(error.value)


def test_missing_files_and_other_bytes(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\x89PNG\xff\x00")
    for source in (tmp_path / "none", tmp_path, tmp_path / "binary", "a\0b", "x" * 5000):
        with pytest.raises(CertificateError) as error:
            verify(source)
        assert "\n" not in str(error.value)


def test_every_truncation_is_unreadable(tmp_path: Path) -> None:
    text = json.dumps(certificate(TAMPERED[0]))
    path = tmp_path / "c.json"
    for length in range(0, len(text), 7):
        path.write_text(text[:length])
        with pytest.raises(CertificateError):
            verify(path)


def test_oversized_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.json"
    path.write_text('{"a": [' + "[]," * 2_100_000 + "0]}")
    with pytest.raises(CertificateError, match="more than"):
        verify(path)
    with path.open("wb") as file:
        file.truncate((256 << 20) + 1)
    with pytest.raises(CertificateError, match="larger than 256 MiB"):
        verify(path)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"seed": 0', '"seed": 0, "seed": 0', "'seed' is given twice"),
        ('"seed": 0', '"seed": NaN', "nan is not a whole number"),
        ('"seed": 0', '"seed": -Infinity', "not a whole number"),
        ('"seed": 0', '"seed": 1e400', "not a whole number"),
        ('"seed": 0', '"seed": 0.0', "not a whole number"),
        ('"seed": 0', '"seed": ' + "9" * 100_000, "100000 digits"),
        ('"kind": "minor"', '"kind": "minor", "kind": "minor"', "twice"),
        ('"version": 6, "spec"', '"version": 6, "version": 6, "spec"', "twice"),
    ],
)
def test_faults_of_the_text(old: str, new: str, reason: str, tmp_path: Path) -> None:
    text = json.dumps(certificate(TAMPERED[0]))
    assert text.count(old) == 1
    path = tmp_path / "c.json"
    path.write_text(text.replace(old, new))
    assert reason in refused(path).reason


def test_a_mapping_that_holds_itself() -> None:
    document = certificate(TAMPERED[0])
    document["spec"]["d"] = document["spec"]
    with pytest.raises(CertificateError, match="nested"):
        verify(document)
