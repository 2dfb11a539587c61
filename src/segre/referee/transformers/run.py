"""What do the parts of a transformer have in common? Linear maps, norms and activations.

Section 3, recorded on a tape over any numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from segre.referee.transformers.numbers import Matrix, Numbers, Radicand, Salts, Scalar
from segre.referee.transformers.stages import NORMAL, QUICK, RELU, SIGMOID, TANH
from segre.referee.transformers.tape import Tape
from segre.referee.transformers.weights import Key
from segre.transformer.spec import Transformer


@dataclass
class Run:
    """A transformer being evaluated: its tape, its weights on it, and where it stands."""

    spec: Transformer
    numbers: Numbers
    tape: Tape
    leaves: Mapping[Key, int]
    salts: Sequence[Salts]
    stage: int = 0
    root: int = 0
    arguments: list[Scalar] = field(default_factory=list)

    def enter(self, stage: int) -> None:
        """Begin a stage."""
        self.stage, self.root = stage, 0

    @property
    def here(self) -> Salts:
        """The salts of this stage."""
        return self.salts[self.stage + 1]

    def weight(self, part: int, name: str, number: int = 0) -> int | None:
        """A weight matrix on the tape, if there is one."""
        return self.leaves.get((part, name, number))

    def linear(self, x: int, part: int, name: str, number: int = 0) -> int:
        """W x + b, with the bias b of W if it has one."""
        y = self.tape.product(self.leaves[part, "W_" + name, number], x)
        bias = self.weight(part, "b_" + name, number)
        return y if bias is None else self.add_column(y, bias)

    def add_column(self, x: int, column: int) -> int:
        """Add a column to every column."""
        ones = self.tape.constant(self.numbers.ones(1, self.tape.values[x].ncols()))
        return self.tape.sum(x, self.tape.product(column, ones))

    def open_root(self) -> int:
        """The number of the next root of this stage."""
        self.root += 1
        return self.root - 1

    def norm(self, x: int, part: int, name: str) -> int:
        """The norm `name` of every column, of the kind that the spec says."""
        return self.normalised(x, part, name, self.spec.norm == "layer", self.open_root(), 0)

    def normalised(
        self, x: int, part: int, name: str, centred: bool, root: int, number: int
    ) -> int:
        """A norm with a given root; `number` counts the matrices that share it."""
        return self.with_gain(self.standard(x, centred, root, number), part, name)

    def standard(self, x: int, centred: bool, root: int, number: int = 0) -> int:
        """What a norm does before its gain and its bias."""
        tape, width = self.tape, self.tape.values[x].nrows()
        share = self.numbers.number(Fraction(1, width))
        mean = tape.constant(self.numbers.ones(1, width) * share)
        if centred:
            spread = tape.constant(self.numbers.ones(width, 1))
            x = tape.sum(x, tape.scaled_by(tape.product(spread, tape.product(mean, x)), -1))
        q = tape.shifted(tape.product(mean, tape.times(x, x)), self.spec.eps)
        first = Radicand(self.stage, root, number * self.spec.t)
        return tape.columns_times(x, tape.inverse_roots(q, first, self.here))

    def with_gain(self, y: int, part: int, name: str) -> int:
        """What a norm does last."""
        if (gain := self.weight(part, name + ".gain")) is not None:
            y = self.tape.rows_times(y, gain)
        bias = self.weight(part, name + ".bias")
        return y if bias is None else self.add_column(y, bias)

    def columns_over_sum(self, x: int, more: bool = False) -> int:
        """Divide every column by its sum, or by one more than that."""
        ones = self.tape.constant(self.numbers.ones(1, self.tape.values[x].nrows()))
        total = self.tape.product(ones, x)
        total = self.tape.shifted(total, 1) if more else total
        return self.tape.columns_times(x, self.tape.inverses(total))

    def sigmoid_of_minus(self, argument: int) -> int:
        """1 / (1 + exp(argument))."""
        return self.tape.inverses(self.tape.shifted(self.tape.exp(argument, self.here), 1))

    def tanh(self, x: int) -> int:
        """2 sigma(2 x) - 1."""
        sigma = self.sigmoid_of_minus(self.tape.scaled_by(x, -2))
        return self.tape.shifted(self.tape.scaled_by(sigma, 2), -1)

    def activation(self, x: int) -> int:
        """The nonlinear function of the MLP; its arguments are noted."""
        tape, kind = self.tape, self.spec.mlp
        if kind in SIGMOID:
            argument = tape.scaled_by(x, Fraction(-1702, 1000) if kind in QUICK else -1)
            self.note(tape.values[argument])
            return tape.times(x, self.sigmoid_of_minus(argument))
        if kind in TANH:
            cube = tape.times(x, tape.times(x, x))
            inner = tape.sum(x, tape.scaled_by(cube, Fraction(44715, 10**6)))
            factor = self.numbers.root_of_two_over_pi()
            argument = tape.scaled_by(tape.scaled(inner, factor), -2)
            self.note(tape.values[argument])
            return tape.times(x, self.sigmoid_of_minus(argument))
        if kind in NORMAL:
            self.note(self.numbers.times(tape.values[x], tape.values[x]))
            return tape.times(x, tape.normal(x, self.here))
        if kind in RELU:
            y = tape.times(x, tape.step(x, self.here))
            return tape.times(y, y) if kind == "relu2" else y
        return x

    def note(self, arguments: Matrix) -> None:
        """Note arguments, row-major."""
        self.arguments += arguments.entries()
