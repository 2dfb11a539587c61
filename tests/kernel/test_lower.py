"""Lower bounds: what is written is accepted, and what is changed is not."""

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

import segre
from segre.errors import TooLargeError
from segre.kernel.document import examine, sha256
from segre.kernel.graph import Graph
from segre.kernel.lower import check, provable
from segre.kernel.meter import Meter, metered
from segre.kernel.network import graph_of
from segre.kernel.verify import verify
from segre.models import architecture

MODULAR = (
    "lightning/d=3,3/a=2/t=2",
    "softmax/d=2,2/a=2/heads=2/t=2",
    "mix/d=2,2/a=2/heads=double/t=2",
    "transformer/d=3/heads=1/head=2/norm=rms/mlp=gelu/ff=3/t=2",
    "transformer/d=4/heads=2/kv=1/head=2/qknorm=true/pos=rope/norm=layer/place=post/t=2",
    "poly/3-3-2/degree=2",
)
REAL = (
    "transformer/d=2/mlp=relu/ff=2/t=2",
    "gpt2/d=4/layers=1/heads=2/ff=2/vocab=5/positions=2/t=2",
)


@cache
def _certificate(spec: str) -> dict[str, Any]:
    return segre.certify(spec)


def certificate(spec: str) -> dict[str, Any]:
    """The certificate of a spec, with a minor; a copy."""
    return copy.deepcopy(_certificate(spec))


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in document.items() if key != "checksum"}
    return {**rest, "checksum": sha256(rest)}


@pytest.mark.parametrize("spec", [*MODULAR, *REAL])
def test_it_holds(spec: str) -> None:
    document = certificate(spec)
    assert document["lower"]["kind"] == ("balls" if spec in REAL else "minor")
    assert verify(document).valid


def _swap(entries: list[Any]) -> None:
    entries[0], entries[1] = entries[1], entries[0]


Change = Callable[[dict[str, Any]], Any]
OF_MINORS: dict[str, Change] = {
    "lower.determinant": lambda c: _swap(c["lower"]["rows"]),
    "lower.determinant: ": lambda c: _swap(c["lower"]["columns"]),
    "lower.determinant:": lambda c: c["lower"].update(determinant=c["lower"]["determinant"] ^ 1),
    "lower.rows": lambda c: c["lower"]["rows"].append([0, 0]),
    "lower.rows: an entry": lambda c: c["lower"]["rows"].__setitem__(0, c["lower"]["rows"][1]),
    "lower.columns": lambda c: c["lower"]["columns"].__setitem__(0, c["claim"]["parameters"]),
    "lower.columns: an": lambda c: c["lower"]["columns"].__setitem__(0, c["lower"]["columns"][1]),
    "lower": lambda c: c["lower"].update(more=1),
}


@pytest.mark.parametrize("spec", MODULAR)
@pytest.mark.parametrize("reason", OF_MINORS)
def test_minors_that_were_changed(spec: str, reason: str) -> None:
    document = certificate(spec)
    OF_MINORS[reason](document)
    verdict = verify(sealed(document))
    assert not verdict.valid
    assert verdict.reason.startswith(reason.split(":")[0])


OF_ROOTS: dict[str, Change] = {
    "one is missing": lambda roots: roots.pop(),
    "one is listed twice": lambda roots: roots.__setitem__(0, dict(roots[1])),
    "another input": lambda roots: roots[0].update(input=roots[0]["input"] + 1),
    "another entry": lambda roots: roots[0].update(entry=roots[0]["entry"] + 99),
    "no such root": lambda roots: roots[0].update(root=9),
    "no such stage": lambda roots: roots[0].update(stage=99),
    "two exchanged": lambda roots: _exchanged(roots),
    "salts of another size": lambda roots: roots[0].update(salts=[[0]]),
    "a salt that is too large": lambda roots: roots[0].update(salts=[[1 << 20] * 2]),
}


def _exchanged(roots: list[dict[str, Any]]) -> None:
    for key in ("stage", "root", "entry"):
        roots[0][key], roots[-1][key] = roots[-1][key], roots[0][key]


@pytest.mark.parametrize("spec", MODULAR[3:5])
@pytest.mark.parametrize("name", OF_ROOTS)
def test_roots_that_were_changed(spec: str, name: str) -> None:
    document = certificate(spec)
    OF_ROOTS[name](document["roots"])
    verdict = verify(sealed(document))
    assert not verdict.valid
    assert verdict.reason.startswith("roots")


OF_WITNESSES: dict[str, Change] = {
    "determinant": lambda w: w.update(determinant=w["determinant"] ^ 1),
    "another point": lambda w: w["points"].__setitem__(0, max(w["points"]) + 1),
    "a point twice": lambda w: w["points"].__setitem__(0, w["points"][1]),
    "two exchanged": lambda w: _swap(w["points"]),
    "fewer arguments": lambda w: w.update(arguments=w["arguments"] - 1),
    "fewer coordinates": lambda w: w.update(coordinates=w["coordinates"] - 1),
}


@pytest.mark.parametrize("spec", MODULAR[1:4])
@pytest.mark.parametrize("name", OF_WITNESSES)
def test_independence_that_was_changed(spec: str, name: str) -> None:
    document = certificate(spec)
    if document["independence"] is None:
        assert not graph_of(architecture(spec)).arguments
        return
    OF_WITNESSES[name](document["independence"])
    verdict = verify(sealed(document))
    assert not verdict.valid
    assert verdict.reason.startswith(("independence", "the point is unusable"))


@pytest.mark.parametrize("spec", MODULAR)
def test_what_must_be_shown_may_not_be_left_out(spec: str) -> None:
    for key in ("independence", "roots"):
        document = certificate(spec)
        if document[key]:
            assert not verify(sealed({**document, key: None})).valid


@pytest.mark.parametrize("spec", MODULAR)
@pytest.mark.parametrize("key", ["seed", "prime"])
def test_at_another_point(spec: str, key: str) -> None:
    document = certificate(spec)
    if key == "seed":
        document["point"]["seed"] += 1
    else:
        document["point"]["prime"] = 2147483587  # 3 mod 4
    assert not verify(sealed(document)).valid


def test_roots_come_in_any_order_and_with_short_salts() -> None:
    document = certificate(MODULAR[3])
    for root in document["roots"]:
        while root["salts"] and not any(root["salts"][-1]):
            root["salts"].pop()
    document["roots"].reverse()
    assert verify(sealed(document)).valid


def test_any_precision_will_do() -> None:
    for bits, valid in ((63, False), (64, True), (200, True), (4097, False)):
        document = certificate(REAL[0])
        document["lower"]["bits"] = bits
        assert verify(sealed(document)).valid == valid


@pytest.mark.parametrize("spec", [MODULAR[0], MODULAR[3], REAL[0]])
def test_less_may_be_claimed(spec: str) -> None:
    """No rows prove nothing, but are no error."""
    document = certificate(spec)
    document["lower"].update(rows=[], columns=[])
    if spec in MODULAR:
        document["lower"]["determinant"] = 1
    if "salts" in document["lower"]:
        document["lower"]["salts"] = {}
    document["claim"].update(lower=0, status="bounds")
    verdict = verify(sealed(document))
    assert verdict.valid, verdict.reason
    assert verdict.lower == 0


@pytest.mark.parametrize("spec", [MODULAR[0], MODULAR[3], REAL[0], REAL[1]])
def test_numbers_of_inputs_are_bounded(spec: str) -> None:
    """Beyond, the random generator would begin again."""
    document = certificate(spec)
    document["lower"]["rows"][0][0] = 2**64 - 1
    assert verify(sealed(document)).reason.startswith("lower.rows[0]")


def test_progress_is_reported() -> None:
    for spec in (MODULAR[3], REAL[0]):
        seen: list[tuple[str, int, int]] = []
        verify(certificate(spec), progress=lambda *step, seen=seen: seen.append(step))
        assert any(name == "Jacobian rows" and done == total for name, done, total in seen)


@pytest.mark.parametrize("spec", REAL)
def test_minors_in_balls(spec: str) -> None:
    document = certificate(spec)
    for key in ("independence", "roots"):
        assert verify(sealed({**document, key: []})).reason.startswith(key)
    document["lower"]["columns"][0] = document["lower"]["columns"][1]
    assert verify(sealed(document)).reason.startswith("lower.columns")
    # A column of weights that do nothing: no number of bits makes the minor regular.
    document = certificate("transformer/d=2/mlp=relu/ff=2/causal=true/t=1")
    if document["lower"]["kind"] == "balls":
        free = [c for c in range(8) if c not in document["lower"]["columns"]]
        document["lower"]["columns"][0] = free[0]
        assert not verify(sealed(document)).valid


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ("softmax/d=2,2/a=2/t=2", True),
        ("mix/d=2,2/a=2/heads=lightning:feature=relu/t=2", False),
        ("mix/d=2,2/a=2/heads=linear/t=2", False),
        ("transformer/d=2/mlp=relu/ff=2/t=2", False),
        ("transformer/d=4/heads=1/head=4/pos=rope/mlp=gelu-tanh/ff=2/t=2", False),
        ("transformer/d=4/heads=1/head=4/pos=rope/mlp=gelu/ff=2/t=2", True),
        ("transformer/d=4/heads=1/head=4/pos=rope/rescale=dynamic:2:2/t=4", False),
        ("transformer/d=4/heads=1/head=4/pos=rope/base=100,10/layers=2/t=2", False),
        ("transformer/d=4/vocab=5/t=2", False),
        ("transformer/d=4/mlp=swiglu/experts=3/active=2/eff=2/t=2", False),
        ("poly/2-2/degree=2", True),
    ],
)
def test_where_minors_mod_p_prove_something(spec: str, *, allowed: bool) -> None:
    net = architecture(spec)
    assert provable(net, graph_of(net)) == allowed


@pytest.mark.parametrize(
    "spec",
    [
        *("transformer/d=1/t=1000000000", "transformer/d=100000/head=1/heads=1/t=1"),
        *("transformer/d=2/head=900000000/heads=1/pos=rope/t=2", "lightning/d=1,1/a=1/t=90000"),
        *("mix/d=1,1/a=1/heads=softmax:causal/t=90000", "cnn/k=2/n=900000000/degree=2"),
        *(
            "transformer/d=2/vocab=900000000/t=2",
            "mix/d=2,2/a=1/heads=lightning:decay=learned/t=900",
        ),
    ],
)
def test_graphs_are_refused_before_they_are_large(spec: str) -> None:
    with pytest.raises(TooLargeError):
        graph_of(architecture(spec))


class Watch(Meter):
    """A meter that remembers what it was asked to allow."""

    estimated = 0.0

    def require(self, work: float) -> None:
        self.estimated += work


@pytest.mark.parametrize("spec", [*MODULAR, *REAL])
def test_work_is_charged_as_it_was_estimated(spec: str) -> None:
    found = examine(certificate(spec))
    with metered(Watch()) as watch:
        check(found, graph_of(found.spec), [], lambda *_: None)
    assert 0 < watch.spent <= watch.estimated < 2 * watch.spent


def test_regions_do_not_overlap() -> None:
    """A region is a run of nodes that ends with its output."""
    for spec in (*MODULAR, *REAL, "deepseek-v3/d=4/heads=2/ff=4/vocab=5/t=2"):
        graph: Graph = graph_of(architecture(spec))
        last = -1
        for region in sorted(graph.regions, key=lambda region: region.first):
            assert last < region.first <= region.output < len(graph.nodes)
            assert all(node < region.first for node in region.inputs)
            last = region.output
