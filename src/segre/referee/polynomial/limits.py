"""Can a certificate of a polynomial network be checked with bounded time and memory?

Asked before any matrix is made. The estimates depend on sizes only, and are never too low.
"""

from __future__ import annotations

from segre.polynomial.spec import Convolution, Polynomial
from segre.referee.meter import RESIDUES, meter
from segre.referee.polynomial.document import Certificate
from segre.referee.polynomial.inequalities import work_of
from segre.referee.polynomial.network import slots
from segre.referee.polynomial.symmetries import CHUNK_ENTRIES, vector_counts

_PYTHON_BYTES = 100  # one entry handled by Python, with its temporaries


def check_size(certificate: Certificate) -> None:
    """Raise `TooLargeError` if the certificate cannot be checked within the limits."""
    spec, claim = certificate.spec, certificate.claim
    seen = sum(
        width * (layer.kernel if isinstance(layer, Convolution) else 1)
        for layer, width in zip(spec.layers, spec.widths[1:], strict=True)
    )
    size = max(
        8 * claim.lower * claim.parameters,
        8 * certificate.upper.rank * claim.parameters,
        _PYTHON_BYTES * (seen + spec.widths[0]),
    )
    meter().require_bytes(size)
    meter().require(work(certificate))


def work(certificate: Certificate) -> float:
    """What checking it will be charged, at most, in seconds."""
    spec, claim, rates = certificate.spec, certificate.claim, RESIDUES
    size, lower, upper = claim.parameters, claim.lower, certificate.upper
    there, back = _passes(spec)
    inputs = len({n for n, _ in certificate.minor.rows})
    total = size * rates.function + inputs * (there + spec.widths[0] * rates.function)
    total += lower * (back + size * rates.entry)
    total += lower * lower * rates.entry + rates.matmul(lower, lower, lower)
    if upper.kind == "symmetries":
        return total + _symmetries(certificate)
    return total + work_of(spec, upper.steps)


def _passes(spec: Polynomial) -> tuple[float, float]:
    """One evaluation, forwards and backwards."""
    rates, there, back = RESIDUES, 0.0, 0.0
    for layer, width in zip(spec.layers, spec.widths[1:], strict=True):
        if isinstance(layer, Convolution):
            products = [(1, layer.kernel, width), (1, 1, width)]
            seen = layer.kernel * width * rates.entry + rates.step
            there += seen
            back += seen + layer.width_in * rates.entry + rates.step
        else:
            products = [(width, layer.width_in, 1)]
        there += sum(rates.matmul(*shape) for shape in products)
        back += sum(
            rates.matmul(rows, columns, inner) + rates.matmul(inner, rows, columns)
            for rows, inner, columns in products
        )
        there += 2 * width * rates.function + rates.step
        back += width * rates.entry + 8 * rates.step  # at most six entries of the tape
    return there, back + 4 * rates.step


def _symmetries(certificate: Certificate) -> float:
    spec, lower, rates = certificate.spec, certificate.claim.lower, RESIDUES
    size, rank = certificate.claim.parameters, certificate.upper.rank
    linear, convolutional = spec.degree == 1, spec.convolutional
    counts = vector_counts(tuple(slots(spec)), linear=linear, convolutional=convolutional)
    vectors, at_once = sum(counts), max(1, CHUNK_ENTRIES // size)
    chunks = sum(count // at_once + 1 for count in counts)
    blocks = min(rank, chunks)
    widest = max(max(spec.widths), *(layer.weights // layer.units for layer in spec.layers))
    entries = vectors * (2 * widest + 1)
    total = 2 * entries * rates.entry + vectors * rates.step
    # every vector is held against every row of the Jacobian
    total += vectors * size * lower * rates.product + chunks * rates.step
    total += (vectors * (size + lower) + chunks * size * lower) * rates.copy
    # what is known already is taken off
    total += vectors * rank * (rates.entry + size * rates.product) + chunks * blocks * rates.step
    total += (vectors * rank + chunks * rank * size + blocks * vectors * size) * rates.copy
    # what is left is brought into echelon form and kept
    most = min(at_once, size, max(counts, default=0))
    total += vectors * most * size * rates.product + 3 * vectors * size * rates.copy
    return total + chunks * rates.step + rank * size * rates.entry
