"""Sentences follow from results: every number in them, and every word for a direction.

Functions that write sentences get random and adversarial results. A sentence must match one of the
patterns below as a whole, and each number in it is computed again here.
"""

import re
from collections.abc import Iterator
from math import nan
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from collapse.test_sentences_on_depth import course, rng_of
from segre.analysis.heads import _lead, _takeaways
from segre.analysis.paths import _by_head, _by_length, _largest, _largest_head
from segre.checkpoint.info import Product
from segre.inspect.diagnose import Diagnosis
from segre.inspect.measures import heads
from segre.inspect.measures import streams as streams_of
from segre.inspect.trace import WAYS, Trace
from segre.report.comparison import _cheapest, letter, short
from segre.report.diagnosis import _agreement, _course, terms_in_words

NUMBER = r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?|nan|inf"


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
        seen, values = Seen(streams=streams, last=last), streams_of.spikes(Seen(streams=streams))
        for one in of(streams_of.find_spikes, seen, values):
            token, channel, at = one.token, one.channel, one.depth
            tops = [np.unravel_index(abs(x).argmax(), shape) for x in streams]
            here = [n for n, top in enumerate(tops) if top == (token, channel)]
            sizes = {n: abs(streams[n][token, channel]) for n in here}
            large = [
                n for n in here if sizes[n] > streams_of.LARGE and values[n] > streams_of.VISIBLE
            ]
            massive = [n for n in large if values[n] > streams_of.RATIO]
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
        for one in of(streams_of.find_growth, None, values):
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
        for one in of(streams_of.find_rank_one, None, ranks):
            low = [n for n, x in enumerate(ranks) if x < streams_of.NEARLY_ONE]
            named = re.search(
                r"at (depths?) ([\d–, ]+): its stable rank is down to (\S+)\.", one.what
            )
            assert named
            assert layers_named(named[2]) == low
            assert (named[1] == "depth") == (len(low) == 1)
            assert named[3] == f"{ranks.min():.2f}"
            assert (one.start, one.depth) == (low[0], int(ranks.argmin()))
        for one in of(heads.find_above, None, 4 * values):
            share, most = (4 * values > 1).mean(), 4 * values.max()
            assert f"of {100 * share:.0f} % of the heads is above 1, up to {most:.1f}." in one.what
        for one in of(streams_of.find_alike, None, cosines[:, 0]):
            top = int(cosines[:, 0].argmax())
            assert f"at depth {top}: their mean cosine is {cosines[top, 0]:.2f}." in one.what
        units = [10 ** rng.uniform(-5 * (rng.random() < 0.5), 0, 9) for _ in range(shape[0])]
        seen = Seen(layers=[SimpleNamespace(units=x) for x in units])
        for one in of(heads.find_silent, seen, heads.silent(seen)):
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
        attended = P[:, :, 2:].mean(axis=2)
        spec = SimpleNamespace(causal=False)
        seen = Seen(patterns=P, attention=attended, tokens=tokens, spec=spec)
        values = attended.max(axis=-1)
        for one in of(heads.find_sinks, seen, values):
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
        for one in of(heads.find_localised, seen, scale):
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
