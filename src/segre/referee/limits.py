"""Can a certificate be checked with bounded time and memory? Asked before any matrix is made.

The estimates are rough (within a small factor) and depend on sizes only.
"""

from __future__ import annotations

from segre.errors import TooLargeError
from segre.referee.document import Certificate

MOST_BYTES = 2 << 30
MOST_SECONDS = 3600

# Seconds on one core of an ordinary machine of 2024.
_STEP = 2e-6  # one recorded operation, whatever its size
_ENTRY = 0.5e-6  # one entry handled by Python
_PRODUCT = 0.5e-9  # one multiplication inside flint
_PYTHON_BYTES = 100  # one entry handled by Python, with its temporaries


def check_size(certificate: Certificate) -> None:
    """Raise `TooLargeError` if the certificate cannot be checked within the limits."""
    size = _bytes(certificate)
    if size > MOST_BYTES:
        raise TooLargeError(
            f"checking the certificate needs a table of {size / 2**30:.1f} GiB; "
            f"the limit is {MOST_BYTES >> 30} GiB"
        )
    seconds = _seconds(certificate)
    if seconds > MOST_SECONDS:
        raise TooLargeError(
            f"checking the certificate would take about {seconds / 3600:.0f} hours; "
            f"the limit is {MOST_SECONDS // 3600}"
        )


def _bytes(certificate: Certificate) -> int:
    """The largest single thing held in memory."""
    net, claim = certificate.net, certificate.claim
    t, widest = net.t, max(net.widths)
    witness = len(certificate.independence.points) if certificate.independence else 0
    tape = sum(
        layer.attention.heads
        * (2 * layer.attention.a + (layer.attention.dv or 0) + 2 * layer.width_out + 4 * t)
        * t
        for layer in net.layers
    )
    return max(
        8 * claim.lower * claim.parameters,
        8 * certificate.upper.rank * claim.parameters,
        8 * witness * witness,
        8 * tape,
        _PYTHON_BYTES * t * t,
        _PYTHON_BYTES * t * widest,
        _PYTHON_BYTES * widest * widest,
    )


def _seconds(certificate: Certificate) -> float:
    net, size, lower = certificate.net, certificate.claim.parameters, certificate.claim.lower
    t = net.t
    forward = 0.0
    for layer in net.layers:
        head = layer.attention
        inner = layer.width_out if head.dv is None else head.dv
        products = 2 * head.a * layer.width_in * t + head.a * t * t
        products += inner * layer.width_in * t + inner * t * t + layer.width_out * inner * t
        forward += head.heads * (10 * _STEP + products * _PRODUCT)
        if net.score == "softmax":
            forward += head.heads * t * t * 4 * _ENTRY
    inputs = len({n for n, _ in certificate.minor.rows})
    seconds = inputs * (forward + t * net.widths[0] * 3 * _ENTRY)
    seconds += lower * (2 * forward + size * _ENTRY) + lower * lower * _ENTRY
    seconds += lower**3 * _PRODUCT
    if certificate.independence is not None:
        witness = len(certificate.independence.points)
        seconds += witness * (2 * forward + size * 3 * _ENTRY + witness * _ENTRY)
        seconds += witness**3 * _PRODUCT
    if certificate.upper.kind == "symmetries":
        rank, vectors = certificate.upper.rank, _vectors(certificate)
        seconds += vectors * size * (lower + rank) * _PRODUCT
        seconds += vectors * (rank + size // net.depth) * _ENTRY
        # Every piece is reduced by every piece before it.
        pieces = sum(4 + 4 * layer.attention.heads for layer in net.layers)
        seconds += pieces * pieces * _STEP
    return seconds


def _vectors(certificate: Certificate) -> int:
    """How many tangent vectors section 7.3 draws up."""
    net, dimensions = certificate.net, certificate.dimensions
    count = 0
    for i, layer in enumerate(net.layers, start=1):
        heads, a, dv = layer.attention.heads, layer.attention.a, layer.attention.dv
        before, after = layer.width_in, layer.width_out
        rho, sigma = dimensions.reached[i - 1], dimensions.read[i]
        inner = after if dv is None else dv
        count += after * after if i < net.depth else 0
        count += heads * (after - sigma) * (before if dv is None else dv)
        count += heads * (before - rho) * (2 * a + inner)
        pool = 0 if dv is None else heads * dv
        if dimensions.silent:
            count += max(0, pool - sigma) * before + max(0, pool - rho) * after
            count += 2 * heads * a * before + pool * pool
            count += (heads - 1) * after * before if dv is None else 0
            continue
        if dv is not None:
            count += heads * (max(0, dv - sigma) * before + max(0, dv - rho) * after + dv * dv)
        count += heads * (2 * a * a + 1) + heads * (heads - 1)
    return count
