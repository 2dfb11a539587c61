"""Certificates of polynomial networks are accepted, and what is altered in them is noticed."""

from __future__ import annotations

import contextlib
import copy
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.faults.certificates import Truth, altered, at, forged, healed, places, sealed

from segre.certificate import certify, checksum, write_certificate
from segre.errors import CertificateError, TooLargeError
from segre.geometry.dimension import dimension
from segre.polynomial.bounds import bound, sums_of_powers
from segre.polynomial.spec import Polynomial
from segre.referee import verify
from segre.referee.by_theorem.designs import POLYNOMIALS, uncovered
from segre.referee.by_theorem.hypotheses import hypotheses
from segre.referee.by_theorem.parameters import parameters
from segre.referee.by_theorem.symmetries import symmetries
from segre.referee.claims import sha256
from segre.referee.polynomial.counts import powers
from segre.referee.polynomial.inequalities import RULES, Step, check_steps
from segre.referee.polynomial.network import parameter_count
from segre.referee.rejection import RejectionError
from segre.theorems import apply
from support.certificates import certificate, holds, refused
from support.polynomials import random_polynomial, random_polynomials
from support.terminal import run

# symmetries; a tree of three steps; inequalities of every other kind; linear; convolutions
TREE = "poly/3-2-2-1/degree=2"
SCALES = "poly/2-2-2/degree=2/bias=true"
SPECS = [
    TREE,
    SCALES,
    "poly/3-5-2/degree=3",  # doubled
    "poly/3-5-1/degree=4",  # an exception of Alexander and Hirschowitz
    "poly/4-6-5/degree=2",  # scroll
    "poly/4-5-3/degree=2",  # curve
    "poly/1-3-3-4/degree=2/bias=true",  # rank
    "poly/3-5-1-1/degree=2",  # forms
    "poly/4-5-3-1/degree=2",  # quadric
    "poly/6-8-3/degree=2",  # pfaffian
    "poly/3-1/degree=3",
    "poly/2-3-3-2/degree=1",
    "poly/3-2-3/degree=1/bias=true",
    "cnn/k=3,2/degree=2",
    "cnn/k=2,2,1/stride=2,1,3/n=9/degree=3/bias=true",
    "cnn/k=2,1,3/stride=1,2,1/degree=1/bias=true",
]


# What is honest is accepted.


@pytest.mark.parametrize("spec", SPECS)
def test_every_rule(spec: str, tmp_path: Path) -> None:
    document = certificate(spec)
    assert document["version"] == 5
    assert document["claim"]["status"] == "proved"
    holds(document)
    write_certificate(document, tmp_path / "certificate.json")
    assert len(verify(tmp_path / "certificate.json").checks) >= 4


def test_every_rule_is_among_them() -> None:
    uppers = [certificate(spec)["upper"] for spec in SPECS]
    rules = {step["rule"] for upper in uppers for step in upper.get("steps", ())}
    assert rules == set(RULES) - {"linear", "filters"}  # symmetries give these bounds as well
    pieces = {piece["kind"] for upper in uppers for piece in upper.get("pieces", ())}
    assert pieces == {"scales", "between", "shift"}


@pytest.mark.parametrize("seed", range(6))
def test_random_networks(seed: int) -> None:
    for spec in random_polynomials(seed, 25):
        document = certify(spec, seed=seed)
        assert document["claim"]["parameters"] == parameter_count(spec)
        holds(document)


def test_progress_is_reported() -> None:
    seen: list[tuple[str, int, int]] = []
    assert verify(certificate(SCALES), progress=lambda *step: seen.append(step)).valid
    last = {what: (done, total) for what, done, total in seen}
    assert set(last) == {"Jacobian rows", "symmetries"}
    assert all(done == total for done, total in last.values())


def test_less_may_be_claimed() -> None:
    """No rows prove nothing, but are no error; the same holds for any bound that is true."""
    document = certificate(TREE)
    document["claim"].update(lower=0, upper=8, status="lower-bound")
    document["lower"].update(rows=[], columns=[], determinant=1)
    document["upper"]["steps"] = [{"rule": "scales", "value": 8}]
    assert verify(sealed(document)).valid


def test_the_bytes_do_not_change() -> None:
    assert certify(TREE)["checksum"] == certify(TREE)["checksum"] == checksum(certify(TREE))
    assert certify(TREE, seed=1)["checksum"] != certify(TREE)["checksum"]


# Prover and referee count alike.


def test_both_find_the_same_bounds() -> None:
    rng = random.Random(5)
    for _ in range(3000):
        spec = random_polynomial(rng, widest=rng.choice((3, 6, 20, 300)), deepest=7)
        found = bound(spec)
        steps = [Step(step["rule"], step.get("at", 0), step["value"]) for step in found.steps]
        assert check_steps(spec, steps) == found.value, str(spec)
        for i in range(len(steps)):
            for change in (-1, 1):
                wrong = [*steps]
                wrong[i] = wrong[i]._replace(value=wrong[i].value + change)
                with pytest.raises(RejectionError, match=rf"steps\[{i}\]\.value"):
                    check_steps(spec, wrong)


def test_no_exact_rank_is_above_a_bound() -> None:
    """Every rule at every place of small networks, not only the best one."""
    rng = random.Random(8)
    for _ in range(60):
        spec = random_polynomial(rng, widest=4, deepest=3)
        lower = dimension(spec).lower
        assert lower is not None
        for bounded in _every_bound(spec):
            assert lower <= bounded, str(spec)


def _every_bound(spec: Polynomial) -> list[int]:
    """What the referee makes of all trees that have one step, or one and the best parts."""
    found = []
    for rule in RULES:
        found += _value(spec, [Step(rule, 0, -1)])
        found += _value(spec, [Step("quadric", 0, -1), Step(rule, 0, -1)])
    for low in range(spec.degree):
        found += _value(spec, [Step("doubled", low, -1)])
    for place in range(1, spec.depth):
        for one in ("weights", "scales", "rank"):
            found += _value(spec, [Step("forms", place, -1), Step(one, 0, -1)])
            for other in ("weights", "scales", "rank", "veronese"):
                steps = [Step("cut", place, -1), Step(one, 0, -1), Step(other, 0, -1)]
                found += _value(spec, steps)
    assert found
    return found


def _value(spec: Polynomial, steps: list[Step]) -> list[int]:
    """The value of a tree, found by asking; nothing if a rule does not apply."""
    for _ in steps:
        with pytest.raises(RejectionError) as refusal:
            check_steps(spec, steps)
        found = re.search(r"steps\[(\d+)\]\.value: -1, .* it is (\d+)", str(refusal.value))
        if found is None:
            return []
        place = int(found[1])
        steps = [*steps]
        steps[place] = steps[place]._replace(value=int(found[2]))
    return [check_steps(spec, steps)]


def test_both_count_sums_of_powers_alike() -> None:
    for n in range(1, 9):
        for r in range(2, 8):
            for m in (*range(1, 40), 10**6, 10**9):
                assert powers(n, r, m) == sums_of_powers(n, r, m), (n, r, m)
    assert powers(10**9, 1000, 10**9) == sums_of_powers(10**9, 1000, 10**9) == 10**18


def test_theorems_are_applied_alike() -> None:
    rng = random.Random(3)
    names = set()
    for _ in range(2000):
        size = rng.choice((3, 50, 10**6))
        spec = random_polynomial(rng, widest=size, deepest=rng.choice((2, 5)))
        found = apply(spec)
        covering = [name for name in POLYNOMIALS if not uncovered(spec, name)]
        assert covering == ([] if found is None else [found.theorem.name]), str(spec)
        if found is None:
            continue
        names.add(found.theorem.name)
        own = [tuple(one) for one in hypotheses(spec, covering[0])]
        assert own == [(h.name, h.left, h.relation, h.right) for h in found.hypotheses]
        assert symmetries(spec, covering[0]) == list(found.symmetries.items())
        assert parameters(spec) == spec.parameters
        verdict = verify(certify(spec, method="theorem"))
        assert verdict.valid, (str(spec), verdict.reason)
        assert verdict.kind == "theorem"
    assert names == set(POLYNOMIALS)


@pytest.mark.parametrize(
    ("spec", "dimension", "trusted"),
    [
        ("poly/100000-30000-1/degree=7", 3 * 10**9, "Alexander and Hirschowitz"),
        ("poly/9000-20-9000/degree=1/bias=true", 20 * (18000 - 20) + 9000, "not formalised"),
        ("cnn/k=9000,7000/stride=3,1/degree=3/bias=true", 16001, "not formalised"),
    ],
)
def test_theorems_at_any_size(spec: str, dimension: int, trusted: str) -> None:
    document = certify(spec)
    assert document["version"] == 3
    verdict = verify(document)
    assert verdict.valid
    assert verdict.lower == verdict.upper == dimension
    assert trusted in verdict.checks[-1]
    assert "Ax" not in verdict.checks[-1].replace("Alexander", "")
    for path in places(document["theorem"]):
        if type(at(document["theorem"], path)) is int:
            for change in (-1, 1):
                wrong = copy.deepcopy(document)
                at(wrong["theorem"], path[:-1])[path[-1]] += change
                refused(sealed(wrong))


# Alterations.


@pytest.mark.parametrize("spec", ["poly/2-1-1/degree=2/bias=true", "poly/2-1-2-1/degree=2"])
def test_what_is_altered_is_refused(spec: str) -> None:
    document = certificate(spec)
    assert verify(document).valid
    for other in altered(document):
        refused(other)


@pytest.mark.parametrize("spec", [TREE, "cnn/k=2,2/degree=1/bias=true"])
def test_what_is_altered_and_healed_is_refused_unless_it_is_true(spec: str) -> None:
    truth, passed, count = Truth(), 0, 0
    for other in altered(certificate(spec)):
        if "checksum" in other and not isinstance(other.get("spec"), dict):
            continue
        mended = healed(other)
        count += 1
        with contextlib.suppress(CertificateError, TooLargeError):
            if verify(mended).valid:
                passed += 1
                assert truth.holds(mended), mended
    assert count > 500
    assert passed < count / 4


@pytest.mark.parametrize("spec", [TREE, SCALES, "cnn/k=3,2/degree=2"])
def test_forgeries_prove_nothing_false(spec: str) -> None:
    truth = Truth()
    for seed in range(60):
        mended = healed(forged(certificate(spec), seed))
        with contextlib.suppress(CertificateError, TooLargeError):
            if verify(mended).valid:
                assert truth.holds(mended), mended


STEPS = [
    {"rule": "cut", "at": 1, "value": 7},
    {"rule": "weights", "value": 6},
    {"rule": "veronese", "value": 3},
]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda s: s[:-1], "parts of them are missing"),
        (lambda s: [*s, s[-1]], "there should be 3 steps"),
        (lambda s: [s[0], s[2], s[1]], "is not for these widths"),
        (lambda s: [{**s[0], "at": 2}, *s[1:]], "is not for these widths"),
        (lambda s: [{**s[0], "at": 0}, *s[1:]], "'cut' at 0 is not for these widths"),
        (lambda s: [{**s[0], "at": 3}, *s[1:]], "'cut' at 3 is not for these widths"),
        (lambda s: [{**s[0], "at": 4}, *s[1:]], "steps[0].at"),
        (lambda s: [{**s[0], "at": -1}, *s[1:]], "steps[0].at"),
        (lambda s: [{**s[0], "at": None}, *s[1:]], "steps[0].at"),
        (lambda s: [{"rule": "cut", "value": 7}, *s[1:]], "'at' is missing"),
        (lambda s: [s[0], {**s[1], "at": 1}, s[2]], "'at' is not allowed"),
        (lambda s: [{**s[0], "rule": "forms"}, *s[1:]], ""),
        (lambda s: [{**s[0], "value": 6}, *s[1:]], "steps[0].value: 6, but by the rule 'cut'"),
        (lambda s: [{**s[0], "value": 6}, {**s[1], "value": 5}, s[2]], "steps[1].value"),
        (lambda s: [{**s[0], "value": 6}, s[1], {**s[2], "value": 2}], "steps[2].value"),
        (lambda s: [s[0], s[1], {**s[2], "rule": "scales"}], "steps[2].value: 3"),
        (lambda s: [s[0], s[1], {**s[2], "rule": "filters"}], "is not for these widths"),
        (lambda s: [s[0], s[1], {**s[2], "rule": "magic"}], "steps[2].rule: 'magic'"),
        (lambda s: [s[0], s[1], {**s[2], "rule": ["cut"]}], "steps[2].rule"),
        (lambda s: [s[0], s[1], {**s[2], "value": True}], "steps[2].value"),
        (lambda s: [s[0], s[1], {**s[2], "value": -3}], "steps[2].value"),
        (lambda s: [s[0], s[1], {**s[2], "value": float("nan")}], "not a whole number"),
        (lambda s: [s[0], s[1], {"rule": "veronese"}], "'value' is missing"),
        (lambda s: [s[0], s[1], 3], "steps[2]"),
        (lambda s: [s[0]] * 100_000, "100000 steps; allowed: 1 to 6"),
        (lambda _: [], "0 steps"),
        (lambda _: {}, "not a list"),
        (lambda _: [{"rule": "veronese", "value": 3}], "is not for these widths"),
        (lambda _: [{"rule": "linear", "value": 3}], "is not for these widths"),
    ],
)
def test_forged_trees(change: Callable[[Any], Any], reason: str) -> None:
    document = certificate(TREE)
    assert document["upper"]["steps"] == STEPS
    document["upper"]["steps"] = change(document["upper"]["steps"])
    assert reason in refused(sealed(document)).reason


def test_a_claim_is_what_its_steps_prove() -> None:
    document = certificate(TREE)
    document["claim"].update(upper=8, status="lower-bound")
    assert "the steps prove 7" in refused(sealed(document)).reason


def test_rules_that_are_not_for_the_network() -> None:
    cases = (
        ("cnn/k=3,2/degree=2", "linear", 4),
        ("poly/2-3-3-2/degree=1", "scales", 15),
        ("poly/2-3-3-2/degree=1", "filters", 4),
        (SCALES, "linear", 8),
    )
    for spec, rule, value in cases:
        document = certificate(spec)
        document["claim"].update(upper=value, status="lower-bound")
        document["claim"]["lower"] = min(value, document["claim"]["lower"])
        size = document["claim"]["lower"]
        lower = document["lower"]
        lower["rows"], lower["columns"] = lower["rows"][:size], lower["columns"][:size]
        if size == value:
            document["claim"]["status"] = "proved"
        document["upper"] = {"kind": "inequalities", "steps": [{"rule": rule, "value": value}]}
        refused(sealed(document))


@pytest.mark.parametrize("step", [-1, 1])
@pytest.mark.parametrize("spec", [SCALES, "poly/2-3-3-2/degree=1", "cnn/k=3,2/degree=2"])
def test_symmetries_are_recounted(spec: str, step: int) -> None:
    """Rank, pieces and claim are kept consistent, so only a recount can tell."""
    document = certificate(spec)
    document["upper"]["rank"] += step
    document["upper"]["pieces"][0]["dimension"] += step
    if not document["upper"]["pieces"][0]["dimension"]:
        document["upper"]["pieces"].pop(0)
    claim = document["claim"]
    claim["upper"] -= step
    claim["status"] = "lower-bound"
    assert refused(sealed(document)).reason.startswith(("upper.pieces", "claim: lower"))


def test_the_name_and_layer_of_a_piece_count() -> None:
    for key, value in (("kind", "between"), ("layer", 2), ("head", 1), ("kind", ["scales"])):
        document = certificate(SCALES)
        document["upper"]["pieces"][0][key] = value
        assert "upper.pieces[0]" in refused(sealed(document)).reason


def test_another_network_under_the_same_proof() -> None:
    for spec, other in (
        ("poly/2-2-2/degree=2", "poly/2-2-2/degree=3"),
        ("cnn/k=3,2/degree=2", "cnn/k=3,2/degree=3"),
        ("cnn/k=3,2/degree=2", "cnn/k=3,2/degree=2/stride=2,1"),
        ("cnn/k=3,2/degree=2", "cnn/k=2,3/degree=2"),
    ):
        document, net = certificate(spec), Polynomial.parse(other)
        document["spec"], document["digest"] = net.document(), net.digest
        assert "lower.determinant" in refused(sealed(document)).reason


# Hostile documents take no time and are refused in one line.


def hostile(spec: str, steps: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """All cheap fields right, of any network."""
    net = Polynomial.parse(spec)
    size = most = net.parameters
    upper: dict[str, Any] = {"kind": "symmetries", "pieces": [], "rank": 0}
    if steps is not None:
        upper, most = {"kind": "inequalities", "steps": steps}, steps[0]["value"]
    status = "proved" if most == 1 else "lower-bound"
    document = {
        "format": "segre-certificate",
        "version": 5,
        "spec": net.document(),
        "digest": net.digest,
        "claim": {"parameters": size, "lower": 1, "upper": most, "status": status},
        "prime": 8388587,
        "seed": 0,
        "lower": {"kind": "minor-mod-p", "rows": [[0, 0]], "columns": [0], "determinant": 1},
        "independence": None,
        "upper": upper,
    }
    return sealed(document)


def test_too_large_to_be_checked() -> None:
    for spec in (
        "poly/200-200/degree=2",  # too many parameters
        "cnn/k=2/n=1000000000/degree=2",  # a long input
        "poly/1-9999-1/degree=1",  # 10^8 vectors of a change of basis
    ):
        with pytest.raises(TooLargeError):
            verify(hostile(spec))


def test_deep_trees_and_high_degrees() -> None:
    widths = "-".join(["1"] * 2000)
    spec = f"poly/{widths}/degree=1000"
    comb = [{"rule": "cut", "at": 1, "value": 1}, {"rule": "weights", "value": 1}] * 1998
    comb.append({"rule": "weights", "value": 1})
    assert "lower.determinant" in refused(hostile(spec, comb)).reason  # the steps are right
    assert "value" in refused(hostile(spec, [{**comb[0], "value": 2}, *comb[1:]])).reason
    chain = [{"rule": "forms", "at": 1, "value": 1}] * 1998
    chain.append({"rule": "weights", "value": 1})
    assert "lower.determinant" in refused(hostile(spec, chain)).reason
    wide = f"poly/2{widths[1:]}/degree=1000"
    assert "above 10^40" in refused(hostile(wide, chain)).reason
    one = [{"rule": "rank", "value": 10**39}]
    assert "above 10^40" in refused(hostile(wide, one)).reason
    last = [{"rule": "forms", "at": 1998, "value": 1}, comb[-1]]
    assert "above 10^40" in refused(hostile(wide, last)).reason


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("degree", 0),
        ("degree", 1001),
        ("degree", 10**30),
        ("degree", True),
        ("degree", "2"),
        ("degree", None),
        ("bias", False),
        ("bias", 1),
        ("d", []),
        ("d", [3]),
        ("d", [3, 0, 1]),
        ("d", [3, -2, 1]),
        ("d", ["3", "2", "1"]),
        ("d", [10**12, 10**12]),
        ("d", 3),
        ("d", {"a": [1]}),
        ("d", [[3], [2]]),
        ("d", [1] * 20_000),
        ("version", 2),
        ("version", True),
        ("kind", "cnn"),
        ("kind", "softmax"),
        ("kind", ["poly"]),
        ("k", [2, 2]),
        ("more", 1),
    ],
)
def test_hostile_specs(key: str, value: Any) -> None:
    for spec in (TREE, "poly/2-1-1/degree=2/bias=true"):
        document = certificate(spec)
        if document["spec"].get(key) == value and key != "version":
            continue
        document["spec"][key] = value
        document["digest"] = sha256(document["spec"])
        refused(sealed(document))


def test_missing_and_foreign_parts() -> None:
    for key in ("spec", "digest", "claim", "prime", "seed", "lower", "independence", "upper"):
        document = certificate(TREE)
        del document[key]
        assert f"'{key}' is missing" in refused(sealed(document)).reason
    document = certificate(TREE)
    for key, value in (("independence", {}), ("roots", None), ("salts", [])):
        refused(sealed({**document, key: value}))
    for upper in (None, [], "symmetries", {"kind": "closed-form"}, {"kind": ["symmetries"]}):
        assert "upper.kind" in refused(sealed({**document, "upper": upper})).reason
    attention = certify("softmax/d=2,2/a=1/t=2")
    assert "kind 'poly' or 'cnn'" in refused(sealed({**attention, "version": 5})).reason
    for version in (1, 2, 3, 4):
        refused(sealed({**document, "version": version}))


# On the command line.


def test_certify_and_verify(tmp_path: Path) -> None:
    path = tmp_path / "cert.json"
    made = run("certify", TREE, "-o", path)
    assert made.returncode == 0
    assert "dimension 7 of 12 parameters, proved" in made.stdout
    checked = run("verify", path)
    assert checked.returncode == 0
    assert "(cut, weights, veronese) the dimension is at most 7" in checked.stdout
    assert "valid: dimension 7 of 12 parameters, proved by computation" in checked.stdout
    data = json.loads(run("verify", path, "--json").stdout)
    assert data["valid"]
    assert data["claim"]["upper"] == 7
    document = json.loads(path.read_text())
    document["upper"]["steps"][2]["value"] = 2
    path.write_text(json.dumps(sealed(document)))
    wrong = run("verify", path)
    assert wrong.returncode == 1
    assert wrong.stdout.startswith("invalid: upper.steps[2].value: 2, but by the rule")
