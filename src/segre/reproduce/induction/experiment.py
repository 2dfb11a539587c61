"""Does a two-layer transformer trained on n-gram chains become an induction head?

Read in the paper (its abstract): the first layer copies past tokens, the feed-forward layer selects
the relevant parents, the second layer compares; a modified chi-square information says which
parents. Its exact weight was recalled. Derived here: the gradient, the oracle, the empty token of
the classifier, and that plain chi-square information is the same for every set that contains the
parents, so that it picks none.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from segre.reproduce.claim import DERIVED, LIMITED, PAPER, Claim
from segre.reproduce.experiment import Experiment, Option, Run, Work
from segre.reproduce.found import Found, Seeds
from segre.reproduce.induction.chains import Chains, information, oracle_loss, unigram_loss
from segre.reproduce.induction.display import (
    ALPHA,
    CONTEXTS,
    KINDS,
    PARENTS,
    RIGHT,
    SYMBOLS,
    WINDOW,
    information_table,
    losses_table,
    named,
    panels,
)
from segre.reproduce.induction.training import TESTED, Plan, trained
from segre.reproduce.state import Kept


def run(given: Run) -> Found:
    """Information of all sets of lags, then training on chains with parents 1 and 3."""
    count, steps = given.options["chains"], given.options["steps"] * (4 if given.full else 1)
    plans = {
        kind: Plan(
            Chains(SYMBOLS, PARENTS[0], ALPHA),
            WINDOW,
            train=given.options["sequences"],
            test=given.options["tests"],
            steps=steps,
            uniform=kind == "uniform",
            bare=given.options["bare"],
        )
        for kind in KINDS
    }
    known = given.each_seed("information", lambda seed, _: _information(seed, count))
    found = {
        kind: given.each_seed(f"training, context {KINDS[kind]}", partial(_trained, plan, given))
        for kind, plan in plans.items()
    }
    plan = plans["chain"]
    return Found(
        _claims(known, found),
        (losses_table(found, given.seeds), information_table(known)),
        panels(found),
        (
            f"Chains of {SYMBOLS} symbols with parents at lags {named(PARENTS[0])}, rows from a "
            f"Dirichlet({ALPHA:g}) distribution, sequences of {plan.length} tokens, each from its "
            f"own chain; a window of {WINDOW} lags, {WINDOW} heads, {steps} steps of Adam. Losses "
            f"are in nats, on {plan.test:,} new sequences.",
            "The oracle knows the parents and counts matches; the unigram counts tokens. A "
            "uniform last context, as in one version of the authors' code, may never have "
            "occurred before.",
            "The empty token of the classifier is not in the paper; --bare trains without it.",
        ),
    )


def _trained(plan: Plan, given: Run, seed: int, kept: Kept) -> dict[str, Any]:
    """The model of one seed for one method of drawing contexts, and what it is compared with."""
    test = plan.data(seed, plan.test, 1)
    return trained(plan, seed, kept, given.progress) | {
        "oracle": oracle_loss(plan.chains, test),
        "oracle, first": oracle_loss(plan.chains, test[:TESTED]),
        "unigram": unigram_loss(plan.chains, test),
    }


def _information(seed: int, count: int) -> dict[str, Any]:
    found = {}
    for parents in PARENTS:
        rng = np.random.default_rng([seed, *parents])
        each = information(Chains(SYMBOLS, parents, ALPHA), WINDOW, rng, count)
        found[named(parents)] = {named(lags): list(pair) for lags, pair in each.items()}
    return found


def _picked(one: dict[str, list[float]]) -> str:
    return max(one, key=lambda lags: one[lags][1])


def _claims(known: Seeds, found: dict[str, Seeds]) -> list[Claim]:
    whole = named(tuple(range(1, WINDOW + 1)))
    claims = [
        PAPER(f"Modified information selects the parents {{{named(parents)}}}").holds(
            [_picked(one) == named(parents) for one in known.of(named(parents))]
        )
        for parents in PARENTS
    ]
    claims.append(
        DERIVED(
            "Plain information does not single them out: difference between all lags and the "
            "parents"
        ).at_most(
            1e-6,
            [
                max(abs(one[name][whole][0] - one[name][name][0]) for name in map(named, PARENTS))
                for one in known
            ],
        )
    )
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
