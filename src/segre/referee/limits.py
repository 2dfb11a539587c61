"""Can a certificate be checked with bounded time and memory? Asked before any matrix is made.

The estimates are rough (within a small factor) and depend on sizes only.
"""

from __future__ import annotations

from segre.referee.document import Certificate
from segre.referee.meter import RESIDUES, meter

_PYTHON_BYTES = 100  # one entry handled by Python, with its temporaries


def check_size(certificate: Certificate) -> None:
    """Raise `TooLargeError` if the certificate cannot be checked within the limits."""
    meter().require_bytes(_bytes(certificate))
    meter().require(work(certificate))


def _bytes(certificate: Certificate) -> int:
    """The largest single thing held in memory."""
    net, claim = certificate.net, certificate.claim
    t, widest = net.t, max(net.widths)
    witness = len(certificate.independence.points) if certificate.independence else 0
    tape = sum(
        layer.heads * (2 * layer.a + (layer.dv or 0) + 2 * layer.width_out + 4 * t) * t
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


def work(certificate: Certificate) -> float:
    """What checking it will be charged, at most and about, in seconds."""
    net, size, lower = certificate.net, certificate.claim.parameters, certificate.claim.lower
    t, rates = net.t, RESIDUES
    steps = entries = spans = 0.0
    there = back = size * rates.copy
    for layer in net.layers:
        head = layer
        before, after, a = layer.width_in, layer.width_out, head.a
        inner = after if head.dv is None else head.dv
        products = [(a, before, t), (a, before, t), (t, a, t), (inner, before, t), (inner, t, t)]
        products += [] if head.dv is None else [(after, inner, t)]
        own = sum(rates.matmul(*shape) for shape in products)
        there += head.heads * own
        # Backwards, every product is two.
        back += head.heads * 2 * own
        if net.score == "softmax":
            there += head.heads * (t * t * (4 * rates.entry + rates.function) + 2 * rates.step)
            back += head.heads * (t * t * 6 * rates.entry + 2 * rates.step)
        steps += 12 * head.heads
        entries += head.heads * t * t
        both = before + after + head.heads * (2 * a + max(before, after))
        spans += head.heads * rates.matmul(after, inner, before)
        spans += 8 * both * max(before, after) * (rates.entry + max(before, after) * rates.product)
    back += steps * rates.step
    drawn = t * net.widths[0] * rates.function
    inputs = len({n for n, _ in certificate.minor.rows})
    total = size * rates.function + spans
    total += inputs * (there + drawn) + lower * (back + size * rates.entry)
    total += lower * lower * rates.entry + rates.matmul(lower, lower, lower)
    if certificate.independence is not None:
        witness = len(certificate.independence.points)
        each = 2 * (there + drawn) + size * rates.function + 4 * (entries + witness) * rates.entry
        total += witness * each + rates.matmul(witness, witness, witness)
    if certificate.upper.kind == "symmetries":
        rank, vectors = certificate.upper.rank, _vectors(certificate)
        total += vectors * (size * (lower + 2 * rank + 2) * rates.product + 4 * rates.step)
        total += vectors * (rank + 4 * size // net.depth) * rates.entry
        total += (vectors * 3 + rank + lower) * size * rates.copy + rank * size * rates.entry
        # Every piece is reduced by every piece before it.
        pieces = sum(4 + 4 * layer.heads for layer in net.layers)
        total += pieces * pieces * rates.step
    return total


def _vectors(certificate: Certificate) -> int:
    """How many tangent vectors section 7.3 draws up."""
    net, dimensions = certificate.net, certificate.dimensions
    count = 0
    for i, layer in enumerate(net.layers, start=1):
        heads, a, dv = layer.heads, layer.a, layer.dv
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
