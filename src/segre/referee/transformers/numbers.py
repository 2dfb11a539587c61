"""What must a number system offer to run a transformer? Matrices, and the functions of section 3.

The forward map is written once over `Numbers`; it runs mod p (`modular`) and in real balls
(`balls`). Matrices are those of flint, so that +, -, * and `transpose` need no name here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from segre.referee.meter import Rates, charge
from segre.transformer.spec import Transformer

Matrix = Any
Scalar = Any
Salts = Sequence[int]


@dataclass(frozen=True, slots=True, order=True)
class Radicand:
    """Where a number under a square root stands: its stage, root and entry, section 4."""

    stage: int
    root: int
    entry: int


class Numbers(ABC):
    """Exact residues or real balls; columns of all matrices are tokens, each with a salt."""

    rates: Rates

    def __init__(self) -> None:
        # Constants are the same in every evaluation, so they are made once.
        self.ones = cache(self._ones)
        self.number = cache(self._number)
        self.rotations: dict[object, tuple[Matrix, Matrix, Matrix]] = {}
        self.masks: dict[object, Matrix] = {}

    @abstractmethod
    def matrix(self, rows: int, columns: int, entries: Iterable[Scalar] = ()) -> Matrix:
        """The matrix with these entries, row-major; without any, the zero matrix."""

    @abstractmethod
    def _number(self, value: Fraction) -> Scalar:
        """A rational number."""

    @abstractmethod
    def inverses(self, A: Matrix) -> Matrix:
        """1 / a for every entry."""

    @abstractmethod
    def roots(self, A: Matrix, first: Radicand, salts: Salts) -> Matrix:
        """The square root of every entry; `first` is the place of entry (0, 0)."""

    @abstractmethod
    def exp(self, A: Matrix, salts: Salts) -> Matrix:
        """exp of every entry."""

    @abstractmethod
    def normal(self, A: Matrix, salts: Salts) -> tuple[Matrix, Matrix]:
        """Phi of every entry, and its derivative."""

    @abstractmethod
    def step(self, A: Matrix, salts: Salts) -> Matrix:
        """1 or 0 for every entry: whether relu lets it pass."""

    @abstractmethod
    def choice(self, affinities: Matrix, spec: Transformer, salts: Salts) -> Matrix:
        """1 where an expert (a row) is chosen by a token (a column), else 0."""

    @abstractmethod
    def root_of_two_over_pi(self) -> Scalar:
        """The square root of 2 / pi."""

    @abstractmethod
    def root_of_width(self, width: int) -> Scalar:
        """The square root by which embeddings are scaled."""

    @abstractmethod
    def grown(self, square: Fraction, up: Fraction, down: Fraction, of: Fraction) -> Scalar:
        """The factor sqrt(square) (1 + up ln(of)) / (1 + down ln(of)), which weights absorb."""

    @abstractmethod
    def lengthened(self, factor: Fraction, length: Fraction) -> Scalar:
        """The factor sqrt(1 + ln(factor) / ln(length)), which weights absorb."""

    @abstractmethod
    def turn(self, spec: Transformer, plane: int, position: int) -> tuple[Scalar, Scalar]:
        """cos and sin of the angle of a plane at a position."""

    @abstractmethod
    def slope(self, exponent: Fraction, factor: Fraction, fine: int = 1) -> Scalar:
        """The decay rate exp(-factor 2^-exponent); `fine` is a denominator of all factors."""

    # What follows from these.

    def handle(self, A: Matrix, functions: int = 0) -> None:
        """Pay for entries that Python handles, and for functions of each."""
        each = self.rates.entry + functions * self.rates.function
        charge(self.rates.step + A.nrows() * A.ncols() * each)

    def times(self, A: Matrix, B: Matrix) -> Matrix:
        """The product entry by entry."""
        self.handle(A)
        entries = [x * y for x, y in zip(A.entries(), B.entries(), strict=True)]
        return self.matrix(A.nrows(), A.ncols(), entries)

    def diagonal(self, vector: Matrix) -> Matrix:
        """The diagonal matrix with the entries of a row or a column."""
        entries = vector.entries()
        charge(len(entries) ** 2 * self.rates.entry)
        result = self.matrix(len(entries), len(entries))
        for i, entry in enumerate(entries):
            result[i, i] = entry
        return result

    def _ones(self, rows: int, columns: int) -> Matrix:
        return self.matrix(rows, columns, [1] * (rows * columns))

    def unit(self, rows: int, columns: int, row: int, column: int) -> Matrix:
        """The matrix with a single 1."""
        result = self.matrix(rows, columns)
        result[row, column] = 1
        return result
