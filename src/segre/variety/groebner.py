"""A Groebner basis over F_p, by Faugere's F4: many S-pairs are reduced in one matrix.

Monomials are whole numbers, with 16 bits for each exponent: products are sums, and one
subtraction tells whether one divides another. The order is by degree, then reverse lexicographic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from time import monotonic

from flint import nmod_mat

from segre.geometry.progress import Progress, quiet

_BITS = 16
_ENTRY = 40  # bytes of an entry of a matrix: the residue, and what lists of it take
_RATE = 4e8  # entries that an elimination updates in a second, at least


class ExhaustedError(Exception):
    """An elimination that would pass a limit; the words say which."""


@dataclass
class Limits:
    """How long and how large an elimination may get."""

    seconds: float
    memory: int
    progress: Progress = quiet
    began: float = field(default_factory=monotonic)

    def check(self, stage: str, entries: int = 0, updates: float = 0.0) -> None:
        """Raise `ExhaustedError` if the next step would pass a limit."""
        left = self.seconds - (monotonic() - self.began)
        if left <= 0 or updates / _RATE > left:
            raise ExhaustedError(f"not finished within {self.seconds:g} seconds")
        if entries * _ENTRY > self.memory:
            raise ExhaustedError(f"a matrix of {entries:,} entries is over the memory limit")
        self.progress(stage, round(10 * (self.seconds - left)), round(10 * self.seconds))


@dataclass(frozen=True)
class Monomials:
    """Monomials in some variables as whole numbers."""

    variables: int

    @cached_property
    def guard(self) -> int:
        """The highest bit of every exponent."""
        return sum(1 << (_BITS * i + _BITS - 1) for i in range(self.variables))

    @cached_property
    def _ranks(self) -> dict[int, tuple[int, ...]]:
        return {}

    def pack(self, exponents: Iterable[int]) -> int:
        """The monomial with these exponents."""
        return sum(int(e) << (_BITS * i) for i, e in enumerate(exponents))

    def variable(self, number: int) -> int:
        """A variable as a monomial."""
        return 1 << (_BITS * number)

    def exponents(self, monomial: int) -> list[int]:
        """Its exponents."""
        mask = (1 << _BITS) - 1
        return [monomial >> (_BITS * i) & mask for i in range(self.variables)]

    def divides(self, a: int, b: int) -> bool:
        """Whether a divides b."""
        return ((b | self.guard) - a) & self.guard == self.guard

    def lcm(self, a: int, b: int) -> int:
        """The least common multiple."""
        return self.pack(map(max, self.exponents(a), self.exponents(b)))

    def rank(self, monomial: int) -> tuple[int, ...]:
        """Its place in the order: larger monomials have larger ranks."""
        found = self._ranks.get(monomial)
        if found is None:
            exponents = self.exponents(monomial)
            found = (sum(exponents), *(-e for e in reversed(exponents)))
            self._ranks[monomial] = found
        return found


@dataclass(frozen=True)
class Row:
    """A polynomial with leading coefficient one: its monomials, the largest first."""

    monomials: tuple[int, ...]
    coefficients: tuple[int, ...]

    @property
    def lead(self) -> int:
        """The leading monomial."""
        return self.monomials[0]


@dataclass(frozen=True)
class Pair:
    """Two elements of a basis, and the least common multiple of their leading monomials."""

    first: int
    second: int
    lcm: int


def groebner(
    system: Sequence[Mapping[int, int]], order: Monomials, p: int, limits: Limits
) -> list[Row]:
    """The reduced Groebner basis of a system; each polynomial maps monomials to residues.

    >>> x, y, one = 1, 1 << 16, 0
    >>> order = Monomials(2)
    >>> found = groebner([{2 * x: 1, y: 6}, {x + y: 1, one: 6}], order, 7, Limits(9, 1 << 30))
    >>> [order.exponents(row.lead) for row in found]
    [[0, 2], [1, 1], [2, 0]]
    """
    basis: list[Row] = []
    alive: list[int] = []
    pairs: list[Pair] = []
    waiting = [_row(poly, order, p) for poly in system if poly]
    while waiting or pairs:
        degree = min(
            [order.rank(row.lead)[0] for row in waiting]
            + [order.rank(pair.lcm)[0] for pair in pairs]
        )
        limits.check("eliminating")
        chosen = [pair for pair in pairs if order.rank(pair.lcm)[0] == degree]
        pairs = [pair for pair in pairs if order.rank(pair.lcm)[0] != degree]
        given = [row for row in waiting if order.rank(row.lead)[0] == degree]
        waiting = [row for row in waiting if order.rank(row.lead)[0] != degree]
        for new in _reduced(basis, alive, chosen, given, order, p, limits):
            if not new.lead:
                return [new]  # a constant: there is no solution
            pairs = _updated(basis, alive, pairs, new, order)
    return _interreduced([basis[i] for i in alive], order, p, limits)


def _interreduced(basis: list[Row], order: Monomials, p: int, limits: Limits) -> list[Row]:
    """The same ideal, with no monomial divisible by the lead of another element."""
    rows = [(0, row) for row in basis]
    columns = _completed(rows, {row.lead for row in basis}, basis, order)[0]
    leads = {row.lead for row in basis}
    found = _echelon(rows, columns, {m for m in columns if m not in leads}, p, limits)
    return sorted(found, key=lambda row: order.rank(row.lead))


def _row(poly: Mapping[int, int], order: Monomials, p: int) -> Row:
    monomials = sorted((m for m, c in poly.items() if c % p), key=order.rank, reverse=True)
    scale = pow(poly[monomials[0]], -1, p)
    return Row(tuple(monomials), tuple(poly[m] * scale % p for m in monomials))


def _reduced(
    basis: list[Row],
    alive: list[int],
    chosen: Sequence[Pair],
    given: Sequence[Row],
    order: Monomials,
    p: int,
    limits: Limits,
) -> list[Row]:
    """The S-polynomials of some pairs and some polynomials, reduced; those with new leads."""
    wanted = {(pair.lcm - basis[i].lead, i) for pair in chosen for i in (pair.first, pair.second)}
    rows = [(times, basis[i]) for times, i in sorted(wanted)] + [(0, row) for row in given]
    leads = {times + row.lead for times, row in rows[: len(wanted)]}
    columns, leads = _completed(rows, leads, [basis[i] for i in alive], order)
    return _echelon(rows, columns, leads, p, limits)


def _completed(
    rows: list[tuple[int, Row]], leads: set[int], reducers: Sequence[Row], order: Monomials
) -> tuple[list[int], set[int]]:
    """Append to rows what reduces them: all monomials that then occur, and those that lead."""
    leads = set(leads)
    seen = set(leads)
    queue = [times + m for times, row in rows for m in row.monomials]
    while queue:
        monomial = queue.pop()
        if monomial in seen:
            continue
        seen.add(monomial)
        for row in reducers:
            if order.divides(row.lead, monomial):
                times = monomial - row.lead
                rows.append((times, row))
                leads.add(monomial)
                queue += [times + m for m in row.monomials]
                break
    return sorted(seen, key=order.rank, reverse=True), leads


def _echelon(
    rows: Sequence[tuple[int, Row]], columns: list[int], leads: set[int], p: int, limits: Limits
) -> list[Row]:
    place = {monomial: j for j, monomial in enumerate(columns)}
    height, width = len(rows), len(columns)
    limits.check("eliminating", height * width, float(height) * width * min(height, width) / 8)
    matrix = nmod_mat(height, width, p)
    for i, (times, row) in enumerate(rows):
        for monomial, value in zip(row.monomials, row.coefficients, strict=True):
            matrix[i, place[times + monomial]] = value
    echelon, rank = matrix.rref()
    out = []
    j = 0
    for i in range(rank):
        while not int(echelon[i, j]):
            j += 1
        if columns[j] not in leads:
            values = [(c, int(echelon[i, k])) for k, c in enumerate(columns[j:], j)]
            kept = [(c, value) for c, value in values if value]
            out.append(Row(tuple(c for c, _ in kept), tuple(value for _, value in kept)))
        j += 1
    return out[::-1]


def _updated(
    basis: list[Row], alive: list[int], pairs: list[Pair], new: Row, order: Monomials
) -> list[Pair]:
    """Add an element to the basis; the pairs that are then left (Gebauer and Moeller 1988)."""
    h, lead = len(basis), new.lead
    lcms = {i: order.lcm(basis[i].lead, lead) for i in alive}
    coprime = {i for i in alive if lcms[i] == basis[i].lead + lead}
    fresh: list[int] = []
    for i in sorted(alive, key=lambda i: (order.rank(lcms[i]), i not in coprime)):
        if not any(order.divides(lcms[k], lcms[i]) for k in fresh):
            fresh.append(i)
    kept = [
        pair
        for pair in pairs
        if not order.divides(lead, pair.lcm)
        or order.lcm(basis[pair.first].lead, lead) == pair.lcm
        or order.lcm(basis[pair.second].lead, lead) == pair.lcm
    ]
    kept += [Pair(i, h, lcms[i]) for i in fresh if i not in coprime]
    alive[:] = [i for i in alive if not order.divides(lead, basis[i].lead)] + [h]
    basis.append(new)
    return kept
