"""Certificates by theorem: two derivations agree, and no document that is altered is accepted."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

import segre
from segre.errors import CertificateError, SpecError
from segre.finding import OWN
from segre.kernel import Verdict, verify
from segre.kernel.designs import hypotheses, parameters, symmetries
from segre.kernel.document import MOST_PARAMETERS, sha256
from segre.kernel.network import graph_of
from segre.kernel.theorem import NAMES, trusted, uncovered
from segre.polynomial.spec import Polynomial
from segre.spec import Network
from segre.theorems import apply
from segre.transformer.choices import MlpKind
from segre.transformer.spec import Transformer
from support.architectures import random_stacks, random_transformers
from support.theorem_documents import (
    THEOREMS,
    TRANSFORMERS,
    Spec,
    document_of,
    random_designs,
    sealed,
)

LLAMA = (
    "transformer/d=8192/layers=80/heads=64/kv=8/ff=28672/mlp=swiglu/norm=rms/eps=1e-5/pos=rope/"
    "base=500000/causal=true/vocab=128256/t=8192"
)


def covering(spec: Spec) -> list[str]:
    return [name for name in NAMES if not uncovered(spec, name)]


def refused(document: Any) -> Verdict:
    verdict = verify(document)
    assert not verdict.valid, document
    assert verdict.reason
    assert "\n" not in verdict.reason
    return verdict


def agree(spec: Spec) -> bool:
    """Hold all that is known of a design against the prover; whether its hypotheses hold."""
    found, names = apply(spec), covering(spec)
    assert names == ([] if found is None else [found.theorem.name]), str(spec)
    if found is None:
        return False
    (name,) = names
    own = hypotheses(spec, name)
    # the prover writes 0 where a number of choices would be below zero, and the hypothesis fails
    assert [(h.name, max(h.left, 0), h.relation, h.right) for h in own] == [
        (h.name, h.left, h.relation, h.right) for h in found.hypotheses
    ], str(spec)
    assert parameters(spec) == spec.parameters, str(spec)
    holds = all(h.holds for h in own)
    if holds:
        counted = symmetries(spec, name)
        assert counted == {k: n for k, n in found.symmetries.items() if n}, str(spec)
        assert parameters(spec) - sum(counted.values()) == found.dimension, str(spec)
    return holds


@pytest.mark.parametrize("theorem", THEOREMS)
def test_random_designs_are_valid_if_and_only_if_the_hypotheses_hold(theorem: str) -> None:
    count: Counter[bool] = Counter()
    failed: set[str] = set()
    every: set[str] = set()
    for spec in random_designs(theorem, 0, 300):
        assert covering(spec) == [theorem]
        holds = agree(spec)
        count[holds] += 1
        listed = hypotheses(spec, theorem)
        every |= {h.name for h in listed}
        failed |= {h.name for h in listed if not h.holds}
        if holds:
            verdict = verify(document_of(spec))
            assert verdict.valid, (verdict.reason, str(spec))
            assert verdict.kind == "theorem"
        else:
            reason = refused(document_of(spec)).reason
            assert "does not hold" in reason or "claim.lower" in reason
    assert min(count.values()) > 20
    assert failed == every  # each hypothesis is one that can fail


NEAR: dict[str, list[Any]] = {
    "place": ["pre", "post", "sandwich", "after"],
    "norm": ["none", "rms", "layer"],
    "mlp": ["none", "gelu-quick", "relu", "geglu-quick", "bilinear", "gelu", "geglu", "swiglu"],
    "pos": ["none", "rope", "learned"],
    "base": [[10000, 0], [10000, 500], 7],
    "rescale": ["dynamic:2:64", "yarn:4:4096", ["", "linear:2"], "linear:3"],
    "bias": ["none", "qkv", "attn", "mlp", "all"],
    "causal": [True, False],
    "window": [5, [5, 0]],
    "gain": [False],
    "residual": [False],
    "parallel": [True],
    "qknorm": [True, "all"],
    "tied": [True, False],
    "final": [True, False],
    "attn": ["lightning"],
    "sinks": [True],
    "gate": ["head", "element"],
    "cap": [3, 0],
    "logitcap": [3, 0],
    "kvrank": [2],
    "share": [True],
    "offset": [2],
    "types": [0, 1, 2, 3],
    "embed": [3],
    "embnorm": [True, False],
    "firstnorm": [False],
    "embscale": [True, False],
    "transform": [True, False],
    "outbias": [True, False],
    "pooler": [True, False],
    "labels": [2],
    "output": ["hidden", "logits", "softmax"],
}


def near(spec: Spec, rng: random.Random) -> Spec | None:
    """A design with one other choice, if there is one."""
    key = rng.choice([*NEAR])
    try:
        return Transformer.from_mapping({**spec.document(), key: rng.choice(NEAR[key])})
    except SpecError:
        return None


def test_what_is_not_covered_is_the_same_for_both() -> None:
    rng, none = random.Random(1), 0
    for theorem in TRANSFORMERS:
        for spec in random_designs(theorem, 1, 200):
            other = near(spec, rng)
            if other is not None:
                agree(other)
                none += not covering(other)
    for spec in [*random_transformers(1, 200), *random_stacks(1, 300)]:
        agree(spec)
        none += not covering(spec)
    assert none > 300


def test_presets() -> None:
    """Of every covered preset there is a certificate; parameters are counted twice."""
    covered: Counter[str] = Counter()
    for entry in segre.catalog().presets:
        spec = entry.spec
        if not agree(spec):
            continue
        covered[covering(spec)[0]] += 1
        assert verify(document_of(spec)).valid
    assert covered.keys() >= {"C", "D1", "D2", "E", "F1", "F2"}


@pytest.mark.parametrize("theorem", TRANSFORMERS)
def test_parameters_are_those_of_the_graph(theorem: str) -> None:
    for spec in random_designs(theorem, 2, 60):
        assert isinstance(spec, Transformer)
        assert parameters(spec) == spec.parameters
        if spec.parameters <= MOST_PARAMETERS:
            assert graph_of(spec).parameters == spec.parameters


def test_sizes_at_the_limits_of_specs() -> None:
    most = 10**9
    sizes = {"d": most, "layers": 10_000, "heads": most, "head": 2, "ff": most, "vocab": most}
    keys = {"mlp": "swiglu", "norm": "rms", "pos": "rope", "causal": True, "t": most}
    spec = Transformer.from_mapping({"kind": "transformer", **sizes, **keys, "eps": "1/3"})
    assert not agree(spec)
    refused(document_of(spec))


@cache
def valid(theorem: str) -> tuple[str, ...]:
    """Some valid certificates, as text."""
    out = []
    for spec in random_designs(theorem, 3, 400):
        if all(h.holds for h in hypotheses(spec, theorem)):
            out.append(json.dumps(document_of(spec)))
        if len(out) == 8:
            break
    return tuple(out)


# What an alteration does to a whole number, a string, a list or an object.
def numbers(n: int) -> list[Any]:
    return [n + 1, n - 1, -n - 1, 2 * n + 1, 10**39, True, str(n), None, [n], float(n)]


def strings(text: str) -> list[Any]:
    swapped = {">": ">=", ">=": ">"}.get(text, text + " ")
    return [swapped, text[:-1], text.upper() + "'", "", "softmax", None, 1, [text], {}]


def lists(values: list[Any]) -> list[Any]:
    out: list[Any] = [values[::-1]] if values[::-1] != values else []
    out += [values[:-1], [*values, values[0]], [], None, {}, values * 50, [values]]
    return [*out, [values[1], values[0], *values[2:]]] if len(values) > 1 else out


def objects(value: dict[str, Any]) -> list[Any]:
    dropped = [{k: v for k, v in value.items() if k != key} for key in value]
    return [*dropped, {**value, "more": 0}, {**value, "": value}, None, [], "", 0]


ALTER: dict[type, Callable[[Any], list[Any]]] = {
    int: numbers,
    str: strings,
    list: lists,
    dict: objects,
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, child in inner:
            yield from places(child, (*path, key))


def put(document: dict[str, Any], path: tuple[Any, ...], value: Any) -> None:
    at: Any = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value


@pytest.mark.parametrize("theorem", THEOREMS)
def test_every_alteration_of_one_value_is_noticed(theorem: str) -> None:
    """Digest and checksum are made again, so that only the content is wrong."""
    tried = 0
    for text in valid(theorem)[:1]:
        original = json.loads(text)
        for path in places(original):
            if not path or path[0] in ("format", "version", "digest", "checksum"):
                continue
            value: Any = original
            for key in path:
                value = value[key]
            for other in ALTER.get(type(value), lambda _: [])(value):
                document = copy.deepcopy(original)
                put(document, path, other)
                if json.dumps(document) == json.dumps(original):
                    continue
                try:
                    resealed = sealed(document)
                except (TypeError, ValueError):
                    continue
                if path[0] == "spec" and anew(resealed) == resealed:
                    continue  # another design with the same numbers: no forgery
                refused(resealed)
                tried += 1
    assert tried > 100


def anew(document: dict[str, Any]) -> Any:
    """The certificate that an altered spec has, if it is one."""
    try:
        kind = Transformer if document["spec"]["kind"] == "transformer" else Network
        return document_of(kind.from_mapping(document["spec"]))
    except (SpecError, KeyError, TypeError, AttributeError):
        return None


@pytest.mark.parametrize("theorem", THEOREMS)
def test_alterations_that_fit_together_are_noticed(theorem: str) -> None:
    """Another count with the claim that follows from it, another theorem, a false hypothesis."""
    for text in valid(theorem)[:3]:
        original = json.loads(text)
        assert verify(original).valid
        for i, one in enumerate(original["upper"]["symmetries"]):
            for step in (-1, 1, one["dimension"], -one["dimension"]):
                document = copy.deepcopy(original)
                document["upper"]["symmetries"][i]["dimension"] += step
                for bound in ("lower", "upper"):
                    document["claim"][bound] -= step
                reason = refused(sealed(document)).reason
                assert f"symmetries[{i}].dimension" in reason or "claim.lower" in reason
            document = copy.deepcopy(original)
            del document["upper"]["symmetries"][i]
            for bound in ("lower", "upper"):
                document["claim"][bound] += one["dimension"]
            assert "upper.symmetries" in refused(sealed(document)).reason
        for i, one in enumerate(original["lower"]["hypotheses"]):
            for key in ("left", "right"):
                document = copy.deepcopy(original)
                document["lower"]["hypotheses"][i][key] += 1
                reason = refused(sealed(document)).reason
                assert f"hypotheses[{i}].{key}: {one[key] + 1}, but it is {one[key]}" in reason
            document = copy.deepcopy(original)
            del document["lower"]["hypotheses"][i]
            assert "lower.hypotheses" in refused(sealed(document)).reason
        for name in (*NAMES, "G", "c", ""):
            if name != theorem:
                document = copy.deepcopy(original)
                document["lower"]["name"] = name
                for one in document["lower"]["hypotheses"]:
                    one["name"] = one["name"].replace(theorem, name, 1)
                assert "lower.name" in refused(sealed(document)).reason
        document = copy.deepcopy(original)
        document["upper"]["symmetries"].append({"name": "gated units", "dimension": 0})
        assert "entries" in refused(sealed(document)).reason


@pytest.mark.parametrize("theorem", THEOREMS)
def test_another_spec_under_the_same_numbers(theorem: str) -> None:
    """Of two designs with different numbers neither may have the other's certificate."""
    texts = valid(theorem)
    for one in map(json.loads, texts):
        for other in map(json.loads, texts):
            document = {**one, "spec": other["spec"]}
            if any(one[key] != other[key] for key in ("lower", "upper", "claim")):
                refused(sealed(document))
            if one["spec"] != other["spec"]:
                assert "checksum" in refused(document).reason


@pytest.mark.parametrize("theorem", TRANSFORMERS)
def test_a_spec_next_to_it_under_the_same_numbers(theorem: str) -> None:
    rng = random.Random(theorem)
    tried = 0
    for text in valid(theorem):
        document = json.loads(text)
        spec = Transformer.from_mapping(document["spec"])
        for _ in range(30):
            other = near(spec, rng)
            if other is None or other == spec:
                continue
            forged = sealed({**document, "spec": other.document()})
            if forged != document_of(other):
                refused(forged)
                tried += 1
    assert tried > 50


def test_a_checksum_is_checked_and_a_digest_too() -> None:
    original = json.loads(valid("C")[0])
    assert "checksum" in refused({**original, "checksum": "0" * 64}).reason
    assert "checksum" in refused({**original, "digest": "0" * 64}).reason
    body = {k: v for k, v in original.items() if k != "checksum"}
    body["digest"] = "0" * 64
    assert "digest" in refused({**body, "checksum": sha256(body)}).reason


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("layers", 1), ("heads", 1.0), ("d", True), ("d", 10**60), ("d", -4), ("d", "4")),
        *(("mlp", ["swiglu"]), ("mlp", {}), ("eps", "1e999999999"), ("eps", 1e-5), ("eps", "1/0")),
        *(("window", []), ("window", [0]), ("rescale", 4), ("rescale", "llama3:" + "9" * 400)),
        *(("version", True), ("version", 2), ("kind", None), ("kind", []), ("kind", "llama")),
        *(("gain", True), ("d_model", 8), ("tied", 1), ("qknorm", 1), ("base", "x" * 10**5)),
    ],
)
def test_hostile_specs(key: str, value: Any) -> None:
    original = json.loads(valid("C")[0])
    document = {**original, "spec": {**original["spec"], key: value}}
    refused(sealed(document))


@pytest.mark.parametrize("value", [None, [], "C", 3, True, {}, {"name": "C"}, "9" * 5000])
@pytest.mark.parametrize("key", ["spec", "claim", "lower", "upper", "point", "digest"])
def test_hostile_parts(key: str, value: Any) -> None:
    original = json.loads(valid("C")[0])
    body = {k: v for k, v in original.items() if k != "checksum"} | {key: value}
    if body == {k: v for k, v in original.items() if k != "checksum"}:
        return
    refused({**body, "checksum": sha256(body)})


def test_numbers_of_many_digits_from_a_file(tmp_path: Path) -> None:
    original = json.loads(valid("C")[0])
    number = str(original["claim"]["lower"])
    text = json.dumps(original)
    path = tmp_path / "proof.json"
    path.write_text(text)
    assert verify(path).valid
    for other in ("9" * 10_000, "1e5", "NaN", f"{number}.0", "-0", '"x"', "true"):
        path.write_text(text.replace(f'"lower": {number}', f'"lower": {other}'))
        refused(path)
    path.write_text(text.replace('"claim"', '"claim": {}, "claim"', 1))
    assert "twice" in refused(path).reason


@pytest.mark.parametrize("version", [0, 3, 5, 7, True, "6", 6.0, None])
def test_other_versions_are_no_certificates(version: Any) -> None:
    document = {**json.loads(valid("C")[0]), "version": version}
    with pytest.raises(CertificateError, match="allowed: 6"):
        verify(document)


def test_a_document_never_mixes_kinds() -> None:
    theorem = json.loads(valid("C")[0])
    computed = segre.certify("lightning/d=2,2/a=1/t=2")
    assert verify(computed).kind == "computation"
    for key in ("lower", "upper", "point"):
        mixed = verify(sealed({**theorem, key: computed[key]}))
        assert not mixed.valid
    claim = {**theorem["claim"], "upper_by": "spaces"}
    assert "a theorem gives both" in verify(sealed({**theorem, "claim": claim})).reason


def test_what_it_says() -> None:
    spec = Transformer.parse(LLAMA)
    verdict = verify(document_of(spec))
    assert verdict.valid
    text = " ".join(verdict.checks)
    assert "certificate by theorem: theorem C" in text
    assert "All 10 hypotheses hold: C.d (8192 >= 3), " in text
    assert "C.contexts (953757900156 > 70553706496)" in text
    assert verdict.checks[-1].startswith("Trusted, and not checked: the proof of theorem C")
    assert verdict.document()["kind"] == "theorem"
    assert str(verdict).splitlines()[-1].endswith(f"parameters, proved by theorem C ({OWN})")


@pytest.mark.parametrize("theorem", THEOREMS)
def test_what_is_trusted(theorem: str) -> None:
    """Prover and kernel name the same, of every activation that the theorem covers."""
    (own,) = [one for one in segre.theorems.THEOREMS if one.name == theorem]
    (spec,) = random_designs(theorem, 4, 1)
    kinds = get_args(MlpKind) if isinstance(spec, Transformer) else [None]
    seen = 0
    for mlp in kinds:
        one = spec if mlp is None else replace(spec, mlp=mlp)
        if not own.covers(one):
            continue
        seen += 1
        told, listed = trusted(theorem, one), own.applied(one).trusts
        assert ("Ax" in told) == ("Ax" in listed) == (theorem not in ("L1", "L"))
        assert ("Lindemann" in told) == ("Lindemann" in listed) == (theorem in ("C", "D1", "E"))
        assert all(name in told for name in listed)
        # erf: exponentials alone are Ax's theorem, normal distribution functions are not
        erf = mlp in ("gelu", "geglu")
        assert ("statement (T) of docs/soundness.md" in told) == erf
        assert ("statement (T) of docs/soundness.md" in listed) == erf
    assert seen


@pytest.mark.parametrize("name", ["bert-base-uncased", "minilm-l6-v2"])
def test_models_with_gelu_name_the_statement_about_it(name: str) -> None:
    spec = segre.architecture(name)
    assert "statement (T) of docs/soundness.md" in verify(document_of(spec)).checks[-1]


def test_polynomial_networks() -> None:
    """The same three theorems, on small networks of all kinds."""
    rng, seen = random.Random(0), Counter[str]()
    for _ in range(400):
        degree, bias = rng.randint(1, 4), rng.random() < 0.4
        widths = [rng.randint(1, 5) for _ in range(rng.randint(2, 4))]
        dense = {"kind": "poly", "d": [*widths, 1] if rng.random() < 0.4 else widths}
        kernels = {"kind": "cnn", "k": [rng.randint(1, 4) for _ in range(rng.randint(1, 4))]}
        spec = Polynomial.from_mapping(
            {**rng.choice([dense, kernels]), "degree": degree, "bias": bias}
        )
        if agree(spec):
            seen[covering(spec)[0]] += 1
            assert verify(document_of(spec)).valid
    assert min(seen[name] for name in "VMK") > 10


def test_a_fraction_of_any_power_is_not_raised() -> None:
    document = document_of(segre.architecture("llama-3-8b"))
    document["spec"]["eps"] = "1e-99999999"
    body = {k: v for k, v in document.items() if k != "checksum"}
    body["digest"] = sha256(body["spec"])
    sealed = {**body, "checksum": sha256(body)}
    assert "eps" in refused(sealed).reason
