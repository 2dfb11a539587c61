"""Does linear attention learn in context in one drop, or from saddle to saddle?

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
from segre.reproduce import icl_descent as icl
from segre.reproduce.claim import DERIVED, FORMULA, PAPER, Claim
from segre.reproduce.experiment import Experiment, Option, Run, Work
from segre.reproduce.found import Found, Panel, Series, Table

EIGENVALUES = tuple(Fraction(k, 10) for k in (4, 3, 2, 1))
SIZES = [float(value) for value in EIGENVALUES]
CONTEXT = 31
LEVELS = [float(value) for value in icl.levels(EIGENVALUES, CONTEXT)]
HEADS = 5
RATE = 0.05
CURVE = 240  # points of a curve that are kept
Measured = dict[str, Any]


def separate_run(
    loss: icl.Quadratic,
    start: icl.Weights,
    steps: int,
    points: Sequence[icl.FixedPoint],
    seeds: tuple[int, ...],
    tested: int,
) -> dict[str, Any]:
    """Key and query separate, on the expected loss; then the trained layer on drawn sequences."""
    path, last = icl.separate(loss, start, steps, RATE)
    found = _summary(loss, path, points)
    off = []
    for expected, seed, v, k, q in zip(found["last"], seeds, last.v, last.k, last.q, strict=True):
        rng = np.random.default_rng([seed, 2501])
        tokens, labels = icl.sequences(SIZES, CONTEXT, tested, rng)
        errors = (labels - icl.predicted(v, k, q, tokens)) ** 2
        off.append((errors.mean() - expected) / (errors.std() / len(errors) ** 0.5))
    return found | {"off": off}


def _summary(loss: icl.Quadratic, path: Array, points: Sequence[icl.FixedPoint]) -> dict[str, Any]:
    losses = loss.value(path)
    return {
        "near levels": [icl.steps_near(losses, level) for level in LEVELS],
        "near points": icl.steps_by_point(path, points),
        "last": losses[-1],
        **_curve(losses),
    }


def data_run(
    loss: icl.Quadratic, start: icl.Weights, steps: int, seeds: tuple[int, ...], count: int
) -> dict[str, Any]:
    """The same descent on the mean loss of drawn sequences, and its expected loss."""
    every = [
        icl.drawn(*icl.sequences(SIZES, CONTEXT, count, np.random.default_rng([seed, 99])))
        for seed in seeds
    ]
    own = icl.Quadratic(
        np.array([one.constant for one in every]),
        np.stack([one.linear for one in every]),
        np.stack([one.square for one in every]),
    )
    path, _ = icl.separate(own, start, steps, RATE)
    known, expected = np.array(LEVELS), loss.value(path)[..., None]
    near_one = (abs(expected - known) <= 0.05 * known).any(axis=-1).mean(axis=0)
    losses = own.value(path)
    return {"last": losses[-1], "near a level": near_one, **_curve(losses)}


def _curve(losses: Array) -> dict[str, Any]:
    """Steps that are evenly apart on a logarithmic axis, and the losses there."""
    last = len(losses) - 1
    at = np.unique(np.geomspace(min(30, last), last, CURVE).astype(int)) if last else np.array([0])
    return {"at": at, "losses": losses[at].T}


MERGED_STEPS = 20_000


def run(given: Run) -> Found:
    """Both parametrisations on the population loss; the separate one on data as well."""
    seeds, scale, count = given.seeds, given.options["init"], given.options["sequences"]
    steps = given.options["steps"] * (4 if given.full else 1)
    points = icl.fixed_points(EIGENVALUES, CONTEXT)
    start = icl.Weights.drawn(seeds, HEADS, len(EIGENVALUES), scale)
    loss = icl.population(SIZES, CONTEXT)
    given.progress("key and query separate", 0, 3)
    apart = given.unit(
        "separate", lambda _: separate_run(loss, start, steps, points, seeds, 4 * count)
    )
    given.progress("key and query merged", 1, 3)
    fewer = min(steps, MERGED_STEPS)
    joined = given.unit(
        "merged", lambda _: _summary(loss, icl.merged(loss, start, fewer, RATE), points)
    )
    given.progress("on drawn sequences", 2, 3)
    data = given.unit("data", lambda _: data_run(loss, start, steps, seeds, count))
    return Found(
        [*_claims(apart, joined, points, steps, count), *_data_claims(data, count)],
        _tables(apart, joined, points),
        _panels(apart, joined, data, count),
        (
            f"Inputs of dimension {len(EIGENVALUES)} with eigenvalues "
            f"{', '.join(f'{value:g}' for value in SIZES)}, {CONTEXT} pairs in "
            f"context, {HEADS} heads, steps of {RATE}; both parametrisations start at the same "
            "function. Near a level: within 5 % of it.",
            "A run that has not reached the last level by the final step is still on its way; it "
            "has not converged elsewhere.",
        ),
    )


def _claims(
    apart: Measured, joined: Measured, points: Sequence[icl.FixedPoint], steps: int, count: int
) -> list[Claim]:
    size, last = len(EIGENVALUES), LEVELS[-1]
    nested = [tuple(range(1, m + 1)) for m in range(size + 1)]
    ends = {(), nested[-1]}
    inside = [np.array(found["near levels"])[1:size] for found in (apart, joined)]
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
            600, inside[0].min(axis=0).tolist()
        ),
        DERIVED(f"Merged: most steps near any of the levels 1 to {size - 1}").at_most(
            80, inside[1].max(axis=0).tolist()
        ),
        PAPER(
            "Separate: training visits only the fixed points that have learned the largest "
            "eigenvalues, one more at a time"
        ).holds([one == set(nested) for one in _visited(apart, points)]),
        PAPER("Merged: training visits only the first and the last fixed point").holds(
            [one <= ends for one in _visited(joined, points)]
        ),
        FORMULA("Merged: final loss").near(last, joined["last"], tolerance=1e-4),
        FORMULA(f"Separate: loss after {steps:,} steps").near(last, apart["last"], tolerance=1e-4),
        FORMULA(
            f"The trained layer, run by segre on {4 * count:,} random sequences: difference "
            "between its mean loss and the closed form, in standard errors"
        ).at_most(4, [abs(value) for value in apart["off"]]),
    ]


def _data_claims(data: Measured, count: int) -> list[Claim]:
    return [
        DERIVED(
            f"Trained on {count:,} random sequences: share of steps at which the expected loss is "
            "near one of the levels"
        ).at_least(0.95, data["near a level"]),
        PAPER(
            "Rates of the drops as the initial weights go to zero, and low-rank keys and queries"
        ).untestable("a run does not reach a limit, and only rank one is run here"),
    ]


def _visited(found: Measured, points: Sequence[icl.FixedPoint]) -> list[set[tuple[int, ...]]]:
    """For each run, the fixed points near which it spends at least ten steps."""
    return [
        {point.directions for point, count in zip(points, counts, strict=True) if count >= 10}
        for counts in zip(*found["near points"], strict=True)
    ]


def _tables(
    apart: Measured, joined: Measured, points: Sequence[icl.FixedPoint]
) -> tuple[Table, Table]:
    def spans(name: str, place: int) -> tuple[str, str]:
        return _span(apart[name][place]), _span(joined[name][place])

    return (
        Table(
            "Number of steps within 5 % of each level of the loss, range over seeds",
            "{directions learned:d} {loss:.5f} {separate} {merged}",
            [(m, level, *spans("near levels", m)) for m, level in enumerate(LEVELS)],
        ),
        Table(
            "Exact fixed points: the eigenvectors learned, the loss, the largest partial "
            "derivative, and the number of training steps spent nearby",
            "{learned} {loss} {:.5f} {gradient} {merged gradient} {separate} {merged}",
            [
                (
                    ", ".join(map(str, point.directions)) or "none",
                    *(str(point.loss), float(point.loss)),
                    *(str(point.slope), str(point.merged_slope)),
                    *spans("near points", place),
                )
                for place, point in enumerate(points)
            ],
            note="Eigenvectors are numbered from the largest eigenvalue. Nearby: the distance of W "
            "is at most 5 % of the norm of the optimum.",
        ),
    )


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _panels(apart: Measured, joined: Measured, data: Measured, count: int) -> list[Panel]:
    def curves(found: Measured, label: str, colour: int) -> list[Series]:
        return [
            Series(label * (not place), found["at"], one, "line", colour)
            for place, one in enumerate(found["losses"])
        ]

    def panel(title: str, found: Measured, *lines: Series) -> Panel:
        ends = (found["at"][0], found["at"][-1])
        plateaus = [
            Series("fixed points" * (not m), ends, (level, level), "dots", -1)
            for m, level in enumerate(LEVELS)
        ]
        return Panel(title, "step", "loss", (*plateaus, *lines), log_x=True, low=0, high=1.05)

    both = *curves(apart, "separate keys and queries", 0), *curves(joined, "merged", 1)
    drawn_ones = curves(data, f"separate, {count:,} sequences", 2)
    return [
        panel("Expected loss", apart, *both),
        panel("Loss on random sequences", data, *drawn_ones),
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
