"""What are the derivatives of a matrix by the matrices it was computed from?

Reverse mode over F_p: operations are recorded as they are carried out, and read backwards
once for each output entry.

>>> from flint import nmod_mat
>>> tape = Tape(101)
>>> a, b = tape.leaf(nmod_mat(1, 1, [3], 101)), tape.leaf(nmod_mat(1, 1, [5], 101))
>>> adjoints = tape.adjoints(tape.product(tape.product(a, b), b), 0, 0)
>>> [int(adjoints[x][0, 0]) for x in (a, b)]  # of a b^2: b^2 and 2 a b
[25, 30]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from flint import nmod, nmod_mat

from segre.referee.meter import RESIDUES, meter
from segre.referee.rejection import RejectionError

Pullback = Callable[[nmod_mat], Iterable[tuple[int, nmod_mat]]]


class Tape:
    """A record of matrix operations; matrices are named by their place on it."""

    def __init__(self, prime: int) -> None:
        self.prime = prime
        self.values: list[nmod_mat] = []
        self._pullbacks: list[Pullback | None] = []
        self._meter = meter()

    def _times(self, A: nmod_mat, B: nmod_mat) -> nmod_mat:
        self._meter.charge(RESIDUES.matmul(A.nrows(), A.ncols(), B.ncols()))
        return A * B

    def _handle(self, A: nmod_mat, times: int = 1, functions: int = 0) -> None:
        """Pay for entries that Python handles."""
        each = times * RESIDUES.entry + functions * RESIDUES.function
        self._meter.charge(RESIDUES.step + A.nrows() * A.ncols() * each)

    def _write(self, value: nmod_mat, pullback: Pullback | None) -> int:
        self.values.append(value)
        self._pullbacks.append(pullback)
        return len(self.values) - 1

    def leaf(self, value: nmod_mat) -> int:
        """Record a matrix that is given, not computed."""
        return self._write(value, None)

    def product(self, a: int, b: int) -> int:
        """Record A B."""
        A, B = self.values[a], self.values[b]
        return self._write(
            self._times(A, B),
            lambda bar: (
                (a, self._times(bar, B.transpose())),
                (b, self._times(A.transpose(), bar)),
            ),
        )

    def pairing(self, a: int, b: int) -> int:
        """Record A^T B."""
        A, B = self.values[a], self.values[b]
        return self._write(
            self._times(A.transpose(), B),
            lambda bar: ((a, self._times(B, bar.transpose())), (b, self._times(A, bar))),
        )

    def sum(self, a: int, b: int) -> int:
        """Record A + B."""
        return self._write(self.values[a] + self.values[b], lambda bar: ((a, bar), (b, bar)))

    def exponential(self, a: int, exp: Callable[[int], int]) -> int:
        """Record exp of every entry; the derivative of exp is declared to be exp."""
        A = self.values[a]
        self._handle(A, functions=1)
        entries = [exp(int(z)) for z in A.entries()]
        value = nmod_mat(A.nrows(), A.ncols(), entries, self.prime)

        def pullback(bar: nmod_mat) -> Iterable[tuple[int, nmod_mat]]:
            self._handle(A)
            yield a, _entrywise(bar, value)

        return self._write(value, pullback)

    def normalised(self, a: int) -> int:
        """Record A with every column divided by its sum."""
        A = self.values[a]
        rows, columns = A.nrows(), A.ncols()
        self._handle(A, times=2)
        one = nmod(1, self.prime)
        inverses: list[nmod] = []
        for total in _column_sums(A):
            if not total:
                raise RejectionError("the point is unusable: a sum of exponentials is zero mod p")
            inverses.append(one / total)
        value = _scale_columns(A, inverses)

        def pullback(bar: nmod_mat) -> Iterable[tuple[int, nmod_mat]]:
            self._handle(A, times=4)
            # With S = A / s and s the sum of a column: dS = (dA - S sum(dA)) / s.
            means = _column_sums(_entrywise(bar, value))
            centred = [
                entry - mean for row in bar.tolist() for entry, mean in zip(row, means, strict=True)
            ]
            yield a, _scale_columns(nmod_mat(rows, columns, centred, self.prime), inverses)

        return self._write(value, pullback)

    def adjoints(self, output: int, row: int, column: int) -> list[nmod_mat | None]:
        """The derivatives of one entry of one matrix by all matrices; None stands for zero."""
        bars: list[nmod_mat | None] = [None] * len(self.values)
        seed = nmod_mat(self.values[output].nrows(), self.values[output].ncols(), self.prime)
        seed[row, column] = 1
        bars[output] = seed
        self._meter.charge(output * RESIDUES.step)
        for node in range(output, -1, -1):
            bar, pullback = bars[node], self._pullbacks[node]
            if bar is None or pullback is None:
                continue
            for parent, share in pullback(bar):
                known = bars[parent]
                bars[parent] = share if known is None else known + share
        return bars


def _entrywise(A: nmod_mat, B: nmod_mat) -> nmod_mat:
    entries = [x * y for x, y in zip(A.entries(), B.entries(), strict=True)]
    return nmod_mat(A.nrows(), A.ncols(), entries, A.modulus())


def _scale_columns(A: nmod_mat, factors: list[nmod]) -> nmod_mat:
    entries = [
        entry * factor for row in A.tolist() for entry, factor in zip(row, factors, strict=True)
    ]
    return nmod_mat(A.nrows(), A.ncols(), entries, A.modulus())


def _column_sums(A: nmod_mat) -> list[nmod]:
    ones = nmod_mat(1, A.nrows(), [1] * A.nrows(), A.modulus())
    return (ones * A).entries()
