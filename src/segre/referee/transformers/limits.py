"""Can a certificate of a transformer be checked with bounded time and memory?

Asked before any matrix is made. The estimates are rough and depend on sizes only.
"""

from __future__ import annotations

from dataclasses import dataclass

from segre.errors import TooLargeError
from segre.referee.limits import MOST_BYTES, MOST_SECONDS
from segre.referee.transformers.content import BallMinor, Certificate, outputs
from segre.referee.transformers.stages import stages
from segre.referee.transformers.weights import Layout, parts, routed
from segre.transformer.spec import Transformer

# Seconds on one core of an ordinary machine of 2024.
_STEP = 3e-6  # one recorded operation, whatever its size
_ENTRY = 0.5e-6  # one entry handled by Python
_PRODUCT = 0.5e-9  # one multiplication inside flint
_BALL_PRODUCT = 10e-9  # the same with balls of 64 bits
_TAPE_BYTES = 8  # one entry of a matrix on the tape


@dataclass(frozen=True, slots=True)
class Effort:
    """What one evaluation takes: operations, entries handled one by one, multiplications."""

    steps: int
    entries: int
    products: int

    @classmethod
    def of(cls, spec: Transformer) -> Effort:
        """The effort of one evaluation."""
        d, t, heads, k, v = spec.d, spec.t, spec.heads, spec.head + spec.rotary, spec.dv
        e, V = spec.embed or d, spec.vocab + spec.types + spec.positions
        depth, ranks = spec.layers, spec.qrank + spec.kvrank
        routes = [routed(spec, part) for part in parts(spec)]
        units = 0 if all(routes) else spec.ff
        if any(routes):
            units = max(units, spec.experts * spec.eff + spec.shared)
        steps = len(stages(spec)) * 20 + depth * (25 * heads + 12 * (1 + spec.experts))
        entries = depth * (8 * heads * t * t + 16 * heads * k * t + 8 * units * t)
        entries += len(stages(spec)) * 8 * (d + ranks) * t + 8 * (V + e) * t
        products = depth * heads * (2 * k + 2 * v) * t * (d + ranks + t)
        products += depth * (d * ranks * t + 3 * units * d * t) + (V * e + 2 * d * e) * t
        return cls(steps, entries, products)

    @property
    def seconds(self) -> float:
        """The time of one evaluation mod p."""
        return self.steps * _STEP + self.entries * _ENTRY + self.products * _PRODUCT

    def ball_seconds(self, bits: int) -> float:
        """The time of one evaluation in balls."""
        slow = bits / 64
        return (
            self.steps * 2 * _STEP
            + self.entries * _ENTRY * (1 + slow)
            + self.products * _BALL_PRODUCT * slow
        )


def check_size(certificate: Certificate) -> None:
    """Raise `TooLargeError` if the certificate cannot be checked within the limits."""
    spec, claim = certificate.spec, certificate.claim
    effort, size = Effort.of(spec), claim.parameters
    rows, columns = outputs(spec)
    watched = 2 * rows * columns
    witness = len(certificate.independence.points) if certificate.independence else 0
    _check_bytes(
        max(
            8 * claim.lower * size,
            8 * watched * size,
            8 * (certificate.upper.rank + watched) * size,
            8 * witness * witness,
            _TAPE_BYTES * effort.entries * 4,
        )
    )
    seconds = (2 + len(certificate.roots) + 2 * witness) * (effort.seconds + size * 2 * _ENTRY)
    seconds += watched * (effort.seconds + size * _ENTRY)
    seconds += witness * witness * _ENTRY + witness**3 * _PRODUCT
    if not isinstance(certificate.lower, BallMinor):
        inputs = len(certificate.lower.salts)
        seconds += inputs * effort.seconds + claim.lower**3 * _PRODUCT
        seconds += claim.lower * (effort.seconds + (size + claim.lower) * _ENTRY)
    vectors = _vectors(spec)
    seconds += vectors * size * (watched + certificate.upper.rank) * _PRODUCT
    seconds += vectors * size * _ENTRY
    _check_seconds(seconds)


def check_bits(layout: Layout, minor: BallMinor, bits: int) -> None:
    """Raise `TooLargeError` if a minor in balls of so many bits takes too long."""
    effort, size, slow = Effort.of(layout.spec), len(minor.rows), bits / 64
    _check_bytes((48 + bits // 4) * size * layout.parameters)
    inputs = len({n for n, _ in minor.rows})
    seconds = (inputs + size) * effort.ball_seconds(bits)
    seconds += size * layout.parameters * _ENTRY + size**3 * _BALL_PRODUCT * slow
    _check_seconds(seconds)


def _check_bytes(size: int) -> None:
    if size > MOST_BYTES:
        raise TooLargeError(
            f"checking the certificate needs a table of {size / 2**30:.1f} GiB; "
            f"the limit is {MOST_BYTES >> 30} GiB"
        )


def _check_seconds(seconds: float) -> None:
    if seconds > MOST_SECONDS:
        raise TooLargeError(
            f"checking the certificate would take about {seconds / 3600:.0f} hours; "
            f"the limit is {MOST_SECONDS // 3600}"
        )


def _vectors(spec: Transformer) -> int:
    """How many tangent vectors section 9 draws up, at most and about."""
    d, e, kv, heads = spec.d, spec.embed or spec.d, spec.kv, spec.heads
    k, v = spec.head + spec.rotary, spec.dv
    units = spec.ff + spec.experts * (spec.eff + 1) + spec.shared
    layer = kv * (k * k + v * v) + spec.kvrank**2 + spec.qrank**2
    layer += heads * (k + v + 1) * (d + 2 if max(k, v) > d else 2) + 4 * units + 8 * d
    spots = 1 if spec.residual else spec.layers * 2 + 1
    return len(parts(spec)) * layer + spots * (d + 2) ** 2 + e * e + 4 * (e + spec.vocab)
