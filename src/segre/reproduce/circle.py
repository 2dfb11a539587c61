"""Two tokens on a circle, moved by one layer again and again: do they merge?

A layer with two heads learns to move two opposite points of a circle of radius 0.3, each a little
out of place, one step along it, and is then applied to its own output. The paper shows such
trajectories: attention alone merges the tokens, an MLP and a skip delay it. What happens depends
on the seed and on how long training is; nothing is claimed of it here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from segre.fields.interface import Array
from segre.geometry.progress import Progress, quiet
from segre.reproduce.path_effectiveness import require_torch
from segre.shown import Shown

RADIUS = 0.3
VARIANTS = {  # skip, MLP
    "attention": (False, False),
    "attention + MLP": (False, True),
    "attention + skip": (True, False),
    "attention + skip + MLP": (True, True),
}
NOISE = 0.03  # how far points are out of place
COPIES = 20  # of each pair, to learn from
MERGED = 0.1  # of the first distance


@dataclass(frozen=True)
class Walk:
    """Where one variant took the tokens."""

    name: str
    loss: float  # of the last epoch: the mean square error of a step
    tokens: Array  # (steps + 1, 2, 2): time, token, coordinate

    @property
    def distances(self) -> Array:
        """Between the tokens, over the first distance."""
        apart = np.linalg.norm(self.tokens[:, 0] - self.tokens[:, 1], axis=-1)
        return np.asarray(apart / apart[0])

    @property
    def merged(self) -> int | None:
        """The step from which on the tokens stay within a tenth of their first distance."""
        above = np.flatnonzero(~(self.distances < MERGED))
        first = int(above[-1]) + 1
        return first if first < len(self.tokens) else None

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "name": self.name,
            "loss": self.loss,
            "merged": self.merged,
            "distances": self.distances.tolist(),
            "tokens": self.tokens.tolist(),
        }


@dataclass(frozen=True)
class Walks(Shown):
    """All variants."""

    walks: tuple[Walk, ...]
    seed: int

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {"seed": self.seed, "walks": [walk.document() for walk in self.walks]}


def walks(
    *,
    points: int = 100,
    steps: int = 100,
    d: int = 32,
    heads: int = 2,
    epochs: int = 5,
    lr: float = 1e-3,
    seed: int = 0,
    file: Path | None = None,
    fresh: bool = False,
    progress: Progress = quiet,
) -> list[Walk]:
    """Train every variant, or go on with its run (a file each, beside `file`), and let it walk."""
    require_torch()
    import torch

    from segre.reproduce.training import PathNetwork, Settings, Shape, train

    at, to = arcs(points)
    found = []
    for number, (name, (skip, mlp)) in enumerate(VARIANTS.items()):

        def show(stage: str, done: int, total: int, name: str = name, number: int = number) -> None:
            progress(f"{name}: {stage}", number * total + done, len(VARIANTS) * total)

        shape = Shape(heads, 1, d, 2, mlp=mlp, skip=skip, lift=1)
        model = PathNetwork(shape, seed)
        own = None if file is None else file.with_suffix(f".{number + 1}{file.suffix}")
        done = train(
            *(model, near(at, COPIES, seed), np.tile(to, (COPIES, 1, 1))),
            Settings(epochs, lr, seed=seed),
            loss=torch.nn.functional.mse_loss,
            data=f"circle of {points} points",
            file=own,
            fresh=fresh,
            progress=show,
        )
        tokens = [torch.from_numpy(at[:1])]
        with torch.inference_mode():
            model.double()
            for _ in range(steps):
                tokens.append(model(tokens[-1]))
        found.append(Walk(name, done.losses[-1], torch.cat(tokens).numpy()))
    return found


def arcs(points: int) -> tuple[Array, Array]:
    """Pairs of opposite points of the circle, and where they are a step later."""
    half = points // 2
    turn = 2 * np.pi * np.arange(points + 1) / points
    circle = RADIUS * np.stack([np.cos(turn), np.sin(turn)], axis=-1)
    pairs = np.stack([circle[: half + 1], circle[half : 2 * half + 1]], axis=1)
    return pairs[:-1], pairs[1:]


def near(pairs: Array, copies: int, seed: int) -> Array:
    """Copies of the pairs, each point moved a little."""
    every = np.tile(pairs, (copies, 1, 1))
    return every + np.random.default_rng([seed, 4]).normal(scale=NOISE, size=every.shape)
