"""Does a two-layer transformer trained on n-gram chains become an induction head?

Read in the paper (its abstract): the first layer copies past tokens, the feed-forward layer selects
the relevant parents, the second layer compares; a modified chi-square information says which
parents. Its exact weight was recalled. Derived here: the gradient, the oracle, and that plain
chi-square information is the same for every set that contains the parents, so that it picks none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from segre.reproduce.claim import Claim, at_least, at_most, holds, not_testable
from segre.reproduce.experiment import (
    Cell,
    Experiment,
    Found,
    Mark,
    Option,
    Panel,
    Run,
    Series,
    Table,
    Work,
)
from segre.reproduce.induction.chains import (
    Chains,
    information,
    lag_sets,
    oracle_loss,
    unigram_loss,
)
from segre.reproduce.induction.model import sets
from segre.reproduce.induction.training import TESTED, Plan, trained

SYMBOLS, ALPHA, WINDOW = 3, 0.1, 4
PARENTS = ((1, 3), (2,), (1, 2))
DRAWN = 100  # chains, for the information


def run(given: Run) -> Found:
    """Information of all sets of lags, then training on chains with parents 1 and 3."""
    steps = given.options["steps"] * (4 if given.full else 1)
    chains = Chains(SYMBOLS, PARENTS[0], ALPHA)
    plan = Plan(
        chains,
        WINDOW,
        train=given.options["sequences"],
        test=given.options["tests"],
        steps=steps,
        uniform=given.options["uniform"],
    )
    known = given.each_seed(
        "information", lambda seed, _: _information(seed, given.options["chains"])
    )
    models = given.each_seed(
        "training", lambda seed, kept: trained(plan, seed, kept, given.progress)
    )
    tests = [plan.data(seed, plan.test, 1) for seed in given.seeds]
    losses = {
        "oracle": [oracle_loss(chains, test) for test in tests],
        "model": [one["loss"] for one in models],
        "unigram": [unigram_loss(chains, test) for test in tests],
    }
    first = [test[:TESTED] for test in tests]
    seen = {
        "oracle": [oracle_loss(chains, test) for test in first],
        "unigram": [unigram_loss(chains, test) for test in first],
    }
    return Found(
        tuple(_claims(known, models, losses)),
        (_losses(losses, models, given.seeds), _sets(known)),
        tuple(_panels(models, seen)),
        (
            f"Chains of {SYMBOLS} symbols with parents at lags {_named(PARENTS[0])}, rows from a "
            f"Dirichlet({ALPHA:g}) distribution, sequences of {plan.length} tokens, each from a "
            f"chain of its own; a window of {WINDOW} lags, {WINDOW} heads, {steps} steps of Adam.",
            "The oracle knows the parents and counts; the unigram counts tokens.",
            f"Losses are cross-entropies of the next token in nats, on {plan.test:,} new ones.",
        ),
    )


def _information(seed: int, count: int) -> dict[str, Any]:
    found = {}
    for parents in PARENTS:
        rng = np.random.default_rng([seed, *parents])
        each = information(Chains(SYMBOLS, parents, ALPHA), WINDOW, rng, count)
        found[_named(parents)] = {_named(lags): list(pair) for lags, pair in each.items()}
    return found


def _named(lags: tuple[int, ...]) -> str:
    return ", ".join(map(str, lags))


def _picked(one: dict[str, list[float]]) -> str:
    return max(one, key=lambda lags: one[lags][1])


def _claims(
    known: list[dict[str, Any]], models: list[dict[str, Any]], losses: dict[str, list[float]]
) -> list[Claim]:
    every, right = sets(WINDOW), tuple(lag - 1 for lag in PARENTS[0])
    pairs = list(zip(losses["model"], losses["oracle"], losses["unigram"], strict=True))
    whole = _named(tuple(range(1, WINDOW + 1)))
    return [
        *(
            holds(
                f"The modified information picks the parents {{{_named(parents)}}}",
                "paper",
                [_picked(one[_named(parents)]) == _named(parents) for one in known],
            )
            for parents in PARENTS
        ),
        at_most(
            "Plain information does not: that of all lags less that of the parents, at most",
            "derived here",
            1e-6,
            [
                max(abs(one[name][whole][0] - one[name][name][0]) for name in map(_named, PARENTS))
                for one in known
            ],
        ),
        at_most(
            "The trained model's loss over that of the oracle",
            "derived here",
            1.1,
            [model / oracle for model, oracle, _ in pairs],
        ),
        at_most(
            "What is left of the way from the unigram to the oracle",
            "derived here",
            0.1,
            [(model - oracle) / (unigram - oracle) for model, oracle, unigram in pairs],
        ),
        at_least(
            f"Selector: the share of the parents {{{_named(PARENTS[0])}}}",
            "paper",
            0.9,
            [one["selected"][every.index(right)] for one in models],
        ),
        at_least(
            "Copier: how much the heads of the parents copy from their lags, the least",
            "paper",
            0.9,
            [min(one["copied"][lag][lag] for lag in right) for one in models],
        ),
        not_testable(
            "Gradient flow converges to this model, in three stages, at stated rates",
            "paper",
            "it is a theorem about a limit; here all weights are trained at once, by Adam",
        ),
    ]


def _losses(
    losses: dict[str, list[float]], models: list[dict[str, Any]], seeds: tuple[int, ...]
) -> Table:
    every, right = sets(WINDOW), tuple(lag - 1 for lag in PARENTS[0])
    rows: list[tuple[Cell, ...]] = [
        (
            *(seed, losses["oracle"][n], losses["model"][n], losses["unigram"][n]),
            *(models[n]["selected"][every.index(right)], models[n]["sharpness"]),
        )
        for n, seed in enumerate(seeds)
    ]
    return Table(
        "Cross-entropy of the next token",
        ("seed", "oracle", "model", "unigram", f"share of {_named(PARENTS[0])}", "sharpness a"),
        tuple(rows),
        ("d", ".4f", ".4f", ".4f", ".3f", ".2f"),
    )


def _sets(known: list[dict[str, Any]]) -> Table:
    def mean(parents: str, lags: str, which: int) -> float:
        return float(np.mean([one[parents][lags][which] for one in known]))

    rows: list[tuple[Cell, ...]] = [
        (
            _named(lags),
            *(mean(_named(p), _named(lags), which) for p in PARENTS for which in (0, 1)),
        )
        for lags in lag_sets(WINDOW)
    ]
    columns = [f"{{{_named(p)}}} {which}" for p in PARENTS for which in ("plain", "modified")]
    return Table(
        "Information of sets of lags, for chains with three sets of parents, means over seeds",
        ("lags", *columns),
        tuple(rows),
        ("", *(".4f",) * (2 * len(PARENTS))),
    )


def _panels(models: list[dict[str, Any]], seen: dict[str, list[float]]) -> list[Panel]:
    at = tuple(look[0] for look in models[0]["looks"])
    ends = (at[0], at[-1])
    every, right = sets(WINDOW), tuple(lag - 1 for lag in PARENTS[0])
    curves = [
        Series(
            *("model" if not n else "", at),
            tuple(look[1] - seen["oracle"][n] for look in one["looks"]),
            "line",
            0,
        )
        for n, one in enumerate(models)
    ]
    above = float(np.mean(seen["unigram"]) - np.mean(seen["oracle"]))
    marks: dict[str, tuple[float, Mark]] = {"unigram": (above, "dots"), "oracle": (0, "dashes")}
    levels = [Series(name, ends, (level, level), mark, -1) for name, (level, mark) in marks.items()]
    mean = np.mean([[look[2] for look in one["looks"]] for one in models], axis=0)
    shares = [
        Series(
            f"{{{_named(tuple(h + 1 for h in one))}}}"
            if one == right
            else "all other sets" * first,
            at,
            tuple(mean[:, place].tolist()),
            "line",
            0 if one == right else -1,
        )
        for place, one, first in ((place, one, place == 0) for place, one in enumerate(every))
    ]
    copied = np.mean([one["copied"] for one in models], axis=0)
    lags = tuple(range(1, WINDOW + 1))
    heads = [
        Series(f"head {h + 1}", lags, tuple(copied[h].tolist()), colour=h) for h in range(WINDOW)
    ]
    return [
        Panel("Loss on new sequences", "step", "nats above the oracle", (*levels, *curves)),
        Panel(
            "Selector: share of each set of heads", "step", "share", tuple(shares), low=0, high=1.05
        ),
        Panel("Copier after training", "lag", "weight", tuple(heads), ticks=lags, low=0, high=1.05),
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
    examples=("induction -o induction.png", "induction -o uniform.png --uniform"),
    options=(
        Option("steps", int, 500, "Steps of training.", 1, 100_000),
        Option("sequences", int, 10_000, "Sequences to learn from.", 256, 1_000_000),
        Option("tests", int, 4000, "Sequences to test on.", 100, 1_000_000),
        Option("chains", int, DRAWN, "Chains over which information is averaged.", 1, 100_000),
        Option("uniform", bool, False, "Ask for contexts that are drawn uniformly."),
    ),
    longer="four times as many steps",
    small={"steps": 26, "sequences": 256, "tests": 100, "chains": 3},
)
