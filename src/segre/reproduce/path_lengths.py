"""How long are the paths of the models that the paper counts? Computed; nothing is trained.

>>> [round(share, 4) for share in rows()[1].shares[-2:]]  # of BERT-base
[0.3827, 0.3827]
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from segre.collapse.shares import path_counts, path_shares
from segre.shown import Shown

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
    def mean(self) -> float:
        """The mean length, over the number of layers."""
        return sum(k * share for k, share in enumerate(self.shares)) / self.layers

    @property
    def agrees(self) -> bool:
        """Whether the published shares are these, to their four digits."""
        found = (self.shares[-1], self.shares[-2])
        return all(abs(x - y) <= 0.5001e-4 for x, y in zip(found, self.published, strict=True))

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON; the number of paths has too many digits for most readers."""
        found = asdict(self) | {"paths": str(self.paths)}
        return found | {"mean": self.mean, "agrees": self.agrees}


@dataclass(frozen=True)
class PathLengths(Shown):
    """All models."""

    rows: tuple[LengthShares, ...]

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {"rows": [row.document() for row in self.rows]}


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
