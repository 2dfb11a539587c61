"""Sentences on depth follow from curves: every number in them, and every word for a direction."""

import re
from math import inf, isfinite, log10, nan
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from segre.analysis.depth import _with_depth
from segre.collapse.commands import Depth
from segre.collapse.curves import FLOOR, Curve, Curves
from segre.collapse.mechanisms import MechanismStudy, Step, mechanism_advice
from segre.collapse.streams import DOMINANT, Sink
from segre.collapse.study import Study, medians, study_advice
from segre.collapse.variants import FULL, PARTS, variant
from segre.collapse.verdict import advice
from segre.report.depth import verdict
from segre.values import counted, from_logarithm

DIRECTIONS = re.compile(r"\b(fall|rise|rising|grow|shrink|rate)")


def rng_of(seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, 32])


# --- curves of a model ----------------------------------------------------------------------------


def course(rng: np.random.Generator, layers: int) -> np.ndarray:
    """Relative residuals of a kind that is drawn: what a model may do, and what it never does."""
    k = np.arange(layers + 1)
    start = 10 ** rng.uniform(-2, 0.3)
    kinds = (
        lambda: start * rng.uniform(0.05, 1.0) ** k,  # a rate
        lambda: start * rng.uniform(0.3, 1.0) ** k * np.exp(rng.normal(0, 0.2, len(k))),
        lambda: start * rng.uniform(1.0, 1.3) ** k,  # rising
        lambda: np.full(layers + 1, start),  # flat
        lambda: rng.permutation(
            [*([start] * layers), start * 1e3 ** rng.uniform(-1, 1)]
        ),  # a spike
        lambda: start * np.where(k > layers / 2, 0.9 ** (k - layers), 3.0),  # falls from a spike
        lambda: start * 0.5 ** np.minimum(k, layers // 2),  # falls, and then does not
        lambda: 10 ** rng.uniform(-9, 0.3, layers + 1),
        lambda: start * 10.0 ** -(3.0 ** np.minimum(k, 4)),
        lambda: np.full(layers + 1, 1e-3),
    )
    return np.asarray(kinds[rng.integers(len(kinds))]())


def one_curve(rng: np.random.Generator, name: str, layers: int, inputs: int) -> Curve:
    relative = np.outer(course(rng, layers), np.exp(rng.normal(0, 0.01, inputs)))
    size = np.ones_like(relative)
    if rng.random() < 0.1:
        size[rng.integers(layers + 1) :] = rng.choice([0.0, nan])
    values = {"relative": relative, "size": size}
    sink = None
    if rng.random() < 0.4:
        factor = np.where(rng.random((layers + 1, 1)) < rng.choice([0.3, 1.0]), 50.0, 2.0)
        factor = factor * np.ones_like(relative)
        if (factor >= DOMINANT).any():
            other = np.outer(course(rng, layers), np.ones(inputs))
            without = np.where(factor >= DOMINANT, other, relative)
            values |= {"factor": factor, "without": without, "position": np.zeros_like(factor)}
            layer = int(factor.mean(axis=1).argmax())
            sink = Sink(0, inputs, inputs, 50.0, layer)
    curve = Curve(variant(name), values, sink=sink)
    if curve.floored is not None and rng.random() < 0.5:
        past = np.log10(curve.mean()) - 20.0 * 3.0 ** np.arange(layers + 1)
        curve = Curve(variant(name), values, past=past, sink=sink)
    return curve


def drawn_curves(seed: int) -> Curves:
    rng = rng_of(seed)
    layers, inputs = int(rng.choice([1, 2, 3, 4, 6, 12, 30])), int(rng.choice([1, 3]))
    names = ["full", *rng.choice(["attention", "attention+mlp", "attention+skip"], 2, False)]
    every = tuple(one_curve(rng, name, layers, inputs) for name in names)
    given = {"kind": "random tokens", "count": inputs, "length": 8, "seed": 0}
    return Curves({"weights": "trained"}, given, every)


def ends_below(curve: Curve, threshold: float) -> int | None:
    """The layer from which on all that is known is below a threshold."""
    known = list(curve.mean()[: curve.lost])
    if curve.floored is not None and curve.past is not None:
        known[curve.floored :] = [
            10.0 ** max(x, -300) for x in curve.past[curve.floored : curve.lost]
        ]
    elif curve.floored is not None:
        known[curve.floored :] = [FLOOR]
    firsts = [n for n in range(len(known)) if all(x < threshold for x in known[n:])]
    return firsts[0] if firsts else None


def check_rate(sentence: str, curve: Curve, threshold: float) -> None:
    """A rate is one: the same in all layers named, of a curve that ends at its lowest."""
    found = re.fullmatch(
        r".* does not collapse: \S+ before the first layer, \S+ after layer (\d+), falling by a "
        r"factor of (\S+) per layer in layers (\d+) to (\d+)( \(.* left out\))?"
        r"(?:; at that rate it would collapse after about (\d+) layers)?\.",
        sentence,
    )
    assert found, sentence
    last, first = int(found[1]), int(found[3])
    dominated = curve.sink is not None and (curve.values["factor"][first - 1 :] >= DOMINANT).any()
    assert bool(found[5]) == dominated
    values = curve.mean("without" if dominated else "relative")
    assert int(found[4]) == last == len(values) - 1
    assert last - first >= 2
    assert values[-1] == values.min()
    steps = values[first:] / values[first - 1 : -1]
    rate = (values[-1] / values[first - 1]) ** (1 / len(steps))
    assert found[2] == f"{rate:.2g}"
    assert float(found[2]) < 1
    assert (steps < 1).all()
    assert (steps <= rate**0.5 * (1 + 1e-9)).all()
    assert (steps >= rate**1.5 * (1 - 1e-9)).all()
    if found[6]:
        after = int(found[6]) - last
        assert after > 0
        assert values[-1] * rate**after <= threshold * (1 + 1e-9)
        assert values[-1] * rate ** (after - 1) >= threshold * (1 - 1e-9)


@pytest.mark.parametrize("threshold", [1e-3, 0.3, 0.0])
def test_the_verdict_on_curves(threshold: float) -> None:
    rates = 0
    for seed in range(300):
        found = drawn_curves(seed)
        with np.errstate(all="ignore"):
            _, *said = advice(found, threshold)
            for curve in found.curves:
                rates += check_curve(curve, said, found.layers, threshold)
        if any(sentence.startswith("Nothing collapses") for sentence in said):
            assert not any(" collapses: " in sentence for sentence in said)
            assert f"Nothing collapses within {counted(found.layers, 'layer')}." in said
    assert rates > (10 if threshold < 0.1 else 0)  # the law is not empty


def check_curve(curve: Curve, said: list[str], layers: int, threshold: float) -> bool:
    """The sentences about one variant; whether there was a rate among them."""
    name = "The model" if curve.variant == FULL else str(curve.variant)
    (own,) = (x for x in said if re.match(rf"{re.escape(name)} (collapses|does not|cannot)", x))
    first, means = ends_below(curve, threshold), curve.mean()
    if first is not None:
        assert own.startswith(f"{name} collapses: below {threshold:g} from layer {first} on")
        if curve.past is not None and "the first input" in own:
            assert f"and {from_logarithm(curve.past[-1])} after layer {layers}" in own or curve.lost
    elif " cannot be judged" in own:
        assert curve.lost is not None or curve.floored is not None
    else:
        end = f"{means[-1]:.3g} after layer {layers}"
        if curve.floored is not None and curve.past is not None:
            end = f"{from_logarithm(curve.past[-1])} after layer {layers} (the first input)"
        ends = f"{means[0]:.3g} before the first layer, {end}"
        assert own.startswith(f"{name} does not collapse: {ends}")
        if own != f"{name} does not collapse: {ends}.":
            check_rate(own, curve, threshold)
            return True
    assert not DIRECTIONS.search(own)
    if curve.sink is not None:
        at = curve.sink.layer
        with_it, without = curve.mean()[at], curve.mean("without")[at]
        assert any(
            f"after layer {at}: the residual there is {with_it:.3g} with it, {without:.3g} " in x
            for x in said
        )
    return False


def test_parts_are_praised_only_for_what_they_do() -> None:
    for seed in range(200):
        found = drawn_curves(seed)
        with np.errstate(all="ignore"):
            said = advice(found)
            collapsed = {str(x.variant): ends_below(x, 1e-3) is not None for x in found.curves}
        for part in PARTS.values():
            for sentence in said:
                if not sentence.lower().startswith(f"{part.lower()} "):
                    continue
                for one, two in re.findall(r"([a-z+]+) (?:against|and) ([a-z+]+)", sentence):
                    pair = collapsed[one], collapsed[two]
                    expected = (" prevent ", (False, True)), (" cause ", (True, False))
                    wanted = dict(expected).get(re.search(r" \w+ ", sentence)[0], (True, True))  # type: ignore[index]
                    assert pair == wanted, sentence


# --- stacks ---------------------------------------------------------------------------------------


def stack_of(seed: int) -> Study:
    """A study with logarithms of many kinds, as far down as 1e-400000."""
    rng = rng_of(seed)
    layers, inputs = int(rng.choice([1, 2, 3, 5, 8])), int(rng.choice([1, 4]))

    def logs() -> np.ndarray:
        k = np.arange(layers + 1)
        kinds = (
            lambda: 1 - 2.0 * rng.uniform(2.5, 3.5) ** k,
            lambda: 0.5 - rng.uniform(0, 3) * k,
            lambda: rng.uniform(-8, 1, layers + 1),
            lambda: np.zeros(layers + 1),
            lambda: rng.uniform(0, 1) * k,
            lambda: -6.0 + k,
            lambda: np.where(k > layers // 2, rng.choice([-inf, nan]), -1.0 * k),
            lambda: -(7.0**k),
        )
        base = kinds[rng.integers(len(kinds))]()
        return np.asarray(base + rng.normal(0, 0.01, (inputs, layers + 1)))

    residual, other = logs(), logs()
    turned = bool(rng.random() < 0.3)
    made: dict[str, Any] = {
        "own": SimpleNamespace(
            residual=residual, relative=residual - 1.0, states=range(layers + 1)
        ),
        "other": SimpleNamespace(relative=other) if rng.random() < 0.7 else None,
        "bounds": SimpleNamespace(
            applies=rng.random((inputs, layers)) < 0.5,
            exceeded=lambda: np.zeros((inputs, layers)),
            missing=("a skip",) if rng.random() < 0.3 else (),
        ),
    }
    return Study("x", seed, inputs, turned, **made)


def middle(rows: np.ndarray) -> list[float]:
    """Medians of what is known, one layer at a time."""
    columns = ([x for x in column if not np.isnan(x)] for column in rows.T)
    return [float(np.median(column)) if column else nan for column in columns]


@pytest.mark.parametrize("threshold", [-3.0, -0.5, -inf])
def test_what_is_said_of_a_stack(threshold: float) -> None:
    rates = 0
    for seed in range(300):
        found = stack_of(seed)
        said = " ".join(study_advice(found, threshold))
        relative, residual = middle(found.own.relative), middle(found.own.residual)
        below = [all(x < threshold for x in relative[n:]) for n in range(len(relative))]
        end = from_logarithm(relative[-1])
        if any(below):
            assert f"is below {from_logarithm(threshold)} from layer {below.index(True)} on" in said
            assert f", and {end} after layer {found.layers}." in said
        elif isfinite(relative[-1]) or relative[-1] == -inf:
            assert f"Does not collapse {'with' if found.skip else 'without'} skips: " in said
            assert f"relative residual {end} after layer {found.layers}." in said
        else:
            assert said.startswith("Cannot be judged")
        rate = re.search(
            r"layers (\d+) to (\d+) raises the residual to about the power (\S+),", said
        )
        assert bool(rate) == ("Rate" in said)
        if rate:
            rates += 1
            steps = np.diff(residual)[int(rate[1]) - 2 :]
            assert int(rate[2]) == found.layers
            assert len(steps) >= 3
            assert (steps < 0).all()
            powers = steps[1:] / steps[:-1]
            assert f"{powers.mean():.1f}" == rate[3]
            assert powers.max() < 1.3 * powers.min()
    assert rates > 10


def test_what_is_said_of_mechanisms() -> None:
    for seed in range(200):
        rng = rng_of(seed)
        layers = int(rng.integers(1, 5))
        relative = rng.choice([1.0, 1e3, 1e5]) * rng.uniform(-9, 0, (3, layers + 1))
        steps = tuple(Step(3.0, 0.0, int(rng.choice([1, 3, 3, 3]))) for _ in range(layers))
        found = MechanismStudy("x", 0, 3, relative, relative, steps, 256)
        first, *rest = mechanism_advice(found)
        last = float(np.median(relative[:, -1]))
        word = "Collapses" if last < -3 else "Does not collapse"
        size = from_logarithm(last)
        assert first == f"{word}: the relative residual is {size} after layer {layers}."
        if any("the collapse is" in sentence for sentence in rest):
            assert last < -3
            assert {step.expected for step in steps} == {3}


def test_numbers_below_all_floats_are_written_once() -> None:
    """The number in a sentence and the one in a table are the same."""
    for log in [*rng_of(0).uniform(-400_000, -4, 200), -5.0, -4.0001, -99.999999, -396496.47]:
        digits, exponent = map(float, from_logarithm(log).split("e"))
        assert 1 <= digits < 10
        assert log10(digits) + exponent == pytest.approx(log, abs=0.023)


def test_the_takeaway_and_the_tile_of_a_stack() -> None:
    for seed in range(200):
        found = stack_of(seed)
        said, (tile, remark) = _with_depth(found), verdict(Depth(found, []))
        ends = [middle(found.own.relative)[-1]]
        ends += [] if found.other is None else [middle(found.other.relative)[-1]]
        words = [
            "cannot be judged" if np.isnan(x) else "become alike" if x < -3 else "stay different"
            for x in ends
        ]
        assert tile == words[0]
        assert said.startswith(f"Tokens {words[0]}: ")
        if not np.isnan(ends[0]):
            assert f"the relative residual is {from_logarithm(ends[0])} after" in said
            assert f"relative residual {from_logarithm(ends[0])};" in remark
        if len(ends) > 1:
            word = "without" if found.skip else "with"
            same = words[0] == words[1]
            assert said.endswith(f"; {word} skips, too.") == same
            assert same or f"; {word} skips, they {words[1]}: " in said
        assert not DIRECTIONS.search(said)
        assert medians(found.own.relative).tolist() == pytest.approx(
            middle(found.own.relative), nan_ok=True
        )
