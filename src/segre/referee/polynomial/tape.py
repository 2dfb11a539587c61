"""What are the derivatives of powers and convolutions? Two more operations of the tape.

>>> from flint import nmod_mat
>>> tape = PolynomialTape(101)
>>> x = tape.leaf(nmod_mat(1, 2, [3, 5], 101))
>>> [int(entry) for entry in tape.adjoints(tape.power(x, 3), 0, 1)[x].entries()]
[0, 75]
"""

from __future__ import annotations

from collections.abc import Iterable

from flint import nmod_mat

from segre.referee.tape import Tape


class PolynomialTape(Tape):
    """A tape on which polynomial networks can be recorded."""

    def power(self, a: int, degree: int) -> int:
        """Record A^r, entry by entry."""
        A = self.values[a]
        rows, columns, prime = A.nrows(), A.ncols(), self.prime
        self._handle(A, functions=2)
        below = [pow(int(x), degree - 1, prime) for x in A.entries()]
        entries = [int(x) * y % prime for x, y in zip(A.entries(), below, strict=True)]

        def pullback(bar: nmod_mat) -> Iterable[tuple[int, nmod_mat]]:
            self._handle(A)
            slopes = [
                int(x) * y % prime * degree for x, y in zip(bar.entries(), below, strict=True)
            ]
            yield a, nmod_mat(rows, columns, slopes, prime)

        return self._write(nmod_mat(rows, columns, entries, prime), pullback)

    def windows(self, a: int, kernel: int, stride: int, count: int) -> int:
        """Record what the filter sees of a row: entry (m, j) is entry stride j + m."""
        A = self.values[a]
        places = [stride * j + m for m in range(kernel) for j in range(count)]
        row = [int(x) for x in A.entries()]
        value = nmod_mat(kernel, count, [row[place] for place in places], self.prime)
        self._handle(value)

        def pullback(bar: nmod_mat) -> Iterable[tuple[int, nmod_mat]]:
            self._handle(bar)
            self._handle(A)
            total = [0] * len(row)
            for place, entry in zip(places, bar.entries(), strict=True):
                total[place] += int(entry)
            yield a, nmod_mat(1, len(row), total, self.prime)

        return self._write(value, pullback)
