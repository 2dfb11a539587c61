"""Does the lower bound hold? A minor of the Jacobian is regular: section 5 of the page.

Mod p, exponentials, roots and angles are drawn, and witness.py checks that they may be
(docs/soundness.md, "The lower bound" and "Lower bound mod p"). In balls they are the true ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx

from segre.kernel.arrays import Array, Salts
from segre.kernel.balls import TYPES, Balls, UncertainError, real_inputs, real_weights
from segre.kernel.constants import factors
from segre.kernel.document import (
    WORD,
    Certificate,
    RejectionError,
    Spec,
    distinct,
    items,
    keys,
    whole,
)
from segre.kernel.graph import Graph
from segre.kernel.linear import determinant, determinant_work
from segre.kernel.meter import Progress, Rates, meter
from segre.kernel.point import Batch, Point
from segre.kernel.residues import Residues
from segre.kernel.witness import (
    check_independence,
    check_roots,
    independence_work,
    most_inputs,
    read_independence,
    read_roots,
    read_salts,
)
from segre.transformer.spec import Transformer

FEWEST_BITS, MOST_BITS = 64, 4096
_PIECEWISE = ("step", "choose")


def check(certificate: Certificate, graph: Graph, checks: list[str], progress: Progress) -> None:
    """Check the lower bound, and add the sentences of what holds."""
    drawn = graph.roots or any(node.data.kind == "cos" for node in graph.constants)
    if drawn and certificate.prime % 4 != 3:
        raise RejectionError(f"point.prime: {certificate.prime} is not 3 mod 4")
    field = Residues(certificate.prime, certificate.seed)
    point = Point(graph, field, field.weights(graph))
    if certificate.claim.lower_by == "minor":
        _modular(certificate, point, field, checks, progress)
    else:
        _in_balls(certificate, graph, checks, progress)


def _places(lower: Any, size: int, inputs: int, graph: Graph) -> tuple[list[Any], list[int]]:
    """Rows and columns of a minor, all distinct."""
    outputs = prod(graph.shape(graph.output))
    rows = []
    for i, row in enumerate(items(lower["rows"], "lower.rows", size)):
        where = f"lower.rows[{i}]"
        n, o = items(row, where, 2)
        rows.append((whole(n, where, 0, inputs - 1), whole(o, where, 0, outputs - 1)))
    columns = [
        whole(column, f"lower.columns[{i}]", 0, graph.parameters - 1)
        for i, column in enumerate(items(lower["columns"], "lower.columns", size))
    ]
    distinct(rows, "lower.rows")
    distinct(columns, "lower.columns")
    return rows, columns


# Mod p.


def provable(spec: Spec, graph: Graph) -> bool:
    """Whether a minor mod p proves anything: only if what is drawn is free.

    Inputs must be free (no vocabulary, no patches), nothing piecewise, and every exponential and
    normal cdf must have its argument noted; rotations must have rational angles, the same in all
    layers that turn; and no angles or decays may meet the sqrt(2/pi) of gelu-tanh.
    """
    if not _noted(graph) or any(node.op in _PIECEWISE for node in graph.nodes):
        return False
    if not isinstance(spec, Transformer):
        return True
    constants = spec.rotary_dim > 0 or spec.decay != "none"
    if spec.vocab or spec.patch or (constants and spec.mlp in ("gelu-tanh", "geglu-tanh")):
        return False
    turning = {
        node.data.data for node in graph.nodes if node.op == "constant" and node.data.kind == "cos"
    }
    return len(spec.rotations) <= 1 and all(None not in factors(own) for own in turning)


def _noted(graph: Graph) -> bool:
    """Whether the argument of every exponential, and its square for phi, is among the arguments."""
    noted = {argument.node for argument in graph.arguments}
    products = (graph.nodes[node].args for node in noted if graph.nodes[node].op == "mul")
    squares = {a for a, b in products if a == b}
    return all(
        node.args[0] in (noted if node.op == "exp" else squares)
        for node in graph.nodes
        if node.op in ("exp", "phi")
    )


def _modular(
    certificate: Certificate,
    point: Point,
    field: Residues,
    checks: list[str],
    progress: Progress,
) -> None:
    graph, claim, sections = point.graph, certificate.claim, certificate.sections
    lower = keys(sections["lower"], ("kind", "rows", "columns", "determinant"), "lower", ("salts",))
    if not provable(certificate.spec, graph):
        raise RejectionError("lower.kind: a minor mod p proves nothing about this architecture")
    rows, columns = _places(lower, claim.lower, most_inputs(graph), graph)
    claimed = whole(lower["determinant"], "lower.determinant", 1, field.prime - 1)
    independence = read_independence(sections["independence"], graph, field.prime)
    roots = read_roots([] if sections["roots"] is None else sections["roots"], graph)
    salts = _salts(lower.get("salts"), sorted({n for n, _ in rows}), graph)
    size = claim.lower
    total = point.work(rows) + point.passes(len(roots)) + determinant_work(size)
    meter().require(total + (independence_work(point, independence) if independence else 0))
    check_roots(point, field, roots, progress)
    if roots:
        radicands = f"Each of {len(roots)} radicands" if len(roots) > 1 else "The one radicand"
        checks.append(f"{radicands} is no square at some point.")

    def inputs(numbers: Sequence[int]) -> Batch:
        own = np.array([salts[n] for n in numbers])
        return Batch(field.inputs(graph.input_shape, numbers, own[:, 0]), own)

    found = determinant(point.jacobian(rows, inputs, columns, progress), field.prime)
    if found != claimed:
        raise RejectionError(f"lower.determinant: {claimed}, but the minor is {found} mod p")
    checks.append(
        f"The Jacobian at the point of seed {certificate.seed} has a minor of size {size} that is "
        f"not zero mod p: the dimension is at least {size}."
    )
    if independence is not None:
        check_independence(point, field, independence, progress)
        checks.append(
            f"The arguments are independent: a determinant of size {len(independence.points)} of "
            "their differences is not zero mod p."
        )


def _salts(value: Any, numbers: list[int], graph: Graph) -> dict[int, Salts]:
    """The salts of inputs; without any, all are 0."""
    if value is None:
        return dict.fromkeys(numbers, np.zeros((graph.stages + 1, graph.input_shape[1]), np.uint64))
    keys(value, tuple(map(str, numbers)), "lower.salts")
    return {n: read_salts(value[str(n)], f"lower.salts.{n}", graph) for n in numbers}


# In balls.


def _in_balls(
    certificate: Certificate, graph: Graph, checks: list[str], progress: Progress
) -> None:
    claim, sections = certificate.claim, certificate.sections
    for key in ("independence", "roots"):
        if sections[key] is not None:
            raise RejectionError(f"{key}: a minor in balls has none; it must be null")
    lower = keys(sections["lower"], ("kind", "rows", "columns", "bits", "seed"), "lower")
    tokens = graph.input_shape[1]
    most = (WORD - TYPES) // tokens if graph.blocks else WORD // prod(graph.input_shape)
    rows, columns = _places(lower, claim.lower, most, graph)
    bits = whole(lower["bits"], "lower.bits", FEWEST_BITS, MOST_BITS)
    seed = whole(lower["seed"], "lower.seed", 0, WORD - 1)

    def inputs(numbers: Sequence[int]) -> Batch:
        return Batch(real_inputs(graph, seed, numbers))

    def prove() -> None:
        point = Point(graph, Balls(), real_weights(graph, seed))
        rates = point.numbers.rates
        meter().require(point.work(rows) + _regular_work(rates, len(rows)))
        prove_regular(point.jacobian(rows, inputs, columns, progress), rates)

    bits = _precise_enough(prove, bits)
    checks.append(
        f"The Jacobian at the real point of seed {seed} has a minor of size {claim.lower} that is "
        f"regular, in balls of {bits} bits: the dimension is at least {claim.lower}."
    )


def _precise_enough(prove: Callable[[], None], bits: int) -> int:
    """Prove something in balls of as many bits as it takes."""
    while True:
        try:
            with ctx.workprec(bits):
                prove()
        except UncertainError as reason:
            if bits == MOST_BITS:
                raise RejectionError(f"lower: at {bits} bits, {reason}") from None
            bits = min(2 * bits, MOST_BITS)
        else:
            return bits


def _regular_work(rates: Rates, size: int) -> float:
    return 3 * rates.matmul(size, size, size) + 4 * size * size * rates.entry


def prove_regular(entries: Array, rates: Rates) -> None:
    """Every matrix in A is regular: A R is close to 1 for some R, or it is not certain.

    If all rows of 1 - A R have absolute sums below 1, then A R is regular, and so is A.
    """
    size = len(entries)
    meter().charge(_regular_work(rates, size))
    meter().require_bytes(4 * size * size * (100 + ctx.prec // 4))
    A = arb_mat(size, size, entries.ravel().tolist())
    if not all(entry.is_finite() for entry in A.entries()):
        raise UncertainError("an entry of the Jacobian is not known at all")
    if not any(_near_one(A * R, size) for R in _inverses(A, size)):
        raise UncertainError("the minor is not certainly regular")


def _inverses(A: arb_mat, size: int) -> Iterator[arb_mat]:
    """Candidates for R, no bounds needed: in floats, and if that is too coarse in balls."""
    middle = A.mid()
    floats = np.array([float(x) for x in middle.entries()]).reshape(size, size)
    with suppress(np.linalg.LinAlgError), np.errstate(all="ignore"):
        inverse = np.linalg.inv(floats)
        if abs(floats @ inverse - np.eye(size)).sum() < 1:
            yield arb_mat(size, size, inverse.ravel().tolist())
    one = arb_mat(size, size, [int(i == j) for i in range(size) for j in range(size)])
    with suppress(ZeroDivisionError):
        yield middle.solve(one, algorithm="approx").mid()


def _near_one(product: arb_mat, size: int) -> bool:
    """Whether all rows of 1 minus a matrix have absolute sums below 1."""
    rows = product.tolist()
    for i in range(size):
        rows[i][i] -= 1
    return all(sum((abs(entry) for entry in row), arb(0)) < 1 for row in rows)
