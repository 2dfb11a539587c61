"""Do BERT and ALBERT lose rank with depth, and what prevents it? At random initialisation.

Random weights and random tokens, so that nothing is downloaded; four variants of each model. The
published numbers are of 32 texts of 128 tokens, read off the paper's figures, and of a run of the
published code on random tokens.

To take the MLP out of ALBERT, the published code replaces its two matrices by the identity. That
leaves the activation, the skip and the norm: a layer ends with y = N(x + gelu(x)). This is a fifth
variant of ALBERT here, the published surgery; the others take out the whole sub-layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from segre.checkpoint.inputs import random_tokens
from segre.checkpoint.runnable import load
from segre.collapse.curves import FLOOR, curves
from segre.collapse.variants import FULL
from segre.collapse.variants import PAPER as FOUR
from segre.fields.interface import Array
from segre.models import PRESETS
from segre.reproduce.claim import DERIVED, PAPER, RERUN, Claim
from segre.reproduce.experiment import Experiment, Option, Run
from segre.reproduce.found import Cell, Found, Panel, Seeds, Series, Table
from segre.reproduce.path_effectiveness import NOT_ALL
from segre.reproduce.state import Kept
from segre.transformer.forward import Tensors, WeightSource
from segre.transformer.spec import Transformer

MODELS = {"bert": "bert-base-uncased", "albert": "albert-base-v2"}
LAYERS = (0, 1, 2, 3, 4, 6, 9, 12)
VARIANTS = ("attention", "+ MLP", "+ skip", "full")
SURGERY = "+ skip, published surgery"
COLLAPSED = 1e-3
_FLOOR = (FLOOR,)
Known = tuple[float | None, ...]

# Mean relative residuals at LAYERS of the paper's figures; None is not known.
FIGURE: dict[str, dict[str, Known]] = {
    "bert": {
        "attention": (0.612, 0.0176, 7e-7, *_FLOOR * 5),
        "+ MLP": (0.597, 0.0174, 9e-7, *_FLOOR * 5),
        "+ skip": (0.607, 0.565, 0.559, 0.565, 0.563, 0.529, 0.487, 0.449),
        "full": (0.597, 0.563, 0.535, 0.565, 0.537, 0.493, 0.414, 0.345),
    },
    "albert": {
        "attention": (0.669, 0.0016, *_FLOOR * 6),
        "+ MLP": (0.566, 0.0011, *_FLOOR * 6),
        SURGERY: (0.642, 0.642, 0.613, 0.546, 0.493, 0.412, 0.321, 0.256),
        "full": (0.626, 0.670, 0.610, 0.561, 0.525, 0.418, 0.337, 0.260),
    },
}
# The same of a run of the published code on random tokens: what is known of it.
RERAN: dict[str, dict[str, Known]] = {
    "bert": {"attention": (0.584, 0.0161, 4e-7), "full": (*(None,) * 7, 0.378)},
    "albert": {"attention": (0.757, 0.0019, 2e-7), "full": (*(None,) * 7, 0.210)},
}


@dataclass(frozen=True)
class WithoutMatrices:
    """The weights of a transformer, both matrices of its MLPs replaced by the identity."""

    whole: WeightSource

    @property
    def spec(self) -> Transformer:
        """The same, its MLPs as wide as the stream."""
        return replace(self.whole.spec, ff=self.whole.spec.d)

    def part(
        self, part: str, names: Iterable[str] | None = None, dtype: npt.DTypeLike = np.float64
    ) -> Tensors:
        """The tensors of a part."""
        wanted = list(names) if names is not None else None
        own = {name for name in ("W_up", "b_up", "W_down", "b_down") if wanted and name in wanted}
        found = self.whole.part(part, [n for n in wanted or () if n not in own], dtype)
        d = self.spec.d
        for name in own:
            found[name] = np.eye(d, dtype=dtype) if name[0] == "W" else np.zeros((d, 1), dtype)
        return found

    def columns(self, name: str, which: Array, dtype: npt.DTypeLike = np.float64) -> Array:
        """Some columns of a table."""
        return self.whole.columns(name, which, dtype)


def measure(
    model: str,
    seed: int,
    _kept: Kept | None = None,
    *,
    count: int,
    length: int,
    layers: int | None,
    width: int | None,
) -> dict[str, list[float]]:
    """Mean relative residuals of every variant, after every layer."""
    loaded = load(config(model, layers, width), seed)
    inputs = random_tokens(loaded, count, length, seed)
    measured = curves(loaded, inputs, FOUR)
    found = {
        name: measured[variant].mean().tolist()
        for name, variant in zip(VARIANTS, FOUR, strict=True)
    }
    if model == "albert":
        cut = replace(loaded, tensors=WithoutMatrices(loaded))
        found[SURGERY] = curves(cut, inputs, [FULL])[FULL].mean().tolist()
    return found


def run(given: Run) -> Found:
    """Every model, for every seed."""
    options = dict(given.options)
    models = list(dict.fromkeys(options.pop("model") or MODELS))
    as_published = options["layers"] is None and options["width"] is None
    found = {model: given.each_seed(model, partial(measure, model, **options)) for model in models}
    claims = [*_orderings(found), *(_numbers(found) if as_published else ())]
    claims += [
        PAPER("The curves of XLNet").untestable(
            "it has relative positions with two streams, which specs cannot express"
        ),
        PAPER("The curves of pretrained models").untestable(
            "no weights are downloaded; `segre model collapse` measures a local checkpoint"
        ),
    ]
    tables = [_table(model, each, as_published) for model, each in found.items()]
    panels = [_panel(model, each, as_published) for model, each in found.items()]
    notes = (
        "The layers of ALBERT share one draw of weights, so its numbers vary over seeds; the "
        "paper's come from a single draw.",
        "paper: read off its figures, on 32 texts. published code rerun: on random tokens, as "
        f"here. fl: at most {FLOOR:.1e}, the rounding floor of single precision.",
    )
    return Found(claims, tables, panels, notes)


def _orderings(found: Mapping[str, Seeds]) -> Iterator[Claim]:
    for model, each in found.items():
        for says, variants, collapses in (
            ("attention alone collapses", VARIANTS[:1], True),
            ("MLPs without skips do not prevent collapse", VARIANTS[1:2], True),
            ("skips prevent collapse, with and without MLPs", VARIANTS[2:], False),
        ):
            yield PAPER(f"{_named(model)}: {says}").holds(
                [all((one[name][-1] < COLLAPSED) == collapses for name in variants) for one in each]
            )


def _numbers(found: Mapping[str, Seeds]) -> Iterator[Claim]:
    """Published numbers: after the last layer with skips, after the first without."""
    for model, each in found.items():
        for name in (name for name in VARIANTS[2:] if name in FIGURE[model]):
            yield PAPER(f"{_named(model)} ({name}): relative residual after layer 12").near(
                FIGURE[model][name][-1] or 0, each.of(name, -1), tolerance=0.1
            )
        first, last = RERAN[model]["attention"][1] or 1, RERAN[model]["full"][-1] or 1
        yield RERUN(
            f"{_named(model)} (attention): log10 of the relative residual after layer 1, within a "
            "factor of two"
        ).near(
            float(np.log10(first)),
            [float(np.log10(one["attention"][1])) for one in each],
            tolerance=float(np.log10(2)),
        )
        yield RERUN(f"{_named(model)} (full): relative residual after layer 12").near(
            last, each.of("full", -1), tolerance=0.1
        )
    if "albert" in found:
        each = found["albert"]
        yield PAPER(f"ALBERT ({SURGERY}): relative residual after layer 12").near(
            0.256, each.of(SURGERY, -1), tolerance=0.05
        )
        yield DERIVED("ALBERT (+ skip, whole MLP removed): relative residual after layer 12").near(
            0.08, each.of("+ skip", -1), tolerance=0.03
        )


def _layers(each: Seeds) -> list[int]:
    """The layers of the table: the published ones that exist, and the last."""
    last = len(each[0]["full"]) - 1
    return [layer for layer in LAYERS if layer < last] + [last]


def _table(model: str, each: Seeds, as_published: bool) -> Table:
    layers = _layers(each)
    rows: list[tuple[Cell, ...]] = []
    for name in each[0]:
        rows.append((name, "segre", *(_residual(each.means(name, layer)) for layer in layers)))
        for source, values in _known(model, name) if as_published else ():
            rows.append(("", source, *map(_residual, values)))
    title = f"{_named(model)}: mean relative residual after each layer, means over seeds"
    return Table(title, ("variant", "source", *map(str, layers)), rows)


def _known(model: str, name: str) -> Iterator[tuple[str, Known]]:
    """What is published of a variant, by source."""
    for source, every in (("paper", FIGURE), ("published code rerun", RERAN)):
        if values := every[model].get(name):
            yield source, values + (None,) * (len(LAYERS) - len(values))


def _panel(model: str, each: Seeds, as_published: bool) -> Panel:
    series = []
    for colour, name in enumerate(each[0]):
        means = [max(value, 3e-9) for value in each.means(name)]
        series.append(Series(name, range(len(means)), means, colour=colour))
        for source, values in _known(model, name) if as_published else ():
            if source == "paper":
                above = [value if (value or 0) > FLOOR else None for value in values]
                series.append(Series("", LAYERS, above, "crosses", colour))
    if as_published:
        series.append(Series("paper", (), (), "crosses", -1))
    axes = ("layer", "mean relative residual")
    return Panel(_named(model), *axes, series, log_y=True)


def _named(model: str) -> str:
    return model.upper()


def _residual(value: float | None) -> str:
    if value is None:
        return "-"
    if value <= FLOOR:
        return "fl"
    return f"{value:.3f}" if value >= 0.01 else f"{value:.1e}".replace("e-0", "e-")


def config(model: str, layers: int | None, width: int | None) -> dict[str, Any]:
    """The config of a base model, or of one of other sizes (heads of width 64, or two)."""
    given = {"num_hidden_layers": layers}
    if width is not None:
        given |= {"hidden_size": width, "num_attention_heads": max(width // 64, 2)}
        given["intermediate_size"] = 4 * width
    sizes = {key: value for key, value in given.items() if value is not None}
    return dict(PRESETS[MODELS[model]]) | sizes


EXPERIMENT = Experiment(
    name="rank-collapse",
    title="Rank by depth in BERT and ALBERT: what collapses and what does not.",
    work=NOT_ALL,
    question="Do BERT and ALBERT lose rank with depth at initialisation, and what prevents it?",
    run=run,
    examples=(
        "rank-collapse -o collapse.png",
        "rank-collapse -o small.png --model bert --layers 4",
    ),
    options=(
        Option(
            *("model", str, None, "bert or albert; repeatable (default: both)."),
            allowed=tuple(MODELS),
            several=True,
        ),
        Option("count", int, 4, "Number of inputs (32 in the paper).", 1, 10_000),
        Option("length", int, 128, "Tokens per input.", 2, 512),
        Option("layers", int, None, "Number of layers.", 1, 64),
        Option("width", int, None, "Width (default: that of base models).", 4, 8192),
    ),
    small={"count": 1, "length": 6, "layers": 2, "width": 24},
)
