"""Points of the function spaces of polynomial networks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from segre.geometry.polynomial_stratum import FilterPoint, PolynomialPoint, QuadraticPoint
from segre.report.blocks import Block, Fact, Facts, Title
from segre.report.fibers import TANGENT, arithmetic, kind_in_words
from segre.report.views import view


@view.register
def of_filter_point(found: FilterPoint) -> Iterator[Block]:
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


@view.register
def of_quadratic_point(found: QuadraticPoint) -> Iterator[Block]:
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


def _point(found: PolynomialPoint, facts: Iterable[Fact]) -> Iterator[Block]:
    yield Title(str(found.spec))
    first: list[Fact] = [
        ("point", "", kind_in_words(found)),
        ("dimension", str(found.dimension), "of the function space"),
    ]
    if found.tangent is not None:
        first.append(("tangent", str(found.tangent), TANGENT))
    yield Facts((*first, *facts, arithmetic(found)))
