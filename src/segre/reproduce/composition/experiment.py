"""Do L + 1 layers of full attention compose L functions, and what does a linear lookup lose?

Read in the paper (its abstract): L + 1 layers of full attention suffice for sequential function
composition, and L - 1 of them with 2^(3 L^2) linear ones do not. Derived here: the form of the
sequences, the weights, and all numbers. That a lookup with few coordinates goes wrong if it is
linear is a matter of capacity. It illustrates the difference, and is no evidence for the bound.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from segre.reproduce.claim import DERIVED, PAPER, Claim
from segre.reproduce.composition.chaser import (
    Task,
    answers,
    composed,
    embedding,
    functions,
    sequence,
    starts,
    weights,
)
from segre.reproduce.experiment import Experiment, Option, Run, Work
from segre.reproduce.found import Found, Panel, Seeds, Table
from segre.reproduce.state import Kept

SIZES = ((2, 8), (4, 16), (6, 32))
SYMBOLS = 16
WIDTHS = (2, 4, 6, 8, 12, 16)
LOOKUPS = 10  # functions for each width
STEPS = 4
REPLACED = 8  # width of lookups in the stacks of which some are linear


def run(given: Run) -> Found:
    """Full attention on three sizes, then linear lookups of several widths."""
    count = given.options["functions"] * (4 if given.full else 1)
    sizes = [size for size in SIZES if size[0] <= given.options["steps"]]
    full = {
        (L, m): given.each_seed(f"{L} steps of {m} symbols", partial(_shares, Task(L, m), count))
        for L, m in sizes
    }
    lookups = given.options["lookups"]
    widths = given.each_seed("lookups", lambda seed, _: _by_width(seed, lookups))
    stacks = given.each_seed("linear layers", lambda seed, _: _by_layers(seed, lookups))
    return Found(
        _claims(full, widths, stacks),
        (_table(full), _lookups(widths), _stacks(stacks)),
        _panels(widths, stacks),
        (
            "All weights are set by hand: one head looks up, another carries the token along. "
            "Attention is causal; there are no skips and no MLPs. Every symbol is queried.",
            "A linear lookup sums the values of all symbols, weighted by the similarity of their "
            "keys; a softmax picks one. With as many coordinates as symbols, both are exact.",
        ),
    )


def _accuracy(task: Task, rng: np.random.Generator, count: int) -> tuple[float, float]:
    """The share of correct answers over random functions, and the largest error of an answer."""
    vector = weights(task, embedding(task, rng))
    right, off = [], 0.0
    for _ in range(count):
        f = functions(task, rng)
        found = answers(task, vector, starts(task, sequence(task, f, rng)))
        meant = composed(f)
        right.append((found.argmax(axis=1) == meant).mean())
        off = max(off, float(abs(found - np.eye(task.m)[meant]).max()))
    return float(np.mean(right)), off


def _shares(task: Task, count: int, seed: int, _kept: Kept) -> dict[str, float]:
    """The same for one size and seed."""
    share, off = _accuracy(task, np.random.default_rng([seed, task.L, task.m]), count)
    return {"share": share, "off": off}


def _by_width(seed: int, count: int) -> dict[str, list[float]]:
    """One lookup, linear and full, with the same keys."""
    found: dict[str, list[float]] = {"linear": [], "full": []}
    for width in WIDTHS:
        for name, flag in (("linear", True), ("full", False)):
            rngs = [np.random.default_rng([seed, width, n]) for n in range(count)]
            task = Task(1, SYMBOLS, (flag,), width)
            found[name].append(float(np.mean([_accuracy(task, rng, 1)[0] for rng in rngs])))
    return found


def _by_layers(seed: int, count: int) -> list[float]:
    """Several steps, of which the first so many are linear."""
    found = []
    for linear in range(STEPS + 1):
        task = Task(STEPS, SYMBOLS, tuple(step < linear for step in range(STEPS)), REPLACED)
        rngs = [np.random.default_rng([seed, 7, n]) for n in range(-(-count // 3))]
        found.append(float(np.mean([_accuracy(task, rng, 1)[0] for rng in rngs])))
    return found


def _claims(full: dict[tuple[int, int], Seeds], widths: Seeds, stacks: Seeds) -> list[Claim]:
    return [
        *(
            PAPER(
                f"{L + 1} layers of full attention, {L} steps, {m} symbols: share of correct "
                "answers"
            ).near(1, found.of("share"), tolerance=0)
            for (L, m), found in full.items()
        ),
        DERIVED("The same networks: largest distance between an answer and the exact one").at_most(
            1e-12,
            [max(found[seed]["off"] for found in full.values()) for seed in range(len(widths))],
        ),
        DERIVED(
            f"Lookups by full attention among {SYMBOLS} symbols are correct at every key width"
        ).holds([min(one) == 1 for one in widths.of("full")]),
        DERIVED(f"Linear lookups make errors up to key width 8 and none at width {SYMBOLS}").holds(
            [max(one[: WIDTHS.index(8) + 1]) < 1 == one[-1] for one in widths.of("linear")]
        ),
        DERIVED(
            f"{STEPS} steps, key width {REPLACED}: all answers are correct only if no lookup is "
            "linear"
        ).holds([max(one[1:]) < 1 == one[0] for one in stacks]),
        PAPER(
            "No hybrid of L - 1 full layers and 2^(3 L^2) linear layers composes L functions"
        ).untestable(
            "no experiment can show that something is impossible, and failed training is not "
            "evidence"
        ),
    ]


def _table(full: dict[tuple[int, int], Seeds]) -> Table:
    rows = [
        (
            *(L, m, L + 1, Task(L, m).tokens, Task(L, m).d),
            *(found.means("share"), max(found.of("off"))),
        )
        for (L, m), found in full.items()
    ]
    return Table(
        "Composition by full attention",
        ("steps", "symbols", "layers", "tokens", "width", "correct", "largest error"),
        rows,
        ("d", "d", "d", "d", "d", ".1%", ".0e"),
    )


def _lookups(widths: Seeds) -> Table:
    means = widths.means("linear"), widths.spreads("linear"), widths.means("full")
    return Table(
        f"One lookup among {SYMBOLS} symbols: share of correct answers by key width, means over "
        "seeds",
        ("width", "linear", "± over seeds", "full"),
        [*zip(WIDTHS, *means, strict=True)],
        ("d", ".1%", ".1%", ".1%"),
    )


def _stacks(stacks: Seeds) -> Table:
    return Table(
        f"{STEPS} steps, {SYMBOLS} symbols, key width {REPLACED}: share of correct answers if the "
        "first lookups are linear, means over seeds",
        [f"{linear} linear" for linear in range(STEPS + 1)],
        [stacks.means()],
        (".1%",) * (STEPS + 1),
    )


def _panels(widths: Seeds, stacks: Seeds) -> list[Panel]:
    return [
        Panel(
            f"One lookup among {SYMBOLS} symbols",
            "width of keys and queries",
            "share of correct answers",
            (
                widths.curve("full (softmax)", WIDTHS, "full", colour=0),
                widths.curve("linear", WIDTHS, "linear", colour=1),
            ),
            ticks=WIDTHS,
            low=0,
            high=1.05,
        ),
        Panel(
            f"{STEPS} steps, key width {REPLACED}",
            "linear lookups",
            "share of correct answers",
            [stacks.curve("", range(STEPS + 1), colour=1)],
            ticks=range(STEPS + 1),
            low=0,
            high=1.05,
        ),
    ]


EXPERIMENT = Experiment(
    name="composition",
    title="Function composition by layers of full attention, with weights set by hand.",
    work=Work(
        "A Provable Expressiveness Hierarchy in Hybrid Linear-Full Attention",
        "Ye, He, Liao, Wu, Lu",
        2026,
        "2602.01763",
    ),
    question="Do L + 1 layers of full attention compose L functions, and what do linear layers "
    "lose?",
    run=run,
    examples=("composition -o composition.png", "composition -o small.png --steps 4"),
    options=(
        Option("functions", int, 1, "Number of random functions for each size.", 1, 100),
        Option("steps", int, 6, "Largest number of steps.", 2, 6),
        Option(
            "lookups", int, LOOKUPS, "Number of random functions for each width of keys.", 1, 1000
        ),
    ),
    longer="four times as many functions",
    small={"steps": 2, "lookups": 1},
)
