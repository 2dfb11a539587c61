"""A stack with random weights on random tokens: residuals past the floor, rates and bounds.

For segre's own specs: softmax stacks, and transformers without norms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from segre.collapse.bounds import Bounds, bounds
from segre.collapse.floor import Descent, descent
from segre.collapse.mechanisms import certified
from segre.collapse.passes import Pass
from segre.collapse.residual import stays_below
from segre.collapse.stack import FloatNetwork
from segre.fields.interface import Array
from segre.json_data import stated
from segre.models import Source, with_attention
from segre.spec import Network
from segre.transformer.spec import Transformer
from segre.values import from_logarithm

_FIRST_BITS, _MOST_BITS, _DIGITS = 128, 1 << 17, 12  # of certified residuals
EVEN = 0.1  # by how much the powers of layers may differ from their mean where there is a rate


@dataclass(frozen=True)
class Study:
    """Residuals of a stack, and of the stack with skips added or removed, for a batch of inputs."""

    spec: str
    seed: int
    inputs: int
    skip: bool  # whether the stack as it is has skips
    own: Descent
    other: Descent | None  # with skips, or without if it has them; None if widths differ
    bounds: Bounds
    certified: Array | None = None  # log10 residuals of the first input, proved

    @property
    def layers(self) -> int:
        """Number of layers."""
        return len(self.own.states) - 1

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        names = "spec seed inputs skip log10 other bounds certified"
        return stated(self, names, log10=self.own.document())


def study(
    given: Source,
    seed: int = 0,
    inputs: int = 8,
    *,
    certify: bool = False,
) -> Study:
    """Random normal weights of variance 1/width, and standard normal tokens."""
    spec = with_attention(given, "segre model collapse")
    weights = _weights(spec, seed)
    stack = FloatNetwork.from_network(spec, weights)
    X = np.random.default_rng([seed, 1]).standard_normal((inputs, spec.t, spec.width))
    turned = proved = None
    if _square(spec):
        turned = descent(replace(stack, skip=not stack.skip), X)
    if certify:
        (proved, _), _ = certified(spec, weights, X[0].T, _FIRST_BITS, _MOST_BITS, _DIGITS)
    return Study(
        str(spec), seed, inputs, stack.skip, descent(stack, X), turned, bounds(stack, X), proved
    )


def random_pass(
    given: str | Network | Transformer, seed: int = 0, *, skip: bool | None = None
) -> tuple[str, Pass]:
    """A forward pass of the same random stack, and what to call it; skips as it has them or not."""
    spec = with_attention(given, "segre model paths")
    own = FloatNetwork.from_network(spec, _weights(spec, seed))
    stack = own if skip is None else replace(own, skip=skip and _square(spec))
    width = spec.width
    X = np.random.default_rng([seed, 1]).standard_normal((spec.t, width))
    return f"{spec} ({'with' if stack.skip else 'without'} skips)", stack.forward(X)


def _square(spec: Network | Transformer) -> bool:
    return all(width == spec.width for width in spec.widths)


def _weights(spec: Network | Transformer, seed: int) -> Array:
    width = spec.width
    drawn: Array = np.random.default_rng([seed, 0]).standard_normal(spec.parameters)
    return np.asarray(drawn / width**0.5)


def medians(rows: Array) -> Array:
    """Medians over inputs of the logarithms that are known, by layer; nan where none is."""
    known = ~np.isnan(rows).all(axis=0)
    return np.where(known, np.nanmedian(np.where(known, rows, 0.0), axis=0), np.nan)


def _rate(logs: Array) -> list[str]:
    """The power to which the last layers raise the residual, if it is about the same for them."""
    steps = np.diff(np.where(np.isfinite(logs), logs, np.nan))
    for first in range(len(steps) - 2):
        if not (steps[first:] < 0).all():
            continue
        orders = steps[first + 1 :] / steps[first:-1]
        if abs(orders / orders.mean() - 1).max() < EVEN:
            return [
                f"Rate: each of the layers {first + 2} to {len(steps)} raises the residual to "
                f"about the power {orders.mean():.1f}, up to a factor."
            ]
    return []


def study_advice(found: Study, threshold: float = -3.0) -> list[str]:
    """What the numbers say, in words; the threshold is a decimal logarithm."""
    said = []
    relative = medians(found.own.relative)
    name = "with skips" if found.skip else "without skips"
    first = stays_below(relative, threshold)
    if first is not None:
        said.append(
            f"Collapses {name}: the relative residual is below {from_logarithm(threshold)} from "
            f"layer {first} on, and {from_logarithm(relative[-1])} after layer {found.layers}."
        )
    elif np.isnan(relative[-1]):
        said.append(f"Cannot be judged {name}: numbers are lost before layer {found.layers}.")
    else:
        said.append(
            f"Does not collapse {name}: relative residual {from_logarithm(relative[-1])} after "
            f"layer {found.layers}."
        )
    said += [] if found.skip else _rate(medians(found.own.residual))
    if found.other is not None:
        other = medians(found.other.relative)[-1]
        word = "without" if found.skip else "with"
        said.append(
            f"The same weights {word} skips: {from_logarithm(other)} after layer {found.layers}."
        )
    exceeded = int(found.bounds.exceeded().sum())
    applies = int(found.bounds.applies.sum())
    total = found.bounds.applies.size
    if found.bounds.missing:
        said.append(f"The theorem does not apply: {', '.join(found.bounds.missing)}.")
    else:
        said.append(
            f"The theorem's hypothesis holds in {applies} of {total} pairs of layer and input; "
            f"its bound is exceeded in {exceeded}."
        )
    return said
