"""Upper bounds by spaces: what the lemmas prove, and that nothing false is proved."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from bench.kernel import sealed

from segre.certificate import certify
from segre.errors import SegreError, TooLargeError
from segre.kernel import spaces, verify
from segre.kernel.document import RejectionError
from segre.kernel.forms import Facts
from segre.kernel.lemmas import Pass
from segre.kernel.linear import rank
from segre.kernel.meter import Meter, metered
from segre.kernel.network import graph_of
from segre.kernel.residues import Residues
from segre.kernel.spaces import accepted, facts_of, generators, watched
from segre.models import architecture
from segre.models.instances import PROVED
from segre.spec import Network
from segre.symmetry.document import entries
from segre.transformer.spec import Transformer
from support.draws import draws

PRIME = 8388547
LLAMA = "transformer/d=4/heads=2/norm=rms/eps=1e-5/pos=rope/causal=true/mlp=swiglu/ff=3/vocab=7/t=3"
GPT2 = (
    "transformer/d=4/heads=2/norm=layer/eps=1e-5/pos=learned/bias=all/causal=true/mlp=gelu/ff=3/"
    "vocab=7/tied=true/t=3"
)
NETWORKS = (
    LLAMA,
    GPT2,
    "transformer/d=4/layers=2/heads=2/norm=layer/place=post/eps=1e-5/pos=learned/bias=all/"
    "mlp=gelu/ff=3/vocab=7/types=2/embnorm=true/tied=true/transform=true/outbias=true/t=3",
    "transformer/d=4/layers=2/heads=2/norm=rms/qknorm=all/gate=element/mlp=relu2/ff=3/t=3",
    "transformer/d=4/layers=2/heads=2/share=true/bias=all/norm=layer/eps=0/mlp=reglu/ff=3/t=3",
    "transformer/d=4/heads=2/norm=rms/eps=0/vocab=7/embnorm=true/attn=lightning/t=3",
    "lightning/d=3,4,2/a=2,1/heads=2/dv=1,none/t=2",
    "mix/d=4,3,3/a=2,1/heads=linear:feature=exp:bias=both+softmax,double:gate=head/dv=2/t=3",
)


def _spec(text: str) -> Any:
    return (Transformer if text.startswith("transformer") else Network).parse(text)


def _facts(text: str, seed: int = 1) -> Facts:
    spec = _spec(text)
    return facts_of(spec, graph_of(spec), PRIME, seed)


def _port(tensor: str, axis: int = -2, *, reads: bool = False, **more: Any) -> dict[str, Any]:
    return {"tensor": tensor, "axis": axis, "reads": reads, **more}


def _basis(group: str, width: int, *ports: dict[str, Any], copies: Any = ()) -> dict[str, Any]:
    made = {"free": "basis", "group": group, "width": width, "copies": list(copies)}
    return {**made, "ports": list(ports)}


def _constants(*sources: Any, vanish: Any = ()) -> dict[str, Any]:
    entry: dict[str, Any] = {"free": "constants", "sources": list(sources)}
    return {**entry, "vanish": list(vanish)} if vanish else entry


def _holds(facts: Facts, rows: np.ndarray) -> bool:
    """Whether no output changes at some inputs: soft token sequences, or true ones."""
    return any(
        not facts.field.matmul(watched(facts, 1, hard=hard), rows.T[None]).any()
        for hard in ((False, True) if facts.simplices else (False,))
    )


@pytest.mark.parametrize("name", PROVED)
def test_the_instances_of_presets(name: str) -> None:
    """The spaces of every instance leave exactly its dimension."""
    spec = architecture(name)
    graph = graph_of(spec)
    listed = list(entries(spec))
    proved, found = accepted(spec, graph, PRIME, 3, listed)
    assert (len(proved), graph.parameters - found) == (len(listed), PROVED[name])


STREAM = [_port("embed/tokens"), _port("1/W_O"), _port("1/W_down")]
ATTENTION = [_port(f"1/W_{x}", -1, reads=True, gain="1/norm1.gain") for x in "QKV"]
UNITS = [_port(f"1/W_{x}", -1, reads=True, gain="1/norm2.gain") for x in ("gate", "up")]
LAST = [_port("head/W_U", -1, reads=True, gain="head/norm.gain")]
QUERIES, KEYS = _port("1/W_Q"), _port("1/W_K", reads=True)
VALUES = _basis("gl", 2, _port("1/W_V"), _port("1/W_O", -1, reads=True), copies=[2])


def test_a_llama_by_hand() -> None:
    """All that is free in a small Llama, and how many dimensions each entry has."""
    facts = _facts(LLAMA)
    planes = {**_basis("planes", 2, QUERIES, KEYS, copies=[2]), "planes": [[0, 1]], "start": 2}
    listed = {
        6: [_basis("o", 4, *STREAM, *ATTENTION, *UNITS, *LAST)],
        8: [VALUES],
        4: [
            planes,
            _constants({"tensor": "head/W_U", "along": {"-2": []}}),
            *[
                _basis("torus", 4, _port(f"{part}.gain"), *(_port(x, -1, reads=True) for x in read))
                for part, read in (
                    ("1/norm1", ("1/W_Q", "1/W_K", "1/W_V")),
                    ("1/norm2", ("1/W_gate", "1/W_up")),
                    ("head/norm", ("head/W_U",)),
                )
            ],
        ],
        3: [_basis("torus", 3, _port("1/W_up"), _port("1/W_down", -1, reads=True))],
    }
    rows = []
    for dimension, some in listed.items():
        for entry in some:
            rows.append(generators(facts, entry, "entry"))
            assert rank(rows[-1], PRIME) == dimension
            assert _holds(facts, rows[-1])
    assert rank(np.concatenate(rows), PRIME) == 37


def test_charges_of_heads_of_one_dimension() -> None:
    """An axis of size one, along which a gain is repeated, is one along which it is constant."""
    facts = _facts("transformer/d=2/heads=2/mlp=relu/ff=2/qknorm=true/t=3")
    ports = [_port("1/normk.gain"), _port("1/normq.gain", reads=True)]
    rows = generators(facts, _basis("torus", 1, *ports), "entry")
    assert len(rows) == 1
    assert _holds(facts, rows)


WRONG = {
    "a port is missing": _basis("o", 4, *STREAM[1:], *ATTENTION, *UNITS, *LAST),
    "a reader is missing": _basis("o", 4, *STREAM, *ATTENTION[1:], *UNITS, *LAST),
    "the group is too wide": _basis("gl", 4, *STREAM, *ATTENTION, *UNITS, *LAST),
    "a gain is left out": _basis(
        "o", 4, *STREAM, *ATTENTION, *UNITS, _port("head/W_U", -1, reads=True)
    ),
    "a gain of another norm": _basis(
        "o", 4, *STREAM, *ATTENTION, *UNITS, {**LAST[0], "gain": "1/norm2.gain"}
    ),
    "rotations see it": _basis("gl", 2, QUERIES, KEYS, copies=[2]),
    "copies that a tensor has not": _basis("gl", 2, _port("1/W_V"), copies=[3]),
    "a port twice": _basis(
        "gl", 2, _port("1/W_V"), _port("1/W_V"), _port("1/W_O", -1, reads=True), copies=[2]
    ),
    "a charge through an activation": _basis(
        "torus", 3, _port("1/W_gate"), _port("1/W_down", -1, reads=True)
    ),
    "a wrong degree": _basis(
        "torus", 3, _port("1/W_up"), _port("1/W_down", -1, reads=True, degree=2)
    ),
    "a norm with an eps": _basis("scale", 1, *({**port, "axis": -2} for port in STREAM)),
    "writers that are readers": _basis(
        "gl", 2, _port("1/W_V", reads=True), _port("1/W_O", -1, reads=True), copies=[2]
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_no_lemma_proves(what: str) -> None:
    """False entries of a small Llama are rejected in one line."""
    entry = deepcopy(WRONG[what])
    if entry["group"] == "scale":
        entry.pop("width")
        for port in entry["ports"]:
            port.pop("axis")
    with pytest.raises(RejectionError, match=r"^entry") as found:
        generators(_facts(LLAMA), entry, "entry")
    assert "\n" not in str(found.value)


NOTHING = {
    "queries are read": _constants({"tensor": "1/b_Q"}),
    "values without what takes them back": _constants({"tensor": "1/b_down"}),
    "a mean that the table reads": _constants({"tensor": "embed/tokens", "along": {"-2": []}}),
    "the same for all positions only": _constants(
        {"tensor": "embed/tokens", "along": {"-1": []}},
        {"tensor": "1/b_down", "as": 0, "times": -1},
    ),
}


@pytest.mark.parametrize("what", NOTHING)
def test_constants_that_are_seen(what: str) -> None:
    """Equations for constants that are seen leave true generators alone, if any."""
    facts = _facts(GPT2)
    rows = generators(facts, NOTHING[what], "entry")
    free = len(next(iter(NOTHING[what]["sources"]), {})) and rank(rows, PRIME)
    assert _holds(facts, rows)
    assert free <= 1 + 4  # a mean, or what another constant takes back


@pytest.mark.parametrize("given", ["vocab=2/types=1/read=last", "vocab=1/read=first"])
def test_a_single_token_is_not_a_table(given: str) -> None:
    """Taking column 2, of all columns, was read as taking row 2, of the types."""
    facts = _facts(
        f"transformer/d=4/heads=2/norm=rms/eps=0/transform=true/mlp=relu/ff=3/labels=3/{given}/t=3"
    )
    with pytest.raises(RejectionError, match="charges do not cancel"):
        generators(facts, _basis("torus", 4, _port("head/W_T", -1)), "entry")


def test_a_point_where_equations_are_dependent() -> None:
    """A forger's point, at which what attention writes has a smaller rank, proves nothing."""
    text = "transformer/d=4/heads=1/head=3/bias=qkv/t=2"
    facts, entry = _facts(text), _constants({"tensor": "1/b_V"})
    assert not len(generators(facts, entry, "entry"))
    W = facts.weights["1", "W_O"]
    W[..., 2] = W[..., 1]
    with pytest.raises(RejectionError, match="dependent"):
        generators(facts, entry, "entry")


def test_a_point_where_a_gain_is_zero() -> None:
    """A forger can look for a seed at which a gain is 0 mod p: its row is reached all the same."""
    facts, seed = _facts(LLAMA), 4668071
    field = Residues(PRIME, seed)
    offset = facts.graph.tensors["1", "norm2.gain"].offset
    assert int(field.drawn(0, np.array([offset]))[0]) == 0
    for where in ("unreached", "unread"):
        entry = _constants({"tensor": "1/W_up", "where": where})
        assert not len(generators(_facts(LLAMA, seed), entry, "entry"))


def test_a_point_where_an_eps_is_zero() -> None:
    """An eps that is a multiple of p has no inverse, which is said in one line."""
    facts = _facts(
        f"transformer/d=3/norm=rms/eps={PRIME}/embnorm=true/firstnorm=false/mlp=silu/ff=2/vocab=5/"
        "t=2"
    )
    words = {**_port("embed/tokens", reads=True), "normed": True}
    with pytest.raises(RejectionError, match="division by zero"):
        generators(facts, _basis("torus", 3, _port("embed/norm.gain"), words), "entry")


def _forged(seed: int, **more: Any) -> dict[str, Any]:
    """A certificate about y = w x with an entry that says whatever `generators` makes of it."""
    document = certify("poly/2-1/degree=2")
    claim = {**document["claim"], "lower": 0, "upper": 1, "upper_by": "spaces", "status": "bounds"}
    lower = {**document["lower"], "rows": [], "columns": [], "determinant": 1}
    upper = {"kind": "spaces", "spaces": [{"free": "basis", **more}], "rank": 1}
    point = {"seed": seed, "prime": 65537}
    return sealed({**document, "claim": claim, "point": point, "lower": lower, "upper": upper})


def test_a_forger_cannot_choose_the_inputs_of_the_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were a lemma wrong, no seed would hide it: the inputs follow from the whole document."""
    rows = np.array([[1, 0]])  # the first weight moves: y changes by the first entry of x
    monkeypatch.setattr(spaces, "generators", lambda *_: rows)
    for seed in range(200):
        assert verify(_forged(seed)).reason == "upper.spaces[0]: a generator changes an output"
    seeds, weigh = [], np.array([[1, 2]])

    def seen(_facts: Facts, seed: int, **_: Any) -> np.ndarray:
        seeds.append(seed)
        return weigh[None]

    monkeypatch.setattr(spaces, "watched", seen)
    for more in range(20):
        verify(_forged(7, group=more))
    assert len(set(seeds)) == 20, "of one seed, prime and network, but other documents"


@pytest.mark.parametrize(("prime", "count"), [(103, 10), (65537, 4), (PRIME, 3), (2**31 - 1, 2)])
def test_the_guard_has_inputs_enough_for_its_prime(prime: int, count: int) -> None:
    """A false generator is missed with a chance of about 2^-60, also by who tries many seeds."""
    spec = architecture("poly/2-1/degree=2")
    hidden = 0
    for seed in range(300):
        shown = watched(facts_of(spec, graph_of(spec), prime, seed), 1000 + seed, hard=False)[0]
        assert shown.shape == (count, 2)
        hidden += not shown[:, 0].any()
    assert hidden == 0


def test_a_point_without_values_is_no_way_around_the_guard() -> None:
    """Where every input divides by zero, nothing is accepted."""
    spec = _spec("transformer/d=1/norm=layer/mlp=silu/ff=2/t=2")
    with pytest.raises(RejectionError, match="no value at most inputs"):
        watched(facts_of(spec, graph_of(spec), PRIME, 1), 1, hard=False)


def _altered(rng: random.Random, entry: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """An entry in which something was changed."""
    entry = deepcopy(entry)
    parts = entry.get("ports") or entry.get("sources")
    if not parts:
        return entry
    one = rng.choice(parts)
    axis = rng.choice([-1, -2, -3])
    what = rng.randrange(9)
    if what == 0:
        one["tensor"] = rng.choice(names)
    elif what == 1:
        parts.remove(one)
    elif what == 2:
        parts.append({**one, "tensor": rng.choice(names)})
    elif what == 3:
        parts.append(deepcopy(one))
    elif entry["free"] == "basis":
        if what == 4:
            entry["group"] = rng.choice(["gl", "o", "o1", "torus", "shear", "turns"])
        elif what == 5:
            one["axis"] = axis
        elif what == 6:
            one["reads"] = not one["reads"]
        elif what == 7:
            one["gain"] = rng.choice([name for name in names if "gain" in name] or names)
        else:
            one["degree"] = rng.choice([1, 2, 3])
    elif what == 4:
        one["along"] = {str(axis): [], **({"-1": []} if rng.random() < 0.5 else {})}
    elif what == 5:
        one.pop("along", None)
    elif what == 6:
        one |= {"as": 0, "times": rng.choice([-1, 1, 2])}
    elif what == 7:
        entry["vanish"] = [rng.choice(names)]
    else:
        one.pop("as", None)
        one["where"] = rng.choice(["unreached", "unread"])
    return entry


def _alterations(text: str, seed: int, count: int) -> Iterator[tuple[Facts, Any]]:
    rng, facts = random.Random(seed), _facts(text, seed)
    listed = list(entries(facts.spec))
    names = ["/".join(place) for place in facts.graph.tensors]
    for _ in range(count):
        entry = _altered(rng, rng.choice(listed), names)
        yield facts, _altered(rng, entry, names) if rng.random() < 0.3 else entry


@pytest.mark.parametrize("text", NETWORKS)
@pytest.mark.parametrize("seed", draws(6, few=1))
def test_altered_entries_prove_nothing_false(text: str, seed: int) -> None:
    """What is accepted after an alteration changes no output; the rest is one line."""
    kept = []
    for facts, entry in _alterations(text, seed, 60):
        try:
            rows = generators(facts, entry, "entry")
        except RejectionError:
            continue
        kept.append((entry, rows))
    seen = [watched(facts, 1, hard=hard) for hard in (False, True)[: 1 + bool(facts.simplices)]]
    for entry, rows in kept:
        assert any(not facts.field.matmul(one, rows.T[None]).any() for one in seen), entry


@pytest.mark.parametrize("text", NETWORKS[1:4])
def test_equal_keys_are_equal_arrays(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of a shift names its array: conditions with equal keys are counted once."""
    passes: list[Pass] = []
    run = Pass.run

    def recorded(self: Pass) -> None:
        passes.append(self)
        run(self)

    monkeypatch.setattr(Pass, "run", recorded)
    for facts, entry in _alterations(text, 7, 60):
        with suppress(RejectionError):
            generators(facts, entry, "entry")
    for one in passes:
        known: dict[Any, np.ndarray] = {}
        shifts = [s for value in one.values for s in value.shifts if s.exact]
        for shift in shifts + list(one.conditions.values()):
            array = np.squeeze(
                shift.array, tuple(i for i, n in enumerate(shift.array.shape) if i and n == 1)
            )
            assert np.array_equal(known.setdefault(shift.key, array), array)


HOSTILE = {
    "a wide group": _basis("gl", 1 << 16),
    "many copies": _basis("torus", 1 << 16, _port("1/W_V", -1), copies=[1 << 16] * 2),
    "a tensor named often": _constants(*[{"tensor": "embed/tokens"}] * 5_000),
    "ports without end": _basis("gl", 4, *[_port("1/W_V", -1)] * 100_000),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_entries_that_ask_for_too_much(what: str) -> None:
    """What would take too long or too much memory is refused before it is made."""
    facts = _facts(GPT2)
    with metered(Meter(5)), pytest.raises((RejectionError, SegreError)) as found:
        generators(facts, HOSTILE[what], "entry")
    assert "\n" not in str(found.value)


def test_shifts_that_would_fill_the_memory() -> None:
    """Few parameters and small tensors, but each parameter shifts all units of all tokens."""
    facts = _facts("transformer/d=8/pos=learned/mlp=relu/ff=1000/t=300")
    with pytest.raises(TooLargeError, match="GiB"):
        generators(facts, _constants({"tensor": "embed/positions"}), "entry")


def test_spans_that_would_fill_the_memory() -> None:
    """The basis of the whole space of 7,000 units is not made."""
    facts = _facts("transformer/d=1/mlp=silu/ff=7000/t=1")
    with pytest.raises(TooLargeError, match="GiB"):
        generators(facts, _constants({"tensor": "1/W_up", "where": "unread"}), "entry")


def test_formulas_of_deep_networks_stay_short() -> None:
    """Constants that run through many layers, each of which adds to what it reads."""
    facts = _facts("transformer/d=1/layers=40/heads=1/bias=all/mlp=relu/ff=1/t=1")
    entry = _constants({"tensor": "1/b_O"}, {"tensor": "40/b_down"})
    assert not len(generators(facts, entry, "entry"))
