"""What is measured: both forms on the expected loss, and the separate one on data as well.

Does linear attention learn in context in one drop, or from saddle to saddle?

Read in the paper (its abstract, and the README of its code): the two parametrisations; two fixed
points with merged key and query, and one abrupt drop of the loss; exponentially many with separate
ones, and training that passes from saddle to saddle. Derived here: the levels of the plateaus, the
fixed points as fractions, and that the merged form has only two.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from segre.fields.interface import Array
from segre.reproduce.claim import DERIVED, FORMULA, PAPER, Claim
from segre.reproduce.experiment import Experiment, Option, Run, Work
from segre.reproduce.found import Found, Panel, Series, Table
from segre.reproduce.icl_descent import (
    FixedPoint,
    Quadratic,
    Start,
    drawn,
    fixed_points,
    levels,
    merged,
    population,
    predicted,
    separate,
    sequences,
    steps_by_point,
    steps_near,
)

EIGENVALUES = tuple(Fraction(k, 10) for k in (4, 3, 2, 1))
CONTEXT = 31
HEADS = 5
RATE = 0.05
CURVE = 240  # points of a curve that are kept


def separate_run(
    loss: Quadratic,
    start: Start,
    steps: int,
    points: Sequence[FixedPoint],
    known: list[float],
    seeds: tuple[int, ...],
    tested: int,
) -> dict[str, Any]:
    """Key and query separate, on the expected loss; then the trained layer on drawn sequences."""
    path = separate(loss, start, steps, RATE)
    losses = loss.value(path.W)
    floats = [float(value) for value in EIGENVALUES]
    off = []
    for place, (seed, v, k, q) in enumerate(zip(seeds, path.v, path.k, path.q, strict=True)):
        rng = np.random.default_rng([seed, 2501])
        tokens, labels = sequences(floats, CONTEXT, tested, rng)
        errors = (labels - predicted(v, k, q, tokens)) ** 2
        off.append((errors.mean() - losses[-1, place]) / (errors.std() / len(errors) ** 0.5))
    return _summary(path.W, losses, points, known) | {"off": off}


def merged_run(
    loss: Quadratic, start: Start, steps: int, points: Sequence[FixedPoint], known: list[float]
) -> dict[str, Any]:
    """Key and query merged, on the expected loss."""
    path = merged(loss, start, steps, RATE)
    return _summary(path, loss.value(path), points, known)


def _summary(
    path: Array, losses: Array, points: Sequence[FixedPoint], known: list[float]
) -> dict[str, Any]:
    return {
        "near levels": [steps_near(losses, level) for level in known],
        "near points": steps_by_point(path, points),
        "last": losses[-1],
        **_curve(losses),
    }


def data_run(
    loss: Quadratic, start: Start, steps: int, seeds: tuple[int, ...], count: int
) -> dict[str, Any]:
    """The same descent on the mean loss of drawn sequences, and its expected loss."""
    floats = [float(value) for value in EIGENVALUES]
    every = [
        drawn(*sequences(floats, CONTEXT, count, np.random.default_rng([seed, 99])))
        for seed in seeds
    ]
    own = Quadratic(
        np.array([one.constant for one in every]),
        np.stack([one.linear for one in every]),
        np.stack([one.square for one in every]),
    )
    path = separate(own, start, steps, RATE)
    known = np.array([float(value) for value in levels(EIGENVALUES, CONTEXT)])
    expected = loss.value(path.W)[..., None]
    near_one = (abs(expected - known) <= 0.05 * known).any(axis=-1).mean(axis=0)
    losses = own.value(path.W)
    return {"last": losses[-1], "near a level": near_one, **_curve(losses)}


def _curve(losses: Array) -> dict[str, Any]:
    """Steps that are evenly apart on a logarithmic axis, and the losses there."""
    last = len(losses) - 1
    at = np.unique(np.geomspace(min(30, last), last, CURVE).astype(int)) if last else np.array([0])
    return {"at": at, "losses": losses[at].T}


MERGED_STEPS = 20_000


def run(given: Run) -> Found:
    """Both parametrisations on the population loss; the separate one on data as well."""
    seeds, scale = given.seeds, given.options["init"]
    steps = given.options["steps"] * (4 if given.full else 1)
    points = fixed_points(EIGENVALUES, CONTEXT)
    known = [float(value) for value in levels(EIGENVALUES, CONTEXT)]
    start = Start.drawn(seeds, HEADS, len(EIGENVALUES), scale)
    loss = population([float(value) for value in EIGENVALUES], CONTEXT)
    count = given.options["sequences"]
    given.progress("key and query separate", 0, 3)
    apart = given.unit(
        "separate", lambda _: separate_run(loss, start, steps, points, known, seeds, 4 * count)
    )
    given.progress("key and query merged", 1, 3)
    joined = given.unit(
        "merged", lambda _: merged_run(loss, start, min(steps, MERGED_STEPS), points, known)
    )
    given.progress("on drawn sequences", 2, 3)
    data = given.unit("data", lambda _: data_run(loss, start, steps, seeds, count))
    return Found(
        _claims(apart, joined, data, points, known, steps, count),
        (_levels(apart, joined, known), _points(apart, joined, points)),
        _panels(apart, joined, data, known, count),
        (
            f"Inputs of dimension {len(EIGENVALUES)} with eigenvalues "
            f"{', '.join(f'{float(value):g}' for value in EIGENVALUES)}, {CONTEXT} pairs in "
            f"context, {HEADS} heads, steps of {RATE}; both parametrisations start at the same "
            "function. Near a level: within 5 % of it.",
            "A run that has not reached the last level by the final step is still on its way; it "
            "has not converged elsewhere.",
        ),
    )


def _claims(
    apart: dict[str, Any],
    joined: dict[str, Any],
    data: dict[str, Any],
    points: Sequence[FixedPoint],
    known: list[float],
    steps: int,
    count: int,
) -> list[Claim]:
    size = len(EIGENVALUES)
    inner = range(1, size)
    nested = [tuple(range(1, m + 1)) for m in range(size + 1)]
    visited = _visited(apart, points)
    visited_merged = _visited(joined, points)
    ends = {(), nested[-1]}
    return [
        PAPER(
            f"Separate keys and queries: all {2**size} sets of eigenvectors are fixed points, "
            "with a gradient of exactly 0 in fractions"
        ).holds([all(point.slope == 0 for point in points)]),
        PAPER(
            "Merged keys and queries: only two of them are fixed points, nothing learned and the "
            "optimum"
        ).holds([{point.directions for point in points if point.merged_slope == 0} == ends]),
        DERIVED(f"Separate: fewest steps near any of the levels 1 to {size - 1}").at_least(
            600, [min(apart["near levels"][m][seed] for m in inner) for seed in _runs(apart)]
        ),
        DERIVED(f"Merged: most steps near any of the levels 1 to {size - 1}").at_most(
            80, [max(joined["near levels"][m][seed] for m in inner) for seed in _runs(joined)]
        ),
        PAPER(
            "Separate: training visits only the fixed points that have learned the largest "
            "eigenvalues, one more at a time"
        ).holds([set(one) == set(nested) for one in visited]),
        PAPER("Merged: training visits only the first and the last fixed point").holds(
            [set(one) <= ends for one in visited_merged]
        ),
        FORMULA("Merged: final loss").near(known[-1], joined["last"], tolerance=1e-4),
        FORMULA(f"Separate: loss after {steps:,} steps").near(
            known[-1], apart["last"], tolerance=1e-4
        ),
        FORMULA(
            f"The trained layer, run by segre on {4 * count:,} random sequences: difference "
            "between its mean loss and the closed form, in standard errors"
        ).at_most(4, [abs(value) for value in apart["off"]]),
        DERIVED(
            f"Trained on {count:,} random sequences: share of steps at which the expected loss is "
            "near one of the levels"
        ).at_least(0.95, data["near a level"]),
        PAPER(
            "Rates of the drops as the initial weights go to zero, and low-rank keys and queries"
        ).untestable("a run does not reach a limit, and only rank one is run here"),
    ]


def _runs(found: dict[str, Any]) -> range:
    return range(len(found["last"]))


def _visited(found: dict[str, Any], points: Sequence[FixedPoint]) -> list[list[tuple[int, ...]]]:
    """For each run, the fixed points near which it spends at least ten steps."""
    return [
        [
            point.directions
            for point, counts in zip(points, found["near points"], strict=True)
            if counts[one] >= 10
        ]
        for one in _runs(found)
    ]


def _levels(apart: dict[str, Any], joined: dict[str, Any], known: list[float]) -> Table:
    rows = [
        (m, level, _span(apart["near levels"][m]), _span(joined["near levels"][m]))
        for m, level in enumerate(known)
    ]
    return Table(
        "Number of steps within 5 % of each level of the loss, range over seeds",
        ("directions learned", "loss", "separate", "merged"),
        rows,
        ("d", ".5f", "", ""),
    )


def _points(apart: dict[str, Any], joined: dict[str, Any], points: Sequence[FixedPoint]) -> Table:
    rows = [
        (
            ", ".join(map(str, point.directions)) or "none",
            str(point.loss),
            float(point.loss),
            str(point.slope),
            str(point.merged_slope),
            _span(apart["near points"][place]),
            _span(joined["near points"][place]),
        )
        for place, point in enumerate(points)
    ]
    return Table(
        "Exact fixed points: the eigenvectors learned, the loss, the largest partial derivative, "
        "and the number of training steps spent nearby",
        ("learned", "loss", "", "gradient", "merged gradient", "separate", "merged"),
        rows,
        ("", "", ".5f", "", "", "", ""),
        "Eigenvectors are numbered from the largest eigenvalue. Nearby: the distance of W is at "
        "most 5 % of the norm of the optimum.",
    )


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _panels(
    apart: dict[str, Any],
    joined: dict[str, Any],
    data: dict[str, Any],
    known: list[float],
    count: int,
) -> list[Panel]:
    def curves(found: dict[str, Any], label: str, colour: int) -> list[Series]:
        return [
            Series(label if not place else "", found["at"], one, "line", colour)
            for place, one in enumerate(found["losses"])
        ]

    def plateaus(found: dict[str, Any]) -> list[Series]:
        ends = (found["at"][0], found["at"][-1])
        return [
            Series("" if m else "fixed points", ends, (level, level), "dots", -1)
            for m, level in enumerate(known)
        ]

    one = [
        *plateaus(apart),
        *curves(apart, "separate keys and queries", 0),
        *curves(joined, "merged", 1),
    ]
    other = [*plateaus(data), *curves(data, f"separate, {count:,} sequences", 2)]
    return [
        Panel("Expected loss", "step", "loss", one, log_x=True, low=0, high=1.05),
        Panel("Loss on random sequences", "step", "loss", other, log_x=True, low=0, high=1.05),
    ]


EXPERIMENT = Experiment(
    name="icl-dynamics",
    title="Gradient descent of linear attention on in-context regression, in closed form.",
    work=Work(
        "Training Dynamics of In-Context Learning in Linear Attention",
        "Zhang, Singh, Latham, Saxe",
        2025,
        "2501.16265",
    ),
    question="Does linear attention learn in context in one drop, or from saddle to saddle?",
    run=run,
    examples=("icl-dynamics -o icl.png", "icl-dynamics -o large.png --init 0.05 --steps 60000"),
    options=(
        Option("init", float, 0.01, "Size of the initial weights.", 1e-4, 1.0),
        Option("steps", int, 250_000, "Number of steps of gradient descent.", 1, 1_000_000),
        Option("sequences", int, 5000, "Number of sequences of the run on data.", 100, 100_000),
    ),
    longer="four times as many steps",
    small={"steps": 500, "sequences": 100},
)
