"""How long are the paths in the models that the paper names?

>>> [round(share, 4) for share in rows()[1].shares[-2:]]  # of BERT-base
[0.3827, 0.3827]
"""

from __future__ import annotations

from dataclasses import dataclass

from segre.collapse.paths import path_counts, path_shares
from segre.reproduce.claim import PAPER
from segre.reproduce.experiment import Experiment, Run
from segre.reproduce.found import Found, Panel, Series, Table
from segre.reproduce.path_effectiveness import NOT_ALL

# Layers, heads, and the published shares of the longest paths and of those one shorter.
MODELS: dict[str, tuple[int, int, float, float]] = {
    "DistilBERT": (6, 12, 0.6186, 0.3093),
    "BERT-base": (12, 12, 0.3827, 0.3827),
    "BERT-large": (24, 16, 0.2334, 0.3501),
    "ViT-H": (32, 16, 0.1437, 0.2874),
    "T5-3B": (24, 32, 0.4778, 0.3584),
    "T5-11B": (24, 128, 0.8296, 0.1556),
    "GPT-3": (96, 96, 0.3698, 0.3698),
}


@dataclass(frozen=True)
class LengthShares:
    """The paths of one model."""

    model: str
    layers: int
    heads: int
    paths: int  # all of them
    shares: tuple[float, ...]  # by length
    published: tuple[float, float]  # of the lengths L and L - 1

    @property
    def apart(self) -> float:
        """The larger difference from the two published shares."""
        found = (self.shares[-1], self.shares[-2])
        return max(abs(x - y) for x, y in zip(found, self.published, strict=True))


def rows() -> list[LengthShares]:
    """All models, in the paper's order."""
    return [
        LengthShares(
            model,
            layers,
            heads,
            sum(path_counts([heads] * layers)),
            tuple(path_shares(layers, heads)),
            (last, before),
        )
        for model, (layers, heads, last, before) in MODELS.items()
    ]


def run(given: Run) -> Found:
    """Every model."""
    every = rows()
    kept = given.unit("shares", lambda _kept: [row.apart for row in every])
    claims = [
        PAPER(f"{row.model}: largest difference from the published P(L) and P(L-1)").at_most(
            0.5e-4, [apart]
        )
        for row, apart in zip(every, kept, strict=True)
    ]
    table = Table(
        "Shares of paths by length; L is the number of layers, and a path may skip layers",
        "{model} {L:d} {heads:d} {paths:.1e} {P(L), segre:.4f} {paper:.4f} {P(L-1), segre:.4f} "
        "{paper:.4f}",
        [
            (
                *(row.model, row.layers, row.heads, float(row.paths)),
                *(row.shares[-1], row.published[0], row.shares[-2], row.published[1]),
            )
            for row in every
        ],
    )
    curves = [
        Series(row.model, range(min(row.layers, 8) + 1), row.shares[:-10:-1]) for row in every
    ]
    crosses = [
        Series("" if place else "paper", (0, 1), row.published, "crosses", -1)
        for place, row in enumerate(every)
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
