"""Answers about given weights of small networks: same function, strata, recovery, optimality."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from segre.report.blocks import Blocks, Fact, Facts, Say, Table, Title
from segre.report.views import view
from segre.values import counted

if TYPE_CHECKING:
    from segre.geometry.polynomial_point import FilterPoint, PolynomialPoint, QuadraticPoint
    from segre.geometry.recovery.answer import Recovered
    from segre.geometry.same import Comparison
    from segre.geometry.strata import Stratum
    from segre.optimum.certificate import Optimum

_COLOURS = {"same": "bold green", "different": "bold red", "undecided": "bold yellow"}
_TANGENT = "dimensions of the tangent space at these weights"


@view
def of_comparison(found: Comparison) -> Blocks:
    """The verdict and what it rests on."""
    yield Title("Are two networks the same function?", terminal=False)
    proved = "proved" if found.proved else "not proved"
    words = f"{found.verdict} ({proved}): {found.reason}"
    yield Say(words, _COLOURS[found.verdict], wrap=False)
    for name, value in (
        ("normal forms differ by", found.normal_form_residual),
        ("outputs differ by", found.output_residual),
        ("largest condition number", found.condition),
    ):
        if value is not None and not found.proved:
            yield Say(f"  {name} {value:.1e}")
    if found.first_difference is not None:
        yield Say(f"  first difference: {found.first_difference.invariant}", wrap=False)


@view
def of_stratum(found: Stratum) -> Blocks:
    """What kind of point it is, and the numbers behind it."""
    yield Title("A point of the function space", terminal=False)
    every = "dimensions spanned by the tangent spaces at all weights with this function"
    yield Facts(
        (
            ("point", "", _kind(found)),
            ("boundary", "", "yes: real weights miss functions nearby" if found.boundary else "no"),
            ("rank of V", found.rank_V, f"of at most {min(found.d, found.d_out)}"),
            ("rank of A", found.rank_A, f"of at most {min(found.a, found.d)}"),
            ("dimension", found.dimension, "of the function space"),
            ("tangent", found.tangent, _TANGENT),
            ("tangents", found.tangent_span, every),
            *(("fiber" if not n else "", "", part) for n, part in enumerate(found.fiber)),
            _arithmetic(found),
        ),
        grouped=False,
    )


def _kind(found: Any) -> str:
    """The kind of a point, and why it is that."""
    return f"{found.kind}: {', '.join(found.reasons)}" if found.reasons else str(found.kind)


def _arithmetic(found: Any) -> Fact:
    """In which numbers a point was classified."""
    return "arithmetic", "", "exact" if found.exact else "float64, tolerance 1e-9"


@view
def of_filter_point(found: FilterPoint) -> Blocks:
    """The kind of point, and all filters with this function."""
    yield from _point(found, _filters(found))


def _filters(found: FilterPoint) -> Iterator[Fact]:
    if not found.filters:
        yield "filters", "", "one of them is zero, the others are arbitrary"
    elif found.filters == 1:
        yield "filters", 1, "choice up to scale"
    else:
        yield "filters", found.filters, "choices up to scale:"
        for branch in found.branches:
            yield "", "", " ".join(f"({', '.join(taps)})" for taps in branch)
        if found.filters > len(found.branches):
            yield "", "", f"and {found.filters - len(found.branches):,} more"
    if found.tangent_span is not None and found.filters > 1:
        said = "dimensions spanned by the tangent spaces of all choices"
        yield "tangents", str(found.tangent_span), said


@view
def of_quadratic_point(found: QuadraticPoint) -> Blocks:
    """The kind of point, the signature, and whether output signs make it a boundary point."""
    n, m, _ = found.spec.widths
    plus, minus = found.signature
    p, q, z = found.outputs
    signs = f"output weights: {p} positive, {q} negative" + f", {z} zero" * bool(z)
    said = "no: these signs reach all functions nearby"
    if found.boundary:
        said = "yes: some functions nearby need other signs"
    yield from _point(
        found,
        [
            ("rank", found.rank, f"of at most {min(n, m)}"),
            ("signature", "", f"{plus} positive and {minus} negative eigenvalues"),
            ("boundary", "", f"{said} ({signs})"),
        ],
    )


def _point(found: PolynomialPoint, facts: Iterable[Fact]) -> Blocks:
    yield Title(str(found.spec))
    first: list[Fact] = [
        ("point", "", _kind(found)),
        ("dimension", str(found.dimension), "of the function space"),
    ]
    if found.tangent is not None:
        first.append(("tangent", str(found.tangent), _TANGENT))
    yield Facts((*first, *facts, _arithmetic(found)))


@view
def of_recovered(found: Recovered) -> Blocks:
    """The matrices found, with their accuracy and the method."""
    yield Title("Weights from queries", terminal=False)
    facts: list[Fact] = [
        ("recovered", "", f"{found.spec} ({found.status}, {found.inputs} inputs)"),
        ("residual", "", f"{found.residual:.1e} (relative)"),
    ]
    if found.error is not None:
        facts.append(("error", "", f"about {found.error:.1e} (relative, estimated)"))
    if found.success_rate is not None:
        rate = f"{found.success_rate:.0%} of {found.starts} starts succeeded"
        facts.append(("starts", "", rate))
    yield Facts((*facts, *(("note", "", note) for note in found.notes)))
    document = found.document()
    for number, head in enumerate(document["heads"], 1):
        label = f" of head {number}" if len(document["heads"]) > 1 else ""
        for name in ("V", "A"):
            yield from _matrix(f"{name}{label}", head[name])
    for number, matrix in enumerate(document["products"]):
        yield from _matrix(f"M_{number}" if number else "L", matrix)
    for head in document["alternatives"]:
        for name in ("V", "A"):
            yield from _matrix(f"{name} of the other pair with this function", head[name])


def _matrix(name: str, rows: list[list[Any]]) -> Blocks:
    cells = [[x if isinstance(x, str) else f"{x:.6g}" for x in row] for row in rows]
    width = max(len(cell) for row in cells for cell in row)
    aligned = [[f"{cell:>{width}}" for cell in row] for row in cells]
    yield Say(f"{name} =")
    columns = ("",) * len(cells[0])
    lines = tuple((f"  {first}", *rest) for first, *rest in aligned)
    yield Table("", columns, lines, (True,) * len(columns))


@view
def of_optimum(found: Optimum) -> Blocks:
    """The objective, the proved bound, and the gap between them."""
    yield Title("Distance from the global optimum", "bounded", terminal=False)
    heads = counted(found.heads, "head")
    yield Say(f"objective of the {heads}: {up(found.objective)}", wrap=False)
    yield Say(f"proved for any number of heads: at least {down(found.bound)}", wrap=False)
    share = f" ({up(found.gap / found.objective, 2)} of the objective)" if found.objective else ""
    said = f"gap: {up(found.gap, 3)}{share}; no training can improve by more than that"
    yield Say(said, wrap=False)
    if found.certain > 0:
        said = f"the solver's own weights, with {counted(found.rank, 'head')}, improve by at least "
        yield Say(said + down(found.certain, 3), wrap=False)


def up(value: Fraction, digits: int = 10) -> str:
    """A number rounded up to the given digits.

    >>> up(Fraction(2, 3), 3), down(Fraction(2, 3), 3), up(Fraction(1, 3 * 10**9), 2)
    ('0.667', '0.666', '3.4e-10')
    """
    return _rounded(value, digits, ROUND_CEILING)


def down(value: Fraction, digits: int = 10) -> str:
    """A number rounded down to the given digits."""
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: Fraction, digits: int, how: str) -> str:
    context = Context(prec=digits, rounding=how, Emin=-(10**9), Emax=10**9)
    number = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    small = number != 0 and abs(number) < Decimal("0.001")
    return format(number, "e" if small else "g").replace("e+", "e")
