"""Can many heads of rank one replace one head of full rank?

Read in the paper (its abstract, and its code): one full-rank head finds the nearest neighbour for
any number of tokens; heads of low rank need exponentially many, even for two tokens; the matrix C
of the error is in the code. Derived here: the vector b of the error, and its agreement with heads
that are run. No experiment shows a lower bound: other keys, queries and values might do better.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from segre.reproduce.claim import FORMULA, LIMITED, PAPER, Claim
from segre.reproduce.experiment import Experiment, Option, Run, Work
from segre.reproduce.found import Found, Panel, Seeds, Series, Table
from segre.reproduce.rank.nearest import (
    Heads,
    agreement,
    best_error,
    full_rank,
    gram,
    mean_square,
    nearest,
    points,
    rank_one,
)

WIDTHS = (4, 8, 16)
COUNTS = (1, 4, 16, 64, 256, 1024)
CHECKED = 16  # heads that are run, to compare
TOKENS = (2, 8, 32)  # of the full-rank head
SAMPLES = 20_000
SHARP = 1e7


def run(given: Run) -> Found:
    """Errors in closed form for every width, and heads that are run on drawn points."""
    every = (*COUNTS, 4096) if given.full else COUNTS
    counts = tuple(count for count in every if count <= given.options["heads"])
    samples = given.options["samples"]
    by_seed = given.each_seed(
        "heads",
        lambda seed, _: {str(d): _measured(seed, d, counts, samples) for d in WIDTHS},
    )
    found = {d: Seeds(by_seed.of(str(d))) for d in WIDTHS}
    return Found(
        _claims(found, counts),
        (_table(found, counts), _full(found, samples)),
        (_panel(found, counts),),
        (
            "The error is the root mean square error; targets have norm 1. Heads of rank one are "
            "hard (a softmax with very large scores), have random keys and queries, and are "
            "combined with the best weights for the exact distribution of points.",
        ),
    )


def _measured(seed: int, d: int, counts: tuple[int, ...], samples: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, d, 16153])
    heads = Heads.drawn(rng, counts[-1], d)
    C, b = gram(heads), agreement(heads)
    errors = [best_error(C[:n, :n], b[:n])[0] for n in counts]
    some = min(CHECKED, counts[-1])
    expected, alpha = best_error(C[:some, :some], b[:some])
    x, y = points(rng, samples, 2, d)
    each = ((rank_one(heads.first(some), alpha, x, y, SHARP) - nearest(x, y)) ** 2).sum(axis=1)
    full = []
    for tokens in TOKENS:
        x, y = points(rng, samples, tokens, d)
        full.append(mean_square(full_rank(x, y, SHARP), nearest(x, y)) ** 0.5)
    return {
        "errors": [max(error, 0.0) ** 0.5 for error in errors],
        "off": (each.mean() - expected) / (each.std() / samples**0.5),
        "full": full,
    }


def _claims(found: dict[int, Seeds], counts: tuple[int, ...]) -> list[Claim]:
    seeds = range(len(found[WIDTHS[0]]))
    last = len(counts) - 1
    middle = counts.index(64) if 64 in counts else last
    return [
        LIMITED(
            f"One full-rank head on up to {TOKENS[-1]} tokens: largest error over all widths"
        ).at_most(
            0.001,
            [max(error for d in WIDTHS for error in found[d][seed]["full"]) for seed in seeds],
        ),
        FORMULA(
            "Heads of rank one: the error falls each time the number of heads is quadrupled"
        ).holds(
            [all((np.diff(found[d][seed]["errors"]) < 0).all() for d in WIDTHS) for seed in seeds]
        ),
        PAPER(f"With {counts[middle]} heads, the error grows with the width").holds(
            [
                bool((np.diff([found[d][seed]["errors"][middle] for d in WIDTHS]) > 0).all())
                for seed in seeds
            ]
        ),
        FORMULA("Heads run by segre: difference from the closed form, in standard errors").at_most(
            4, [max(abs(found[d][seed]["off"]) for d in WIDTHS) for seed in seeds]
        ),
        PAPER("Exponentially many heads of low rank are necessary").untestable(
            "this is a lower bound over all heads; random heads show only what random heads can do"
        ),
        PAPER(
            "Two layers of low rank suffice for short contexts, and trained transformers agree"
        ).untestable("only one layer with constructed heads is run here"),
    ]


def _table(found: dict[int, Seeds], counts: tuple[int, ...]) -> Table:
    columns = [found[d].means("errors") for d in WIDTHS]
    spread = np.max([found[d].spreads("errors") for d in WIDTHS], axis=0).tolist()
    return Table(
        "Error of heads of rank one with the best weights, two tokens, means over seeds",
        ("heads", *(f"d = {d}" for d in WIDTHS), "± at most"),
        [*zip(counts, *columns, spread, strict=True)],
        ("d", *(".3f",) * (len(WIDTHS) + 1)),
    )


def _full(found: dict[int, Seeds], samples: int) -> Table:
    rows = [
        (tokens, *(max(found[d].of("full", place)) for d in WIDTHS))
        for place, tokens in enumerate(TOKENS)
    ]
    return Table(
        f"Error of one full-rank softmax head on {samples:,} samples, largest over seeds",
        ("tokens", *(f"d = {d}" for d in WIDTHS)),
        rows,
        ("d", *(".1e",) * len(WIDTHS)),
    )


def _panel(found: dict[int, Seeds], counts: tuple[int, ...]) -> Panel:
    ends = (counts[0], counts[-1])
    return Panel(
        "Nearest of two points",
        "heads of rank one",
        "error with the best weights",
        (
            *(found[d].curve(f"width {d}", counts, "errors") for d in WIDTHS),
            Series("one full-rank head (below 0.001)", ends, (0.0, 0.0), "dashes", -1),
        ),
        log_x=True,
        ticks=counts,
        low=-0.03,
        high=1.0,
    )


EXPERIMENT = Experiment(
    name="rank",
    title="Finding the nearest neighbour with one full-rank head or many heads of rank one.",
    work=Work(
        "On the Benefits of Rank in Attention Layers", "Amsel, Yehudai, Bruna", 2024, "2407.16153"
    ),
    question="Can many heads of rank one replace one head of full rank?",
    run=run,
    examples=("rank -o rank.png", "rank -o more.png --full --heads 4096"),
    options=(
        Option("heads", int, 4096, "Largest number of heads of rank one.", 4, 4096),
        Option("samples", int, SAMPLES, "Number of points on which heads are run.", 100, 1_000_000),
    ),
    longer="4096 heads too",
    small={"heads": 16, "samples": 500},
)
