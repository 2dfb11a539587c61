"""Classical varieties: their degrees, and how many critical points a squared distance has on them.

Numbers of critical points are those for generic data, where a formula is proved. docs/variety.md
has the proofs and names whose theorems are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb, factorial, lgamma, log, prod
from typing import Protocol

from flint import Ordering, fmpq, fmpq_poly, fmpz_mpoly_ctx

from segre.errors import UnsupportedError
from segre.variety.metric import Metric

_DIGITS = 4000


@dataclass(frozen=True)
class Formula:
    """A number, and the theorem that it follows from."""

    value: int
    says: str

    def document(self) -> dict[str, object]:
        """As plain data, for JSON."""
        return {"value": self.value, "theorem": self.says}


class Family(Protocol):
    """A variety with a name."""

    @property
    def name(self) -> str:
        """In a few words."""
        ...

    def degree(self) -> Formula:
        """Its degree."""
        ...

    def critical(self, metric: Metric) -> Formula | None:
        """Its number of critical points for generic data; None if no formula is known here."""
        ...


@dataclass(frozen=True)
class LinearSpace:
    """All of a linear space."""

    name: str

    def degree(self) -> Formula:
        """One."""
        return Formula(1, f"{self.name}, a linear space")

    def critical(self, metric: Metric) -> Formula:  # noqa: ARG002
        """One: the data, or their projection."""
        return Formula(1, f"{self.name}, a linear space: the nearest point is the only one")


@dataclass(frozen=True)
class Product:
    """The image of a product of projective spaces under forms of degrees d_1, ..., d_l.

    The map has no base points and is birational; `immersed` says that its derivative is injective
    everywhere, and `tensors` that the image consists of powers and products themselves.
    """

    name: str
    factors: tuple[tuple[int, int], ...]  # dimension of a projective space, degree of the forms
    immersed: bool
    tensors: bool

    def degree(self) -> Formula:
        """m! prod d_j^m_j / m_j!, where m is the sum of the m_j."""
        require_short(self._logarithm())
        total = factorial(sum(m for m, _ in self.factors))
        value = total * prod(d**m for m, d in self.factors)
        value //= prod(factorial(m) for m, _ in self.factors)
        return Formula(value, f"{self.name}: m! prod d_j^m_j / m_j!")

    def critical(self, metric: Metric) -> Formula | None:
        """By polar classes for a generic metric, by Friedland and Ottaviani for tensors."""
        require_short(self._logarithm())
        if metric == "generic" and self.immersed:
            says = "sum of (-1)^i (2^(m+1-i) - 1) deg(c_i h^(m-i)), polar classes"
            return Formula(self._polar(), f"{self.name}: {says} (derived in docs/variety.md)")
        if self.tensors and metric == "identity":
            says = "singular vector tuples of a tensor (Friedland and Ottaviani)"
            return Formula(self._singular_tuples(), f"{self.name}: {says}")
        if self.tensors and metric == "gaussian" and [d for _, d in self.factors] == [2]:
            return Symmetric(self.factors[0][0] + 1, 1).critical(metric)
        return None

    def _logarithm(self) -> float:
        """Of a number that both formulas stay below."""
        m = sum(size for size, _ in self.factors)
        return lgamma(m + 1) + sum(size * log(4 * d) for size, d in self.factors)

    def _polar(self) -> int:
        """Coefficient i of the product is deg(c_i h^(m-i)) / (m-i)!."""
        series = fmpq_poly([1])
        for m, d in self.factors:
            powers = [fmpq(comb(m + 1, i) * d ** (m - i), factorial(m - i)) for i in range(m + 1)]
            series *= fmpq_poly(powers)
        m = series.degree()
        signed = ((-1) ** i * (2 ** (m + 1 - i) - 1) * factorial(m - i) for i in range(m + 1))
        return int(sum(c * value for c, value in zip(signed, series, strict=True)))

    def _singular_tuples(self) -> int:
        """The coefficient of prod h_j^m_j in prod over j of sum_i a_j^i h_j^(m_j - i).

        Here a_j is the sum of all d_k h_k, minus h_j.
        """
        names = [f"h{j}" for j in range(len(self.factors))]
        ring = fmpz_mpoly_ctx.get(names, Ordering.degrevlex)
        every, total = ring.gens(), ring.constant(1)
        degrees = sum((d * h for (_, d), h in zip(self.factors, every, strict=True)), 0 * total)
        for (m, _), own in zip(self.factors, every, strict=True):
            others = degrees - own
            total *= sum((others**i * own ** (m - i) for i in range(m + 1)), ring.constant(0))
        return int(total[tuple(m for m, _ in self.factors)])


@dataclass(frozen=True)
class Determinantal:
    """Matrices of rank at most r, not all matrices."""

    rows: int
    columns: int
    rank: int

    @property
    def name(self) -> str:
        """In a few words."""
        return f"{self.rows} x {self.columns} matrices of rank at most {self.rank}"

    def degree(self) -> Formula:
        """prod C(m+i, r) / C(r+i, r), i < n - r."""
        m, n, r = self.rows, self.columns, self.rank
        require_short((n - r) * (m + n) * log(2))
        value = prod(Fraction(comb(m + i, r), comb(r + i, r)) for i in range(n - r))
        says = "prod C(m+i, r) / C(r+i, r), i < n - r (Giambelli)"
        return Formula(int(value), f"{self.name}: {says}")

    def critical(self, metric: Metric) -> Formula | None:
        """C(min, r) for the Frobenius norm; by polar classes for rank one, and for its dual."""
        least = min(self.rows, self.columns)
        if metric != "generic":
            says = "truncated singular value decompositions (Eckart and Young)"
            return Formula(comb(least, self.rank), f"{self.name}: {says}")
        if self.rank not in (1, least - 1):
            return None
        factors = ((self.rows - 1, 1), (self.columns - 1, 1))
        return _dual(Product("rank one", factors, True, True), self.name, self.rank > 1)


@dataclass(frozen=True)
class Symmetric:
    """Symmetric matrices of rank at most r, not all of them: quadratic networks, one output."""

    size: int
    rank: int

    @property
    def name(self) -> str:
        """In a few words."""
        return f"symmetric {self.size} x {self.size} matrices of rank at most {self.rank}"

    def degree(self) -> Formula:
        """prod C(n+i, n-r-i) / C(2i+1, i), i < n - r."""
        n, r = self.size, self.rank
        require_short((n - r) * 2 * n * log(2))
        value = prod(Fraction(comb(n + i, n - r - i), comb(2 * i + 1, i)) for i in range(n - r))
        says = "prod C(n+i, n-r-i) / C(2i+1, i), i < n - r (Harris and Tu)"
        return Formula(int(value), f"{self.name}: {says}")

    def critical(self, metric: Metric) -> Formula | None:
        """C(n, r) for norms that rotations keep; for rank one and its dual by polar classes."""
        if metric != "generic":
            return Formula(
                comb(self.size, self.rank),
                f"{self.name}: keep r of n eigenvectors (derived in docs/variety.md)",
            )
        if self.rank not in (1, self.size - 1):
            return None
        rank_one = Product("rank one", ((self.size - 1, 2),), True, True)
        return _dual(rank_one, self.name, self.rank > 1)


@dataclass(frozen=True)
class Secants:
    """Sums of m powers of binary linear forms, 2 m <= r: secants of a rational normal curve."""

    form: int
    summands: int

    @property
    def name(self) -> str:
        """In a few words."""
        return f"sums of {self.summands} powers of degree {self.form} in two variables"

    def degree(self) -> Formula:
        """C(r - m + 1, m), from the maximal minors of a Hankel matrix."""
        value = comb(self.form - self.summands + 1, self.summands)
        return Formula(value, f"{self.name}: C(r-m+1, m), maximal minors of a Hankel matrix")

    def critical(self, metric: Metric) -> None:  # noqa: ARG002
        """No formula is known here."""
        return


def _dual(rank_one: Product, name: str, used: bool) -> Formula | None:
    """Dual varieties have the same polar degrees, in reverse order."""
    found = rank_one.critical("generic")
    words = "dual to rank one, with the same sum of polar degrees" if used else "polar classes"
    return None if found is None else Formula(found.value, f"{name}: {words}")


def require_short(logarithm: float) -> None:
    """Refuse numbers with thousands of digits before they are computed."""
    if logarithm > _DIGITS * log(10):
        raise UnsupportedError(
            f"the formula may give a number of more than {_DIGITS:,} digits; try a smaller network"
        )
