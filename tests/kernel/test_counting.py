"""Upper bounds by counting: closed forms, inequalities, contexts, and spaces of polynomials."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bench.faults.certificates import sealed

from segre.certificate import certify
from segre.geometry.dimension import dimension
from segre.kernel.counting import ambient, closed_form, powers
from segre.kernel.document import RejectionError
from segre.kernel.inequalities import RULES, Step, check_steps
from segre.kernel.linear import rank
from segre.kernel.network import graph_of
from segre.kernel.spaces import accepted, facts_of, watched
from segre.polynomial.bounds import bound, sums_of_powers
from segre.polynomial.spec import Polynomial
from segre.spec import Network
from segre.symmetry.document import entries
from support.certificates import certificate, holds, rank_is_recounted, refused
from support.polynomials import random_polynomial, random_polynomials

PRIME = 8388547
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


# Polynomial networks.


@pytest.mark.parametrize("spec", SPECS)
def test_every_rule(spec: str) -> None:
    """The bound of every kind of polynomial network meets its dimension."""
    document = certificate(spec)
    assert document["claim"]["status"] == "proved"
    holds(document)


def test_every_rule_is_among_them() -> None:
    """Linear networks and filters may be bounded by spaces as well."""
    uppers = [certificate(spec)["upper"] for spec in SPECS]
    rules = {step["rule"] for upper in uppers for step in upper.get("steps", ())}
    assert rules | {"linear", "filters"} == set(RULES)


@pytest.mark.parametrize("seed", range(3))
def test_random_polynomials(seed: int) -> None:
    """Certificates of random networks are accepted."""
    for spec in random_polynomials(seed, 12):
        holds(certify(spec, seed=seed))


def test_prover_and_kernel_find_the_same_bounds() -> None:
    """Every step has the value that the prover gives it, and no other."""
    rng = random.Random(5)
    for _ in range(1000):
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
    for _ in range(40):
        spec = random_polynomial(rng, widest=4, deepest=3)
        lower = dimension(spec).lower
        assert lower is not None
        for bounded in _every_bound(spec):
            assert lower <= bounded, str(spec)


def _every_bound(spec: Polynomial) -> list[int]:
    """The values of all trees that have one step, or one and the best parts."""
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
    """The theorem of Alexander and Hirschowitz, written twice."""
    for n in range(1, 9):
        for r in range(2, 8):
            for m in (*range(1, 40), 10**6, 10**9):
                assert powers(n, r, m) == sums_of_powers(n, r, m), (n, r, m)
    assert powers(10**9, 1000, 10**9) == sums_of_powers(10**9, 1000, 10**9) == 10**18


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda s: s[:-1], "parts of them are missing"),
        (lambda s: [*s, s[-1]], "there should be 3 steps"),
        (lambda s: [s[0], s[2], s[1]], "is not for these widths"),
        (lambda s: [{**s[0], "at": 2}, *s[1:]], "is not for these widths"),
        (lambda s: [{**s[0], "at": 0}, *s[1:]], "'cut' at 0 is not for these widths"),
        (lambda s: [{**s[0], "at": 4}, *s[1:]], "steps[0].at"),
        (lambda s: [{**s[0], "at": None}, *s[1:]], "steps[0].at"),
        (lambda s: [{"rule": "cut", "value": 7}, *s[1:]], "'at' is missing"),
        (lambda s: [s[0], {**s[1], "at": 1}, s[2]], "'at' is not allowed"),
        (lambda s: [{**s[0], "value": 6}, *s[1:]], "steps[0].value: 6, but by the rule 'cut'"),
        (lambda s: [{**s[0], "value": 6}, s[1], {**s[2], "value": 2}], "steps[2].value"),
        (lambda s: [s[0], s[1], {**s[2], "rule": "filters"}], "is not for these widths"),
        (lambda s: [s[0], s[1], {**s[2], "rule": "magic"}], "steps[2].rule: 'magic'"),
        (lambda s: [s[0], s[1], {**s[2], "value": True}], "steps[2].value"),
        (lambda s: [s[0], s[1], 3], "steps[2]"),
        (lambda s: [s[0]] * 100_000, "100000 steps; allowed: 1 to 6"),
        (lambda _: [], "0 steps"),
        (lambda _: {}, "not a list"),
        (lambda _: [{"rule": "linear", "value": 3}], "is not for these widths"),
    ],
)
def test_forged_trees(change: Callable[[Any], Any], reason: str) -> None:
    """A tree of inequalities that was altered is refused, and the reason says where."""
    document = certificate(TREE)
    document["upper"]["steps"] = change(document["upper"]["steps"])
    assert reason in refused(sealed(document)).reason


@pytest.mark.parametrize("step", [-1, 1])
@pytest.mark.parametrize("spec", [SCALES, "cnn/k=3,2/degree=2"])
def test_spaces_are_recounted(spec: str, step: int) -> None:
    """The rank of the spaces of a polynomial network."""
    rank_is_recounted(spec, step)


# Plain stacks.


def _rank(net: Network) -> int:
    """The rank of the Jacobian at the inputs that spaces are held against."""
    facts = facts_of(net, graph_of(net), PRIME, 1)
    return rank(watched(facts, 1, hard=False)[0], PRIME)


@pytest.mark.parametrize("seed", range(120))
def test_closed_form_is_the_dimension(seed: int) -> None:
    """Of heads on their own the closed form, the rank and the rank of the spaces agree."""
    rng = random.Random(1000 + seed)
    depth = rng.choice([1, 2, 2, 3])
    fields = {
        "kind": rng.choice(["lightning", "softmax"]),
        "d": [rng.randint(1, 4) for _ in range(depth + 1)],
        "a": [rng.randint(1, 3) for _ in range(depth)],
        "t": rng.choice([1, 1, 2, 3]),
    }
    net = Network.from_mapping(fields)
    _, found = accepted(net, graph_of(net), PRIME, seed, list(entries(net)))
    lower = certify(net, seed=seed)["claim"]["lower"]
    assert closed_form(net) == lower == net.parameters - found, str(net)


@pytest.mark.parametrize("t", [1, 2])
@pytest.mark.parametrize("widths", ["1,1", "2,1", "2,2", "3,1"])
def test_ambient_is_reached_by_many_heads(t: int, widths: str) -> None:
    """A lightning layer with many heads can be any map of its kind."""
    document = certify(f"lightning/d={widths}/a=3/heads=8/t={t}")
    net = Network.parse(f"lightning/d={widths}/a=3/heads=8/t={t}")
    assert document["claim"]["lower"] == ambient(net)
    assert np.all(_rank(net) <= ambient(net))


def test_formulas_refuse_other_networks() -> None:
    """Closed forms are for single heads, and the ambient space for one lightning layer."""
    for spec in ("lightning/d=2,2/a=1/heads=2/t=2", "softmax/d=2,2/a=1/dv=1/t=2"):
        with pytest.raises(RejectionError, match="closed-form"):
            closed_form(Network.parse(spec))
    for spec in ("lightning/d=2,2,2/a=1/t=2", "softmax/d=2,2/a=1/t=2"):
        with pytest.raises(RejectionError, match="ambient"):
            ambient(Network.parse(spec))


def test_closed_form_of_the_example() -> None:
    """The number of the documentation."""
    assert closed_form(Network.parse("softmax/d=10,10,10/a=2,2/t=3")) == 172
