"""Is the rank at independent random points evidence for an upper bound, and how strong is it?

All that is not rational is a variable here: values of functions, square roots, decays, rotations.
If the generic rank R of this *free* Jacobian were larger than the lower bound r, some minor of size
r + 1 of the matrix M (the rows of the certificate's minor, and those of one more input) would be a
polynomial that is not zero. Its degree and height are bounded (degrees.py), so that it seldom
vanishes at a random point mod a random prime. docs/soundness.md has the proof.

The points follow from the digest of the spec alone: nobody can choose them. All are evaluated in
lockstep, so that arguments of a function count as equal only if they are equal at every point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import shake_256
from math import ceil, comb, floor, log2, prod
from typing import Any

import numpy as np
from flint import fmpz

from segre.kernel.arrays import Array, Evaluation
from segre.kernel.degrees import VARIABLE, Degrees, Size, Sized
from segre.kernel.derivative import Backwards
from segre.kernel.document import MANY, Certificate, RejectionError, keys, whole
from segre.kernel.graph import Graph, Node, evaluate
from segre.kernel.linear import rank
from segre.kernel.meter import ARRAYS, Progress, afford, meter
from segre.kernel.point import ROW_BYTES, Effort
from segre.kernel.residues import CIRCLES, DENSITIES, EXPONENTIALS, SLOPES, Residues
from segre.transformer.spec import Transformer

BITS = 60  # an error below 2^-60 is called certain
MOST_POINTS = 32
ATTEMPTS = 4  # draws, in case something is divided by zero
SMALLEST = 30  # bits: primes lie between 2^30 and 2^31
PRIMES = 50_697_537  # so many of them
_CANDIDATES = 1 << 12
_UNEVEN = 1 + 2.0**-29  # no residue of a drawn word is likelier than this over 2^30


@dataclass(frozen=True, slots=True)
class Bounds:
    """The polynomials that must not vanish by accident: of a minor, and differences of arguments.

    Of each kind of argument: how many differences there are, and their size.
    """

    minor: Size
    differences: tuple[tuple[int, Size], ...]

    def error(self, points: int) -> float:
        """Base-2 logarithm of the chance that so many points do not show a larger rank."""
        logs = [points * _chance(self.minor)]
        logs += [log2(count) + points * _chance(size) for count, size in self.differences]
        most = max(logs)
        return log2(ATTEMPTS) + most + log2(sum(2.0 ** (one - most) for one in logs))

    def points(self) -> int:
        """How many points make the error small enough."""
        for points in range(2, MOST_POINTS + 1):
            if self.error(points) < -BITS:
                return points
        raise RejectionError("upper.kind: the polynomials are too large for random points")


def _chance(size: Size) -> float:
    """Base-2 logarithm of the chance that a polynomial vanishes at one random point."""
    vanishes = size.degree * _UNEVEN / (1 << SMALLEST)
    return min(0.0, log2(vanishes + (size.height + 1) / SMALLEST / PRIMES))


def bounds(graph: Graph, lower: int, inputs: int) -> Bounds:
    """The sizes of these polynomials, for so many inputs and a minor larger than the lower bound.

    Columns of soft token sequences sum to one: their last entry is 1 minus the others.
    """
    field = Degrees(graph, Size(1, log2(graph.input_shape[0])) if graph.blocks else VARIABLE)
    found: Sized = evaluate(graph, field)[graph.output]
    row = found.slope or Size()
    size = lower + 1
    differences = []
    for count, own in field.arguments:
        below = field.cleared(own)  # numerators are compared over both denominators
        larger = Size(own.degree + below.degree, own.height + below.height + 1)
        differences.append((comb(inputs * count + 1, 2), larger))
    minor = Size(size * row.degree, size * (row.height + log2(size)))
    return Bounds(minor, tuple(differences))


def section(certificate: Certificate, graph: Graph) -> dict[str, Any]:
    """What a certificate says about the random check: how many points, and why they are enough."""
    inputs = len({n for n, _ in certificate.sections["lower"]["rows"]}) + 1
    found = bounds(graph, certificate.claim.lower, inputs)
    points = found.points()
    return {
        "kind": "random",
        "points": points,
        "degree": found.minor.degree,
        "height": ceil(found.minor.height),
        "bits": floor(-found.error(points)),
    }


def check(certificate: Certificate, graph: Graph, progress: Progress) -> tuple[int, str]:
    """The upper bound, and a sentence; what does not hold is raised. The minor was checked."""
    given, lower = certificate.sections["upper"], certificate.claim.lower
    rows = [(n, o) for n, o in certificate.sections["lower"]["rows"]]
    expected = section(certificate, graph)
    keys(given, expected, "upper")
    for key, value in expected.items():
        if key != "kind" and whole(given[key], f"upper.{key}", 0, MANY) != value:
            raise RejectionError(f"upper.{key}: {given[key]}, but it is {value}")
    for attempt in range(ATTEMPTS):
        fields = [Drawn(*_drawn(certificate.digest, attempt, i)) for i in range(expected["points"])]
        try:
            ranks = _ranks(graph, fields, rows, progress)
        except RejectionError:  # something was divided by zero
            continue
        if max(ranks) > lower:
            raise RejectionError(f"upper: at a random point the rank is {max(ranks)}")
        return lower, (
            f"At {expected['points']} random points the rank is {lower} at most: the dimension is "
            f"at most {lower}, certain up to an error below 2^-{expected['bits']}."
        )
    raise RejectionError("upper: the random points are unusable")


def _drawn(digest: str, attempt: int, number: int) -> tuple[int, int]:
    """A prime, drawn evenly, and a seed."""
    name = f"segre kernel/random/{digest}/{attempt}/{number}"
    words = shake_256(name.encode()).digest(8 + 4 * _CANDIDATES)
    for candidate in np.frombuffer(words[8:], dtype=">u4"):
        p = int(candidate) % (1 << SMALLEST) + (1 << SMALLEST)
        if fmpz(p).is_prime():
            return p, int.from_bytes(words[:8], "big")
    raise RejectionError("upper: no prime was drawn")  # with a chance below 2^-250


class Drawn(Residues):
    """F_p, with a fresh variable for every rotation and every decay."""

    def __init__(self, prime: int, seed: int) -> None:
        super().__init__(prime, seed)
        self._named: dict[Any, int] = {}

    def variable(self, stream: int, name: Any) -> int:
        """The residue of something that has a name."""
        index = self._named.setdefault((stream, name), len(self._named))
        return int(self.drawn(stream, np.array([index]))[0])

    def circles(self, spec: Transformer) -> list[tuple[int, int]]:
        """A random point of the circle for every plane."""
        return [(self.variable(CIRCLES, (spec, i)), 1) for i in range(spec.rotary_dim // 2)]

    def base(self, rate: Any) -> int:
        """A random residue for every decay rate."""
        return self.variable(SLOPES, rate)


class _Point(Evaluation):
    """One of the points, with the densities that were drawn for it."""

    def __init__(self, field: Drawn, graph: Graph, inputs: Array) -> None:
        super().__init__(field, field.weights(graph), inputs)
        self.densities: dict[int, Array] = {}  # by what phi is applied to

    def density(self, node: Node, a: Array) -> Array:  # noqa: ARG002
        """The derivative of phi at the whole batch."""
        return self.densities[node.args[0]]


class _Lockstep:
    """An interpreter whose values are lists: one for each point."""

    def __init__(self, points: list[_Point], fields: list[Drawn]) -> None:
        self.points, self.fields = points, fields
        self._count = 0

    def __getattr__(self, op: str) -> Callable[..., list[Array]]:
        def apply(node: Node, *values: list[Array]) -> list[Array]:
            return [
                getattr(point, op)(node, *(value[i] for value in values))
                for i, point in enumerate(self.points)
            ]

        return apply

    def exp(self, _node: Node, values: list[Array]) -> list[Array]:
        """Fresh residues that are not zero; exp(0) = 1."""
        zero = np.all([value == 0 for value in values], axis=0)
        return [np.where(zero, 1, own) for own in self._fresh(values, EXPONENTIALS)]

    def root(self, _node: Node, values: list[Array]) -> list[Array]:
        """Fresh residues: roots are free."""
        return self._fresh(values, EXPONENTIALS)

    def phi(self, node: Node, values: list[Array]) -> list[Array]:
        """Fresh residues, and as many for the density."""
        for point, own in zip(self.points, self._fresh(values, DENSITIES), strict=True):
            point.densities[node.args[0]] = own
        return self._fresh(values, EXPONENTIALS)

    def _fresh(self, values: list[Array], stream: int) -> list[Array]:
        """Residues that are not zero: the same where arguments agree at all points."""
        shape = values[0].shape
        table = np.stack([value.reshape(-1) for value in values], axis=1)
        _, number = np.unique(table, axis=0, return_inverse=True)
        index = number.reshape(shape) + self._count
        self._count += table.shape[0]
        drawn = []
        for field in self.fields:
            words = field.streams[stream](index) % np.uint64(field.prime - 1)
            drawn.append(words.astype(np.int64) + 1)
        return drawn


def _ranks(
    graph: Graph,
    fields: list[Drawn],
    rows: list[tuple[int, int]],
    progress: Progress,
) -> list[int]:
    """The rank of M at every point."""
    own = {n: i for i, n in enumerate(sorted({n for n, _ in rows}))}
    outputs, inputs = prod(graph.shape(graph.output)), len(own) + 1
    _require_room(graph, inputs, len(rows) + outputs, len(fields))
    every = [(own[n], o) for n, o in rows] + [(len(own), o) for o in range(outputs)]
    salts = np.zeros((inputs, graph.input_shape[1]), np.uint64)
    drawn = [field.inputs(graph.input_shape, np.arange(inputs), salts) for field in fields]
    points = [
        _Point(field, graph, field.soft(X, *graph.blocks))
        for field, X in zip(fields, drawn, strict=True)
    ]
    values = evaluate(graph, _Lockstep(points, fields))
    ranks = []
    for i, (point, field) in enumerate(zip(points, fields, strict=True)):
        J = Backwards(graph, point, [value[i] for value in values], every).gradients()
        ranks.append(rank(J, field.prime))
        progress("random points", i + 1, len(fields))
    return ranks


def _require_room(graph: Graph, inputs: int, rows: int, points: int) -> None:
    """Refuse what takes too much time or memory, before any of it is done."""
    effort = Effort.of(graph)
    listed = rows * (ROW_BYTES + 40 * graph.parameters)
    meter().require_bytes(8 * (points + 2) * inputs * effort.held + listed)
    meter().require_bytes(8 * (effort.held + effort.weights) * rows)
    afford(points * (effort.there(ARRAYS, inputs) + effort.back(ARRAYS, rows)))
