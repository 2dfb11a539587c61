"""Is training linear attention with weight decay a convex problem in disguise?

Read in the paper (its abstract): attention models have equivalent convex problems, with nuclear
norms, that are solvable to global optimality. The exact form for linear attention was recalled, and
is proved in segre.optimum. Derived here: the certificate and all numbers.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from segre.optimum.certificate import lower_bound
from segre.optimum.problem import Problem
from segre.optimum.solve import dual_point, heads_of, minimiser, rank_of
from segre.reproduce.claim import DERIVED, FORMULA, LIMITED, PAPER, Claim
from segre.reproduce.convex.training import best_of, teacher
from segre.reproduce.experiment import Experiment, Option, Run, Work
from segre.reproduce.found import Found, Panel, Seeds, Series, Table

BETA = 60.0
HEADS = (1, 2, 3, 4, 5, 6)
CLOSE = 2e-7  # a relative gap that counts as the optimum
RANDOM = 100  # random weights, for weak duality


def run(given: Run) -> Found:
    """One problem for each seed: solved, bounded, and trained with several numbers of heads."""
    restarts = given.options["restarts"] * (4 if given.full else 1)
    found = given.each_seed("heads", lambda seed, _: _measured(seed, restarts))
    return Found(
        _claims(found),
        (_table(found, given.seeds),),
        (_panel(found, given.seeds),),
        (
            "12 sequences of 4 tokens of width 3, targets of width 2 from a random layer of 4 "
            f"heads, beta = {BETA:g}; the best of {restarts} training runs for each number of "
            "heads.",
            "Gaps are proved: both sides are exact fractions, and the dual point is shown to be "
            "feasible in ball arithmetic. The rank of the optimum is read off the solver's "
            "floats. That too few heads miss the optimum is what training found; it is not "
            "proved.",
        ),
    )


def _measured(seed: int, restarts: int) -> dict[str, Any]:
    problem = Problem(*teacher(seed), BETA)
    Z = minimiser(problem)
    bound = lower_bound(problem, dual_point(problem, Z))
    solved = problem.objective(*heads_of(problem, Z))
    gaps, gains = [], []
    for heads in HEADS:
        rng = np.random.default_rng([seed, heads, 8078])
        reached = problem.objective(*best_of(problem, heads, restarts, rng))
        gaps.append(float((reached - bound) / reached))
        gains.append(float(reached - solved))
    return {
        "rank": rank_of(Z),
        "optimum": float(solved),
        "solver": float((solved - bound) / solved),
        "gaps": gaps,
        "gains": gains,
        "weak": _weak_duality(problem, bound, np.random.default_rng([seed, 5])),
    }


def _weak_duality(problem: Problem, bound: Fraction, rng: np.random.Generator) -> bool:
    """Whether random weights of all sizes are above the bound, in exact arithmetic."""
    for _ in range(RANDOM):
        heads, scale = rng.integers(1, 7), 10.0 ** rng.uniform(-3, 1)
        W_QK = scale * rng.standard_normal((heads, problem.d, problem.d))
        W_OV = scale * rng.standard_normal((heads, problem.d, problem.c))
        if problem.objective(W_QK, W_OV) < bound:
            return False
    return True


def _enough(one: dict[str, Any]) -> list[float]:
    return [gap for heads, gap in zip(HEADS, one["gaps"], strict=True) if heads >= one["rank"]]


def _few(one: dict[str, Any]) -> list[float]:
    return [gap for heads, gap in zip(HEADS, one["gaps"], strict=True) if heads < one["rank"]]


def _claims(found: Seeds) -> list[Claim]:
    return [
        LIMITED("Convex solver: proved relative duality gap").at_most(CLOSE, found.of("solver")),
        LIMITED(
            "Training with at least as many heads as the rank of the optimum: proved relative gap"
        ).at_most(CLOSE, [max(_enough(one)) for one in found]),
        DERIVED(
            "With fewer heads, training ends above the optimum, and each additional head narrows "
            "the gap"
        ).holds(
            [
                min(_few(one)) > CLOSE and bool((np.diff([*_few(one), _enough(one)[0]]) < 0).all())
                for one in found
            ]
        ),
        FORMULA(
            f"Weak duality: none of {RANDOM} random weights is below the bound, in exact fractions"
        ).holds(found.of("weak")),
        PAPER("The same for ReLU attention, MLP-Mixers and Fourier operators").untestable(
            "only linear attention is implemented here"
        ),
        PAPER("The results of convex heads fine-tuned on CIFAR-100").untestable(
            "this needs the paper's data and backbone"
        ),
    ]


def _table(found: list[dict[str, Any]], seeds: tuple[int, ...]) -> Table:
    rows = [
        (seed, one["optimum"], one["rank"], one["solver"], *one["gaps"])
        for seed, one in zip(seeds, found, strict=True)
    ]
    return Table(
        "The optimum, its rank, and the proved relative gaps of the solver and of training, by "
        "number of heads",
        ("seed", "optimum", "rank", "solver", *(f"{n} head" + "s" * (n > 1) for n in HEADS)),
        rows,
        ("d", ".4f", "d", ".0e", *(".1e",) * len(HEADS)),
    )


def _panel(found: list[dict[str, Any]], seeds: tuple[int, ...]) -> Panel:
    return Panel(
        "Gap between training and the optimum, at most",
        "heads",
        "gap / objective",
        [
            Series(f"seed {seed}, rank {one['rank']}", HEADS, one["gaps"])
            for seed, one in zip(seeds, found, strict=True)
        ],
        log_y=True,
        ticks=HEADS,
    )


EXPERIMENT = Experiment(
    name="convex",
    title="Linear attention with weight decay, trained and solved as a convex problem.",
    work=Work(
        "Unraveling Attention via Convex Duality: Analysis and Interpretations of Vision "
        "Transformers",
        "Sahiner, Ergen, Ozturkler, Pauly, Mardani, Pilanci",
        2022,
        "2205.08078",
    ),
    question="Is training linear attention with weight decay a convex problem in disguise?",
    run=run,
    examples=("convex -o convex.png", "convex -o more.png --restarts 20"),
    options=(
        Option("restarts", int, 10, "Number of training runs for each number of heads.", 1, 1000),
    ),
    longer="four times as many trainings",
    small={"restarts": 2},
)
