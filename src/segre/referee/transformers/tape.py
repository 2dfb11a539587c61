"""What are the derivatives of a matrix by the matrices it was computed from?

Reverse mode over any `Numbers`: matrix operations are recorded as they are carried out, and
read backwards once for each output entry. Constants, and what follows from constants only,
are passed over.

>>> from segre.referee.transformers.modular import Modular
>>> field = Modular(103, 0)
>>> tape = Tape(field)
>>> a, b = (tape.leaf(field.matrix(1, 1, [x])) for x in (3, 5))
>>> adjoints = tape.adjoints(tape.product(tape.product(a, b), b), 0, 0)
>>> [int(adjoints[x][0, 0]) for x in (a, b)]  # of a b^2: b^2 and 2 a b
[25, 30]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from segre.referee.meter import meter
from segre.referee.transformers.numbers import Matrix, Numbers, Radicand, Salts, Scalar

Pullback = Callable[[Matrix], Matrix]


class Tape:
    """A record of matrix operations; matrices are named by their place on it."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self.values: list[Matrix] = []
        self._pullbacks: list[list[tuple[int, Pullback]]] = []
        self._live: list[bool] = []
        self._meter = meter()

    def _times(self, A: Matrix, B: Matrix) -> Matrix:
        self._meter.charge(self.numbers.rates.matmul(A.nrows(), A.ncols(), B.ncols()))
        return A * B

    def _write(self, value: Matrix, *pullbacks: tuple[int, Pullback]) -> int:
        kept = [pullback for pullback in pullbacks if self._live[pullback[0]]]
        self.values.append(value)
        self._pullbacks.append(kept)
        self._live.append(bool(kept))
        return len(self.values) - 1

    def constant(self, value: Matrix) -> int:
        """Record a matrix by which no derivative is asked."""
        return self._write(value)

    def leaf(self, value: Matrix) -> int:
        """Record a matrix that is given, not computed."""
        node = self._write(value)
        self._live[node] = True
        return node

    # Linear algebra.

    def product(self, a: int, b: int) -> int:
        """Record A B."""
        A, B = self.values[a], self.values[b]
        return self._write(
            self._times(A, B),
            (a, lambda bar: self._times(bar, B.transpose())),
            (b, lambda bar: self._times(A.transpose(), bar)),
        )

    def pairing(self, a: int, b: int) -> int:
        """Record A^T B."""
        A, B = self.values[a], self.values[b]
        return self._write(
            self._times(A.transpose(), B),
            (a, lambda bar: self._times(B, bar.transpose())),
            (b, lambda bar: self._times(A, bar)),
        )

    def sum(self, a: int, b: int) -> int:
        """Record A + B."""
        return self._write(
            self.values[a] + self.values[b], (a, lambda bar: bar), (b, lambda bar: bar)
        )

    def scaled(self, a: int, factor: Scalar) -> int:
        """Record A times a number."""
        return self._write(self.values[a] * factor, (a, lambda bar: bar * factor))

    def scaled_by(self, a: int, factor: Fraction | int) -> int:
        """Record A times a rational number."""
        return self.scaled(a, self.numbers.number(Fraction(factor)))

    # Entry by entry.

    def times(self, a: int, b: int) -> int:
        """Record the product entry by entry."""
        A, B, times = self.values[a], self.values[b], self.numbers.times
        return self._write(
            times(A, B),
            (a, lambda bar: times(bar, B)),
            (b, lambda bar: times(bar, A)),
        )

    def shifted(self, a: int, number: Fraction | int) -> int:
        """Record A plus a rational number in every entry."""
        A = self.values[a]
        shift = self.numbers.ones(A.nrows(), A.ncols()) * self.numbers.number(Fraction(number))
        return self._write(A + shift, (a, lambda bar: bar))

    def columns_times(self, a: int, factors: int) -> int:
        """Record A with every column multiplied by its entry of a row."""
        A = self.values[a]
        D = self.numbers.diagonal(self.values[factors])
        return self._write(
            self._times(A, D),
            (a, lambda bar: self._times(bar, D)),
            (factors, lambda bar: self._dots(A, bar).transpose()),
        )

    def rows_times(self, a: int, factors: int) -> int:
        """Record A with every row multiplied by its entry of a column."""
        A = self.values[a]
        D = self.numbers.diagonal(self.values[factors])
        return self._write(
            self._times(D, A),
            (a, lambda bar: self._times(D, bar)),
            (factors, lambda bar: self._dots(A.transpose(), bar.transpose())),
        )

    def _dots(self, A: Matrix, B: Matrix) -> Matrix:
        """The products of columns of A with the same columns of B, as a column."""
        P = self._times(A.transpose(), B)
        size = P.nrows()
        return self.numbers.matrix(size, 1, [P[i, i] for i in range(size)])

    def powers(self, a: int, exponents: Sequence[Sequence[int | None]]) -> int:
        """Record the matrix of powers of one number; None stands for zero."""
        numbers, x = self.numbers, self.values[a][0, 0]
        rows, columns = len(exponents), len(exponents[0])
        flat = [n for row in exponents for n in row]
        known = [numbers.ones(1, 1)[0, 0]]
        largest = max((n for n in flat if n is not None), default=0)
        self._meter.charge((rows * columns * 3 + largest) * numbers.rates.entry)
        while len(known) <= largest:
            known.append(known[-1] * x)
        value = numbers.matrix(rows, columns, [0 if n is None else known[n] for n in flat])
        slope = numbers.matrix(rows, columns, [n * known[n - 1] if n else 0 for n in flat])

        def pullback(bar: Matrix) -> Matrix:
            shares = numbers.times(bar, slope).entries()
            return numbers.matrix(1, 1, [sum(shares[1:], shares[0])])

        return self._write(value, (a, pullback))

    def inverses(self, a: int) -> int:
        """Record 1 / x for every entry."""
        value = self.numbers.inverses(self.values[a])
        return self._function(a, value, lambda: -self.numbers.times(value, value))

    def exp(self, a: int, salts: Salts) -> int:
        """Record exp of every entry, whose derivative is itself."""
        value = self.numbers.exp(self.values[a], salts)
        return self._function(a, value, lambda: value)

    def inverse_roots(self, a: int, first: Radicand, salts: Salts) -> int:
        """Record y = 1 / sqrt(x) for every entry; its derivative is -y / (2 x)."""
        numbers, x = self.numbers, self.values[a]
        value = numbers.inverses(numbers.roots(x, first, salts))
        inverse, half = numbers.inverses(x), numbers.number(Fraction(-1, 2))
        return self._function(a, value, lambda: numbers.times(value, inverse) * half)

    def normal(self, a: int, salts: Salts) -> int:
        """Record Phi of every entry."""
        value, density = self.numbers.normal(self.values[a], salts)
        return self._function(a, value, lambda: density)

    def step(self, a: int, salts: Salts) -> int:
        """Record the step function of every entry, whose derivative is zero."""
        return self._write(self.numbers.step(self.values[a], salts))

    def _function(self, a: int, value: Matrix, slope: Callable[[], Matrix]) -> int:
        known: list[Matrix] = []

        def pullback(bar: Matrix) -> Matrix:
            if not known:
                known.append(slope())
            return self.numbers.times(bar, known[0])

        return self._write(value, (a, pullback))

    # Backwards.

    def adjoints(self, output: int, row: int, column: int) -> list[Matrix | None]:
        """The derivatives of one entry of one matrix by all matrices; None stands for zero."""
        bars: list[Matrix | None] = [None] * len(self.values)
        shape = self.values[output].nrows(), self.values[output].ncols()
        bars[output] = self.numbers.unit(*shape, row, column)
        self._meter.charge(output * self.numbers.rates.step)
        for node in range(output, -1, -1):
            bar = bars[node]
            if bar is None or not self._pullbacks[node]:
                continue
            for parent, pullback in self._pullbacks[node]:
                share, known = pullback(bar), bars[parent]
                bars[parent] = share if known is None else known + share
            bars[node] = None
        return bars
