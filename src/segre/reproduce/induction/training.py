"""How is the model trained? Adam on a fixed set of sequences; an interrupted run continues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from segre.fields.interface import Array
from segre.geometry.progress import Progress, quiet
from segre.reproduce.induction.chains import Chains
from segre.reproduce.induction.model import (
    Model,
    labels,
    loss_and_gradient,
    matches,
    probabilities,
)
from segre.reproduce.state import Kept

RATE, FIRST, SECOND = 0.05, 0.9, 0.999
LOOK = 25  # steps between two looks at the test sequences
TESTED = 1000  # sequences at such a look


@dataclass(frozen=True)
class Plan:
    """What a model is trained on, and for how long."""

    chains: Chains
    window: int = 4
    length: int = 100
    train: int = 10_000
    test: int = 4000
    batch: int = 128
    steps: int = 500
    uniform: bool = False  # contexts that are asked for are drawn uniformly
    bare: bool = False  # no empty token

    def data(self, seed: int, count: int, kind: int) -> Array:
        """Sequences to learn from (kind 0) or to test on (1)."""
        rng = np.random.default_rng([seed, kind, 10559])
        return self.chains.sequences(rng, count, self.length, uniform=self.uniform)


def trained(plan: Plan, seed: int, kept: Kept, progress: Progress = quiet) -> dict[str, Any]:
    """The final weights, and the test losses during training."""
    train, test = plan.data(seed, plan.train, 0), plan.data(seed, plan.test, 1)
    symbols, window = plan.chains.symbols, plan.window
    match, right = matches(train, window), labels(train, window)
    seen = matches(test[:TESTED], window), labels(test[:TESTED], window)
    rng = np.random.default_rng([seed, 2, 10559])
    start = Model.start(window, rng, bare=plan.bare).vector
    state = kept.state or {
        **{"step": 0, "vector": start, "looks": []},
        **{name: np.zeros_like(start) for name in ("first", "second")},
    }
    vector, first, second = state["vector"], state["first"], state["second"]
    looks = list(state["looks"])
    for step in range(state["step"], plan.steps):
        if step % LOOK == 0:
            now = Model.of(vector, window)
            looks.append([step, loss_and_gradient(now, *seen, symbols)[0], now.selected.tolist()])
            kept.keep(
                {"step": step, "vector": vector, "first": first, "second": second}
                | {"looks": looks[:-1]}
            )
            progress(f"training, loss {looks[-1][1]:.3f}", step, plan.steps)
        some = np.random.default_rng([seed, 3, step]).integers(plan.train, size=plan.batch)
        given = Model.of(vector, window), match[some], right[some], symbols
        gradient = loss_and_gradient(*given)[1]
        first = FIRST * first + (1 - FIRST) * gradient
        second = SECOND * second + (1 - SECOND) * gradient**2
        mean, square = first / (1 - FIRST ** (step + 1)), second / (1 - SECOND ** (step + 1))
        vector = vector - RATE * mean / (np.sqrt(square) + 1e-8)
    model = Model.of(vector, window)
    looks.append([plan.steps, loss_and_gradient(model, *seen, symbols)[0], model.selected.tolist()])
    return {
        "looks": looks,
        "loss": test_loss(plan, model, test),
        "copied": model.copied,
        "selected": model.selected,
        "sharpness": model.a,
        "pseudo-count": model.pseudo_count,
    }


def test_loss(plan: Plan, model: Model, test: Array) -> float:
    """The mean cross-entropy on test sequences, with segre's attention."""
    total = 0.0
    for some in np.array_split(test, max(1, len(test) // 500)):
        y = probabilities(model, some, plan.chains.symbols)
        total -= float(np.log(y[np.arange(len(some)), some[:, -1]]).sum())
    return total / len(test)
