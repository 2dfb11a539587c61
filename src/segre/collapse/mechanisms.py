"""Do tokens become alike with depth, for any mechanism? In balls, without a floor.

Stacks with a mechanism for every head get random weights and random tokens, and run in certified
arithmetic whose precision is doubled until every residual is known. How one layer changes the
residual of tokens that are nearly alike is an exponent: it is measured, and said beforehand where
it follows from the traits of the mechanisms (docs/mechanisms.md has the proof).

>>> found = mechanism_study("double/d=4,4,4,4/a=2/t=4", inputs=1)
>>> [step.expected for step in found.steps], [round(step.relative, 3) for step in found.steps]
([3, 3, 3], [3.0, 3.0, 3.0])
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from flint import arb

from segre.architectures import Architecture
from segre.attention.layer import Layer
from segre.attention.mechanism import Mechanism
from segre.attention.pattern import seen
from segre.errors import UnluckyError, UnsupportedError
from segre.fields.ball import Ball
from segre.fields.interface import Array
from segre.json_data import stated
from segre.models import Source, only
from segre.network import named_tensors, stages, with_head_axes
from segre.spec import Network
from segre.values import from_logarithm, quote

_FEWEST_BITS, _MOST_BITS = 256, 1 << 15
_DIGITS = 6  # of decimal logarithms
_NEAR = (60, 120)  # bits: tokens differ by 2^-60, and then by 2^-120
_STEP_BITS = 2048


@dataclass(frozen=True)
class Step:
    """What one layer does to tokens that differ by eps: sizes go like powers of eps."""

    residual: float  # exponent of the residual of what it writes; measured
    output: float  # exponent of what it writes; measured
    expected: int | None  # of the residual over the output, from the traits; None if it is zero

    @property
    def relative(self) -> float:
        """The exponent of the relative residual."""
        return self.residual - self.output


@dataclass(frozen=True)
class MechanismStudy:
    """Decimal logarithms of residuals, absolute and relative: (inputs, layers + 1)."""

    spec: str
    seed: int
    inputs: int
    residual: Array
    relative: Array
    steps: tuple[Step, ...]
    bits: int

    @property
    def layers(self) -> int:
        """How many layers."""
        return len(self.steps)

    @property
    def orders(self) -> Array:
        """Each logarithm of the relative residual over the one before, medians over inputs."""
        median = np.median(self.relative, axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(median[1:] / median[:-1])

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        log10 = stated(self, "residual relative")
        steps = [dict(vars(step)) for step in self.steps]
        names = "spec seed inputs skip other log10 steps bits"
        return stated(self, names, skip=False, other=None, log10=log10, steps=steps)


def mechanism_study(given: Source, seed: int = 0, inputs: int = 4) -> MechanismStudy:
    """Random normal weights of variance 1/width, and standard normal tokens."""
    spec = only(Network, given, "only stacks of attention layers are supported here")
    title = str(spec)
    for number, layer in enumerate(spec.layers, 1):
        if expected_order(layer, spec.t) is None:
            raise UnsupportedError(
                f"spec {quote(str(spec))}: after layer {number} all tokens are equal or differ "
                "only by signs, so there is no residual to measure"
            )
    drawn = np.random.default_rng([seed, 0]).standard_normal(spec.parameters)
    weights = drawn / spec.width**0.5
    for tensor in stages(spec):
        for name, slot in tensor.slots.items():
            if name.endswith("decay"):  # a rate, and no weight of a map
                weights[slot.range] = 1 / (1 + np.exp(-drawn[slot.range]))
    tokens = np.random.default_rng([seed, 1])
    pairs, bits = [], _FEWEST_BITS
    for _ in range(inputs):
        X = tokens.standard_normal((spec.t, spec.width)).T
        found, bits = certified(spec, weights, X, bits, _MOST_BITS, _DIGITS)
        pairs.append(found)
    residual, relative = np.array(pairs).swapaxes(0, 1)
    steps = tuple(_step(spec, weights, i, tokens) for i in range(spec.depth))
    return MechanismStudy(title, seed, inputs, residual, relative, steps, bits)


def expected_order(layer: Layer, tokens: int) -> int | None:
    """The exponent of the relative residual after one layer; None if it is zero for every input.

    Where 1/t is subtracted from all weights, what is written is itself of the order eps^2.
    """
    orders = [order_of(group.mechanism, layer.a, tokens) for group in layer.groups]
    known = [order for order in orders if order is not None]
    small = all(group.mechanism.normalise == "centred" for group in layer.groups)
    return min(known) - 2 * small if known else None


def order_of(one: Mechanism, a: int, tokens: int) -> int | None:
    """The exponent of the residual of what one head writes."""
    one = one.on(tokens)
    if tokens == 1 or (one.silent(tokens) and one.normalise == "centred"):
        return None
    if one.alone(tokens):
        return 1
    used = seen(one, tokens)
    if one.normalise == "none":
        even = used is None or len(set(used.sum(axis=0).tolist())) == 1
        return 1 if even and one.decay == "none" else 0
    if one.normalise == "centred":
        return 3
    if one.masked or one.gate != "none":
        return 1
    signs = a == {"sphere": 1, "layer": 2}.get(one.unit)  # all that is left of keys and queries
    factor = a == 1 and one.splits  # of all weights of a query
    return None if one.keys(tokens) == 1 or signs or factor else 3


def certified(
    spec: Architecture, weights: Array, X: Array, bits: int, most: int, digits: int
) -> tuple[Array, int]:
    """Decimal logarithms of residuals and relative residuals of tokens X, in columns.

    They are those before the first layer and after each. The precision is doubled until all are
    known to so many digits; it is returned too.
    """
    reason = ""
    every = stages(spec)
    each = len(every) // spec.depth  # attention alone, or with an MLP
    while bits <= most:
        field = Ball(bits)
        with field.precision():
            try:
                tokens = with_head_axes(spec, field.constant(X[None]))
                vector = field.constant(weights)
                sizes = [_sizes(tokens)]
                for place, stage in enumerate(every, 1):
                    tokens = stage.apply(field, named_tensors(stage, vector), tokens)
                    if place % each == 0:
                        sizes.append(_sizes(tokens))
                return np.array([_logs(pair, digits) for pair in sizes]).T, bits
            except UnluckyError as error:
                bits, reason = 2 * bits, str(error)
    raise UnluckyError(
        f"spec {quote(str(spec))}: residuals cannot be computed with {most} bits "
        f"({reason}); try fewer layers, or another --seed"
    )


def _step(spec: Network, weights: Array, i: int, rng: np.random.Generator) -> Step:
    """Run one layer on tokens that differ by two small numbers, and compare."""
    layer, stage = spec.layers[i], stages(spec)[i]
    common, apart = (
        rng.standard_normal((layer.width_in, 1)),
        rng.standard_normal((layer.width_in, spec.t)),
    )
    field = Ball(_STEP_BITS)
    found = []
    with field.precision():
        for power in _NEAR:
            small = field.mul(field.constant(apart), field.constant(np.array([[2.0**-power]])))
            tokens = field.add(field.constant(common), small)[None, None]
            out = stage.apply(field, named_tensors(stage, field.constant(weights)), tokens)
            found.append(_sizes(out))
    expected = expected_order(layer, spec.t)

    def exponent(which: int) -> float:
        near, nearer = (float(_log2(pair[which])) for pair in found)
        return (near - nearer) / (_NEAR[1] - _NEAR[0])

    zero = any(not pair[0] > 0 for pair in found)
    return Step(float("inf") if zero else exponent(0), exponent(1), expected)


def _sizes(tokens: Array) -> tuple[arb, arb]:
    """The composite norms of the residual and of the tokens themselves (in columns)."""
    X = tokens.reshape(tokens.shape[-2], tokens.shape[-1])
    return _composite(X - X.sum(axis=1, keepdims=True) / X.shape[1]), _composite(X)


def _composite(X: Array) -> arb:
    """The composite norm: the root of the largest row sum times the largest column sum."""
    sizes = np.frompyfunc(abs, 1, 1)(X)
    largest = (reduce(arb.max, sizes.sum(axis=axis)) for axis in (0, 1))
    return arb.sqrt(next(largest) * next(largest))


def _log2(size: arb) -> arb:
    return size.log() / arb(2).log()


def _logs(sizes: tuple[arb, arb], digits: int) -> tuple[float, float]:
    """Decimal logarithms of a residual, absolute and relative; UnluckyError if they are vague."""
    rest, whole = sizes
    if not rest > 0 or not whole > 0:
        raise UnluckyError("a residual is not known to be above zero")
    logs = [size.log() / arb(10).log() for size in (rest, rest / whole)]
    if any(not one.rad() <= 10.0**-digits for one in logs):
        raise UnluckyError("a residual is not known precisely enough")
    return float(logs[0].mid()), float(logs[1].mid())


def mechanism_advice(found: MechanismStudy, threshold: float = -3.0) -> list[str]:
    """What the numbers say, in words."""
    last = float(np.median(found.relative[:, -1]))
    below = last < threshold
    said = [
        f"{'Collapses' if below else 'Does not collapse'}: the relative residual is "
        f"{from_logarithm(last)} after layer {found.layers}."
    ]
    orders = {step.expected for step in found.steps if step.expected is not None}
    if orders == {3} and found.layers > 1:
        when = "the collapse" if below else "once tokens are nearly equal, collapse"
        said.append(
            f"Every layer cubes the residual of nearly equal tokens: {when} is doubly "
            "exponential, as with softmax."
        )
    elif orders and min(orders) < 3:
        said.append(
            f"There is a layer with exponent {min(orders)}: the mechanisms do not imply a doubly "
            "exponential collapse, and a slower collapse is not excluded."
        )
    return said
