"""What is a transformer mod p? The drawn functions of section 4, on matrices of flint."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache

from flint import nmod_mat

from segre.referee.meter import RESIDUES, charge
from segre.referee.rejection import RejectionError
from segre.referee.residues import (
    INPUTS,
    WEIGHTS,
    WITNESS_INPUTS,
    WITNESS_WEIGHTS,
    WORD,
    Stream,
)
from segre.referee.shapes import quote
from segre.referee.transformers.angles import multiples
from segre.referee.transformers.numbers import Numbers, Radicand, Salts, Scalar
from segre.transformer.spec import Transformer

EXPONENTIALS, NORMALS, DENSITIES, CIRCLES = 2, 6, 7, 8
CONSTANTS, STEPS, ROOTS, SLOPES = 9, 10, 11, 12
MOST_SALTS = 1 << 20
_INPUT_SALT, _VALUE_SALT = 40, 32
_SLOPE_UNIT = (1 << 16) * 10**5


class NoRootError(RejectionError):
    """A radicand that is zero or has no square root mod p."""

    def __init__(self, place: Radicand, value: int) -> None:
        super().__init__(
            f"the point is unusable: radicand {place.entry} of root {place.root} of stage "
            f"{place.stage} is {'zero' if value == 0 else 'not a square'} mod p"
        )
        self.place = place
        self.value = value


class Modular(Numbers):
    """F_p, p = 3 mod 4, with the functions of one seed."""

    def __init__(self, prime: int, seed: int) -> None:
        super().__init__()
        self.prime = prime
        self.seed = seed
        self.rates = RESIDUES
        self._streams = {number: Stream.of(seed, number) for number in range(13)}
        self._circle = cache(self._point_of_circle)

    # Points.

    def weights(self, count: int) -> list[int]:
        """The weights of the point of the Jacobian."""
        return self._residues(WEIGHTS, 0, count)

    def witness_weights(self, number: int, count: int) -> list[int]:
        """The weights of a witness point."""
        return self._residues(WITNESS_WEIGHTS, number * count, count)

    def input(self, number: int, rows: int, salts: Salts, *, witness: bool = False) -> nmod_mat:
        """Input `number`, of any entries: one salt for each token."""
        u = self._streams[WITNESS_INPUTS if witness else INPUTS]
        t = len(salts)
        charge(rows * t * self.rates.function)
        entries = [
            u(number * rows * t + r * t + c + (salt << _INPUT_SALT)) % self.prime
            for r in range(rows)
            for c, salt in enumerate(salts)
        ]
        return nmod_mat(rows, t, entries, self.prime)

    def soft_input(self, number: int, vocab: int, types: int, salts: Salts) -> nmod_mat:
        """Input `number` with a vocabulary: in a column, the entries of each block sum to 1."""
        X = self.input(number, vocab + types, salts)
        charge((vocab + types) * len(salts) * self.rates.entry)
        for first, size in ((0, vocab), (vocab, types)):
            for c in range(len(salts) if size else 0):
                last = first + size - 1
                X[last, c] = 1 - sum(int(X[r, c]) for r in range(first, last))
        return X

    def word_input(self, number: int, vocab: int, t: int) -> nmod_mat:
        """Input `number` as a sequence of tokens: one-hot columns."""
        X, u = nmod_mat(vocab, t, self.prime), self._streams[INPUTS]
        charge(vocab * t * self.rates.entry)
        for c in range(t):
            X[u(number * t + c) % vocab, c] = 1
        return X

    def _residues(self, stream: int, first: int, count: int) -> list[int]:
        charge(count * self.rates.function)
        u = self._streams[stream]
        return [u(i) % self.prime for i in range(first, first + count)]

    # Numbers and functions.

    def matrix(self, rows: int, columns: int, entries: Iterable[Scalar] = ()) -> nmod_mat:
        """The matrix with these entries, row-major; without any, the zero matrix."""
        given = list(entries)
        if not given:
            return nmod_mat(rows, columns, self.prime)
        return nmod_mat(rows, columns, given, self.prime)

    def _number(self, value: Fraction) -> int:
        """The residue of a rational number."""
        if value.denominator % self.prime == 0:
            raise RejectionError(f"the point is unusable: {value} has no residue mod p")
        return value.numerator * pow(value.denominator, -1, self.prime) % self.prime

    def inverses(self, A: nmod_mat) -> nmod_mat:
        """1 / a for every entry."""
        self.handle(A, functions=2)
        values = [int(a) for a in A.entries()]
        if not all(values):
            raise RejectionError("the point is unusable: a division by zero mod p")
        return self.matrix(A.nrows(), A.ncols(), [pow(a, -1, self.prime) for a in values])

    def roots(self, A: nmod_mat, first: Radicand, salts: Salts) -> nmod_mat:  # noqa: ARG002
        """a^((p+1)/4) for every entry; all must be squares, and not zero."""
        p = self.prime
        self.handle(A, functions=3)
        result = []
        for i, entry in enumerate(A.entries()):
            q = int(entry)
            root = pow(q, (p + 1) // 4, p)
            if q == 0 or root * root % p != q:
                raise NoRootError(Radicand(first.stage, first.root, first.entry + i), q)
            result.append(root)
        return self.matrix(A.nrows(), A.ncols(), result)

    def exp(self, A: nmod_mat, salts: Salts) -> nmod_mat:
        """A random function without zeros, with exp(0) = 1."""
        top = self.prime - 1
        return self._drawn(A, salts, EXPONENTIALS, lambda z, u: 1 + u % top if z else 1)

    def normal(self, A: nmod_mat, salts: Salts) -> tuple[nmod_mat, nmod_mat]:
        """A random function, and another one without zeros."""
        p = self.prime
        value = self._drawn(A, salts, NORMALS, lambda _, u: u % p)
        return value, self._drawn(A, salts, DENSITIES, lambda _, u: 1 + u % (p - 1))

    def step(self, A: nmod_mat, salts: Salts) -> nmod_mat:
        """A random function with values 0 and 1."""
        return self._drawn(A, salts, STEPS, lambda _, u: u % 2)

    def choice(self, affinities: nmod_mat, spec: Transformer, salts: Salts) -> nmod_mat:
        """The experts with the largest drawn numbers, the first ones among equals."""
        u = self._streams[STEPS]
        experts = affinities.nrows()
        self.handle(affinities, functions=2)
        result = nmod_mat(experts, affinities.ncols(), self.prime)
        for c, salt in enumerate(salts):
            drawn = [u(int(affinities[i, c]) + (salt << _VALUE_SALT)) >> 12 for i in range(experts)]
            allowed = list(range(experts))
            if spec.groups:
                size = experts // spec.groups
                parts = [allowed[g * size : (g + 1) * size] for g in range(spec.groups)]
                sums = [sum(sorted(drawn[i] for i in part)[-2:]) for part in parts]
                best = sorted(range(spec.groups), key=lambda g: -sums[g])[: spec.within]
                allowed = sorted(i for g in best for i in parts[g])
            for i in sorted(allowed, key=lambda i: -drawn[i])[: spec.active]:
                result[i, c] = 1
        return result

    def root_of_two_over_pi(self) -> int:
        """A random residue, for a number that is transcendental."""
        return self._streams[CONSTANTS](5) % self.prime

    def root_of_width(self, width: int) -> int:
        """A random residue: only its being the same everywhere matters."""
        return self._streams[CONSTANTS](2 * width) % self.prime

    def grown(
        self,
        square: Fraction,  # noqa: ARG002
        up: Fraction,  # noqa: ARG002
        down: Fraction,  # noqa: ARG002
        of: Fraction,  # noqa: ARG002
    ) -> int:
        """1, section 4: the weights that absorb the factor stand for their products with it."""
        return 1

    def lengthened(self, factor: Fraction, length: Fraction) -> int:  # noqa: ARG002
        """1, section 4, likewise."""
        return 1

    def turn(self, spec: Transformer, plane: int, position: int) -> tuple[int, int]:
        """A power of a point of the circle, the same for angles that are rational multiples."""
        number, power = multiples(spec)[plane]
        return self._circle(number, power * position)

    def _point_of_circle(self, number: int, power: int) -> tuple[int, int]:
        p = self.prime
        s = self._streams[CIRCLES](number) % p
        scale = pow(1 + s * s, -1, p)  # -1 is not a square
        x, y = (1 - s * s) * scale % p, 2 * s * scale % p
        cos, sin = 1, 0
        while power:
            if power & 1:
                cos, sin = (cos * x - sin * y) % p, (cos * y + sin * x) % p
            x, y = (x * x - y * y) % p, 2 * x * y % p
            power >>= 1
        return cos, sin

    def slope(self, exponent: Fraction, factor: Fraction, fine: int = 1) -> int:
        """A power of a random residue, one for every fractional part of an exponent."""
        whole = exponent.numerator // exponent.denominator
        rest = exponent - whole
        # Before anything large is computed: a power that is whole is at least 1.
        unit = fine * _SLOPE_UNIT
        if not -64 <= whole <= (factor.numerator * unit).bit_length():
            raise RejectionError(f"spec: the slope of exponent {quote(str(exponent))} is no power")
        power = factor * unit / Fraction(2) ** whole
        index = (rest.denominator << 20) + rest.numerator
        if power.denominator != 1 or index >= WORD:
            raise RejectionError(f"spec: the slope of exponent {quote(str(exponent))} is no power")
        base = 1 + self._streams[SLOPES](index) % (self.prime - 1)
        return pow(base, int(power), self.prime)

    def _drawn(
        self, A: nmod_mat, salts: Salts, stream: int, value: Callable[[int, int], int]
    ) -> nmod_mat:
        self.handle(A, functions=1)
        u = self._streams[stream]
        high = [salt << _VALUE_SALT for salt in salts]
        entries = []
        for row in A.tolist():
            for entry, salt in zip(row, high, strict=False):
                z = int(entry)
                entries.append(value(z, u(z + salt)))
        return self.matrix(A.nrows(), A.ncols(), entries)


class FreeRoots(Modular):
    """The same with drawn roots: no true roots, but with the derivative of roots (section 9)."""

    def roots(self, A: nmod_mat, first: Radicand, salts: Salts) -> nmod_mat:  # noqa: ARG002
        """A random function without zeros."""
        return self._drawn(A, salts, ROOTS, lambda _, u: 1 + u % (self.prime - 1))
