"""How long are the paths in the models that the paper names?

>>> [round(share, 4) for share in MODELS[1].shares[-2:]]  # of BERT-base
[0.3827, 0.3827]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from segre.collapse.paths import path_counts, path_shares
from segre.reproduce.claim import PAPER
from segre.reproduce.experiment import Experiment, Run
from segre.reproduce.found import Found, Panel, Series, Table
from segre.reproduce.path_effectiveness import NOT_ALL


@dataclass(frozen=True)
class Paths:
    """The paths of one model."""

    model: str
    layers: int
    heads: int
    published: tuple[float, float]  # shares of the lengths L and L - 1

    @cached_property
    def shares(self) -> list[float]:
        """By length."""
        return path_shares(self.layers, self.heads)

    @property
    def apart(self) -> float:
        """The larger difference from the two published shares."""
        pairs = zip(self.shares[:-3:-1], self.published, strict=True)
        return max(abs(x - y) for x, y in pairs)


MODELS = (
    Paths("DistilBERT", 6, 12, (0.6186, 0.3093)),
    Paths("BERT-base", 12, 12, (0.3827, 0.3827)),
    Paths("BERT-large", 24, 16, (0.2334, 0.3501)),
    Paths("ViT-H", 32, 16, (0.1437, 0.2874)),
    Paths("T5-3B", 24, 32, (0.4778, 0.3584)),
    Paths("T5-11B", 24, 128, (0.8296, 0.1556)),
    Paths("GPT-3", 96, 96, (0.3698, 0.3698)),
)


def run(given: Run) -> Found:
    """Every model."""
    kept = given.unit("shares", lambda _kept: [row.apart for row in MODELS])
    claims = [
        PAPER(f"{row.model}: largest difference from the published P(L) and P(L-1)").at_most(
            0.5e-4, [apart]
        )
        for row, apart in zip(MODELS, kept, strict=True)
    ]
    table = Table(
        "Shares of paths by length; L is the number of layers, and a path may skip layers",
        "{model} {L:d} {heads:d} {paths:.1e} {P(L), segre:.4f} {paper:.4f} {P(L-1), segre:.4f} "
        "{paper:.4f}",
        [
            (
                *(row.model, row.layers, row.heads),
                float(sum(path_counts([row.heads] * row.layers))),
                *(row.shares[-1], row.published[0], row.shares[-2], row.published[1]),
            )
            for row in MODELS
        ],
    )
    curves = [
        Series(row.model, range(min(row.layers, 8) + 1), row.shares[:-10:-1]) for row in MODELS
    ]
    crosses = [
        Series("" if place else "paper", (0, 1), row.published, "crosses", -1)
        for place, row in enumerate(MODELS)
    ]
    panel = Panel("Shares of paths", "layers skipped", "share of all paths", (*curves, *crosses))
    return Found(claims, (table,), (panel,), ("Counted, not measured: nothing is trained.",))


EXPERIMENT = Experiment(
    name="path-lengths",
    title="Shares of paths by length in the paper's models, without training.",
    work=NOT_ALL,
    question="How long are the paths in the models that the paper names?",
    run=run,
    examples=("path-lengths -o lengths.png",),
    seeded=False,
)
