"""Can a certificate of a mixed stack be checked with bounded time and memory?

Asked before any matrix is made. The estimates are rough and depend on sizes only.
"""

from __future__ import annotations

from segre.referee.meter import RESIDUES, balls, meter
from segre.referee.mixed.alike import alike
from segre.referee.mixed.document import Certificate
from segre.referee.mixed.heads import Head
from segre.referee.mixed.spans import parallel, units
from segre.referee.mixed.tensor import coefficient_count
from segre.referee.mixed.weights import Layout
from segre.referee.transformers.content import BallMinor
from segre.referee.transformers.limits import Effort, held, minor_work, proof
from segre.referee.transformers.rank import CHUNK_ENTRIES

_PYTHON_BYTES = 100  # one entry handled by Python, with its temporaries
_COPIED = 20  # to read or write an entry takes as long as so many multiplications


def effort_of(layout: Layout) -> Effort:
    """The effort of one evaluation."""
    effort = Effort(steps=20)
    for groups in layout.layers:
        for heads in groups:
            _add(effort, heads[0], len(heads))
    return effort


def _product(effort: Effort, times: int, rows: int, inner: int, columns: int) -> None:
    """A product of matrices; backwards it is two."""
    touched = rows * inner + inner * columns + rows * columns
    effort.products += 2 * times * (rows * inner * columns + _COPIED * touched)
    effort.steps += 4 * times


def _scaled(effort: Effort, times: int, rows: int, columns: int) -> None:
    """Every column, or row, by a factor: a product with a diagonal matrix."""
    for r, c in ((rows, columns), (columns, rows)):
        _product(effort, times, r, c, c)
        effort.fresh += times * c * c
    effort.entries += times * (rows + columns)
    effort.functions += 3 * times * (rows + columns)
    effort.steps += 6 * times


def _add(effort: Effort, head: Head, n: int) -> None:
    one, t, m = head.mechanism, head.tokens, head.count
    a, v, d = head.a, head.inner, head.width_in
    effort.steps += 60 * n
    places = 1 if one.conv == "none" else one.kernel
    for rows in (a, v):
        _product(effort, n * places, rows, d, m)
        if one.conv != "none":
            _product(effort, n * places, d, t, m)
            _scaled(effort, n * places, rows, m)
            effort.steps += 12 * n * places
            effort.fresh += places * t * m
    _product(effort, 3 * n, a, d + 1, t)
    if one.unit != "none":
        _product(effort, 12 * n, a, 1, t)
        _scaled(effort, 2 * n, a, t)
        effort.entries += 12 * n * a * t
        effort.functions += 24 * n * t
        effort.steps += 40 * n
    if one.feature != "none":
        effort.entries += 24 * n * a * t
        effort.functions += 12 * n * a * t
        effort.steps += 40 * n
    _product(effort, n, m, a, t)
    _product(effort, n, v, m, t)
    effort.entries += n * m * t * (6 + 3 * one.order)
    effort.functions += 2 * n * m * t
    effort.fresh += 8 * n * m * t
    effort.steps += 10 * n * one.order
    if one.normalise != "none":
        _product(effort, 4 * n, m, 1, t)
        _scaled(effort, 2 * n, m, t)
        effort.steps += 20 * n
    if one.gate != "none":
        _product(effort, n, v, d, t)
        _scaled(effort, n, v, t)
        effort.entries += 12 * n * v * t
        effort.functions += 6 * n * v * t
        effort.steps += 20 * n
    if head.dv is not None:
        _product(effort, n, head.width_out, v, t)


def check_size(certificate: Certificate) -> None:
    """Raise `TooLargeError` if the certificate cannot be checked within the limits."""
    layout, spec, t = certificate.layout, certificate.spec, certificate.spec.t
    watched = 2 * spec.layers[-1].width_out * t
    widest = max(max(layer.width_in, layer.width_out) for layer in spec.layers)
    meter().require_bytes(
        max(
            held(certificate, effort_of(layout), watched, certificate.upper.rank),
            _PYTHON_BYTES * t * max(t, widest),
            _PYTHON_BYTES * widest * widest,
            *(8 * weights * weights for _, _, weights in _tensors(layout)),
        )
    )
    meter().require(work(certificate))


def _ranks(layout: Layout) -> list[int]:
    """The ranks of B_0, B_1, ..., where they exist."""
    ranks = [layout.spec.layers[0].width_in]
    for number, layer in enumerate(layout.spec.layers, start=1):
        reached = 0
        for unit in units(layout.heads(number)):
            rows = unit.rows
            most = len(unit.heads[0].values) * ranks[-1]
            reached += rows if unit.rowwise else min(rows, most)
        ranks.append(min(layer.width_out, reached))
    return ranks


def _tensors(layout: Layout) -> list[tuple[list[Head], int, int]]:
    """The alike heads of family 20, the size N of their tensor, and their number of weights."""
    ranks, lines, result = _ranks(layout), parallel(layout), []
    for number in range(1, len(layout.layers) + 1):
        for heads in alike(layout.heads(number)):
            head = heads[0]
            joint = head.alone or lines[number - 1]
            N = coefficient_count(head.width_out, ranks[number - 1], joint)
            own = (2 * head.a + head.inner) * head.width_in + head.width_out * (head.dv or 0)
            if head.mechanism.bias == "none" and len(heads) * own > N:
                result.append((heads, N, len(heads) * own))
    return result


def work(certificate: Certificate) -> float:
    """What checking it will be charged, at most and about, in seconds; but for balls."""
    layout, claim, rates = certificate.layout, certificate.claim, RESIDUES
    spec, size, rank = certificate.spec, claim.parameters, certificate.upper.rank
    watched = 2 * spec.layers[-1].width_out * spec.t
    drawn = 3 * spec.layers[0].width_in * spec.t * rates.function
    parts = (certificate.lower, certificate.independence, certificate.roots)
    total = proof(claim, *parts, watched, drawn).work(effort_of(layout))
    vectors, handled = _vectors(layout)
    chunk = max(1, CHUNK_ENTRIES // size)
    total += vectors * size * (watched + 2 * rank + min(size, chunk)) * rates.product
    total += vectors * ((3 * rank + 6 * size) * rates.copy + rank * rates.entry + 4 * rates.step)
    total += handled * (2 * rates.entry + 6 * rates.copy) + (rank + watched) * size * rates.entry
    for heads, N, weights in _tensors(layout):
        total += rates.matmul(N, N, weights) + (N + weights) * weights * rates.entry
        total += sum(_tensor_work(head, N) for head in heads[:1]) * len(heads)
    return total + _span_work(layout) + 200 * rates.step


def _tensor_work(head: Head, N: int) -> float:
    rates, d, v, after = RESIDUES, head.width_in, head.inner, head.width_out
    total = rates.matmul(N, d * d, 2 * head.a * d) + 2 * head.a * d * d * d * rates.entry
    total += rates.matmul(N, after * d, v * d + after * v) + 12 * N * rates.entry
    return total + after * d * (v * d + after * v) * (rates.entry + rates.copy) + 20 * rates.step


def _vectors(layout: Layout) -> tuple[int, float]:
    """How many tangent vectors section H8 draws up, and how many entries these have."""
    vectors, handled = 0, 0.0
    sizes = [0] * (len(layout.layers) + 2)
    keys = [0] * (len(layout.layers) + 2)
    for tensor in layout.tensors:
        number = next(
            i for i, groups in enumerate(layout.layers, 1) if groups[-1][0].part >= tensor.part
        )
        sizes[number] += tensor.size
        keys[number] += tensor.count
    for number, layer in enumerate(layout.spec.layers, start=1):
        heads = layout.heads(number)
        own, n, first = sizes[number], len(heads), heads[0]
        small = first.a**2 * 3 + (first.dv or 0) ** 2 + 6 * first.a + first.inner + 12
        singles = 5 * own + n * (small + first.width_in * 2)
        several = n * (n + 2) if len(heads) > 1 else 0
        pools = [unit for unit in units(heads) if unit.pool]
        several += sum((len(unit.heads) * (first.dv or 0)) ** 2 for unit in pools)
        between = layer.width_out**2
        vectors += singles + several + between
        widest = max(first.width_in, first.width_out, first.a, first.inner)
        # A vector of one head has the entries of that head; of all heads, of two layers.
        handled += singles * (own / n + 40) * (1 + n * (n > 1 and bool(pools)))
        handled += several * (2 * own / n + 40) * max(1, len(heads) if first.dv is None else 1)
        both = own + sizes[number + 1]
        handled += between * (both * (1 + widest / 100) + 8 * (keys[number] + keys[number + 1]))
        handled += singles * own / n * widest / 100
    return vectors, handled + 10 * vectors


def _span_work(layout: Layout) -> float:
    """What B_i and R_i take, at most and about."""
    rates, total = RESIDUES, 0.0
    for number, layer in enumerate(layout.spec.layers, start=1):
        d, after = layer.width_in, layer.width_out
        wide = max(d, after)
        for head in layout.heads(number):
            places = len(head.values)
            rows = 2 * head.a + 2 * head.inner + after
            total += 8 * places * rates.matmul(rows, wide, wide)
            total += 40 * places * rows * wide * rates.entry + 40 * rates.step
    return total


def check_bits(certificate: Certificate, minor: BallMinor, bits: int) -> None:
    """Raise `TooLargeError` if a minor in balls of so many bits takes too long."""
    size = certificate.claim.parameters
    meter().require_bytes((48 + bits // 4) * len(minor.rows) * size)
    meter().require(minor_work(effort_of(certificate.layout), size, minor, balls(bits)))
