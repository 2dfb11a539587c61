"""Does a two-layer transformer trained on n-gram chains become an induction head?

Read in the paper (its abstract): the first layer copies past tokens, the feed-forward layer selects
the relevant parents, the second layer compares; a modified chi-square information says which
parents. Its exact weight was recalled. Derived here: the gradient, the oracle, the empty token of
the classifier, and that plain chi-square information is the same for every set that contains the
parents, so that it picks none.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from segre.fields.interface import Array
from segre.reproduce import induction_model as ngrams
from segre.reproduce.claim import DERIVED, LIMITED, PAPER, Claim
from segre.reproduce.experiment import Experiment, Option, Run, Work
from segre.reproduce.found import Found, Panel, Seeds, Series, Table
from segre.reproduce.state import Kept

RATE, FIRST, SECOND = 0.05, 0.9, 0.999
LOOK = 25  # steps between two looks at the test sequences
TESTED = 1000  # sequences at such a look


SYMBOLS, ALPHA, WINDOW = 3, 0.1, 4
LENGTH, BATCH = 100, 128
PARENTS = ((1, 3), (2,), (1, 2))
CHAINS = ngrams.Chains(SYMBOLS, PARENTS[0], ALPHA)
EVERY = ngrams.sets(WINDOW)
RIGHT = EVERY.index(tuple(lag - 1 for lag in PARENTS[0]))  # the heads of the parents
KINDS = {"chain": "from the chain", "uniform": "uniform"}  # how the last context is drawn
CONTEXTS = {"chain": "context from the chain", "uniform": "uniform context"}


def drawn(kind: str, seed: int, count: int, use: int) -> Array:
    """Sequences to learn from (use 0) or to test on (1)."""
    rng = np.random.default_rng([seed, use, 10559])
    return CHAINS.sequences(rng, count, LENGTH, uniform=kind == "uniform")


def steps_of(given: Run) -> int:
    """How many steps of Adam there are."""
    return int(given.options["steps"]) * (4 if given.full else 1)


def trained(kind: str, given: Run, seed: int, kept: Kept) -> dict[str, Any]:
    """The final weights, the test losses during training, and what they are compared with.

    `kind` says how contexts are drawn. An interrupted training continues.
    """
    options, steps = given.options, steps_of(given)
    train, test = drawn(kind, seed, options["sequences"], 0), drawn(kind, seed, options["tests"], 1)
    match, right = ngrams.matches(train, WINDOW), ngrams.labels(train, WINDOW)
    seen = ngrams.matches(test[:TESTED], WINDOW), ngrams.labels(test[:TESTED], WINDOW), SYMBOLS
    rng = np.random.default_rng([seed, 2, 10559])
    start = ngrams.Model.start(WINDOW, rng, bare=options["bare"]).vector
    state = kept.state or {
        **{"step": 0, "vector": start, "looks": []},
        **{name: np.zeros_like(start) for name in ("first", "second")},
    }
    vector, first, second = state["vector"], state["first"], state["second"]
    looks = list(state["looks"])
    for step in range(state["step"], steps):
        if step % LOOK == 0:
            now = ngrams.Model.of(vector, WINDOW)
            looks.append([step, ngrams.loss_and_gradient(now, *seen)[0], now.selected.tolist()])
            kept.keep(
                {"step": step, "vector": vector, "first": first, "second": second}
                | {"looks": looks[:-1]}
            )
            given.progress(f"training, loss {looks[-1][1]:.3f}", step, steps)
        some = np.random.default_rng([seed, 3, step]).integers(len(train), size=BATCH)
        now = ngrams.Model.of(vector, WINDOW)
        gradient = ngrams.loss_and_gradient(now, match[some], right[some], SYMBOLS)[1]
        first = FIRST * first + (1 - FIRST) * gradient
        second = SECOND * second + (1 - SECOND) * gradient**2
        mean, square = first / (1 - FIRST ** (step + 1)), second / (1 - SECOND ** (step + 1))
        vector = vector - RATE * mean / (np.sqrt(square) + 1e-8)
    model = ngrams.Model.of(vector, WINDOW)
    looks.append([steps, ngrams.loss_and_gradient(model, *seen)[0], model.selected.tolist()])
    return {
        "looks": looks,
        "loss": test_loss(model, test),
        "copied": model.copied,
        "selected": model.selected,
        "sharpness": model.a,
        "pseudo-count": model.pseudo_count,
        "oracle": ngrams.oracle_loss(CHAINS, test),
        "oracle, first": ngrams.oracle_loss(CHAINS, test[:TESTED]),
        "unigram": ngrams.unigram_loss(CHAINS, test),
    }


def test_loss(model: ngrams.Model, test: Array) -> float:
    """The mean cross-entropy on test sequences, with segre's attention."""
    total = 0.0
    for some in np.array_split(test, max(1, len(test) // 500)):
        y = ngrams.probabilities(model, some, SYMBOLS)
        total -= float(np.log(y[np.arange(len(some)), some[:, -1]]).sum())
    return total / len(test)


def named(lags: tuple[int, ...]) -> str:
    """A set of lags in words."""
    return ", ".join(map(str, lags))


def losses_table(found: Mapping[str, Seeds], seeds: tuple[int, ...]) -> Table:
    """The losses of every training."""
    rows = [
        (
            *(said, seed, one["oracle"], one["loss"], one["unigram"]),
            *(one["selected"][RIGHT], one["sharpness"], one["pseudo-count"]),
        )
        for kind, said in KINDS.items()
        for seed, one in zip(seeds, found[kind], strict=True)
    ]
    return Table(
        "Cross-entropy of the next token, by how its context is drawn",
        "{context} {seed:d} {oracle:.4f} {model:.4f} {unigram:.4f} "
        f"{{share of {named(PARENTS[0])}:.3f}} {{sharpness:.2f}} {{pseudo-count:.2f}}",
        rows,
        note="The pseudo-count is what the empty token adds to the counts of full matches; the "
        f"oracle adds {SYMBOLS * ALPHA:g}.",
    )


def information_table(known: Seeds) -> Table:
    """Both kinds of information, for every set of lags."""
    rows = [
        (named(lags), *(value for p in PARENTS for value in known.means(named(p), named(lags))))
        for lags in ngrams.lag_sets(WINDOW)
    ]
    columns = [f"{{{named(p)}}} {which}" for p in PARENTS for which in ("plain", "modified")]
    return Table(
        "Information of sets of lags, for chains with three sets of parents, means over seeds",
        ("lags", *columns),
        rows,
        ("", *(".4f",) * (2 * len(PARENTS))),
    )


def panels(found: Mapping[str, Seeds]) -> tuple[Panel, ...]:
    """Losses and shares by step, and what heads copy at the end."""
    at = tuple(look[0] for look in found["chain"][0]["looks"])
    ends, lags = (at[0], at[-1]), range(1, WINDOW + 1)
    curves = []
    for colour, (kind, said) in enumerate(KINDS.items()):
        for n, one in enumerate(found[kind]):
            above = [look[1] - one["oracle, first"] for look in one["looks"]]
            curves.append(Series(CONTEXTS[kind] * (not n), at, above, "line", colour))
        level = float(np.mean([one["unigram"] - one["oracle"] for one in found[kind]]))
        curves.append(Series(f"unigram, {said}", ends, (level, level), "dots", colour))
    models = Seeds(one for kind in KINDS for one in found[kind])
    mean = np.mean([[look[2] for look in looks] for looks in models.of("looks")], axis=0)
    shares = [
        Series("all other sets" * (not place), at, mean[:, place].tolist(), "line", -1)
        for place in range(len(EVERY))
        if place != RIGHT
    ]
    right = Series(f"{{{named(PARENTS[0])}}}", at, mean[:, RIGHT].tolist(), "line", 0)
    heads = [
        Series(f"head {h + 1}", lags, models.means("copied", h), colour=h) for h in range(WINDOW)
    ]
    share = ("Selector: share of each set of heads", "step", "share", (*shares, right))
    return (
        Panel("Loss on new sequences", "step", "nats above the oracle", curves),
        Panel(*share, low=0, high=1.05),
        Panel("Copier after training", "lag", "weight", heads, ticks=lags, low=0, high=1.05),
    )


def run(given: Run) -> Found:
    """Information of all sets of lags, then training on chains with parents 1 and 3."""
    count = given.options["chains"]
    known = given.each_seed("information", lambda seed, _: _information(seed, count))
    found = {
        kind: given.each_seed(f"training, context {said}", partial(trained, kind, given))
        for kind, said in KINDS.items()
    }
    return Found(
        _claims(known, found),
        (losses_table(found, given.seeds), information_table(known)),
        panels(found),
        (
            f"Chains of {SYMBOLS} symbols with parents at lags {named(PARENTS[0])}, rows from a "
            f"Dirichlet({ALPHA:g}) distribution, sequences of {LENGTH} tokens, each from its "
            f"own chain; a window of {WINDOW} lags, {WINDOW} heads, {steps_of(given)} steps of "
            f"Adam. Losses are in nats, on {given.options['tests']:,} new sequences.",
            "The oracle knows the parents and counts matches; the unigram counts tokens. A "
            "uniform last context, as in one version of the authors' code, may never have "
            "occurred before.",
            "The empty token of the classifier is not in the paper; --bare trains without it.",
        ),
    )


def _information(seed: int, count: int) -> dict[str, Any]:
    found = {}
    for parents in PARENTS:
        rng = np.random.default_rng([seed, *parents])
        each = ngrams.information(ngrams.Chains(SYMBOLS, parents, ALPHA), WINDOW, rng, count)
        found[named(parents)] = {named(lags): list(pair) for lags, pair in each.items()}
    return found


def _claims(known: Seeds, found: dict[str, Seeds]) -> list[Claim]:
    whole = named(tuple(range(1, WINDOW + 1)))
    names = [named(parents) for parents in PARENTS]
    claims = [
        PAPER(f"Modified information selects the parents {{{name}}}").holds(
            [max(one, key=lambda lags: one[lags][1]) == name for one in known.of(name)]
        )
        for name in names
    ]
    said = "Plain information does not single them out: difference between all lags and the parents"
    off = [max(abs(one[name][whole][0] - one[name][name][0]) for name in names) for one in known]
    claims.append(DERIVED(said).at_most(1e-6, off))
    for kind, context in CONTEXTS.items():
        models, said = found[kind], f"{context[0].upper()}{context[1:]}"
        claims += [
            DERIVED(f"{said}: loss of the model / loss of the oracle").at_most(
                1.1, [one["loss"] / one["oracle"] for one in models]
            ),
            DERIVED(f"{said}: remaining share of the gap between unigram and oracle").at_most(
                0.1,
                [
                    (one["loss"] - one["oracle"]) / (one["unigram"] - one["oracle"])
                    for one in models
                ],
            ),
            LIMITED(f"{said}: weight of the parents in the selector").at_least(
                0.9, models.of("selected", RIGHT)
            ),
            LIMITED(f"{said}: weight of their lags in the parents' heads").at_least(
                0.9, [min(one["copied"][lag - 1][lag - 1] for lag in PARENTS[0]) for one in models]
            ),
        ]
    return [
        *claims,
        PAPER("Gradient flow converges to this model in three stages, at stated rates").untestable(
            "this is a theorem about a limit; here all weights are trained at once with Adam"
        ),
    ]


EXPERIMENT = Experiment(
    name="induction",
    title="A two-layer transformer trained on n-gram Markov chains, and an oracle.",
    work=Work(
        "Unveiling Induction Heads: Provable Training Dynamics and Feature Learning in "
        "Transformers",
        "Chen, Sheen, Wang, Yang",
        2024,
        "2409.10559",
    ),
    question="Does a two-layer transformer trained on n-gram chains become an induction head?",
    run=run,
    examples=("induction -o induction.png", "induction -o bare.png --bare"),
    options=(
        Option("steps", int, 500, "Number of training steps.", 1, 100_000),
        Option("sequences", int, 10_000, "Number of training sequences.", 256, 1_000_000),
        Option("tests", int, 4000, "Number of test sequences.", 100, 1_000_000),
        Option(
            "chains", int, 100, "Number of chains over which information is averaged.", 1, 100_000
        ),
        Option("bare", bool, False, "Train without the empty token of the classifier."),
    ),
    longer="four times as many steps",
    small={"steps": 26, "sequences": 256, "tests": 100, "chains": 3},
)
