"""What does a fiber look like here? A closed curve of weights that all give the same function.

One basis inside the first head is rotated and stretched by G(s) = rotation(s) diag(e^u, e^-u), with
u = 0.6 sin 2s. What is measured beside the curve: how far the weights move, how far the output
moves with them, and how far it moves when the weights take a random step of the same length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from segre.analysis.workbench import Workbench
from segre.architectures import Architecture
from segre.errors import SegreError
from segre.fields.interface import Array
from segre.fields.real import Real
from segre.geometry.slices import turn, turned
from segre.json_data import stated
from segre.network import forward
from segre.spec import Network
from segre.transformer.forward import ATTENTION, Tokens, at_length, embed, sublayer_weights
from segre.transformer.spec import Transformer
from segre.transformer.stages import sublayer
from segre.weights import Weights

_STEPS = 72  # of the curve
_EVERY = 9  # steps between two places at which the output is computed
_TOKENS = 8
_LARGEST = 2_000  # parameters of a stack whose weights are drawn for this
Pieces = dict[str, Array]  # the weights that move


@dataclass(frozen=True)
class Fiber:
    """A closed curve on a fiber, seen in two weights."""

    where: str  # what is rotated
    output: str  # what is compared
    weights: str  # which weights these are
    names: tuple[str, str]
    curve: Array  # (steps + 1, 2)
    moved: float  # how far the weights move at most, relative to themselves
    changed: float  # how far the output moves at most along the curve, relative
    random: float  # how far it moves when the weights step as far in a random direction

    @property
    def takeaway(self) -> str:
        """What the picture shows, in words."""
        return (
            "All weights on this curve give the same function. Along it the weights of "
            f"{self.where} change by up to {_percent(self.moved)} and {self.output} by "
            f"{self.changed:.0e}, which is rounding. A random change of that size moves the output "
            f"by {_percent(self.random)}."
        )

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return stated(self, " ".join(vars(self)), curve=self.curve.tolist())


def _percent(share: float) -> str:
    return f"{100 * share:,.0f}%" if share >= 0.1 else f"{100 * share:.2g}%"


def fiber_of(bench: Workbench) -> Fiber | None:
    """The curve of a checkpoint, or of a small stack with random weights; None if there is none."""
    return _fiber(bench.spec, bench)


@singledispatch
def _fiber(_spec: Architecture, _bench: Workbench) -> Fiber | None:
    return None


@_fiber.register
def _of_checkpoint(_spec: Transformer, bench: Workbench) -> Fiber | None:
    try:
        return None if bench.model is None else _of_model(bench)
    except SegreError:  # cannot be run, which other parts say
        return None


@_fiber.register
def _of_stack(spec: Network, bench: Workbench) -> Fiber | None:
    if not spec.plain or spec.parameters > _LARGEST or spec.layers[0].a < 2:
        return None
    seed = bench.seed
    weights = Weights(spec, Weights.random(spec, seed).vector.astype(float))
    X = np.random.default_rng(seed).standard_normal((2, spec.widths[0], spec.t))
    steps = np.linspace(0, 2 * np.pi, _STEPS + 1)
    moved = [turned(weights, float(s)) for s in steps]
    curve = [[one.layers[0].W_Q[0, 0, 0], one.layers[0].W_Q[0, 1, 0]] for one in moved]
    return _measured(
        lambda own: forward(Real(), spec, own["weights"], X),
        [{"weights": one.vector} for one in moved[::_EVERY]],
        seed,
        where="the first head",
        output="the output",
        weights=f"random weights, seed {seed}",
        names=("W_Q[1,1]", "W_Q[2,1]"),
        curve=np.array(curve),
    )


def _of_model(bench: Workbench) -> Fiber | None:
    """Rotate the values of the first head, and compute the first attention sub-layer."""
    loaded = bench.loaded
    if loaded.spec.gate != "none" or loaded.spec.dv < 2:
        return None
    batch = np.asarray(bench.tokens(loaded, 1, _TOKENS).batches[0])[:1]
    tokens, field = Tokens(batch), Real()
    spec = at_length(loaded.spec, tokens.length)
    x = embed(loaded, tokens, field)
    stored = sublayer_weights(loaded, 1, ATTENTION)
    first_head = {name: stored[name][0] for name in ("W_V", "b_V", "W_O") if name in stored}

    def at(s: float) -> Pieces:
        G = np.eye(loaded.spec.dv)
        G[:2, :2] = turn(s)
        inverse = np.linalg.inv(G)
        return {n: w @ inverse if n == "W_O" else G @ w for n, w in first_head.items()}

    def output(own: Pieces) -> Array:
        w = {name: x.copy() if name in own else x for name, x in stored.items()}
        for name, piece in own.items():
            w[name][0] = piece
        return np.asarray(sublayer(field, w, x, spec=spec, layer=1, number=ATTENTION))

    first = stored["W_V"][0, 0, :2, :1]
    steps = np.linspace(0, 2 * np.pi, _STEPS + 1)
    return _measured(
        output,
        [at(float(s)) for s in steps[::_EVERY]],
        bench.seed,
        where="head 1 of layer 1" if loaded.spec.group == 1 else "the first heads of layer 1",
        output="the output of their layer" if loaded.spec.group > 1 else "the output of its layer",
        weights="the weights of this model",
        names=("W_V[1,1]", "W_V[2,1]"),
        curve=np.array([(turn(float(s)) @ first)[:, 0] for s in steps]),
    )


def _measured(
    function: Callable[[Pieces], Array], points: list[Pieces], seed: int, **known: Any
) -> Fiber:
    """The rest of the numbers, from weights along the curve; the first are those that are given."""
    start, rng = points[0], np.random.default_rng(seed)
    before = function(start)

    def apart(own: Pieces) -> float:
        return float(np.linalg.norm(function(own) - before) / np.linalg.norm(before))

    lengths = [_size({n: w - start[n] for n, w in point.items()}) for point in points]
    step = {name: rng.standard_normal(w.shape) for name, w in start.items()}
    scale = max(lengths) / _size(step)
    return Fiber(
        moved=max(lengths) / _size(start),
        changed=max(apart(point) for point in points[1:]),
        random=apart({name: w + scale * step[name] for name, w in start.items()}),
        **known,
    )


def _size(own: Pieces) -> float:
    return float(np.linalg.norm(np.concatenate([w.ravel() for w in own.values()])))
