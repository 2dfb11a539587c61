"""Sweep files: what is drawn, and what is refused, in one line."""

import re
import tomllib
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import segre.sweep.draw as sweep_draw
from segre.errors import SweepError
from segre.models import architecture
from segre.spec import Network
from segre.sweep.builtin import builtin_names, plan_of
from segre.sweep.draw import architectures
from segre.sweep.plan import SPECS, Plan
from segre.sweep.run import rehearse
from support.small_sweeps import segre, small

FIELDS: dict[str, Any] = small()["fields"]

HOSTILE = {
    "unknown key": small(evil=1),
    "unknown field": small(fields={**FIELDS, "evil": 1}),
    "unknown kind": small(kind="evil"),
    "mixed kinds": small(kind=["softmax", "llama"]),
    "no kind": small(kind=[]),
    "no fields": small(fields={}),
    "fields are a list": small(fields=[1]),
    "code in the claim": small(claim="__import__('os').system('id')"),
    "code in a constraint": small(where="open('x')"),
    "unknown name": small(claim="dimension == secret"),
    "name beyond the depth": small(claim="dimension == d2"),
    "result in a constraint": small(where="dimension > 3"),
    "a claim that is a number": small(claim=3),
    "a claim on what is not computed": small(compute=["exact"]),
    "huge range": small(fields={**FIELDS, "t": "1..999999999"}),
    "range of huge numbers": small(fields={**FIELDS, "t": "1..99999999999999999999"}),
    "range backwards": small(fields={**FIELDS, "t": "3..1"}),
    "range of words": small(fields={**FIELDS, "t": "a..b"}),
    "empty list": small(fields={**FIELDS, "t": []}),
    "value twice": small(fields={**FIELDS, "t": [1, 1]}),
    "fractions": small(fields={**FIELDS, "t": [1.5]}),
    "nested": small(fields={**FIELDS, "t": [[1]]}),
    "table": small(fields={**FIELDS, "t": {"each": 1}}),
    "other table": small(fields={**FIELDS, "d": {"some": 1}}),
    "deep": small(fields={**FIELDS, "layers": "1..101"}),
    "no layers": small(fields={**FIELDS, "layers": 0}),
    "huge draw": small(draw=10**9),
    "negative draw": small(draw=-1),
    "draw of words": small(draw="many"),
    "draw and exhaustive": small(exhaustive=True),
    "neither": {k: v for k, v in small().items() if k != "draw"},
    "huge enumeration": {
        **{k: v for k, v in small().items() if k != "draw"},
        "exhaustive": True,
        "fields": {"layers": "50..100", "d": {"each": "1..9999"}, "a": 1, "t": 2},
    },
    "seed of words": small(seed="x"),
    "negative seed": small(seed=-1),
    "unknown computation": small(compute=["evil"]),
    "nothing to compute": small(compute=[]),
    "a name that is no text": small(name=3),
}


@pytest.mark.parametrize("given", HOSTILE.values(), ids=HOSTILE)
def test_hostile_plans_are_refused_in_a_line(given: dict[str, Any]) -> None:
    with pytest.raises(SweepError) as refused:
        Plan.from_mapping(given)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "kind = \"softmax\"\nclaim = \"__import__('os').system('touch hacked')\"\ndraw = 1\n"
        "[fields]\nd = 2\na = 1\nt = 2",
        'kind = "softmax"\ndraw = 1\nevil = 1\n[fields]\nd = 2\na = 1\nt = 2',
        'kind = "softmax"\nexhaustive = true\n[fields]\nd = "1..10000"\na = "1..10000"\nt = 2',
        "not toml at all",
        "x = " + "[" * 5000,
        "\x00",
    ],
)
def test_hostile_files_are_refused_in_a_line(text: str, tmp_path: Path) -> None:
    file = tmp_path / "evil.toml"
    file.write_text(text)
    done = segre("sweep", "run", str(file), "-o", str(tmp_path / "x.db"), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("segre: ")
    assert [path.name for path in tmp_path.iterdir()] == ["evil.toml"]


@given(
    st.dictionaries(
        st.text(max_size=9),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=9),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
            max_leaves=6,
        ),
    ),
    st.sampled_from(["kind", "fields", "where", "draw", "seed", "compute", "claim", "none"]),
)
def test_any_mapping_gives_a_plan_or_an_error(extra: dict[str, Any], key: str) -> None:
    mapping = small(**({key: next(iter(extra.values()), None)} if key != "none" else extra))
    with suppress(SweepError):
        Plan.from_mapping(mapping)


def drawn(**changes: Any) -> list[str]:
    return [str(x.spec) for x in architectures(Plan.from_mapping(small(**changes)))]


@given(st.integers(0, 2**63 - 1), st.integers(1, 80))
def test_draws_have_no_repeats_and_longer_ones_begin_with_shorter_ones(seed: int, n: int) -> None:
    specs = drawn(seed=seed, draw=n)
    assert len(set(specs)) == len(specs) == n
    assert drawn(seed=seed, draw=n) == specs
    assert drawn(seed=seed, draw=n + 5)[:n] == specs


def test_exhaustive_is_all_and_constraints_hold() -> None:
    fields = {"layers": "1..2", "d": {"each": "1..3"}, "a": "1..2", "t": 2}
    mapping = {"kind": "softmax", "exhaustive": True, "fields": fields, "where": "d0 <= a"}
    specs = [x.spec for x in architectures(Plan.from_mapping(mapping))]
    every = [
        Network.parse({"kind": "softmax", "d": [x, y, *z], "a": a, "t": 2})
        for z in ([], [1], [2], [3])
        for x in (1, 2, 3)
        for y in (1, 2, 3)
        for a in (1, 2)
        if x <= a
    ]
    assert {s.digest for s in specs} == {s.digest for s in every}
    assert len(specs) == len(every)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """All candidates that are built from now on."""
    every: list[Any] = []

    def build(given: Any) -> Any:
        every.append(given)
        return architecture(given)

    monkeypatch.setattr(sweep_draw, "architecture", build)
    return every


def test_a_draw_of_more_than_all_combinations_builds_nothing(built: list[Any]) -> None:
    plan = Plan.from_mapping(small(fields={"d": 2, "a": "1..2", "t": 2}, draw=5))  # two kinds
    with pytest.raises(SweepError, match="only 4 combinations"):
        rehearse(plan)
    assert built == []
    assert len(list(architectures(Plan.from_mapping({**plan.given, "draw": 4})))) == 4


@pytest.mark.parametrize("width", [3, 9, 20])
def test_a_draw_of_more_than_a_family_has_builds_every_candidate_once(
    width: int, built: list[Any]
) -> None:
    fields = {"layers": "1..2", "d": f"1..{width}", "a": f"1..{width}", "t": "1..2"}
    plan = small(fields=fields, where="a <= d", draw=2 * 2 * 2 * width * (width + 1) // 2)
    assert len(list(architectures(Plan.from_mapping(plan)))) == plan["draw"]
    built.clear()
    plan["draw"] += 1
    with pytest.raises(SweepError, match=f"family has only {plan['draw'] - 1:,} arch"):
        list(architectures(Plan.from_mapping(plan)))
    assert len(built) == Plan.from_mapping(plan).candidates == 8 * width**2


@pytest.mark.parametrize(
    ("given", "cost"),
    [
        ({"kind": "softmax", "fields": {"layers": 100, "d": {"each": "1..9"}, "a": 1}}, 110),
        ({"kind": "softmax", "fields": {"layers": 2, "d": {"each": "1..999"}, "a": 1}}, 12),
        ({"kind": "gpt2", "fields": {"d": "4..9999", "ff": "4..9999"}}, 100),
    ],
)
def test_a_family_that_is_too_large_to_try_is_given_up_after_bounded_work(
    given: dict[str, Any], cost: int, built: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_draw, "_WASTED", 20_000)
    fields = {**given["fields"], "t": 2}
    plan = Plan.from_mapping({**given, "fields": fields, "draw": 2, "where": "t == 1"})
    assert plan.candidates > SPECS
    with pytest.raises(SweepError, match="constraints"):
        list(architectures(plan))
    assert len(built) == -(-20_000 // cost)


def test_many_candidates_of_many_layers_are_refused_before_one_is_built(built: list[Any]) -> None:
    fields = {"layers": 100, "d": "1..1000", "a": "1..900", "t": 2}
    for number in ({"exhaustive": True}, {"draw": 900_000}):
        with pytest.raises(SweepError, match="90,000,000 layers"):
            rehearse(Plan.from_mapping({"kind": "softmax", "fields": fields, **number}))
    assert built == []


def test_a_family_of_nothing_says_why() -> None:
    plan = Plan.from_mapping(small(where="a1 > 5"))
    with pytest.raises(SweepError, match="constraints"):
        list(architectures(plan))
    wrong = {"kind": "llama", "draw": 1, "fields": {"d": 4, "mlp": "evil"}}
    with pytest.raises(SweepError, match="evil"):
        list(architectures(Plan.from_mapping(wrong)))


def test_transformers_are_drawn_too() -> None:
    fields = {"d": [4, 6], "heads": "1..3", "ff": "2..5", "norm": ["rms", "layer"], "t": 3}
    mapping = {"kind": ["llama", "gpt2"], "draw": 20, "fields": fields, "where": "head >= 2"}
    found = list(architectures(Plan.from_mapping(mapping)))
    assert len({x.spec.digest for x in found}) == 20
    assert all(x.fields["head"] >= 2 and x.fields["d"] % x.fields["heads"] == 0 for x in found)


def test_the_documented_file_is_a_plan() -> None:
    page = (Path(__file__).parents[2] / "docs" / "sweeps.md").read_text()
    (text,) = re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert list(islice(architectures(Plan.from_mapping(tomllib.loads(text))), 3))


@pytest.mark.parametrize("name", builtin_names())
def test_ready_made_sweeps_are_plans(name: str) -> None:
    plan = plan_of(name)
    assert plan.claim is not None
    assert plan.candidates <= SPECS or plan.draw
    assert len(list(islice(architectures(plan), 20))) == 20
