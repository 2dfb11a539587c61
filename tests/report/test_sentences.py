"""Sentences follow from results: every number in them, and every word for a direction.

Functions that write sentences get random and adversarial results. A sentence must match one of the
patterns below as a whole, and each number in it is computed again here.
"""

import re
from collections.abc import Iterator
from math import inf, isfinite, log10, nan
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from segre.analysis.depth import _with_depth
from segre.analysis.heads import _lead, _takeaways
from segre.analysis.paths import _by_head, _by_length, _largest, _largest_head
from segre.checkpoint.info import Product
from segre.collapse.curves import FLOOR, Curve, Curves
from segre.collapse.mechanisms import MechanismStudy, Step, mechanism_advice
from segre.collapse.sinks import DOMINANT, Sink
from segre.collapse.study import medians, study_advice
from segre.collapse.variants import FULL, PARTS, variant
from segre.collapse.verdict import advice
from segre.inspect.diagnose import Diagnosis
from segre.inspect.measures import gradients, heads, queries, sinks, smoothing, spectra, spikes
from segre.inspect.measures import units as silent_units
from segre.inspect.trace import WAYS, Trace
from segre.report.analysis.depth import verdict
from segre.report.comparison import letter, short
from segre.report.comparison_page import _cheapest
from segre.report.inspection import terms_in_words
from segre.report.inspection_page import _agreement, _course
from segre.values import counted, from_logarithm

DIRECTIONS = re.compile(r"\b(fall|rise|rising|grow|shrink|rate)")
NUMBER = r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?|nan|inf"


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


def stack_of(seed: int) -> Any:
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
    return SimpleNamespace(
        skip=bool(rng.random() < 0.3),
        layers=layers,
        own=SimpleNamespace(residual=residual, relative=residual - 1.0),
        other=SimpleNamespace(relative=other) if rng.random() < 0.7 else None,
        bounds=SimpleNamespace(
            applies=rng.random((inputs, layers)) < 0.5,
            exceeded=lambda: np.zeros((inputs, layers)),
            missing=("a skip",) if rng.random() < 0.3 else (),
        ),
    )


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
        rows = {"relative": found.own.relative.tolist()}
        other = None if found.other is None else {"relative": found.other.relative.tolist()}
        document = {"log10": rows, "other": other, "skip": found.skip, "kind": "stack"}
        said, (tile, remark) = _with_depth(document), verdict(document)
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


# --- findings -------------------------------------------------------------------------------------


class Seen(SimpleNamespace):
    """What measures look at in a recorded pass."""

    def word(self, token: int) -> str:
        return "" if token % 2 else f"w{token}"


def of(finder: Any, *given: Any) -> list[Any]:
    with np.errstate(all="ignore"):
        return list(finder(*given))


def numbers(text: str) -> Iterator[float]:
    for found in re.findall(NUMBER, text):
        yield float(found.replace(",", ""))


def layers_named(text: str) -> list[int]:
    """The numbers in 2–3, 7."""
    out: list[int] = []
    for part in text.split(", "):
        first, _, last = part.partition("–")
        out += range(int(first), int(last or first) + 1)
    return out


def test_spikes() -> None:
    seen_many = 0
    for seed in range(150):
        rng = rng_of(seed)
        depth, shape = int(rng.integers(1, 9)), (4, 16)
        streams = [rng.normal(0, 1, shape) for _ in range(depth + 1)]
        for _ in range(rng.integers(0, 3)):
            token, channel = rng.integers(4), rng.integers(16)
            for stream in streams:
                if rng.random() < 0.7:
                    stream[token, channel] = 10 ** rng.uniform(1, 5)
        last = rng.normal(0, 1, shape) if rng.random() < 0.5 else None
        seen, values = Seen(streams=streams, last=last), spikes.ratios(Seen(streams=streams))
        for one in of(spikes.find, seen, values):
            token, channel, at = one.token, one.channel, one.depth
            tops = [np.unravel_index(abs(x).argmax(), shape) for x in streams]
            here = [n for n, top in enumerate(tops) if top == (token, channel)]
            sizes = {n: abs(streams[n][token, channel]) for n in here}
            large = [n for n in here if sizes[n] > spikes.LARGE and values[n] > spikes.VISIBLE]
            massive = [n for n in large if values[n] > spikes.RATIO]
            assert at == max(large, key=sizes.__getitem__)
            text = re.search(
                rf"channel {channel} is (\S+) at depth {at}, (\S+) times the median of its stream "
                r"\(depths? ([\d–, ]+)\)",
                one.what,
            )
            assert text, one.what
            assert text[1] == f"{sizes[at]:,.0f}"
            assert text[2] == f"{sizes[at] / np.median(abs(streams[at])):,.0f}"
            assert layers_named(text[3]) == (massive or large)
            norm = re.search(r", and (\S+) after the final norm", one.what)
            assert (norm is None) == (last is None)
            assert last is None or norm[1] == f"{abs(last[token, channel]):.3g}"  # type: ignore[index]
            assert one.start == (massive or large)[0]
            assert one.what.startswith("Massive") == bool(massive)
            seen_many += 1
    assert seen_many > 50


def test_gradients_grow_or_shrink_as_they_do() -> None:
    for seed in range(100):
        values = 10 ** rng_of(seed).uniform(-8, 8, int(rng_of(seed).integers(2, 9)))
        if seed % 10 == 0:
            values[0] = 0
        for one in of(gradients.find, None, values):
            if values[0] == 0:
                assert "shrinks to zero from the last layer back to the first" in one.what
                continue
            ratio = values[0] / values[-1]
            word, factor = ("grows", ratio) if ratio > 1 else ("shrinks", 1 / ratio)
            assert factor > 100
            assert f"gradient {word} by a factor of {factor:,.3g} from the last layer" in one.what


def test_findings_on_heads_depths_and_units() -> None:
    for seed in range(150):
        rng = rng_of(seed)
        shape = int(rng.integers(1, 6)), int(rng.integers(1, 5))
        values = 10 ** rng.uniform(-6 * (rng.random() < 0.5), 0, shape)
        for one in of(heads.find_dead, None, values):
            dead = int((values < 1e-3 * np.median(values)).sum())
            assert f"{dead} of {values.size} {'has' if dead == 1 else 'have'} an output" in one.what
        cosines = 1 - values
        for one in of(heads.find_alike, None, cosines):
            alike = int((cosines > 0.99).sum())
            verb = "has" if alike == 1 else "have"
            assert f"{alike} of {values.size} {verb} the same output" in one.what
        ranks = 1 + values[:, 0]
        for one in of(spectra.find, None, ranks):
            low = [n for n, x in enumerate(ranks) if x < spectra.NEARLY_ONE]
            named = re.search(
                r"at (depths?) ([\d–, ]+): its stable rank is down to (\S+)\.", one.what
            )
            assert named
            assert layers_named(named[2]) == low
            assert (named[1] == "depth") == (len(low) == 1)
            assert named[3] == f"{ranks.min():.2f}"
            assert (one.start, one.depth) == (low[0], int(ranks.argmin()))
        for one in of(smoothing.find_above, None, 4 * values):
            share, most = (4 * values > 1).mean(), 4 * values.max()
            assert f"of {100 * share:.0f} % of the heads is above 1, up to {most:.1f}." in one.what
        for one in of(smoothing.find_alike, None, cosines[:, 0]):
            top = int(cosines[:, 0].argmax())
            assert f"at depth {top}: their mean cosine is {cosines[top, 0]:.2f}." in one.what
        units = [10 ** rng.uniform(-5 * (rng.random() < 0.5), 0, 9) for _ in range(shape[0])]
        seen = Seen(layers=[SimpleNamespace(units=x) for x in units])
        for one in of(silent_units.find, seen, silent_units.silent(seen)):
            quiet = [int((x <= 1e-3 * np.median(x)).sum()) for x in units]
            verb = "stays" if sum(quiet) == 1 else "stay"
            assert f"{sum(quiet)} of {9 * len(units)} {verb} below" in one.what
            named = re.search(r"\(layers? ([\d–, ]+)\)", one.what)
            assert named
            assert layers_named(named[1]) == [n for n, x in enumerate(quiet, 1) if x]


def test_sinks_and_spectra_of_queries() -> None:
    for seed in range(80):
        rng = rng_of(seed)
        layers, count, tokens = int(rng.integers(1, 6)), int(rng.integers(1, 5)), 8
        P = rng.dirichlet(np.full(tokens, 0.1 if seed % 2 else 3.0), (layers, count, tokens))
        P[..., int(rng.integers(tokens))] += rng.random((layers, count, 1))
        P /= P.sum(axis=-1, keepdims=True)
        seen = Seen(patterns=P, tokens=tokens, spec=SimpleNamespace(causal=False))
        attended = P[:, :, 2:].mean(axis=2)
        values = attended.max(axis=-1)
        for one in of(sinks.find, seen, values):
            mine = (attended.argmax(axis=-1) == one.token) & (values > 0.3)
            verb = "gives" if mine.sum() == 1 else "give"
            assert f"sink: {mine.sum()} of {mine.size} heads {verb} token {one.token}" in one.what
            most = re.search(r"up to (\d+) %", one.what)
            assert most or values[mine].max() < 0.306
            assert not most or int(most[1]) == round(100 * values[mine].max()) > 30
            named = re.search(r"\(layers? ([\d–, ]+)[;)]", one.what)
            assert named
            assert layers_named(named[1]) == [int(n) + 1 for n in np.flatnonzero(mine.any(axis=1))]
        spread = -(P * np.log(P)).sum(axis=-1).mean(axis=-1) / np.log(tokens)
        scale = rng.choice([-1, 1]) * spread + rng.normal(0, 0.01, spread.shape)
        for one in of(queries.find, seen, scale):
            ranks = [np.argsort(np.argsort(x, axis=None)) for x in (scale, spread)]
            together = np.corrcoef(*ranks)[0, 1]
            word = "more concentrated" if together < 0 else "more spread out"
            assert f"have {word} attention: rank correlation with its entropy " in one.what
            assert f"{together:+.2f} over {scale.size} heads." in one.what


def test_how_many_things_stand_out() -> None:
    for count in range(4):
        found = Diagnosis({}, "x", (), 3, None, (None,) * count, {}, {})  # type: ignore[arg-type]
        assert found.in_words == (
            f"{count} thing{' stands' if count == 1 else 's stand'} out."
            if count
            else "Nothing stands out."
        )


# --- pages ----------------------------------------------------------------------------------------


def test_traces() -> None:
    for seed in range(100):
        rng = rng_of(seed)
        n = int(rng.integers(1, 6))
        lengths = rng.normal(0, 1, (5, n)) * (np.arange(5) <= rng.integers(5))[:, None]
        terms = lengths.sum(axis=0)
        scores = {way: rng.normal(0, 1, n) for way in WAYS} | {"operator": terms}
        constant = float(rng.normal())
        target = float(terms.sum()) + constant
        found = Trace({}, "x", (0,) * n, (), n - 1, 0, "", target, scores, lengths, constant, 1e-16)
        said = terms_in_words(found)
        sums = re.match(
            r"operator: tokens (\S+) and constants (\S+) sum to the target (\S+) ", said
        )
        assert sums
        assert [float(x) for x in sums.groups()] == pytest.approx(
            [terms.sum(), constant, target], rel=1e-3
        )
        tops = [int(abs(scores[way]).argmax()) for way in WAYS]
        agreed = _agreement(found, list(range(n)))
        most = max(tops.count(token) for token in tops)
        leaders = sorted({token for token in tops if tops.count(token) == most})
        if len(leaders) == 1:
            assert agreed == f"{most} of 4 methods say that token {leaders[0]} matters most."
            assert most > 1
        else:
            assert list(numbers(agreed)) == sorted(set(tops))


def test_courses_of_measures() -> None:
    for seed in range(100):
        values = [float(x) for x in course(rng_of(seed), int(rng_of(seed).integers(1, 8)))]
        said = _course("M", {"this model": values})
        assert f"from {values[0]:.3g} before the first layer to {values[-1]:.3g} at the end" in said
        top = re.search(r"maximum of (\S+) at depth (\d+)", said)
        if top:
            assert values[int(top[2])] == max(values)
            assert top[1] == f"{max(values):.3g}"
        else:
            assert max(values[0], values[-1]) == max(values)


def test_paths_carry_what_is_said() -> None:
    for seed in range(100):
        rng = rng_of(seed)
        through = rng.normal(0, 0.5, (int(rng.integers(1, 5)), int(rng.integers(1, 4))))
        shares, bias = rng.normal(0, 0.5, 4).tolist(), float(rng.choice([0.0, rng.normal()]))
        best = through.sum(axis=1)
        assert f"is layer {best.argmax() + 1}: together" in _by_head(through.tolist())
        layer, head = np.unravel_index(through.argmax(), through.shape)
        assert f"head {head + 1} of layer {layer + 1}:" in _largest_head(through.tolist())
        said = _largest(shares, bias)
        if bias > max(shares):
            assert said.startswith("Biases carry the largest share")
        else:
            assert said.startswith(f"Paths of length {int(np.argmax(shares))} carry the largest")
            assert ("there are no biases" in said) == (bias == 0)
        first, second = (round(x) for x in (100 * shares[0], 100 * sum(shares[1:])))
        found = [float(x) for x in re.findall(r"(-?\d+)%", _by_length(shares, bias))]
        assert found == pytest.approx([first, second], abs=1)
    assert _largest_head([[nan, nan]]) == ""


def test_heads_and_their_spectra() -> None:
    for seed in range(150):
        rng = rng_of(seed)
        number, own = int(rng.integers(1, 5)), int(rng.integers(1, 4))
        equal = rng.random() < 0.3

        def product(rng: np.random.Generator = rng, equal: bool = equal) -> Product:
            sigma = np.array([1.0, 0.5]) if equal else np.sort(rng.random(2))[::-1]
            return Product(tuple((sigma * (rng.random() > 0.1)).tolist()), 2)

        layers = [
            SimpleNamespace(
                number=n + 1,
                ov=tuple(product() for _ in range(own)),
                qk=tuple(product() for _ in range(own)),
            )
            for n in range(number)
        ]
        info: Any = SimpleNamespace(layers=layers)
        values = {
            "sinks": rng.random((number, own)),
            "entropy": 0.9 + rng.random((number, own)) / 5,
        }
        said = _lead(info, values)
        count = number * own
        assert said.startswith("There is 1 head." if count == 1 else f"There are {count} heads.")
        ranks = [head.stable_rank for layer in layers for head in layer.ov]
        assert f"stable rank {min(ranks):.1f} to {max(ranks):.1f} of 2;" in said
        many = int((values["sinks"] > 0.3).sum())
        assert (f"{many} give{'s' * (many == 1)} more than 30%" in said) == (many > 0)
        for name in ("OV", "QK"):
            last = {}
            for layer in layers:
                heads_ = [x.singular_values for x in (layer.ov if name == "OV" else layer.qk)]
                known = [x[1] / x[0] for x in heads_ if x[0]]
                if known:
                    last[layer.number] = float(np.median(known))
            text = _takeaways(info)[f"spectrum-{name}"]
            if "falls most" in text:
                where = [int(x) for x in re.findall(r"in layer (\d+)", text)]
                assert last[where[0]] == min(last.values()) < max(last.values()) == last[where[1]]
            elif last:
                shown = f"{100 * min(last.values()):.2g}%"
                assert f"{name} is {shown} of the largest" in text
                assert shown == f"{100 * max(last.values()):.2g}%"
            else:
                assert text == f"{name} is zero in every layer."


def test_the_cheapest_design() -> None:
    for seed in range(100):
        rng = rng_of(seed)
        totals = rng.integers(1, 4, int(rng.integers(1, 5))) * 10 ** int(rng.integers(0, 14))
        designs = [
            SimpleNamespace(cost=SimpleNamespace(total=lambda _, x=x: int(x))) for x in totals
        ]
        said = _cheapest(SimpleNamespace(tokens=(4, 8), designs=designs))  # type: ignore[arg-type]
        least, most = int(totals.min()), int(totals.max())
        if least == most:
            assert said == f"On 8 tokens every design needs {short(least)} operations."
        else:
            few, many = letter(int(totals.argmin())), letter(int(totals.argmax()))
            assert f"{few} needs the fewest operations ({short(least)}), {many} the most" in said
