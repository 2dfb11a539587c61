"""Units of MLPs that stay silent."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.fields.interface import Array
from segre.inspect.measure import Finding, Measure, numbered
from segre.inspect.recorded import Recorded

SILENT = 1e-3  # of the median unit of the layer


def silent(recorded: Recorded) -> Array | None:
    """The share of units of a layer that stay below a thousandth of the median unit."""
    every = [layer.units for layer in recorded.layers]
    if any(units is None or not len(units) for units in every):
        return None
    return np.array([float(_silent(units).mean()) for units in every if units is not None])


def _silent(units: Array) -> Array:
    return np.asarray(units <= SILENT * np.median(units))


def find(recorded: Recorded, values: Array) -> Iterator[Finding]:
    """All layers with silent units, together."""
    layers = np.flatnonzero(values > 0)
    if len(layers):
        units = [layer.units for layer in recorded.layers if layer.units is not None]
        count = sum(int(_silent(units[layer]).sum()) for layer in layers)
        stay = "stays" if count == 1 else "stay"
        yield Finding(
            measure="silent",
            what=f"Silent units: {count:,} of {sum(map(len, units)):,} {stay} below {SILENT:g} of "
            "the median unit of the layer on all tokens "
            f"({numbered('layer', [int(n) + 1 for n in layers])}).",
            means="They have almost no output on inputs like this one. Units of experts that no "
            "token uses are included.",
            size=float(values.max()),
            weight=float(values.mean()) * 5,
            typical=float(np.median(values)),
            layer=int(values.argmax()) + 1,
        )


MEASURES = (
    Measure(
        "silent",
        "Silent units, share",
        "layer",
        "Units whose largest magnitude over the tokens is at most a thousandth of the "
        "median unit's.",
        silent,
        find,
    ),
)
