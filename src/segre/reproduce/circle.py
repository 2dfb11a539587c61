"""Two tokens on a circle, moved by one layer again and again: do they merge?

A layer with two heads learns to move two opposite points of a circle of radius 0.3, each a little
out of place, one step along it, and is then applied to its own output. The paper shows such
trajectories: attention alone merges the tokens, an MLP and a skip delay it. It gives no numbers,
and what happens depends on the seed and on how long training is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf
from operator import gt
from typing import Any

import numpy as np

from segre.fields.interface import Array
from segre.reproduce.claim import PAPER
from segre.reproduce.experiment import Experiment, Option, Run
from segre.reproduce.found import Found, Panel, Series, Table
from segre.reproduce.path_effectiveness import NOT_ALL
from segre.reproduce.path_tasks import Settings, Shape
from segre.reproduce.state import Kept

RADIUS = 0.3
VARIANTS = {  # skip, MLP
    "attention": (False, False),
    "attention + MLP": (False, True),
    "attention + skip": (True, False),
    "attention + skip + MLP": (True, True),
}
POINTS = 100
NOISE = 0.03  # standard deviation of the noise on points
COPIES = 20  # of each pair, to learn from
MERGED = 0.1  # of the first distance


def walk(
    name: str,
    seed: int,
    kept: Kept | None = None,
    *,
    epochs: int = 5,
    lr: float = 1e-3,
    steps: int = 100,
    d: int = 32,
    heads: int = 2,
    points: int = POINTS,
) -> dict[str, Any]:
    """Train one variant and let it walk: the loss of a step, and where the tokens are."""
    import torch

    from segre.reproduce.networks import PathNetwork, train

    at, to = arcs(points)
    skip, mlp = VARIANTS[name]
    model = PathNetwork(Shape(heads, 1, d, 2, mlp=mlp, skip=skip, lift=1), seed)
    losses = train(
        *(model, near(at, COPIES, seed), np.tile(to, (COPIES, 1, 1))),
        Settings(epochs, lr, seed=seed),
        loss=torch.nn.functional.mse_loss,
        kept=kept,
    )
    tokens = [torch.from_numpy(at[:1])]
    with torch.inference_mode():
        model.double()
        for _ in range(steps):
            tokens.append(model(tokens[-1]))
    return {"loss": losses[-1], "tokens": torch.cat(tokens).numpy()}


def distances(tokens: Array) -> Array:
    """Distances of tokens (time, token, coordinate), relative to the initial distance."""
    apart = np.linalg.norm(tokens[:, 0] - tokens[:, 1], axis=-1)
    return np.asarray(apart / apart[0])


def merged(tokens: Array) -> float:
    """The step from which on the tokens stay within a tenth of their first distance, or never."""
    first = int(np.flatnonzero(~(distances(tokens) < MERGED))[-1]) + 1
    return first if first < len(tokens) else inf


def run(given: Run) -> Found:
    """Every variant, for every seed."""
    found = {name: given.each_seed(name, partial(walk, name, **given.options)) for name in VARIANTS}
    tokens = {name: [np.array(one["tokens"]) for one in each] for name, each in found.items()}
    ends = {name: [merged(one) for one in each] for name, each in tokens.items()}
    alone, *others = VARIANTS
    claims = (
        PAPER("Attention alone merges the tokens").holds([end < inf for end in ends[alone]]),
        *(
            PAPER(f"With {name}, they merge later or never").holds(
                [*map(gt, ends[name], ends[alone])],
                f"they merge at step {_steps(ends[name])}, and with attention alone at step "
                f"{_steps(ends[alone])}",
            )
            for name in others
        ),
    )
    rows = [
        (
            name,
            float(np.mean(np.sqrt(each.of("loss")))),
            ", ".join(f"{distances(one)[-1]:.2g}" for one in tokens[name]),
            _steps(ends[name]),
        )
        for name, each in found.items()
    ]
    table = Table(
        "Two tokens on a circle of radius 0.3, moved repeatedly by one trained layer",
        "{layer} {step error:.1e} {final distance, by seed} {merged at step, by seed}",
        rows,
        note="Distances are relative to the initial distance. Tokens have merged once their "
        "distance stays below a tenth of it.",
    )
    notes = (
        "The paper gives no numbers. The order of the variants depends on the seed and on "
        "training: after --epochs 40 most stay apart.",
    )
    return Found(claims, (table,), _panels(tokens), notes)


def _steps(ends: Sequence[float]) -> str:
    return ", ".join(str(end) if end < inf else "-" for end in ends)


def _panels(tokens: dict[str, list[Array]]) -> list[Panel]:
    """Where the tokens go for the first seed, and how far apart they are for all."""
    turn = np.linspace(0, 2 * np.pi, 61)
    x, y = (RADIUS * np.array([np.cos(turn), np.sin(turn)])).tolist()
    ring = Series("", x, y, "dots", -1)
    panels = []
    for name, (first, *_) in tokens.items():
        end = merged(first)
        shown = first[: int(min(end, len(first))) + 1]
        paths = []
        for token in range(2):
            x, y = shown[:, token].T.tolist()
            paths += [
                Series("", x, y, "line", token),
                Series("", x[:1], y[:1], "points", token),
                Series("", x[-1:], y[-1:], "crosses", token),
            ]
        said = f", merged from step {end} on" if end < inf else ""
        panels.append(Panel(f"{name}{said}", "x", "y", (ring, *paths), equal=True))
    lines = [
        Series("" if place else name, range(len(one)), distances(one).tolist(), "line", colour)
        for colour, (name, each) in enumerate(tokens.items())
        for place, one in enumerate(each)
    ]
    axes = ("step", "distance / initial distance")
    return [*panels, Panel("Distance between the tokens, all seeds", *axes, lines, low=0, high=3)]


def arcs(points: int) -> tuple[Array, Array]:
    """Pairs of opposite points of the circle, and where they are a step later."""
    half = points // 2
    turn = 2 * np.pi * np.arange(points + 1) / points
    circle = RADIUS * np.stack([np.cos(turn), np.sin(turn)], axis=-1)
    pairs = np.stack([circle[: half + 1], circle[half : 2 * half + 1]], axis=1)
    return pairs[:-1], pairs[1:]


def near(pairs: Array, copies: int, seed: int) -> Array:
    """Copies of the pairs, with noise on every point."""
    every = np.tile(pairs, (copies, 1, 1))
    return every + np.random.default_rng([seed, 4]).normal(scale=NOISE, size=every.shape)


EXPERIMENT = Experiment(
    name="circle",
    title="Two tokens moved repeatedly by one trained layer.",
    work=NOT_ALL,
    question="Does one attention layer, applied repeatedly, merge two tokens?",
    run=run,
    examples=("circle -o circle.png", "circle -o longer.png --epochs 40"),
    options=(
        Option("steps", int, 100, "Number of times a layer is applied.", 1, 10_000),
        Option("epochs", int, 5, "Number of training epochs.", 1, 100_000),
        Option("lr", float, 1e-3, "Learning rate.", 1e-8, 1.0),
    ),
    needs=("torch",),
    small={"steps": 3, "epochs": 1},
)
