"""What does the network compute at a point, and how does that depend on every weight?

Sections 2, 4 and 6 of the document: the forward map is recorded on a tape, Jacobian rows are
read off backwards, and scores are noted on the way for the witness of independence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from flint import nmod_mat

from segre.referee.meter import RESIDUES, charge
from segre.referee.residues import (
    INPUTS,
    WEIGHTS,
    WITNESS_INPUTS,
    WITNESS_WEIGHTS,
    Draw,
    Exponential,
)
from segre.referee.tape import Tape
from segre.spec import Network

Progress = Callable[[str, int, int], None]
Key = tuple[int, str, int]


@dataclass(frozen=True, slots=True)
class Slot:
    """One head of one weight tensor, and where its entries stand among all weights."""

    layer: int
    name: str
    head: int
    offset: int
    rows: int
    columns: int

    @property
    def key(self) -> Key:
        """(layer from 1, "K" | "Q" | "V" | "O", head from 1)."""
        return self.layer, self.name, self.head


def slots(net: Network) -> tuple[Slot, ...]:
    """All weight matrices in the order of the vector of weights."""
    return tuple(_slots(net))


def _slots(net: Network) -> Iterator[Slot]:
    offset = 0
    for number, layer in enumerate(net.layers, start=1):
        a, dv = layer.a, layer.dv
        before, after = layer.width_in, layer.width_out
        shapes = [("K", a, before), ("Q", a, before)]
        if dv is None:
            shapes += [("V", after, before)]
        else:
            shapes += [("V", dv, before), ("O", after, dv)]
        for name, rows, columns in shapes:
            for head in range(1, layer.heads + 1):
                yield Slot(number, name, head, offset, rows, columns)
                offset += rows * columns


@dataclass(frozen=True)
class Point:
    """A network with all weights chosen in F_p."""

    net: Network
    prime: int
    slots: tuple[Slot, ...]
    weights: dict[Key, nmod_mat]

    @classmethod
    def of(cls, net: Network, prime: int, entries: Sequence[int]) -> Point:
        """The point with this vector of weights."""
        places = slots(net)
        weights = {}
        for slot in places:
            size = slot.rows * slot.columns
            part = entries[slot.offset : slot.offset + size]
            weights[slot.key] = nmod_mat(slot.rows, slot.columns, part, prime)
        return cls(net, prime, places, weights)

    @classmethod
    def drawn(cls, net: Network, draw: Draw) -> Point:
        """The point of the Jacobian: stream 0."""
        return cls.of(net, draw.prime, draw.residues(WEIGHTS, 0, net.parameters))

    @classmethod
    def witness(cls, net: Network, draw: Draw, number: int) -> Point:
        """Witness point `number`: stream 3."""
        size = net.parameters
        return cls.of(net, draw.prime, draw.residues(WITNESS_WEIGHTS, number * size, size))


@dataclass(frozen=True)
class Recording:
    """A tape on which the network was evaluated, and where on it things stand."""

    tape: Tape
    leaves: tuple[int, ...]
    scores: tuple[nmod_mat, ...]
    output: int

    def gradient(self, row: int, column: int) -> list[nmod_mat | None]:
        """The derivatives of one output entry by every weight matrix, in their order."""
        bars = self.tape.adjoints(self.output, row, column)
        return [bars[leaf] for leaf in self.leaves]


def record(point: Point, tokens: nmod_mat, exp: Exponential | None) -> Recording:
    """Evaluate the network on tokens (the columns); no `exp` means lightning attention."""
    tape = Tape(point.prime)
    leaves = {slot.key: tape.leaf(point.weights[slot.key]) for slot in point.slots}
    scores = []
    X = tape.leaf(tokens)
    for number, layer in enumerate(point.net.layers, start=1):
        heads = []
        for head in range(1, layer.heads + 1):
            keys = tape.product(leaves[number, "K", head], X)
            queries = tape.product(leaves[number, "Q", head], X)
            S = tape.pairing(keys, queries)
            scores.append(tape.values[S])
            if exp is not None:
                S = tape.normalised(tape.exponential(S, exp))
            value = tape.product(tape.product(leaves[number, "V", head], X), S)
            if layer.dv is not None:
                value = tape.product(leaves[number, "O", head], value)
            heads.append(value)
        X = reduce(tape.sum, heads)
    return Recording(tape, tuple(leaves.values()), tuple(scores), X)


def exponential_of(net: Network, draw: Draw) -> Exponential | None:
    """The function that stands for exp, if the network has one."""
    return draw.exponentials() if net.score == "softmax" else None


def jacobian(
    point: Point, draw: Draw, rows: Sequence[tuple[int, int]], progress: Progress
) -> nmod_mat:
    """Rows (input, output entry) of the Jacobian by all weights, section 4."""
    net, exp = point.net, exponential_of(point.net, draw)
    by_input: dict[int, list[int]] = {}
    for i, (n, _) in enumerate(rows):
        by_input.setdefault(n, []).append(i)
    result = nmod_mat(len(rows), net.parameters, point.prime)
    done = 0
    for n, members in by_input.items():
        tokens = draw.matrix(INPUTS, n, net.layers[0].width_in, net.t)
        recording = record(point, tokens, exp)
        for i in members:
            charge(net.parameters * RESIDUES.entry)
            gradient = recording.gradient(*divmod(rows[i][1], net.t))
            for slot, bar in zip(point.slots, gradient, strict=True):
                if bar is not None:
                    for j, entry in enumerate(bar.entries(), start=slot.offset):
                        result[i, j] = entry
            done += 1
            progress("Jacobian rows", done, len(rows))
    return result


def score_differences(net: Network, draw: Draw, number: int, reached: Sequence[int]) -> list[int]:
    """The row of witness point `number`, section 6; `reached` are the rho of section 7.1."""
    point = Point.witness(net, draw, number)
    exp = exponential_of(net, draw)
    width = net.layers[0].width_in
    X, Y = (draw.matrix(WITNESS_INPUTS, 2 * number + b, width, net.t) for b in (0, 1))
    here, there = (record(point, tokens, exp).scores for tokens in (X, Y))
    charge(2 * net.t * net.t * len(here) * RESIDUES.entry)
    differences = iter([S - T for S, T in zip(here, there, strict=True)])
    row: list[int] = []
    for rho, layer in zip(reached, net.layers, strict=False):
        for _ in range(layer.heads):
            difference = next(differences)
            row += [
                int(difference[k, q])
                for k in range(net.t)
                for q in range(net.t)
                if rho > 1 or k <= q
            ]
    return row + [int(entry) for entry in (X - Y).entries()]
