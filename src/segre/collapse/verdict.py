"""Curves in words: what collapses, from which layer on, and what holds it up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil, inf, isfinite, log
from typing import Any

import numpy as np

from segre.collapse.curves import Curve, Curves
from segre.collapse.streams import DOMINANT, Sink
from segre.collapse.variants import FULL, PARTS, Variant
from segre.transformer.drawn import DEVIATION
from segre.values import counted, from_logarithm

THRESHOLD = 1e-3
FORESEEN = 5  # times the depth: how far a rate is believed to go on
FEWEST, SLOWEST, EVEN = 3, 0.99, 0.5  # a rate: layers, largest factor, how far logarithms may vary
# whether the variant with it, and the one without it, collapse
ROLES = {(False, True): "prevent", (True, False): "cause", (True, True): "do not prevent"}
EFFECTS = {
    (False, True): "prevents collapse within these layers",
    (True, False): "causes collapse",
    (True, True): "does not prevent collapse",
}
CHANGES = {"gapless": "removing the gap", "window": "a window", "gate": "a gate"}


def advice(curves: Curves, threshold: float = THRESHOLD) -> list[str]:
    """Sentences: how it was measured, the model itself, its variants, what each part does.

    A variant collapses if the mean relative residual stays below the threshold from some layer
    on. That it does not, on these inputs and within this depth, does not mean that it never does.
    """
    ordered = sorted(curves.curves, key=lambda curve: curve.variant != FULL)
    said = [_basis(curves, threshold)]
    for curve in ordered:
        said.append(_one(curve, curves, threshold))
        if curve.sink is not None:
            said.append(_without(curve, curve.sink))
    if all(collapses(curve, threshold) is False for curve in ordered):
        said.append(f"Nothing collapses within {counted(curves.layers, 'layer')}.")
    for part in PARTS:
        said += _role(part, curves, threshold)
    for change in CHANGES:
        said += _effect(change, curves, threshold)
    if any(curve.variant.gate for curve in ordered):
        said.append(
            "The model was not trained with these gates: their W_G is random (normal, standard "
            f"deviation {DEVIATION:g}), as before training."
        )
    return said


def not_measured(refused: Sequence[str]) -> list[str]:
    """What a design does not allow, one sentence each."""
    return [f"Not measured: {reason}." for reason in refused]


def _basis(curves: Curves, threshold: float) -> str:
    inputs, weights = curves.inputs, curves.model["weights"]
    caution = "; trained weights may behave differently" if weights == "random" else ""
    return (
        f"Measured on {counted(inputs['count'], 'input')} of up to {inputs['length']} tokens "
        f"({inputs['kind']}), with {weights} weights{caution}. Collapse means a relative residual "
        f"that stays below {threshold:g}."
    )


def _one(curve: Curve, curves: Curves, threshold: float) -> str:
    """What becomes of one variant."""
    name = "The model" if curve.variant == FULL else str(curve.variant)
    means, lost, last = curve.mean(), curve.lost, curves.layers
    first = curve.below(threshold)
    if first is not None:
        beyond = "" if lost is None else f"; its numbers {_loss(curve)} at layer {lost}"
        return (
            f"{name} collapses: below {threshold:g} from layer {first} on"
            f"{_past(curve, curves)}{beyond}."
        )
    if curve.floored is not None and curve.past is None:
        return (
            f"{name} cannot be judged: from layer {curve.floored} on its residual is only "
            f"rounding of single precision (below {curves.floor:.1e})."
        )
    if lost is not None:
        before = f"{means[lost - 1]:.3g} after layer {lost - 1}, then " if lost else ""
        return f"{name} cannot be judged: {before}its numbers {_loss(curve)} at layer {lost}."
    if curve.past is None:
        end = f"{means[-1]:.3g} after layer {last}{_trend(curve, threshold)}"
    else:
        end = f"{from_logarithm(curve.past[-1])} after layer {last} (the first input)"
    return f"{name} does not collapse: {means[0]:.3g} before the first layer, {end}."


def _past(curve: Curve, curves: Curves) -> str:
    """What is known past the floor."""
    if curve.floored is None:
        return ""
    if curve.past is None:
        return (
            f"; from layer {curve.floored} on it is below the resolution of single precision "
            f"({curves.floor:.1e})"
        )
    known = np.flatnonzero(np.isfinite(curve.past))
    return (
        f", and {from_logarithm(curve.past[known[-1]])} after layer {known[-1]} (the first input)"
    )


def _without(curve: Curve, sink: Sink) -> str:
    """What one token does to the curve."""
    name = "the model" if curve.variant == FULL else str(curve.variant)
    return (
        f"In {name}, {sink.name} has {sink.factor:.0f} times the median norm of tokens after layer "
        f"{sink.layer}: the residual there is {curve.mean()[sink.layer]:.3g} with it, "
        f"{curve.mean('without')[sink.layer]:.3g} without it."
    )


def _loss(curve: Curve) -> str:
    assert curve.lost is not None
    return "vanish" if isfinite(curve.mean("size")[curve.lost]) else "are not finite"


def _trend(curve: Curve, threshold: float) -> str:
    """The rate at which it falls in the second half of the layers, and what would come of that.

    There is one if the curve ends at its lowest and all these layers multiply it by about the same
    factor. The token that dominates is left out, if it is there in all these layers or in none.
    """
    values, left = curve.mean(), ""
    last = len(values) - 1
    middle = last // 2
    if curve.sink is not None:
        dominated = curve.values["factor"][middle:] >= DOMINANT
        if dominated.any() != dominated.all():
            return ""
        if dominated.any():
            values, left = curve.mean("without"), f" ({curve.sink.name} left out)"
    if last - middle < FEWEST or not 0 < values[-1] <= values.min():
        return ""
    steps = np.diff(np.log(values[middle:]))
    rate = float(np.exp(steps.mean()))
    if not rate <= SLOWEST or abs(steps / steps.mean() - 1).max() > EVEN:
        return ""
    said = f", falling by a factor of {rate:.2g} per layer in layers {middle + 1} to {last}{left}"
    depth = last + log(threshold / values[-1]) / log(rate) if threshold else inf
    if not last < depth <= FORESEEN * last:
        return said
    return f"{said}; at that rate it would collapse after about {ceil(depth)} layers"


Outcomes = dict[tuple[bool, bool], list[tuple[Variant, Variant]]]


def _outcomes(curves: Curves, threshold: float, name: str, value: Any) -> Outcomes:
    """Variants that differ in one respect alone, by whether the first and the second collapse."""
    found: Outcomes = {}
    for curve in curves.curves:
        other = replace(curve.variant, **{name: value})
        if other != curve.variant and other in curves:
            one, two = collapses(curve, threshold), collapses(curves[other], threshold)
            if one is not None and two is not None:
                found.setdefault((one, two), []).append((curve.variant, other))
    return found


def _role(part: str, curves: Curves, threshold: float) -> Iterator[str]:
    """What a part does, from variants that differ in it alone."""
    name, outcomes = PARTS[part], _outcomes(curves, threshold, part, value=False)
    for pair, does in ROLES.items():
        joined, end = ("and", " both collapse") if all(pair) else ("against", "")
        pairs = ", ".join(f"{one} {joined} {other}" for one, other in outcomes.get(pair, ()))
        if pairs:
            yield f"{name[0].upper()}{name[1:]} {does} collapse: {pairs}{end}."


def _effect(change: str, curves: Curves, threshold: float) -> Iterator[str]:
    """What a change of attention does, from variants that differ in it alone."""
    name, usual = CHANGES[change], getattr(FULL, change)
    for pair, found in _outcomes(curves, threshold, change, usual).items():
        if pair in EFFECTS:
            pairs = ", ".join(f"{one} against {other}" for one, other in found)
            yield f"{name[0].upper()}{name[1:]} {EFFECTS[pair]}: {pairs}."


def collapses(curve: Curve, threshold: float) -> bool | None:
    """Whether a variant collapses; None if its numbers end before that can be said."""
    if curve.below(threshold) is not None:
        return True
    ends = curve.lost is not None or (curve.floored is not None and curve.past is None)
    return None if ends else False
