"""How similar tokens are after each layer of a real model, also with parts removed.

Layer 0 is what goes into the layers; layer l is the stream after the l-th, before the final norm of
pre-norm models. Measures are those of `segre.collapse.residual`, taken as the stream goes by: a
curve costs little more than the forward pass.

A model is run in single precision, all variants at once, layer by layer. Rounding the entries of
a stream, by at most 2^-24 of each, moves its relative residual by at most 2^-23; a layer does so
about eight times (values, their mixture, the output, its bias; centre, root, gain and bias of a
norm). Below eight times that, `FLOOR`, a curve is rounding, and all that comes after it in the
layers is made of rounding. Without skips the first input is carried on from there with its mean and
residual apart (`continued`).

Where patterns have their gap removed, what tokens share is cancelled in every layer, and a rounding
is divided by the relative residual; such variants are run in double precision, to the same floor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from segre.checkpoint.inputs import Inputs
from segre.checkpoint.model import Model
from segre.collapse.apart import can_continue, continued
from segre.collapse.residual import stays_below
from segre.collapse.streams import Fusion, Sink, measured, sink_of
from segre.collapse.variants import PAPER, Variant, WithGates
from segre.fields import Real
from segre.fields.interface import Array
from segre.fields.threads import threads_for
from segre.geometry.progress import Progress, quiet
from segre.json_data import json_data
from segre.transformer.forward import Place, Tokens, run

FLOOR = 8 * 2.0**-23  # 9.5e-7: relative residuals below are rounding, not the model
LEAST = 1e-30  # streams of this size have too few digits left in single precision
AT_ONCE = 1 << 28  # bytes of the streams of all variants


@dataclass(frozen=True)
class Curve:
    """Measures of one variant: each (layers + 1, inputs).

    `relative` and `relative_frobenius` are relative residuals, `cosine` the mean cosine between
    two tokens, `size` the root mean square of all entries; with ranks, `rank` and `stable_rank`.
    """

    variant: Variant
    values: Mapping[str, Array]
    spectrum: Array | None = None  # (layers + 1, values): singular values, mean over inputs
    past: Array | None = None  # (layers + 1,): log10 of the first input's, in split arithmetic
    sink: Sink | None = None  # the token that dominates, if one does
    fused: Array | None = None  # (inputs,): relative residuals of the streams of all depths, fused

    def mean(self, measure: str = "relative") -> Array:
        """The mean over inputs, by layer; nan where numbers overflow."""
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(self.values[measure].mean(axis=-1))

    def spread(self, measure: str = "relative") -> Array:
        """The standard deviation over inputs, by layer."""
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(self.values[measure].std(axis=-1))

    @property
    def lost(self) -> int | None:
        """The first layer after which numbers are meaningless: not finite, or almost zero."""
        size = self.values["size"]
        wrong = ~np.isfinite(size + self.values["relative"]) | (size < LEAST)
        layers = np.flatnonzero(wrong.any(axis=-1))
        return int(layers[0]) if layers.size else None

    @property
    def floored(self) -> int | None:
        """The first layer after which the mean, and all later means, are only rounding errors."""
        layers = np.flatnonzero(self.mean()[: self.lost] < FLOOR)
        return int(layers[0]) if layers.size else None

    @property
    def log10(self) -> Array:
        """log10 of the mean relative residual; below single precision, of the first input.

        Where nothing is known, as below single precision of a curve that is not continued, nan.
        """
        means = self.mean()
        known = np.isfinite(means) & (means > 0)
        known[len(means) if self.lost is None else self.lost :] = False
        logs = np.where(known, np.log10(np.where(known, means, 1)), np.nan)
        if self.floored is not None:
            logs[self.floored :] = np.nan if self.past is None else self.past[self.floored :]
        return logs

    def below(self, threshold: float) -> int | None:
        """The layer from which the mean stays below a threshold, as far as it is known."""
        logs = self.log10[: self.lost]
        if self.floored is not None and self.past is None:
            logs = logs[: self.floored + 1]
            logs[-1] = np.log10(FLOOR)  # at most
        return stays_below(logs, np.log10(threshold) if threshold > 0 else -np.inf)

    def document(self) -> dict[str, Any]:
        """As plain data; what is not finite is null."""
        variant = self.variant
        found: dict[str, Any] = {"variant": str(variant), **vars(variant), "lost": self.lost}
        found["mlp_skip"] = variant.skips_mlp
        found |= {
            "floored": self.floored,
            "log10": json_data(self.log10),
            "continued": self.past is not None,
            "sink": None if self.sink is None else vars(self.sink),
            **({} if self.fused is None else {"fused": json_data(self.fused)}),
        }
        for name in self.values:
            if name == "position" or (name == "without" and self.sink is None):
                continue
            found[name] = {
                "mean": json_data(self.mean(name)),
                "spread": json_data(self.spread(name)),
                "lowest": json_data(self.values[name].min(axis=-1)),
                "highest": json_data(self.values[name].max(axis=-1)),
            }
        if self.spectrum is not None:
            found["spectrum"] = json_data(self.spectrum)
        return found


@dataclass(frozen=True)
class Curves:
    """The curves of a model's variants on the same inputs."""

    model: Mapping[str, Any]
    inputs: Mapping[str, Any]
    curves: tuple[Curve, ...]
    floor: float = FLOOR
    fuse: str | None = None  # how streams were fused, if they were

    def __getitem__(self, variant: Variant) -> Curve:
        return next(curve for curve in self.curves if curve.variant == variant)

    def __contains__(self, variant: object) -> bool:
        return any(curve.variant == variant for curve in self.curves)

    @property
    def layers(self) -> int:
        """Number of layers of the model."""
        return len(self.curves[0].mean()) - 1

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            **self.model,
            "inputs": dict(self.inputs),
            "floor": self.floor,
            **({} if self.fuse is None else {"fuse": self.fuse}),
            "curves": [curve.document() for curve in self.curves],
        }


def curves(
    model: Model,
    inputs: Inputs,
    variants: Sequence[Variant] = PAPER,
    *,
    ranks: bool = False,
    past_floor: bool = False,
    fuse: str | None = None,
    seed: int = 0,
    progress: Progress = quiet,
) -> Curves:
    """Measure every variant after every layer; `ranks` adds measures that need singular values.

    With `past_floor`, curves that reach the floor of single precision are continued below it where
    possible. With `fuse`, the fused streams of all layers are measured too. `seed` is used for
    gates that the model has no weights for.
    """
    for variant in variants:
        variant.require(model.spec)
    if any(variant.gate for variant in variants):
        model = replace(model, tensors=WithGates(model, seed))
    found: dict[tuple[int, int], list[dict[str, Array]]] = defaultdict(list)  # by depth
    fused: dict[int, list[Array]] = defaultdict(list)
    fusion = None if fuse is None else Fusion(fuse)
    groups = list(_groups(inputs, model.spec.d * 4 * len(variants)))
    total = len(inputs.batches) * len(variants) * (model.spec.layers + 1)

    def measure(chosen: Sequence[int], place: Place, name: str, x: Array) -> Array:
        depth = place.depth(name)
        if depth is None:
            return x
        number = chosen[place.edit]
        progress(f"layer {depth}", sum(map(len, found.values())), total)
        X = x[:, 0, 0].swapaxes(1, 2)
        found[number, depth].append(measured(X, ranks))
        if fusion is not None:
            fusion.add((number, place.batch), X)
            if depth == model.spec.layers:
                fused[number].append(fusion.relative((number, place.batch)))
        return x

    with threads_for(model.spec.d), np.errstate(all="ignore"):  # what overflows is lost, and said
        for double in (False, True):
            chosen = [n for n, variant in enumerate(variants) if variant.gapless == double]
            edits = [variants[n].edit for n in chosen]
            field = Real(np.float64 if double else np.float32)
            for group in groups if chosen else ():
                run(model, group, field, edits, partial(measure, chosen))
        every = [
            _curve(variant, [found[n, depth] for depth in range(model.spec.layers + 1)], fused[n])
            for n, variant in enumerate(variants)
        ]
        if past_floor:
            begins = partial(progress, "below single precision", total, total)
            every = _past_floor(model, every, inputs, begins)
        every = [
            replace(curve, sink=sink_of(curve.values, model, inputs, curve.lost)) for curve in every
        ]
    progress("measured", total, total)
    known = {**model.document(), "family": model.family}
    return Curves(known, inputs.document(), tuple(every), fuse=fuse)


def _past_floor(
    model: Model, every: list[Curve], inputs: Inputs, begins: Callable[[], None]
) -> list[Curve]:
    """The curves, those that reach the floor continued below it where their variants allow that."""
    below = [c.variant for c in every if c.floored is not None and can_continue(model, c.variant)]
    if not below:
        return every
    begins()
    past = dict(zip(below, continued(model, below, inputs.batches[0][:1]), strict=True))
    return [replace(curve, past=past.get(curve.variant)) for curve in every]


def _groups(inputs: Inputs, each: int) -> Iterator[list[Tokens]]:
    """Batches whose streams, `each` bytes for a token, fit into memory together."""
    group: list[Tokens] = []
    for batch in inputs.batches:
        if group and each * (batch.size + sum(one.words.size for one in group)) > AT_ONCE:
            yield group
            group = []
        group.append(Tokens(batch))
    yield group


def _curve(variant: Variant, parts: list[list[dict[str, Array]]], fused: list[Array]) -> Curve:
    def joined(name: str) -> Array:
        return np.stack([np.concatenate([part[name] for part in layer]) for layer in parts])

    names = [name for name in parts[0][0] if name != "spectrum"]
    spectrum = None
    if "spectrum" in parts[0][0]:
        widest = max(part["spectrum"].shape[-1] for part in parts[0])

        def padded(part: Mapping[str, Array]) -> Array:
            short = widest - part["spectrum"].shape[-1]
            return np.pad(part["spectrum"], ((0, 0), (0, short)))

        spectrum = np.stack([np.concatenate(list(map(padded, layer))).mean(0) for layer in parts])
    values = {name: joined(name) for name in names}
    return Curve(variant, values, spectrum, fused=np.concatenate(fused) if fused else None)
