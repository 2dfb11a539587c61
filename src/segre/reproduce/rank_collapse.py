"""Do BERT and ALBERT lose rank with depth, and what prevents it? At random initialisation.

Random weights and random tokens, so that nothing is downloaded; four variants of each model. The
published numbers are of 32 texts of 128 tokens, read off the paper's figures, and of a run on
random tokens. The paper's third model, XLNet, has relative positions with two streams, which specs
cannot say; it is not run here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from segre.checkpoint.inputs import random_tokens
from segre.collapse.curves import FLOOR, Curves, curves
from segre.collapse.models import load
from segre.collapse.variants import PAPER, Variant
from segre.geometry.progress import Progress, quiet
from segre.models import PRESETS
from segre.shown import Shown

MODELS = {"bert": "bert-base-uncased", "albert": "albert-base-v2"}
LAYERS = (0, 1, 2, 3, 4, 6, 9, 12)
NAMES = dict(zip(PAPER, ("attention", "+ MLP", "+ skip", "full"), strict=True))
ALIKE = 1.5  # residuals that differ by a smaller factor are called equal
COLLAPSED = 1e-3
_FLOOR = (FLOOR,)

# Mean relative residuals at LAYERS of the paper's figures; None is not known.
FIGURE: dict[str, tuple[tuple[float | None, ...], ...]] = {
    "bert": (
        (0.612, 0.0176, 7e-7, *_FLOOR * 5),
        (0.597, 0.0174, 9e-7, *_FLOOR * 5),
        (0.607, 0.565, 0.559, 0.565, 0.563, 0.529, 0.487, 0.449),
        (0.597, 0.563, 0.535, 0.565, 0.537, 0.493, 0.414, 0.345),
    ),
    "albert": (
        (0.669, 0.0016, *_FLOOR * 6),
        (0.566, 0.0011, *_FLOOR * 6),
        (0.642, 0.642, 0.613, 0.546, 0.493, 0.412, 0.321, 0.256),
        (0.626, 0.670, 0.610, 0.561, 0.525, 0.418, 0.337, 0.260),
    ),
}
# The same of a run on random tokens: what is known of it.
RUN: dict[str, tuple[tuple[float | None, ...], ...]] = {
    "bert": ((0.584, 0.0161, 4e-7), (), (), (*(None,) * 7, 0.378)),
    "albert": ((0.757, 0.0019, 2e-7), (), (), (*(None,) * 7, 0.210)),
}


@dataclass(frozen=True)
class ModelCollapse:
    """The curves of one model, beside what is published of it."""

    model: str
    curves: Curves
    published: bool  # whether the sizes are those of the published numbers

    def layers(self) -> list[int]:
        """The layers of the table: the published ones, as far as there are so many."""
        last = self.curves.layers
        return [layer for layer in LAYERS if layer < last] + [last]

    def mean(self, variant: Variant) -> list[float]:
        """Mean relative residuals at these layers."""
        means = self.curves[variant].mean()
        return [float(means[layer]) for layer in self.layers()]

    def known(self, variant: Variant) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
        """What is published at these layers: of the figure, and of the run."""
        place, count = PAPER.index(variant), len(LAYERS)
        found = (FIGURE[self.model][place], RUN[self.model][place]) if self.published else ((), ())
        return found[0] + (None,) * (count - len(found[0])), found[1] + (None,) * (
            count - len(found[1])
        )

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "model": self.model,
            "layers": self.layers(),
            "variants": {
                str(variant): {
                    "relative_residual": self.mean(variant),
                    "figure": list(self.known(variant)[0]),
                    "run": list(self.known(variant)[1]),
                }
                for variant in PAPER
            },
            "curves": self.curves.document(),
        }


@dataclass(frozen=True)
class RankCollapse(Shown):
    """All models, beside what is published of them."""

    models: tuple[ModelCollapse, ...]

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        yes, no = verdict(self.models)
        models = [one.document() for one in self.models]
        return {"reproduces": yes, "does_not_reproduce": no, "models": models}


def collapse(
    models: Sequence[str] = tuple(MODELS),
    *,
    count: int = 8,
    length: int = 128,
    layers: int | None = None,
    width: int | None = None,
    seed: int = 0,
    progress: Progress = quiet,
) -> list[ModelCollapse]:
    """Measure the four variants of each model; sizes are those of the base models unless given."""
    found = []
    for number, model in enumerate(models):

        def show(stage: str, done: int, total: int, at: int = number, name: str = model) -> None:
            progress(f"{name}: {stage}", at * total + done, len(models) * total)

        progress(f"{model}: drawing weights", number, len(models))
        loaded = load(_config(model, layers, width), seed)
        inputs = random_tokens(loaded, count, length, seed)
        measured = curves(loaded, inputs, PAPER, progress=show)
        found.append(ModelCollapse(model, measured, layers is None and width is None))
    return found


def verdict(found: Sequence[ModelCollapse]) -> tuple[list[str], list[str]]:
    """What reproduces, and what does not, in sentences."""
    yes: list[str] = []
    no: list[str] = []

    def said(names: list[str], missing: list[str], claim: str) -> None:
        if names:
            yes.append(f"{claim}: {', '.join(names)}.")
        if missing:
            no.append(f"{claim}: not {', '.join(missing)}.")

    attention, mlp, skip, full = PAPER
    for claim, variants, collapses in (
        ("Attention alone collapses", (attention,), True),
        ("An MLP without skips does not save it", (mlp,), True),
        ("Skips prevent it, with and without MLPs", (skip, full), False),
    ):
        holds = {
            one.model: all(
                (one.curves[variant].below(COLLAPSED) is not None) == collapses
                for variant in variants
            )
            for one in found
        }
        right = [model for model, true in holds.items() if true]
        said(right, [model for model, true in holds.items() if not true], claim)
    for one in found:
        for variant in (skip, full):
            last, known = one.mean(variant)[-1], one.known(variant)[0][-1]
            if known is None:
                continue
            same = max(last / known, known / last) < ALIKE
            text = (
                f"{one.model}, {variant}: {last:.3f} after the last layer, published {known:.3f}."
            )
            (yes if same else no).append(text)
    return yes, no


def _config(model: str, layers: int | None, width: int | None) -> dict[str, Any]:
    """The config of a base model, or of one of other sizes (heads of width 64, or two)."""
    given = {"num_hidden_layers": layers}
    if width is not None:
        given |= {"hidden_size": width, "num_attention_heads": max(width // 64, 2)}
        given["intermediate_size"] = 4 * width
    sizes = {key: value for key, value in given.items() if value is not None}
    return dict(PRESETS[MODELS[model]]) | sizes
