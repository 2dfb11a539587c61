"""The rank of the Jacobian at independent random points: what is it certain to be?

If the generic rank were larger than r, a minor of size r + 1 would be a polynomial that is not
zero. Its degree and height are bounded (fields/degrees.py), so it seldom vanishes at a random point
mod a random prime, and independent points all miss it with a tiny probability. Points and primes
are drawn from a hash of the spec and the seed, so that nobody chose them. docs/soundness.md has the
proof, and says where there is no such bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256, shake_256
from itertools import product
from math import ceil, comb, log2, prod

import numpy as np

from segre.architectures import Architecture
from segre.errors import SegreError, UnluckyError
from segre.fields.degrees import Degrees, Size, Sized
from segre.fields.draw import Stream
from segre.fields.free import Free, Regions, Shadow, classes
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.fields.rank import Echelon
from segre.fields.real import Real
from segre.finding import BITS, Sample
from segre.geometry.memory import inputs_at_once
from segre.geometry.point import Point, drawn_inputs
from segre.geometry.progress import Progress, quiet
from segre.geometry.rank import jacobian_rank
from segre.geometry.real_point import RealPoint, sequences
from segre.network import forward, jacobian, named_tensors, stages, with_head_axes

PRIMES = 134_241  # primes p = 3 mod 4 with 2^22 < p < 2^23
SMALLEST = 22  # bits: all primes are larger
SPARE = 4  # points that may be drawn again
_MOST_POINTS = 64
_UNEVEN = 2.0**-40  # by how much the words of the generator favour a residue
_LIKELY = 16  # points, where there is no bound on the error
_CANDIDATES = 4096
_SEQUENCES = 1 << 11  # all of so many token sequences are looked at
_ENTRIES = 1 << 25  # of a Jacobian of all token sequences
_INPUTS = 40  # at least, in a region
_DRAWN = 8  # times as many inputs are drawn, if some of them have no value
_STAGES = 1 << 10
_TOO_LARGE = "the polynomials are too large for this number of points"
_REGIONS = "the points lie in the regions of random real points, and there are other regions"
_ROOTS = "all square roots exist mod the prime there, and the share of such points is not known"
_SOME_SEQUENCES = "the inputs are random token sequences, and there are too many to try all"

Rows = list[tuple[int, int]]


@dataclass(frozen=True)
class _Inputs:
    """Which inputs are looked at, in which region, and which rows of the Jacobian (or all)."""

    count: int
    draw: Callable[[Prime], Array]
    rows: Rows | None = None
    real: tuple[RealPoint, Array] | None = None  # a point of the region, and numbers of inputs


@dataclass(frozen=True)
class _Run:
    """The rank at one point, and which arguments were equal there."""

    rank: int
    pattern: bytes


def sampled(
    spec: Architecture, rank: int, rows: Rows, seed: int = 0, progress: Progress = quiet
) -> Sample | None:
    """Whether the rank is `rank` at all of many random points; None if it is larger somewhere.

    `rows` (input, output entry) are those of a minor of this size that is not zero.
    """
    if len(stages(spec)) >= _STAGES:
        return None
    if spec.piecewise:
        return _in_regions(spec, rank, seed, progress)
    for words, inputs in _kinds(spec, rows):
        found = bounds(spec, rank, inputs.count, words=words)
        wanted = found.points or _LIKELY
        if _agree(spec, rank, inputs, seed, wanted, progress):
            height = ceil(found.height)
            if found.points is None:
                return Sample(rank, wanted, seed, None, found.degree, height, _TOO_LARGE)
            return Sample(rank, wanted, seed, found.error(wanted), found.degree, height)
    if not spec.salted:
        return None
    found_there = _in_regions(spec, rank, seed, progress)
    return found_there or _with_roots(spec, rank, seed, progress)


def _kinds(spec: Architecture, rows: Rows) -> Iterator[tuple[bool, _Inputs]]:
    """The inputs to look at: any matrices, and then all token sequences if they are few."""
    used = {n: i for i, n in enumerate(sorted({n for n, _ in rows}))}
    own = [(used[n], o) for n, o in rows]
    more = [(len(used), o) for o in range(prod(spec.output_shape))]
    count = len(used) + 1

    def draw(field: Prime) -> Array:
        return drawn_inputs(field, spec, np.arange(count))

    yield False, _Inputs(count, draw, [*own, *more])
    entries = sequences(spec) * prod(spec.output_shape) * spec.parameters
    if spec.discrete and sequences(spec) <= _SEQUENCES and entries <= _ENTRIES:
        X = _all_sequences(spec)
        yield True, _Inputs(len(X), lambda _: X)


def _all_sequences(spec: Architecture) -> Array:
    """All one-hot columns of tokens (and types)."""
    letters = np.eye(spec.vocab)
    if spec.types:
        kinds = np.eye(spec.types)
        letters = np.array([[*a, *b] for a, b in product(letters, kinds)])
    numbers = np.array(list(product(range(len(letters)), repeat=spec.t)))
    return np.ascontiguousarray(letters[numbers].swapaxes(1, 2))


def _agree(
    spec: Architecture, rank: int, inputs: _Inputs, seed: int, wanted: int, progress: Progress
) -> bool:
    """Whether so many points have this rank, and the same arguments equal; none may have more."""
    alike: dict[bytes, int] = {}
    for number in range(wanted + SPARE):
        try:
            run = _run(spec, inputs, seed, number)
        except UnluckyError:
            continue
        if run.rank > rank:
            return False
        if run.rank == rank:
            alike[run.pattern] = alike.get(run.pattern, 0) + 1
        reached = max(alike.values(), default=0)
        progress("random points", reached, wanted)
        if reached == wanted:
            return True
    return False


def _in_regions(spec: Architecture, rank: int, seed: int, progress: Progress) -> Sample | None:
    """The same in the regions of random real points, or at some of many token sequences.

    Nothing is said of other regions and sequences. Inputs without a value are left out.
    """
    count = max(_INPUTS, -(-2 * (rank + 1) // prod(spec.output_shape)))
    agreed = 0
    for number in range(_LIKELY + SPARE):
        real = RealPoint(spec, _drawn(spec, seed, number, "region")[0])
        many = np.arange(_DRAWN * count)
        with np.errstate(all="ignore"):
            values = forward(Real(), spec, real.weights, real.inputs(many))
        some = many[np.isfinite(values).all(axis=(1, 2))][:count]
        if len(some) < count:
            continue
        X = real.inputs(some)

        def draw(field: Prime, X: Array = X) -> Array:
            return X if spec.discrete else drawn_inputs(field, spec, np.arange(count))

        try:
            found = _run(spec, _Inputs(count, draw, None, (real, some)), seed, number)
        except UnluckyError:
            continue
        if found.rank > rank:
            return None
        agreed += 1
        progress("random points", agreed, _LIKELY)
        if agreed == _LIKELY:
            limits = _SOME_SEQUENCES if spec.discrete and not spec.piecewise else _REGIONS
            return Sample(rank, agreed, seed, limits=limits)
    return None


def _with_roots(spec: Architecture, rank: int, seed: int, progress: Progress) -> Sample | None:
    """The same at points at which square roots are roots, where free ones have a larger rank.

    Inputs are any matrices: at token sequences alone the rank is no larger.
    """
    for number in range(_LIKELY):
        try:
            point = Point(spec, _field(spec, seed, number, "roots"))
            if jacobian_rank(point, spec.parameters).rank > rank:
                return None
        except UnluckyError:  # looking for roots in vain takes long
            return None
        progress("random points", number + 1, _LIKELY)
    return Sample(rank, _LIKELY, seed, limits=_ROOTS)


def _run(spec: Architecture, inputs: _Inputs, seed: int, number: int) -> _Run:
    """The rank at one point: some inputs at a time, all arguments known mod another prime first."""
    regions = _regions(spec, inputs)
    known = _shadow(spec, inputs, regions, _field(spec, seed, number, "first prime"))
    field = _field(spec, seed, number, "second prime")
    weights, X = field.draw(Stream.WEIGHTS, 0, (spec.parameters,)), inputs.draw(field)
    space = Echelon(spec.parameters, field)
    keys: list[list[Array]] = []
    step = inputs_at_once(spec)
    for start in range(0, inputs.count, step):
        some = slice(start, min(start + step, inputs.count))
        fields = [
            Free(field, n, [x[some] for x in known[n]], [x[some] for x in regions[n]])
            for n in range(len(known))
        ]
        J = jacobian(fields, spec, weights, X[some])
        if any(own.divided for own in fields):
            raise UnluckyError("division by zero at this point; try another seed")
        if inputs.rows is None:
            space.add(J.reshape(-1, spec.parameters))
        else:
            chosen = [(n - start, o) for n, o in inputs.rows if some.start <= n < some.stop]
            if chosen:
                space.add(J[tuple(np.array(chosen).T)])
        keys.append([key.reshape(-1) for own in fields for key in own.keys])
    pattern = sha256()
    for parts in zip(*keys, strict=True):
        pattern.update(classes(np.concatenate(parts) + 1).tobytes())
    return _Run(space.rank, pattern.digest())


def _shadow(
    spec: Architecture, inputs: _Inputs, regions: list[list[Array]], field: Prime
) -> list[list[Array]]:
    """For every stage, the classes of all arguments mod the first prime."""
    weights = field.draw(Stream.WEIGHTS, 0, (spec.parameters,))
    tokens = with_head_axes(spec, inputs.draw(field))
    out = []
    for n, stage in enumerate(stages(spec)):
        own = Shadow(field, n, regions[n])
        tokens = stage.apply(own, named_tensors(stage, weights), tokens)
        out.append([classes(argument) for argument in own.arguments])
    return out


def _regions(spec: Architecture, inputs: _Inputs) -> list[list[Array]]:
    """For every stage, what is on, chosen or positive at the real point."""
    every = stages(spec)
    if inputs.real is None:
        return [[] for _ in every]
    real, numbers = inputs.real
    tokens = with_head_axes(spec, real.inputs(numbers))
    weights = np.repeat(real.weights[None], inputs.count, axis=0)
    out = []
    for stage in every:
        own = Regions()
        tokens = stage.apply(own, named_tensors(stage, weights), tokens)
        out.append(own.noted)
    return out


def _field(spec: Architecture, seed: int, number: int, use: str) -> Prime:
    """The prime and the seed of a point."""
    drawn, p = _drawn(spec, seed, number, use)
    return Prime(p, drawn)


def _drawn(spec: Architecture, seed: int, number: int, use: str) -> tuple[int, int]:
    """A seed and a prime, drawn from a hash of the spec's digest, the seed, and the number."""
    name = f"segre random rank 1/{spec.digest}/{seed}/{number}/{use}"
    stream = shake_256(name.encode()).digest(8 + 4 * _CANDIDATES)
    candidates = np.frombuffer(stream[8:], dtype=">u4").astype(np.int64) % 2**SMALLEST
    odd = np.arange(3, 2 ** (SMALLEST / 2 + 1), 2, dtype=np.int64)
    for p in (candidates + 2**SMALLEST).tolist():
        if p % 4 == 3 and (p % odd).all():
            return int.from_bytes(stream[:8], "big"), p
    raise SegreError("no prime was drawn")  # with a chance below 2^-180


# --- how large a minor is, and with which chance random points all miss it -----------------------


@dataclass(frozen=True)
class Bounds:
    """The polynomial that is not zero if the rank is larger: its degree, height, and arguments."""

    degree: int
    height: float
    arguments: tuple[tuple[int, Size], ...]  # how many are compared with each other, and their size

    def error(self, points: int) -> float:
        """Base-2 logarithm of the chance that so many points, and a few in vain, all miss it."""
        missed = points * log2(_chance(self.degree, self.height))
        mixed = [
            log2(comb(count + 1, 2)) + points * log2(_chance(size.degree, size.height + 1))
            for count, size in self.arguments
        ]
        choices = log2(comb(points + SPARE, points))
        either = float(np.logaddexp2.reduce([missed, *mixed]))
        return choices + either

    @property
    def points(self) -> int | None:
        """How many points make the error small enough; None if not even many do."""
        able = (k for k in range(2, _MOST_POINTS + 1) if self.error(k) < -BITS)
        return next(able, None)


def _chance(degree: int, height: float) -> float:
    """The chance that a polynomial of this size vanishes at a random point mod a random prime."""
    vanishes = degree * (1 + _UNEVEN) / (1 << SMALLEST)
    return min(1.0, vanishes + height / SMALLEST / PRIMES)


def bounds(spec: Architecture, rank: int, inputs: int, *, words: bool = False) -> Bounds:
    """The size of a minor larger than `rank`; with `words`, inputs are token sequences.

    >>> from segre.models import architecture
    >>> found = bounds(architecture("lightning/d=4,4,4/a=2/t=3"), 40, 5)
    >>> found.degree, found.points
    (820, 7)
    """
    field, row = derivatives(spec, words=words)
    size = rank + 1
    arguments = tuple((inputs * count, own) for count, own in field.arguments)
    return Bounds(size * row.degree, size * (row.height + log2(size)), arguments)


def derivatives(spec: Architecture, *, words: bool = False) -> tuple[Degrees, Size]:
    """The size of the derivatives of outputs by weights, and the field with all divisors."""
    field = Degrees()
    tall = spec.width_in if spec.discrete else 1  # the last row is 1 minus the others
    value = Size() if words else Size(1, log2(tall))
    tokens = Sized((*[1] * spec.head_axes, spec.width_in, spec.t), value)
    for stage in stages(spec):
        own = {name: Sized(slot.shape, Size(1), Size()) for name, slot in stage.slots.items()}
        tokens = stage.apply(field, own, tokens)
    return field, tokens.slope or Size()
