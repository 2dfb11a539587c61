"""Are the exponentials of a softmax network algebraically independent? A check that proves it.

By Ax's theorem (1971) the exponentials of functions z_j are algebraically independent over the
field of weights and inputs as soon as the z_j, with the weights and inputs themselves, are
linearly independent over Q modulo constants. Take the difference of such a relation between
two inputs X, X' at the same weights: it suffices that the functions

    z_j(w, X) - z_j(w, X'),   X_rc - X'_rc

are linearly independent, which a non-zero determinant of their values at as many random
points (w, X, X') proves. Scores that are equal by construction (tokens of one dimension make
the scores symmetric) are one function and counted once. See docs/soundness.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from functools import cache, singledispatch

import numpy as np

from segre.architectures import Architecture
from segre.errors import UnluckyError
from segre.fields.draw import Stream
from segre.fields.formal import Formal
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.fields.rank import Echelon
from segre.geometry.point import drawn_inputs
from segre.geometry.salts import Roots, SaltedInputs, Salts, find_salts
from segre.network import forward, named_tensors, stages, with_head_axes
from segre.spec import Network
from segre.symmetry.reach import reached
from segre.transformer.choices import PIECEWISE
from segre.transformer.rotary import frequencies
from segre.transformer.spec import Transformer

_SPARE_POINTS = 8
_ENTRIES_AT_ONCE = 1 << 21


@dataclass(frozen=True)
class Independence:
    """The witness: points at which the arguments and input entries have a non-zero minor."""

    arguments: int
    coordinates: int
    points: list[int]
    established: bool
    salts: dict[int, list[Salts]] = dataclass_field(default_factory=dict)


@singledispatch
def only_in_balls(spec: Architecture) -> str | None:
    """Why a lower bound mod p would prove nothing for this architecture; None if it does."""
    return "relu and elu+1 are piecewise" if spec.piecewise else None


@only_in_balls.register
def _transformers_only_in_balls(spec: Transformer) -> str | None:
    if spec.discrete:
        return "inputs are token sequences"
    if spec.patch:
        return "a class token and labels do not depend on the input alone"
    if spec.mlp in PIECEWISE:
        return "relu is piecewise"
    if spec.experts:
        return "the choice of experts is piecewise"
    if spec.mlp in ("gelu-tanh", "geglu-tanh") and (spec.rotary_dim or spec.decay != "none"):
        what = "rotary angles" if spec.rotary_dim else "decays"
        return f"pi and {what} are not known to be independent"
    if len(spec.rotations) > 1:
        return "rotary angles of layers with different frequencies are not compared"
    for base, how in spec.rotations:
        if not frequencies(replace(spec, base=base, rescale=how)).commensurable:
            return f"the angles of rescale={how} are not known to be independent"
    return None


@singledispatch
def distinct_scores(_spec: Architecture) -> list[tuple[int, Array]] | None:
    """Per layer of a plain stack, its heads and the (key, query) pairs whose scores differ."""
    return None


@distinct_scores.register
def _of_plain_stack(spec: Network) -> list[tuple[int, Array]] | None:
    if not spec.plain:
        return None
    pairs = zip(spec.layers, reached(spec), strict=False)
    return [(layer.heads, _pairs(spec.t, dimension > 1)) for layer, dimension in pairs]


@cache
def _pairs(t: int, ordered: bool) -> Array:
    """All (key, query), as two rows; where the order of the two does not matter, each once."""
    return np.array([(k, q) for k in range(t) for q in range(t) if ordered or k <= q]).T


def witness(spec: Architecture, field: Prime) -> Independence:
    """Look for points that prove independence; `established` says whether they were found."""
    coordinates = spec.width_in * spec.t
    arguments = argument_count(spec, field)
    columns = arguments + coordinates
    space = Echelon(columns, field)
    # a transformer's point may be unusable: a token that sees only itself has no free roots
    limit = 64 * columns if spec.salted else columns + _SPARE_POINTS
    batch = max(
        1, min(columns + _SPARE_POINTS, _ENTRIES_AT_ONCE // (spec.parameters + 2 * columns))
    )
    salts: dict[int, list[Salts]] = {}
    for start in range(0, limit, batch):
        found = witness_rows(spec, field, list(range(start, min(start + batch, limit))))
        space.add(found.rows)
        salts |= found.salts
        if space.rank == columns:
            break
    kept = {point: salts[point] for point in space.pivot_rows if point in salts}
    return Independence(arguments, coordinates, space.pivot_rows, space.rank == columns, kept)


def argument_count(spec: Architecture, field: Prime) -> int:
    """How many different exponentials one input has."""
    distinct = distinct_scores(spec)
    if distinct is not None:
        return sum(heads * kept.shape[1] for heads, kept in distinct)
    X = drawn_inputs(field, spec, np.zeros(1))
    weights = field.draw(Stream.WITNESS_WEIGHTS, 0, (spec.parameters,))
    listener = Formal(field)
    forward(listener, spec, weights, X)
    return sum(_used(*heard).shape[1] for heard in listener.exp_arguments)


@dataclass(frozen=True)
class WitnessRows:
    """Rows [z(w, X) - z(w, X'), X - X'] at witness points, and the salts of the two inputs."""

    rows: Array
    salts: dict[int, list[Salts]]


def witness_rows(
    spec: Architecture,
    field: Prime,
    points: list[int],
    known: Mapping[int, list[Salts]] | None = None,
) -> WitnessRows:
    """The rows of the witness points of the given numbers.

    Salts that are `known` are taken: which are found first depends on the points that are looked
    at together.
    """
    P, (d, t) = spec.parameters, (spec.width_in, spec.t)
    numbers = np.array(points, dtype=np.uint64)
    weights = field.draw(Stream.WITNESS_WEIGHTS, numbers * np.uint64(P), (1, P))
    distinct = distinct_scores(spec)
    if distinct is None:
        return _salted_rows(spec, field, points, weights[:, 0], known or {})
    X = field.draw(Stream.WITNESS_INPUTS, numbers * np.uint64(2 * d * t), (2, d, t))
    listener = Formal(field)
    forward(listener, spec, weights, X)
    rows = []
    for (scores, _), (_, (keys, queries)) in zip(listener.exp_arguments, distinct, strict=True):
        chosen = scores[..., keys, queries].reshape(len(points), 2, -1)
        rows.append(field.sub(chosen[:, 0], chosen[:, 1]))
    rows.append(field.sub(X[:, 0], X[:, 1]).reshape(len(points), -1))
    return WitnessRows(np.concatenate(rows, axis=1), {})


def _salted_rows(
    spec: Architecture,
    field: Prime,
    points: list[int],
    weights: Array,
    known: Mapping[int, list[Salts]],
) -> WitnessRows:
    """Two inputs for each point, with salts for which all roots exist."""

    def draw(numbers: Array, salts: Array) -> Array:
        return drawn_inputs(field, spec, numbers, salts, Stream.WITNESS_INPUTS)

    numbers = np.array([2 * m + b for m in points for b in (0, 1)])
    own = np.repeat(weights, 2, axis=0)
    if all(point in known for point in points):
        salts_of = np.array([known[point] for point in points], dtype=np.int64)
        flat = salts_of.reshape(len(numbers), *salts_of.shape[2:]).swapaxes(0, 1)
        found = SaltedInputs(numbers, draw(numbers, flat[0]), flat)
    else:
        found = find_salts(field, spec, own, numbers, draw, Roots())
    tokens = with_head_axes(spec, found.X)
    heard: list[Array] = []
    for stage, salt in zip(stages(spec), found.salts[1:], strict=True):
        formal = Formal(field, salt)
        tokens = stage.apply(formal, named_tensors(stage, own), tokens)
        if formal.divided:
            raise UnluckyError("division by zero at a witness point; try another seed")
        heard += [_used(*argument) for argument in formal.exp_arguments]
    both_rows = np.concatenate([*heard, found.X.reshape(len(numbers), -1)], axis=1)
    salts = {
        m: found.salts[:, 2 * i : 2 * i + 2].swapaxes(0, 1).tolist() for i, m in enumerate(points)
    }
    return WitnessRows(field.sub(both_rows[0::2], both_rows[1::2]), salts)


def _used(argument: Array, used: Array | None) -> Array:
    """The arguments that matter, one row per input."""
    if used is not None:
        argument = argument[..., used.astype(bool)]
    return argument.reshape(len(argument), -1)
