"""Bounds, statuses and methods; what is proved and what is not."""

import tracemalloc
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings

from segre.errors import SegreError, TooLargeError, UnluckyError
from segre.geometry import dimension as module
from segre.geometry.balls import ball_minor
from segre.geometry.dimension import Method, dimension, prove
from segre.geometry.estimate import spectrum
from segre.geometry.point import Point
from segre.geometry.rank import jacobian_rank
from segre.spec import Network
from support.architectures import networks, random_stacks


def test_the_example_of_the_readme() -> None:
    found = dimension("softmax/d=10,10,10/a=2,2/t=3")
    assert (found.value, found.lower, found.upper) == (172, 172, 172)
    assert (found.status, found.parameters, found.fiber_dimension) == ("proved", 280, 108)
    assert found.upper_evidence is not None
    assert found.upper_evidence.kind == "closed-form"
    listed = dimension("softmax/d=10,10,10/a=2,2/t=3", symmetries=True)
    assert sum(s.dimension for s in listed.symmetries) == 108


@given(networks())
def test_bounds_hold_and_seeds_agree(net: Network) -> None:
    """Another seed and another prime: the same rank, and estimates never beat an upper bound."""
    found = dimension(net)
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower <= found.upper <= net.parameters
    assert (found.status == "proved") == (found.lower == found.upper)
    assert (found.number is not None) == (not found.notes)
    again = dimension(net, seed=12345)
    assert (again.lower, again.upper) == (found.lower, found.upper)
    assert jacobian_rank(Point.draw(net, 7, attempt=2), found.upper).rank == found.lower


@given(networks(widest=4, deepest=2, most_heads=2))
@settings(max_examples=40)
def test_floats_and_exact_ranks_agree_where_the_gap_is_wide(net: Network) -> None:
    found, seen = dimension(net), spectrum(net)
    smallest = seen.values[seen.rank - 1] / seen.values[0]
    if seen.gap > 1e6 and smallest > 1e-6:  # else true singular values may be below rounding
        assert seen.rank == found.lower


@given(networks(widest=3, deepest=2, most_heads=2))
@settings(max_examples=25)
def test_balls_certify_the_same_rank_at_a_real_point(net: Network) -> None:
    proof = prove(net)
    found = ball_minor(net, proof.lower.value, candidate=proof.minor)
    assert found is not None
    assert found.bound.value == proof.lower.value


def test_where_symmetries_do_not_explain_the_deficiency_the_bounds_stay_apart() -> None:
    for text in (
        "lightning/d=2,4/a=2/heads=3/dv=1/t=2",
        "softmax/d=3,2,4,3/a=3,2,3/heads=3,2,2/t=2",
    ):
        found = dimension(text, "exact")
        assert found.status == "lower-bound"
        assert found.lower is not None
        assert found.upper is not None
        assert found.lower < found.upper
        assert found.value is None
        assert "do not meet" in found.notes[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("softmax/d=6,6/a=2/heads=3/t=3", 3 * (2 * 2 * 6 - 4 + 36)),
        ("softmax/d=4,4,4/a=2/heads=2/t=3", 2 * 2 * (2 * 2 * 4 - 4 + 16) - 16),
        ("softmax/d=6,6,6/a=2/heads=3/dv=2/t=3", 2 * 3 * (2 * (24 - 4)) - 36),
        ("lightning/d=6,6/a=2/heads=3/t=3", 3 * (2 * 2 * 6 - 4 + 36 - 1)),
    ],
)
def test_multi_head_stacks_are_proved(text: str, value: int) -> None:
    found = dimension(text)
    assert (found.value, found.status) == (value, "proved")


def test_methods_say_what_they_are() -> None:
    text = "lightning/d=4,4,4/a=2,2/t=3"
    formula = dimension(text, method="closed-form")
    assert (formula.value, formula.status) == (None, "upper-bound")
    assert (formula.lower, formula.upper) == (None, 38)
    exact = dimension(text, method="exact")
    assert (exact.value, exact.status) == (38, "proved")
    assert exact.upper_evidence is not None
    assert exact.upper_evidence.kind == "symmetries"
    balls = dimension(text, method="balls")
    assert (balls.value, balls.status) == (38, "proved")
    assert balls.lower_evidence is not None
    assert balls.lower_evidence.kind == "ball-minor"
    guess = dimension(text, method="estimate")
    assert (guess.estimate, guess.status) == (38, "estimate")
    assert (guess.value, guess.lower, guess.upper) == (None, None, None)


@pytest.mark.parametrize("method", get_args(Method))
def test_a_bound_is_not_a_value(method: Method) -> None:
    """Whatever is asked in whatever way: there is a value if and only if two bounds meet.

    What random points say is a number, and no value.
    """
    transformers = ["gpt2", "llama-3-8b", "llama/d=4/heads=2/ff=3/t=2", "gpt2/d=4/heads=2/ff=3/t=2"]
    apart = "lightning/d=2,4/a=2/heads=3/dv=1/t=2"
    seen = set()
    for spec in [*random_stacks(5, 25), *transformers, apart]:
        try:
            found = dimension(spec, method)
        except SegreError:  # not for this kind of architecture, or too large for this method
            continue
        document = found.document()
        meet = found.lower is not None and found.lower == found.upper
        seen.add(found.status)
        assert meet == (found.status == "proved")
        assert found.value == (found.lower if meet else None)
        assert document["dimension"] == found.number
        assert (found.number is None) == (not meet and found.sample is None)
        assert (document["fiber_dimension"] is None) == (found.number is None)
        assert (found.estimate is None) == (found.status != "estimate")
        if meet:
            assert found.parameters - found.fiber_dimension == found.value
    assert seen <= _STATUSES[method]


_STATUSES: dict[Method, set[str]] = {
    "auto": {"proved", "certain", "upper-bound"},
    "theorem": {"proved"},
    "exact": {"proved", "lower-bound"},
    "random": {"proved", "certain", "likely"},
    "balls": {"proved", "lower-bound", "upper-bound"},
    "closed-form": {"upper-bound"},
    "count": {"upper-bound"},
    "estimate": {"estimate"},
}


def test_an_estimate_with_a_small_gap_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    from segre.geometry import estimate

    values = np.array([1.0, 1e-3, 1e-14, 1e-16])
    made = estimate.Spectrum(values, tolerance=5e-15, inputs=50)
    monkeypatch.setattr(estimate, "spectrum", lambda *_, **__: made)
    found = dimension("softmax/d=2,2/a=1/t=2", method="estimate")
    assert found.estimate == 3
    assert any("warning" in note for note in found.notes)


@pytest.mark.parametrize(("method", "seed"), [("guess", 0), ("auto", -1), ("auto", 2**63)])
def test_bad_arguments_are_refused(method: str, seed: int) -> None:
    with pytest.raises(SegreError, match="allowed"):
        dimension("softmax/d=2,2/a=1/t=2", method=method, seed=seed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "softmax/d=1000,1000,1000/a=100/t=3",
        "lightning/d=2,2/a=1/heads=1000000000/t=2",
        "softmax/d=10,10/a=2/t=100000",
        "softmax/d=1/layers=10000/a=1000000000/t=1",
    ],
)
@pytest.mark.parametrize("method", ["exact", "estimate"])
def test_past_the_memory_limit_nothing_is_allocated(text: str, method) -> None:
    net = Network.parse(text)
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError, match=r"needs (about .* GiB|more than 1 PiB) of memory"):
            dimension(net, method=method)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_the_limit_is_an_argument() -> None:
    with pytest.raises(TooLargeError):
        dimension("softmax/d=10,10,10/a=2/t=3", memory=1 << 20)


def test_unlucky_points_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    original = module._prove_at
    seen: list[int] = []

    def unlucky_twice(point, *rest):
        seen.append(point.field.seed)
        if len(seen) <= 2:
            raise UnluckyError("zero")
        return original(point, *rest)

    monkeypatch.setattr(module, "_prove_at", unlucky_twice)
    assert dimension("softmax/d=2,2/a=1/t=2", seed=40).value == 7
    assert seen == [40, 41, 42]
    monkeypatch.setattr(module, "_prove_at", lambda *_: (_ for _ in ()).throw(UnluckyError("0")))
    with pytest.raises(UnluckyError, match="another --seed"):
        dimension("softmax/d=2,2/a=1/t=2")


def test_too_few_inputs_would_understate_the_rank() -> None:
    """The trap: rows outnumber the rank long before the rank is reached."""
    net = Network.parse("softmax/d=10,10,10/a=2,2/t=3")
    found = jacobian_rank(Point.draw(net, 0), 172)
    assert found.rank == 172
    assert found.inputs > 172 // 30 + 1


def test_an_upper_bound_that_is_too_small_is_noticed() -> None:
    net = Network.parse("softmax/d=4,4,4/a=2/t=3")
    with pytest.raises(AssertionError, match="above the upper bound"):
        jacobian_rank(Point.draw(net, 0), 39)


def test_without_a_tight_bound_the_rank_stops_by_itself() -> None:
    net = Network.parse("softmax/d=4,4,4/a=2/t=3")
    assert jacobian_rank(Point.draw(net, 0), net.parameters).rank == 40
