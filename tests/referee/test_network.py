"""Reverse-mode derivatives agree with derivatives computed in other ways, in plain integers."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product

import pytest
from flint import nmod_mat

from segre.referee.network import Point, jacobian, record, score_differences, slots
from segre.referee.rejection import RejectionError
from segre.referee.residues import Draw
from segre.referee.tape import Tape
from segre.spec import Network

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


def silently(*_: object) -> None:
    pass


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


def drawn_input(net: Network, draw: Draw, n: int) -> Table:
    matrix = draw.matrix(1, n, net.widths[0], net.t)
    return [[(int(x), 0) for x in row] for row in matrix.tolist()]


@pytest.mark.parametrize("spec", SPECS)
def test_outputs_and_every_derivative(spec: str) -> None:
    net, draw = Network.parse(spec), Draw(P, 5)
    point, exp = Point.drawn(net, draw), draw.exponentials()
    rows = [(n, o) for n in (4, 0) for o in range(net.widths[-1] * net.t)]
    random.Random(0).shuffle(rows)
    J = jacobian(point, draw, rows, silently)
    weights = draw.residues(0, 0, net.parameters)
    for j in range(net.parameters):
        moved = [(w, int(i == j)) for i, w in enumerate(weights)]
        outputs = {n: forward(net, moved, drawn_input(net, draw, n), exp) for n in (0, 4)}
        for i, (n, o) in enumerate(rows):
            assert int(J[i, j]) == outputs[n][o // net.t][o % net.t][1]
    tokens = draw.matrix(1, 0, net.widths[0], net.t)
    recording = record(point, tokens, exp if net.score == "softmax" else None)
    plain = forward(net, [(w, 0) for w in weights], drawn_input(net, draw, 0), exp)
    computed = recording.tape.values[recording.output].tolist()
    assert [[int(x) for x in row] for row in computed] == [[x for x, _ in row] for row in plain]


@pytest.mark.parametrize("spec", [s for s in SPECS if s.startswith("lightning")])
def test_lightning_by_interpolation(spec: str) -> None:
    """Outputs of two layers are cubic in each weight, so four values give the derivative."""
    net, draw = Network.parse(spec), Draw(P, 11)
    rows = [(0, o) for o in range(net.widths[-1] * net.t)]
    J = jacobian(Point.drawn(net, draw), draw, rows, silently)
    weights = draw.residues(0, 0, net.parameters)
    tokens = draw.matrix(1, 0, net.widths[0], net.t)
    sixth = pow(6, -1, P)
    for j in range(net.parameters):
        values = []
        for s in range(4):
            moved = [w + s * (i == j) for i, w in enumerate(weights)]
            recording = record(Point.of(net, P, moved), tokens, None)
            values.append([int(x) for x in recording.tape.values[recording.output].entries()])
        for o, (f0, f1, f2, f3) in enumerate(zip(*values, strict=True)):
            assert int(J[o, j]) == (-11 * f0 + 18 * f1 - 9 * f2 + 2 * f3) * sixth % P


def test_slots_tile_the_weights() -> None:
    for spec in SPECS:
        net = Network.parse(spec)
        end = 0
        for slot in slots(net):
            assert slot.offset == end
            end += slot.rows * slot.columns
        assert end == net.parameters


def test_score_differences() -> None:
    net, draw = Network.parse("softmax/d=2,1,2/a=1/heads=2,1/t=2"), Draw(P, 3)
    row = score_differences(net, draw, 6, (2, 1, 2))
    # Two heads with all four pairs, one head with the three pairs k <= q, four coordinates.
    assert len(row) == 2 * 4 + 3 + 4
    weights = draw.residues(3, 6 * net.parameters, net.parameters)
    X, Y = (draw.residues(4, (12 + b) * 4, 4) for b in (0, 1))
    assert row[-4:] == [(x - y) % P for x, y in zip(X, Y, strict=True)]
    (k0, k1), (q0, q1) = weights[2:4], weights[6:8]

    def score(Z: list[int], k: int, q: int) -> int:
        return (k0 * Z[k] + k1 * Z[2 + k]) * (q0 * Z[q] + q1 * Z[2 + q])

    expected = [(score(X, k, q) - score(Y, k, q)) % P for k, q in product((0, 1), repeat=2)]
    assert row[4:8] == expected


def test_a_sum_that_is_zero_makes_the_point_unusable() -> None:
    tape = Tape(7)
    leaf = tape.leaf(nmod_mat(2, 1, [3, 4], 7))
    with pytest.raises(RejectionError, match="unusable"):
        tape.normalised(leaf)
