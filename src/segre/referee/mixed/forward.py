"""What does a mixed stack compute, and how does it depend on every weight? Sections H3 and H4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce

from segre.referee.meter import charge
from segre.referee.mixed.heads import Head
from segre.referee.mixed.pattern import arguments_of, pattern
from segre.referee.mixed.weights import Layout
from segre.referee.transformers.numbers import Matrix, Numbers, Radicand, Salts, Scalar
from segre.referee.transformers.recording import Recording
from segre.referee.transformers.tape import Tape
from segre.referee.transformers.tensors import Key


def record(
    layout: Layout,
    numbers: Numbers,
    weights: Mapping[Key, Matrix],
    inputs: Matrix,
    salts: Sequence[Salts],
) -> Recording:
    """Evaluate a stack; `salts` are by source and token."""
    tape = Tape(numbers)
    leaves = {key: tape.leaf(matrix) for key, matrix in weights.items()}
    arguments: list[Scalar] = []
    x = tape.constant(inputs)
    for stage, groups in enumerate(layout.layers):
        x = _Stage(tape, leaves, arguments, stage, salts[stage + 1]).layer(x, groups)
    return Recording(tape, tuple(leaves.values()), x, tuple(arguments))


@dataclass
class _Stage:
    """One layer that is being evaluated."""

    tape: Tape
    leaves: Mapping[Key, int]
    arguments: list[Scalar]
    number: int
    salts: Salts
    roots: int = field(default=0)

    def layer(self, x: int, groups: list[list[Head]]) -> int:
        """What a layer makes of tokens: all roots come before all exponentials."""
        pairs = []
        for heads in groups:
            keys, queries = [self._keys(x, h) for h in heads], [self._queries(x, h) for h in heads]
            if heads[0].mechanism.unit != "none":
                keys, queries = self._unit(heads, keys), self._unit(heads, queries)
            pairs.append((keys, queries))
        written = [
            part
            for heads, (keys, queries) in zip(groups, pairs, strict=True)
            for part in self._group(x, heads, keys, queries)
        ]
        return reduce(self.tape.sum, written)

    def _group(self, x: int, heads: list[Head], keys: list[int], queries: list[int]) -> list[int]:
        tape = self.tape
        feature, weigh = heads[0].mechanism.feature, heads[0].mechanism.weigh
        if feature != "none":
            keys = [self._feature(feature, z) for z in keys]
            queries = [self._feature(feature, z) for z in queries]
        mixed = []
        for head, k, q in zip(heads, keys, queries, strict=True):
            scores = tape.pairing(k, q)
            if weigh == "exp":
                self.arguments += arguments_of(head, tape.values[scores])
            decay = self.leaves[head.decays[0]] if head.decays else None
            P = pattern(tape, head, scores, decay, self.salts)
            mixed.append(tape.product(self._compressed(x, head, "V"), P))
        return [self._written(x, head, y) for head, y in zip(heads, mixed, strict=True)]

    # Keys, queries and values.

    def _keys(self, x: int, head: Head) -> int:
        return self._biased(self._compressed(x, head, "K"), head, "b_K")

    def _queries(self, x: int, head: Head) -> int:
        return self._biased(self.tape.product(self.leaves[head.key("W_Q")], x), head, "b_Q")

    def _biased(self, y: int, head: Head, name: str) -> int:
        bias = self.leaves.get(head.key(name))
        if bias is None:
            return y
        row = self.tape.constant(self.tape.numbers.ones(1, self.tape.values[y].ncols()))
        return self.tape.sum(y, self.tape.product(bias, row))

    def _compressed(self, x: int, head: Head, letter: str) -> int:
        """Keys before their bias, or values."""
        tape, one = self.tape, head.mechanism
        maps = [self.leaves[key] for key in head.taps(f"W_{letter}")]
        if one.conv == "none":
            return tape.product(maps[0], x)
        parts = [tape.product(x, self._places(head, i)) for i in range(one.kernel)]
        if one.conv == "full":
            made = [tape.product(W, part) for W, part in zip(maps, parts, strict=True)]
            return reduce(tape.sum, made)
        made = []
        for part, key in zip(parts, head.filters(letter), strict=True):
            factor, y = self.leaves[key], tape.product(maps[0], part)
            if one.conv == "shared":
                column = tape.constant(tape.numbers.ones(tape.values[y].nrows(), 1))
                factor = tape.product(column, factor)
            made.append(tape.rows_times(y, factor))
        return reduce(tape.sum, made)

    def _places(self, head: Head, place: int) -> int:
        """The matrix that takes the tokens s j + place, j = 0, 1, ..."""
        numbers, name = self.tape.numbers, ("places", head.mechanism, head.tokens, place)
        if name not in numbers.masks:
            charge(head.tokens * head.count * numbers.rates.entry)
            taken = numbers.matrix(head.tokens, head.count)
            for j in range(head.count):
                taken[head.mechanism.stride * j + place, j] = 1
            numbers.masks[name] = taken
        return self.tape.constant(numbers.masks[name])

    def _unit(self, heads: list[Head], matrices: list[int]) -> list[int]:
        """Keys or queries of a group, over their lengths: one root of the stage."""
        tape, numbers = self.tape, self.tape.numbers
        layer, a = heads[0].mechanism.unit == "layer", heads[0].a
        sums = numbers.ones(1, a) * 1
        mean = tape.constant(sums * numbers.number(Fraction(1, a)))
        spread = tape.constant(numbers.ones(a, 1))
        result = []
        for h, x in enumerate(matrices):
            if layer:
                x = tape.sum(x, tape.scaled_by(tape.product(spread, tape.product(mean, x)), -1))
            q = tape.product(mean if layer else tape.constant(sums), tape.times(x, x))
            first = Radicand(self.number, self.roots, h * tape.values[x].ncols())
            result.append(tape.columns_times(x, tape.inverse_roots(q, first, self.salts)))
        self.roots += 1
        return result

    # Functions.

    def _feature(self, feature: str, z: int) -> int:
        tape = self.tape
        if feature == "square":
            return tape.times(z, z)
        if feature == "exp":
            self.arguments += tape.values[z].entries()
            return tape.exp(z, self.salts)
        if feature == "silu":
            return tape.times(z, self._sigmoid(z))
        y = tape.times(z, tape.step(z, self.salts))
        if feature == "relu":
            return y
        return tape.sum(y, tape.exp(tape.sum(z, tape.scaled_by(y, -1)), self.salts))

    def _sigmoid(self, z: int) -> int:
        """1 / (1 + exp(-z)); its arguments are noted."""
        minus = self.tape.scaled_by(z, -1)
        self.arguments += self.tape.values[minus].entries()
        return self.tape.inverses(self.tape.shifted(self.tape.exp(minus, self.salts), 1))

    def _written(self, x: int, head: Head, y: int) -> int:
        """What a head writes, after its gate."""
        tape = self.tape
        for key in head.gates:
            gate = self._sigmoid(tape.product(self.leaves[key], x))
            each = head.mechanism.gate == "element"
            y = tape.times(y, gate) if each else tape.columns_times(y, gate)
        return y if head.dv is None else tape.product(self.leaves[head.key("W_O")], y)
