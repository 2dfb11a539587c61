"""Graphs of stacks and polynomial networks: derivatives agree with those found in other ways."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from flint import arb, ctx

from segre.kernel.arrays import Array
from segre.kernel.balls import Balls, real_inputs, real_weights
from segre.kernel.document import Spec
from segre.kernel.network import graph_of
from segre.kernel.point import Batch, Point
from segre.kernel.residues import Residues, cut
from segre.kernel.witness import argument_count
from segre.spec import Network
from support.draws import draws
from support.mixed_stacks import random_mixed_stack
from support.polynomials import random_polynomials
from support.scalar_transformer import u

P = 2147483629
Dual = tuple[int, int]
Table = list[list[Dual]]

SPECS = [
    "lightning/d=2,3/a=1/t=2",
    "lightning/d=2,2,3/a=1,2/heads=2,1/t=2",
    "lightning/d=3,2,2/a=2/heads=2/dv=1,2/t=1",
    "softmax/d=2,3/a=2/t=3",
    "softmax/d=3,2,2/a=1,2/heads=1,2/dv=none,1/t=2",
    "softmax/d=2,2,2/a=1/heads=2/dv=2/t=1",
]


# Numbers x + y eps with eps^2 = 0, one matrix entry at a time: forward mode, by hand.


def times(x: Dual, y: Dual) -> Dual:
    return x[0] * y[0] % P, (x[0] * y[1] + x[1] * y[0]) % P


def plus(x: Dual, y: Dual) -> Dual:
    return (x[0] + y[0]) % P, (x[1] + y[1]) % P


def multiply(A: Table, B: Table) -> Table:
    result = []
    for row in A:
        line = []
        for column in zip(*B, strict=True):
            total = (0, 0)
            for x, y in zip(row, column, strict=True):
                total = plus(total, times(x, y))
            line.append(total)
        result.append(line)
    return result


def transpose(A: Table) -> Table:
    return [list(column) for column in zip(*A, strict=True)]


def softmax(Z: Table, exp: Callable[[int], int]) -> Table:
    E = [[(exp(z), exp(z) * dz % P) for z, dz in row] for row in Z]
    columns = list(zip(*E, strict=True))
    sums = [(sum(x for x, _ in c) % P, sum(y for _, y in c) % P) for c in columns]
    inverses = [(pow(x, -1, P), -y * pow(x, -2, P) % P) for x, y in sums]
    return [[times(e, s) for e, s in zip(row, inverses, strict=True)] for row in E]


def forward(net: Network, weights: list[Dual], X: Table, exp: Callable[[int], int]) -> Table:
    rest = iter(weights)

    def tensor(heads: int, rows: int, columns: int) -> list[Table]:
        return [[[next(rest) for _ in range(columns)] for _ in range(rows)] for _ in range(heads)]

    for layer in net.layers:
        head = layer
        K = tensor(head.heads, head.a, layer.width_in)
        Q = tensor(head.heads, head.a, layer.width_in)
        if head.dv is None:
            V = tensor(head.heads, layer.width_out, layer.width_in)
        else:
            W = tensor(head.heads, head.dv, layer.width_in)
            O = tensor(head.heads, layer.width_out, head.dv)  # noqa: E741
            V = [multiply(o, w) for o, w in zip(O, W, strict=True)]
        total: Table = [[(0, 0)] * net.t for _ in range(layer.width_out)]
        for h in range(head.heads):
            S = multiply(transpose(multiply(K[h], X)), multiply(Q[h], X))
            if net.score == "softmax":
                S = softmax(S, exp)
            Y = multiply(multiply(V[h], X), S)
            total = [
                [plus(x, y) for x, y in zip(a, b, strict=True)]
                for a, b in zip(total, Y, strict=True)
            ]
        X = total
    assert next(rest, None) is None
    return X


@pytest.mark.parametrize("spec", SPECS)
def test_outputs_and_every_derivative(spec: str) -> None:
    net, field = Network.parse(spec), Residues(P, 5)
    graph = graph_of(net)
    assert graph.parameters == net.parameters
    point, shape = Point(graph, field, field.weights(graph)), graph.input_shape

    def inputs(numbers: list[int]) -> Batch:
        return Batch(field.inputs(shape, numbers, np.zeros((len(numbers), shape[1]), np.uint64)))

    def exp(z: int) -> int:
        return 1 + u(5, 2, z) % (P - 1) if z else 1

    rows = [(n, o) for n in (4, 0) for o in range(net.widths[-1] * net.t)]
    random.Random(0).shuffle(rows)
    J = point.jacobian(rows, inputs)
    values = point.evaluate(inputs([0, 4]))[1][graph.output]
    weights = [u(5, 0, j) % P for j in range(net.parameters)]
    X = {n: [[(int(x), 0) for x in row] for row in inputs([n]).inputs[0]] for n in (0, 4)}
    for j in range(net.parameters):
        moved = [(w, int(i == j)) for i, w in enumerate(weights)]
        outputs = {n: forward(net, moved, X[n], exp) for n in (0, 4)}
        for i, (n, o) in enumerate(rows):
            r, c = divmod(o, net.t)
            assert (values[n // 4, r, c], J[i, j]) == outputs[n][r][c]


def others() -> list[Spec]:
    """Mixed stacks with every option, and polynomial networks."""
    mixed = [random_mixed_stack(seed) for seed in draws(60, 12)]
    return [*mixed, *random_polynomials(3, len(draws(30, 6)))]


@pytest.mark.parametrize("spec", others(), ids=str)
def test_derivatives_are_differences(spec: Spec) -> None:
    """Reverse mode agrees with central differences in 256 bits."""
    graph = graph_of(spec)
    with ctx.workprec(256):
        step, vector = (
            arb((1, -60)),
            np.hstack([w.reshape(1, -1) for w in real_weights(graph, 1).values()]),
        )
        batch = Batch(real_inputs(graph, 1, [0]))

        def value(j: int, shift: arb) -> Array:
            moved = vector.copy()
            moved[0, j] += shift
            _, values = Point(graph, Balls(), cut(graph, moved)).evaluate(batch)
            return values[graph.output].ravel()

        count = len(value(0, arb(0)))
        J = Point(graph, Balls(), cut(graph, vector)).jacobian(
            [(0, o) for o in range(count)], lambda _: batch
        )
        for j in random.Random(0).sample(range(graph.parameters), min(8, graph.parameters)):
            slopes = (value(j, step) - value(j, -step)) / (2 * step)
            assert all(
                abs(error) < 1e-25 * (1 + abs(slope))
                for error, slope in zip(slopes - J[:, j], slopes, strict=True)
            )


def test_symmetric_scores_are_counted_once() -> None:
    """Two heads with all four pairs, one head with the three pairs k <= q."""
    net = Network.parse("softmax/d=2,1,2/a=1/heads=2,1/t=2")
    assert argument_count(graph_of(net)) == 2 * 4 + 3
