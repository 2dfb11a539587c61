"""Can a certificate of a transformer be checked with bounded time and memory?

Asked before any matrix is made. The estimates are rough and depend on sizes only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from segre.referee.claims import Claim
from segre.referee.meter import RESIDUES, Rates, balls, meter
from segre.referee.transformers.content import (
    BallMinor,
    Certificate,
    Contexts,
    Evidence,
    Independence,
    ModularMinor,
    Root,
    outputs,
)
from segre.referee.transformers.contexts import MOST_SEQUENCES
from segre.referee.transformers.stages import stages
from segre.referee.transformers.weights import Layout, parts, routed
from segre.transformer.spec import Transformer

_ENTRY_BYTES = 8  # of a matrix
_STEP_BYTES = 700  # an operation on the tape, however small its matrices are
_CONTEXT_BYTES = 200  # a token that is part of a context
_COPIED = 20  # to read or write an entry takes as long as so many multiplications


@dataclass(slots=True)
class Effort:
    """What one evaluation takes, forwards and then backwards for every row of the Jacobian."""

    steps: int = 0  # operations
    entries: int = 0  # handled one by one
    products: int = 0  # multiplications
    fresh: int = 0  # entries that are handled forwards only
    functions: int = 0  # of an entry, forwards only

    @classmethod
    def of(cls, spec: Transformer) -> Effort:
        """The effort of one evaluation."""
        effort = cls(steps=20 * len(stages(spec)))
        d, t, e, depth = spec.d, spec.t, spec.embed or spec.d, spec.layers
        if spec.norm != "none":
            effort._norm(d, t, depth * (4 if spec.place == "sandwich" else 2) + 3)
            effort._norm(e, t, 2)
        effort._attention(spec)
        routes = [routed(spec, part) for part in parts(spec)]
        if spec.mlp != "none" and not all(routes):
            effort._units(spec.ff, d, t, depth)
        if any(routes):
            effort._units(spec.experts * spec.eff + spec.shared, d, t, depth)
            effort._scaled(d, t, depth * spec.experts)
            effort.functions += 6 * depth * spec.experts * t
            effort.steps += 40 * depth * spec.experts
        table = spec.vocab + spec.types + spec.positions + spec.patch + spec.t
        effort._linear(e, table, t, 2)
        effort._linear(e, d, t, 3)
        effort._linear(d, d, t, 2)
        effort._linear(d, spec.labels + spec.relation, t, 1)
        effort.entries += 6 * (spec.vocab + spec.labels + e + d) * t
        effort.fresh += 2 * table * t + 2 * t * t
        effort.products += 2 * d * t * t
        effort.functions += 6 * (spec.vocab + spec.labels + e + d) * t
        if spec.output == "softmax":
            effort._scaled(spec.vocab, t, 1)
        return effort

    def _linear(self, rows: int, columns: int, t: int, times: int = 1) -> None:
        """Maps of tokens; backwards, each is two products."""
        self.products += 2 * times * rows * columns * t
        self.steps += 4 * times

    def _scaled(self, rows: int, t: int, times: int) -> None:
        """Every column by a factor: a product with a diagonal matrix."""
        self.fresh += times * t * t
        self.entries += times * t
        self.products += times * 2 * rows * t * t
        self.steps += 6 * times

    def _norm(self, width: int, t: int, times: int) -> None:
        self._scaled(width, t, times)
        self._scaled(t, width, times)  # gains
        self.entries += times * 6 * width * t
        self.functions += times * 6 * t
        self.products += times * 12 * width * t
        self.steps += 30 * times

    def _attention(self, spec: Transformer) -> None:
        d, t, k, v = spec.d, spec.t, spec.head + spec.rotary, spec.dv
        heads = spec.layers * spec.heads
        source = max(d, spec.qrank, spec.kvrank)
        self._linear(2 * k + 2 * v, source, t, heads)
        self._linear(spec.qrank + spec.kvrank + spec.rotary, d, t, spec.layers)
        self._linear(k, k, t, 2 * heads)  # rotations
        self.products += heads * 4 * t * t * (k + v + _COPIED)
        self.entries += heads * 14 * k * t
        self.fresh += (4 * heads + 3 * spec.layers) * t * t
        self.steps += 40 * heads
        if spec.attn != "lightning":
            self._scaled(t, t, heads)
            self.functions += heads * t * t * (6 if spec.cap else 2)
            self.entries += heads * t * t * (10 if spec.cap else 4)
        elif spec.causal or spec.window:
            self.entries += heads * t * t
        if spec.decay != "none":
            self.fresh += heads * t * t
        for width in (spec.qrank, spec.kvrank):
            if width:
                self._norm(width, t, spec.layers)
        if spec.qknorm:
            self._norm(spec.head, t, 2 * heads)

    def _units(self, units: int, d: int, t: int, depth: int) -> None:
        self._linear(3 * units, d, t, depth)
        self.entries += depth * 12 * units * t
        self.functions += depth * 6 * units * t
        self.steps += 30 * depth

    def back(self, rates: Rates) -> float:
        """The time of one row of the Jacobian."""
        handled = self.entries * (rates.entry + rates.copy)
        return self.steps * rates.step + handled + self.products * rates.product

    def there(self, rates: Rates) -> float:
        """The time of one evaluation."""
        fresh = self.fresh * (rates.entry + rates.copy) + self.functions * rates.function
        return self.back(rates) + fresh


def check_size(certificate: Certificate) -> None:
    """Raise `TooLargeError` if the certificate cannot be checked within the limits."""
    spec, effort = certificate.spec, Effort.of(certificate.spec)
    rows, columns = outputs(spec)
    watched = 2 * rows * columns
    if isinstance(certificate.upper, Contexts):
        watched = 0
        meter().require_bytes(_CONTEXT_BYTES * _sequences(spec) * spec.t**2)
    meter().require_bytes(held(certificate, effort, watched, _rank(certificate)))
    meter().require(work(certificate))


def held(certificate: Evidence, effort: Effort, watched: int, rank: int) -> int:
    """The bytes that are held at once, at most and about: a tape and the tables of a part."""
    size, lower = certificate.claim.parameters, certificate.claim.lower
    witness = len(certificate.independence.points) if certificate.independence else 0
    tape = 4 * _ENTRY_BYTES * (effort.entries + effort.fresh) + _STEP_BYTES * effort.steps
    symmetries = (2 * watched + rank) * size  # the Jacobian, its transpose and the span
    minor = lower * size + 3 * lower * lower
    return tape + _ENTRY_BYTES * max(symmetries, minor, 3 * witness * witness)


@dataclass(frozen=True, slots=True)
class Proof:
    """How much of everything a certificate asks for, whatever the network is."""

    size: int  # weights
    watched: int  # rows of the Jacobian that symmetries are held against
    drawn: float  # the time of drawing an input
    roots: int
    witness: int  # points
    lower: int
    inputs: int  # of a minor mod p

    def work(self, effort: Effort) -> float:
        """What minors mod p and rows of the Jacobian mod p will be charged, in seconds."""
        rates, size, lower = RESIDUES, self.size, self.lower
        there = self.drawn + effort.there(rates) + size * 4 * rates.copy
        back = effort.back(rates) + size * (rates.entry + 4 * rates.copy)
        total = size * rates.function + (2 + self.roots) * there + self.watched * back
        if self.witness:
            each = there + size * rates.function + self.witness * rates.entry
            total += 2 * self.witness * each
            total += rates.matmul(self.witness, self.witness, self.witness)
        if self.inputs:
            total += self.inputs * there + rates.matmul(lower, lower, lower)
            total += lower * (back + lower * rates.entry)
        return total


def proof(
    claim: Claim,
    lower: ModularMinor | BallMinor,
    independence: Independence | None,
    roots: Sequence[Root],
    watched: int,
    drawn: float,
) -> Proof:
    """How much of everything the parts of a certificate ask for."""
    return Proof(
        claim.parameters,
        watched,
        drawn,
        len(roots),
        len(independence.points) if independence else 0,
        claim.lower,
        0 if isinstance(lower, BallMinor) else max(1, len(lower.salts)),
    )


def work(certificate: Certificate) -> float:
    """What checking it will be charged, at most and about, in seconds; but for balls."""
    spec, claim, rates = certificate.spec, certificate.claim, RESIDUES
    size, effort = claim.parameters, Effort.of(certificate.spec)
    rows, columns = outputs(spec)
    watched = 2 * rows * columns
    drawn = 3 * max(spec.d, spec.vocab + spec.types) * spec.t * rates.function
    rotation, ways = spec.head + spec.rotary, max(1, len(spec.rotations))
    parts = (certificate.lower, certificate.independence, certificate.roots)
    total = proof(claim, *parts, watched, drawn).work(effort)
    total += ways * rotation * (rotation + 2 * spec.t) * rates.function
    if isinstance(certificate.upper, Contexts):
        return total + _sequences(spec) * spec.layers * spec.t**2 * 20 * rates.step
    there = effort.there(rates) + size * 4 * rates.copy
    back = effort.back(rates) + size * (rates.entry + 4 * rates.copy)
    total += (2 * there + watched * back) * (spec.vocab > 0)
    vectors, rank = _vectors(spec), _rank(certificate)
    total += vectors * size * (watched + 2 * rank + spec.d + rotation) * rates.product
    total += vectors * (size * (2 * rates.entry + 6 * rates.copy) + rank * rates.entry)
    total += (rank + watched) * size * (rates.entry + rates.copy)
    return total + vectors * 10 * rates.step


def _sequences(spec: Transformer) -> int:
    """How many token sequences there are to list, as far as they are listed."""
    letters = spec.vocab * max(1, spec.types)
    return min(MOST_SEQUENCES, int(letters ** min(spec.t, 13)))


def _rank(certificate: Certificate) -> int:
    """The rank of the symmetries, if they are asked for."""
    return 0 if isinstance(certificate.upper, Contexts) else certificate.upper.symmetries.rank


def check_bits(layout: Layout, minor: BallMinor, bits: int) -> None:
    """Raise `TooLargeError` if a minor in balls of so many bits takes too long."""
    size = len(minor.rows)
    meter().require_bytes((48 + bits // 4) * size * layout.parameters)
    meter().require(ball_work(layout, minor, bits))


def ball_work(layout: Layout, minor: BallMinor, bits: int) -> float:
    """What a minor in balls will be charged, at most and about, in seconds."""
    spec, rates = layout.spec, balls(bits)
    rotation, ways = spec.head + spec.rotary, max(1, len(spec.rotations))
    total = minor_work(Effort.of(spec), layout.parameters, minor, rates)
    return total + ways * rotation * (rotation + 2 * spec.t) * rates.function


def minor_work(effort: Effort, width: int, minor: BallMinor, rates: Rates) -> float:
    """What a minor in balls will be charged for a network of so many weights."""
    size, inputs = len(minor.rows), len({n for n, _ in minor.rows})
    total = inputs * (effort.there(rates) + width * 4 * rates.copy)
    total += size * (effort.back(rates) + width * (rates.entry + 5 * rates.copy))
    return total + 3 * rates.matmul(size, size, size) + 3 * size * size * rates.entry


def _vectors(spec: Transformer) -> int:
    """How many tangent vectors section 9 draws up, at most and about."""
    d, e, kv, heads = spec.d, spec.embed or spec.d, spec.kv, spec.heads
    k, v = spec.head + spec.rotary, spec.dv
    units = spec.ff + spec.experts * (spec.eff + 1) + spec.shared
    layer = kv * (k * k + v * v) + spec.kvrank**2 + spec.qrank**2
    layer += heads * (k + v + 1) * 2 + 4 * units + 8 * d + spec.experts * d
    spots = 1 if spec.residual else spec.layers * 2 + 1
    first = heads * (2 * k + v) * d if spec.patch else 0
    return len(parts(spec)) * layer + first + spots * (d + 2) ** 2 + e * e + 4 * (e + spec.vocab)
