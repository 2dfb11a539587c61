"""Is training linear attention with weight decay a convex problem in disguise?

Read in the paper (its abstract): attention models have equivalent convex problems, with nuclear
norms, that are solvable to global optimality. The exact form for linear attention was recalled, and
is proved in segre.optimum. Derived here: the certificate and all numbers.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import minimize

from segre.fields.interface import Array
from segre.optimum.certificate import lower_bound
from segre.optimum.problem import Problem, dual_point, heads_of, minimiser, rank_of
from segre.reproduce.claim import DERIVED, FORMULA, LIMITED, PAPER, Claim
from segre.reproduce.experiment import Experiment, Option, Run, Work
from segre.reproduce.found import Found, Panel, Seeds, Series, Table

STEPS = 4000


def teacher(seed: int) -> tuple[Array, Array]:
    """12 sequences of 4 random tokens of width 3, and what 4 random heads make of them."""
    rng = np.random.default_rng([seed, 8078])
    X = rng.standard_normal((12, 4, 3))
    W_QK, W_OV = rng.standard_normal((4, 3, 3)), rng.standard_normal((4, 3, 2))
    square = X.swapaxes(-1, -2) @ X
    return X, sum(X @ A @ square @ B for A, B in zip(W_QK, W_OV, strict=True))


def trained(
    problem: Problem, heads: int, rng: np.random.Generator, scale: float = 0.5
) -> tuple[Array, Array]:
    """W_QK and W_OV after training from random weights."""
    d, c = problem.d, problem.c
    M, Y = problem.map, problem.targets
    count = heads * d * d

    def objective(vector: Array) -> tuple[float, Array]:
        A, B = vector[:count].reshape(heads, -1), vector[count:].reshape(heads, -1)
        rest = M @ problem.columns(A.T @ B) - Y
        slope = (M.T @ rest).reshape(d * d, d * c)
        value = ((rest**2).sum() + problem.beta * (vector**2).sum()) / 2
        by_A, by_B = B @ slope.T, A @ slope
        return float(value), np.concatenate([by_A.ravel(), by_B.ravel()]) + problem.beta * vector

    start = scale * rng.standard_normal(heads * d * (d + c))
    options = {"maxiter": STEPS, "maxfun": 2 * STEPS, "ftol": 1e-16, "gtol": 1e-9, "maxcor": 30}
    vector = minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x
    return vector[:count].reshape(heads, d, d), vector[count:].reshape(heads, d, c)


def float_objective(problem: Problem, W_QK: Array, W_OV: Array) -> float:
    """The training objective, in floats."""
    Z = W_QK.reshape(len(W_QK), -1).T @ W_OV.reshape(len(W_OV), -1)
    rest = problem.map @ problem.columns(Z) - problem.targets
    decay = (W_QK**2).sum() + (W_OV**2).sum()
    return float(((rest**2).sum() + problem.beta * decay) / 2)


def best_of(
    problem: Problem, heads: int, restarts: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """The best of several trainings."""
    every = [trained(problem, heads, rng) for _ in range(restarts)]
    return min(every, key=lambda pair: float_objective(problem, *pair))


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
    gaps = []
    for heads in HEADS:
        rng = np.random.default_rng([seed, heads, 8078])
        reached = problem.objective(*best_of(problem, heads, restarts, rng))
        gaps.append(float((reached - bound) / reached))
    return {
        "rank": rank_of(Z),
        "optimum": float(solved),
        "solver": float((solved - bound) / solved),
        "gaps": gaps,
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


def _by_need(one: dict[str, Any]) -> tuple[list[float], list[float]]:
    """The gaps with fewer heads than the rank of the optimum, and the others."""
    few = HEADS.index(one["rank"])
    return one["gaps"][:few], one["gaps"][few:]


def _claims(found: Seeds) -> list[Claim]:
    gaps = [_by_need(one) for one in found]
    return [
        LIMITED("Convex solver: proved relative duality gap").at_most(CLOSE, found.of("solver")),
        LIMITED(
            "Training with at least as many heads as the rank of the optimum: proved relative gap"
        ).at_most(CLOSE, [max(enough) for _, enough in gaps]),
        DERIVED(
            "With fewer heads, training ends above the optimum, and each additional head narrows "
            "the gap"
        ).holds(
            [
                min(few) > CLOSE and bool((np.diff([*few, enough[0]]) < 0).all())
                for few, enough in gaps
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
    title = (
        "The optimum, its rank, and the proved relative gaps of the solver and of training, by "
        "number of heads"
    )
    heads = " ".join(f"{{{n} head{'s' * (n > 1)}:.1e}}" for n in HEADS)
    return Table(title, f"{{seed:d}} {{optimum:.4f}} {{rank:d}} {{solver:.0e}} {heads}", rows)


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
