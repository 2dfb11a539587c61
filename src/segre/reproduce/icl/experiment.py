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
from segre.reproduce.claim import Claim, at_least, at_most, holds, near, not_testable
from segre.reproduce.experiment import (
    Experiment,
    Found,
    Option,
    Panel,
    Run,
    Series,
    Table,
    Work,
)
from segre.reproduce.icl.descent import Start, merged, separate, steps_near
from segre.reproduce.icl.fixed_points import FixedPoint, fixed_points, steps_by_point
from segre.reproduce.icl.loss import Quadratic, drawn, levels, population, predicted, sequences

EIGENVALUES = tuple(Fraction(k, 10) for k in (4, 3, 2, 1))
CONTEXT = 31
HEADS = 5
RATE = 0.05
MERGED_STEPS = 20_000
SEQUENCES = 5000  # of the run on data
CURVE = 240  # points of a curve that are kept


def run(given: Run) -> Found:
    """Both parametrisations on the population loss; the separate one on data as well."""
    seeds, scale = given.seeds, given.options["init"]
    steps = given.options["steps"] * (4 if given.full else 1)
    points = fixed_points(EIGENVALUES, CONTEXT)
    known = [float(value) for value in levels(EIGENVALUES, CONTEXT)]
    start = Start.drawn(seeds, HEADS, len(EIGENVALUES), scale)
    loss = population([float(value) for value in EIGENVALUES], CONTEXT)
    given.progress("key and query separate", 0, 3)
    apart = given.unit("separate", lambda _: _separate(loss, start, steps, points, known))
    given.progress("key and query merged", 1, 3)
    joined = given.unit(
        "merged", lambda _: _merged(loss, start, min(steps, MERGED_STEPS), points, known)
    )
    given.progress("on drawn sequences", 2, 3)
    data = given.unit("data", lambda _: _on_data(loss, start, steps, seeds))
    return Found(
        tuple(_claims(apart, joined, data, points, known, steps)),
        (_levels(apart, joined, known), _points(apart, joined, points)),
        tuple(_panels(apart, joined, data, known)),
        (
            f"Inputs of dimension {len(EIGENVALUES)} with eigenvalues "
            f"{', '.join(f'{float(value):g}' for value in EIGENVALUES)}, {CONTEXT} pairs in "
            f"context, {HEADS} heads, steps of {RATE}; the first weights of both parametrisations "
            "are the same function. Near a level: within 5 % of it.",
            "A run that has not come to the last level after all steps is not yet there; it does "
            "not end elsewhere.",
        ),
    )


def _separate(
    loss: Quadratic, start: Start, steps: int, points: Sequence[FixedPoint], known: list[float]
) -> dict[str, Any]:
    path = separate(loss, start, steps, RATE)
    losses = loss.value(path.W)
    floats = [float(value) for value in EIGENVALUES]
    off = []
    for place, (v, k, q) in enumerate(zip(path.v, path.k, path.q, strict=True)):
        rng = np.random.default_rng([2501, place])
        tokens, labels = sequences(floats, CONTEXT, 4 * SEQUENCES, rng)
        errors = (labels - predicted(v, k, q, tokens)) ** 2
        off.append((errors.mean() - losses[-1, place]) / (errors.std() / len(errors) ** 0.5))
    return _summary(path.W, losses, points, known) | {"off": off}


def _merged(
    loss: Quadratic, start: Start, steps: int, points: Sequence[FixedPoint], known: list[float]
) -> dict[str, Any]:
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


def _on_data(loss: Quadratic, start: Start, steps: int, seeds: tuple[int, ...]) -> dict[str, Any]:
    """The same descent on the mean loss of drawn sequences, and its expected loss."""
    floats = [float(value) for value in EIGENVALUES]
    every = [
        drawn(*sequences(floats, CONTEXT, SEQUENCES, np.random.default_rng([seed, 99])))
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


def _claims(
    apart: dict[str, Any],
    joined: dict[str, Any],
    data: dict[str, Any],
    points: Sequence[FixedPoint],
    known: list[float],
    steps: int,
) -> list[Claim]:
    size = len(EIGENVALUES)
    inner = range(1, size)
    nested = [tuple(range(1, m + 1)) for m in range(size + 1)]
    visited = _visited(apart, points)
    visited_merged = _visited(joined, points)
    ends = {(), nested[-1]}
    return [
        holds(
            f"With separate key and query all {2**size} sets of eigenvectors are fixed points: "
            "the gradient is exactly 0, in fractions",
            "paper",
            [all(point.slope == 0 for point in points)],
        ),
        holds(
            "With merged key and query only two of them are: nothing learned, and the optimum",
            "paper",
            [{point.directions for point in points if point.merged_slope == 0} == ends],
        ),
        at_least(
            f"Separate: steps near each of the levels 1 to {size - 1}, the fewest",
            "derived here",
            600,
            [min(apart["near levels"][m][seed] for m in inner) for seed in _runs(apart)],
        ),
        at_most(
            f"Merged: steps near each of the levels 1 to {size - 1}, the most",
            "derived here",
            80,
            [max(joined["near levels"][m][seed] for m in inner) for seed in _runs(joined)],
        ),
        holds(
            "Separate: of all fixed points only those are visited that have learned the largest "
            "eigenvalues, one more after another",
            "paper",
            [set(one) == set(nested) for one in visited],
        ),
        holds(
            "Merged: no fixed point but the first and the last is visited",
            "paper",
            [set(one) <= ends for one in visited_merged],
        ),
        near(
            "Merged: the loss at the end",
            "closed form",
            known[-1],
            joined["last"],
            tolerance=1e-4,
        ),
        near(
            f"Separate: the loss after {steps:,} steps",
            "closed form",
            known[-1],
            apart["last"],
            tolerance=1e-4,
        ),
        at_most(
            "The trained layer, run by segre on 20,000 drawn sequences: deviations between its "
            "mean loss and the closed form",
            "closed form",
            4,
            [abs(value) for value in apart["off"]],
        ),
        at_least(
            f"Trained on {SEQUENCES:,} drawn sequences: the share of steps at which the expected "
            "loss is near one of the levels",
            "derived here",
            0.95,
            data["near a level"],
        ),
        not_testable(
            "Rates of the drops as the first weights go to zero, and low-rank keys and queries",
            "paper",
            "limits are not reached by runs, and only rank one is run here",
        ),
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
        "Steps within 5 % of each level of the loss, the fewest and the most over seeds",
        ("directions learned", "loss", "separate", "merged"),
        tuple(rows),
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
        "Fixed points, exactly: the eigenvectors learned, the loss, the largest derivative by a "
        "weight, and the steps of training spent near it",
        ("learned", "loss", "", "slope", "merged slope", "separate", "merged"),
        tuple(rows),
        ("", "", ".5f", "", "", "", ""),
        "Eigenvectors are numbered from the largest eigenvalue. Near: the distance of W is at most "
        "5 % of the length of the optimum.",
    )


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _panels(
    apart: dict[str, Any], joined: dict[str, Any], data: dict[str, Any], known: list[float]
) -> list[Panel]:
    def curves(found: dict[str, Any], label: str, colour: int) -> list[Series]:
        return [
            Series(label if not place else "", tuple(found["at"]), tuple(one), "line", colour)
            for place, one in enumerate(found["losses"])
        ]

    def plateaus(found: dict[str, Any]) -> list[Series]:
        last = found["at"][-1]
        return [
            Series(
                "fixed points" if not m else "", (found["at"][0], last), (level, level), "dots", -1
            )
            for m, level in enumerate(known)
        ]

    one = [
        *plateaus(apart),
        *curves(apart, "separate key and query", 0),
        *curves(joined, "merged", 1),
    ]
    other = [*plateaus(data), *curves(data, f"separate, {SEQUENCES:,} sequences", 2)]
    return [
        Panel("Expected loss", "step", "loss", tuple(one), log_x=True, low=0, high=1.05),
        Panel(
            "Loss on drawn sequences", "step", "loss", tuple(other), log_x=True, low=0, high=1.05
        ),
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
        Option("init", float, 0.01, "The size of the first weights.", 1e-4, 1.0),
        Option("steps", int, 250_000, "Steps of gradient descent.", 1, 2_000_000),
    ),
    longer="four times as many steps",
    small={"steps": 500},
)
