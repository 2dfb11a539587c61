"""A random point mod p: weights and inputs drawn by the documented generator."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeVar

import numpy as np

from segre.architectures import Architecture
from segre.errors import UnluckyError
from segre.fields.draw import Stream, words
from segre.fields.formal import Formal
from segre.fields.interface import Array
from segre.fields.prime import PRIMES, Prime
from segre.geometry.memory import inputs_at_once
from segre.geometry.real_point import RealPoint
from segre.geometry.salts import Draw, Roots, SaltedInputs, find_salts
from segre.network import jacobian, named_tensors, stages, with_head_axes
from segre.values import quote

T = TypeVar("T")

FEW_PARAMETERS = 256  # a network with no more is small: most of its time is calls of NumPy
_AHEAD = 5
POINTS = 8  # so many are tried, where one may have no value
_COLUMN_SALT = np.uint64(1 << 40)
_DIVIDING = 4  # points at which divisions are looked at, and inputs of each
_INPUTS = 16


@dataclass(frozen=True)
class Point:
    """Weights of a network over F_p, and the inputs it is looked at with.

    Weight j is u(seed, WEIGHTS, j); `drawn_inputs` says what the inputs are. A transformer's
    inputs and exponentials have salts for which all its square roots exist.
    """

    spec: Architecture
    field: Prime

    @classmethod
    def draw(cls, spec: Architecture, seed: int, attempt: int = 0) -> Point:
        """The point of a seed; later attempts use other seeds and other primes."""
        return cls(spec, Prime(PRIMES[attempt % len(PRIMES)], (seed + attempt) % 2**64))

    @cached_property
    def weights(self) -> Array:
        """The weights, one vector."""
        return self.field.draw(Stream.WEIGHTS, 0, (self.spec.parameters,))

    @cached_property
    def first_inputs(self) -> int:
        """How many inputs to begin with: to see a linear map on the tokens, and one more."""
        spec = self.spec
        wanted = 2 if spec.salted else -(-spec.width_in // spec.t) + 1
        return min(wanted, inputs_at_once(spec))

    @cached_property
    def first_rows(self) -> Array:
        """All rows of the Jacobian at the first inputs."""
        return self.rows_at(0, self.first_inputs)

    def rows_at(self, start: int, count: int, outputs: Array | slice = slice(None)) -> Array:
        """Rows of the Jacobian at the inputs start, ..., start + count - 1."""
        early = self._early
        if start + count > len(early):
            return self.jacobian_rows(self.batch(start, count), outputs)
        return early[start : start + count, outputs].reshape(-1, self.spec.parameters)

    @cached_property
    def _early(self) -> Array:
        """The Jacobian of a small stack at the inputs that are asked for first, and those next.

        For a small one most of the time is calls, and more inputs cost next to nothing.
        """
        spec = self.spec
        if not spec.salted and spec.parameters <= FEW_PARAMETERS:
            count = min(_AHEAD * self.first_inputs, inputs_at_once(spec))
            with suppress(UnluckyError):  # perhaps at an input that is not needed
                rows = self.jacobian_rows(self.batch(0, count))
                return rows.reshape(count, -1, spec.parameters)
        return np.empty((0, 0, spec.parameters))

    @cached_property
    def inputs_with_free_roots(self) -> SaltedInputs:
        """Two inputs of a transformer whose roots are drawn, not computed: they always exist.

        Symmetries do not change the outputs there either: of a root they ask only that it have the
        derivative of a root (docs/soundness.md).
        """
        return self._with_free_roots(partial(drawn_inputs, self.field, self.spec))

    @cached_property
    def hard_rows(self) -> Array:
        """The Jacobian at two token sequences, with drawn roots."""
        sequences = RealPoint(self.spec, self.field.seed)
        return self.jacobian_rows(
            self._with_free_roots(lambda numbers, _salts: sequences.inputs(numbers))
        )

    def _with_free_roots(self, draw: Draw) -> SaltedInputs:
        return find_salts(self.field, self.spec, self.weights, np.arange(2), draw, Roots(), True)

    @cached_property
    def roots(self) -> Roots:
        """What has been seen of the square roots so far."""
        return Roots()

    @cached_property
    def _salted_inputs(self) -> list[SaltedInputs]:
        return []

    def batch(self, start: int, count: int) -> SaltedInputs:
        """The inputs start, ..., start + count - 1."""
        numbers = np.arange(start, start + count)
        if not self.spec.salted:
            X = drawn_inputs(self.field, self.spec, numbers)
            none = np.zeros((self.spec.depth + 1, count, self.spec.t), dtype=np.int64)
            return SaltedInputs(numbers, X, none)
        while (known := sum(len(part.numbers) for part in self._salted_inputs)) < start + count:
            self._salted_inputs.append(self.find_salts(np.arange(known, known + max(16, count))))
        return SaltedInputs(
            numbers,
            np.concatenate([part.X for part in self._salted_inputs])[numbers],
            np.concatenate([part.salts for part in self._salted_inputs], axis=1)[:, numbers],
        )

    def find_salts(self, numbers: Array) -> SaltedInputs:
        """The inputs of a transformer with salts for which its square roots exist."""
        draw = partial(drawn_inputs, self.field, self.spec)
        return find_salts(self.field, self.spec, self.weights, numbers, draw, self.roots)

    def jacobian_rows(self, batch: SaltedInputs, outputs: Array | slice = slice(None)) -> Array:
        """Rows of the Jacobian: for each input, the chosen output entries, by the weights."""
        fields = batch.fields(self.field) if self.spec.salted else []
        matrices = jacobian(fields or self.field, self.spec, self.weights, batch.X, outputs)
        if any(field.divided for field in fields):
            raise UnluckyError("division by zero at this point; try another seed")
        assert all(field.sound for field in fields), "no square roots at these salts"
        return matrices.reshape(-1, self.spec.parameters)


def at_usable_point(spec: Architecture, seed: int, ask: Callable[[Point], T]) -> T:
    """The answer at the first point of a seed that has one."""
    for attempt in range(POINTS):
        with suppress(UnluckyError):
            return ask(Point.draw(spec, seed, attempt))
    raise UnluckyError(
        f"spec {quote(str(spec))}: none of {POINTS} random points is usable; try another --seed"
    )


def drawn_inputs(
    field: Prime,
    spec: Architecture,
    numbers: Array,
    salts: Array | None = None,
    stream: Stream = Stream.INPUTS,
) -> Array:
    """Inputs by number: entry (r, c) of input n is u(seed, stream, n d t + r t + c + 2^40 salt_c).

    With a vocabulary, inputs mod p are *soft* sequences, any columns that sum to one (in the
    vocabulary and in the types): the last row of each is what is missing to one.
    """
    d, t = spec.width_in, spec.t
    index = numbers.astype(np.uint64)[:, None, None] * np.uint64(d * t)
    index = index + np.arange(d * t, dtype=np.uint64).reshape(d, t)
    if salts is not None:
        index = index + salts.astype(np.uint64)[:, None, :] * _COLUMN_SALT
    residues = words(field.seed, stream, index) % np.uint64(field.p)
    X = field.reduce(residues.astype(np.float64))
    if spec.discrete:
        ends = [spec.vocab, spec.vocab + spec.types][: 1 + (spec.types > 0)]
        for first, end in zip([0, *ends], ends, strict=False):
            X[:, end - 1] = field.reduce(1 - X[:, first : end - 1].sum(axis=1))
    return X


# --- what divides 0 by 0 --------------------------------------------------------------------------


def undefined_stage(spec: Architecture, seed: int = 0) -> str | None:
    """The first stage that divides 0 by 0, whatever the weights are; None if there is none.

    A LayerNorm of one number with eps = 0 does: the number minus its mean is zero. What stands
    under a root or below a fraction is a polynomial in the weights, the inputs, and the values of
    exponentials and of earlier roots. It is evaluated mod p at random numbers in place of all of
    these. If it is not the zero polynomial, it vanishes there with a chance of degree / p for each
    point, and p is above 8 million.

    >>> from segre.models import architecture
    >>> undefined_stage(architecture("transformer/d=1/norm=layer/t=2"))
    'attention 1'
    """
    found = {_at(Point.draw(spec, seed, attempt)) for attempt in range(_DIVIDING)}
    return found.pop() if len(found) == 1 else None


def _at(point: Point) -> str | None:
    spec, salts = point.spec, np.zeros((_INPUTS, point.spec.t), dtype=np.int64)
    tokens = with_head_axes(spec, drawn_inputs(point.field, spec, np.arange(_INPUTS)))
    for stage in stages(spec):
        field = Formal(point.field, salts, free_roots=True)
        tokens = stage.apply(field, named_tensors(stage, point.weights), tokens)
        if any(zero.all(axis=0).any() for zero in field.divided):
            return stage.name
    return None
