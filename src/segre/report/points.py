"""Points of the function spaces of polynomial networks, on the terminal."""

from __future__ import annotations

from rich.text import Text

from segre.geometry.polynomial_stratum import FilterPoint, PolynomialPoint, QuadraticPoint
from segre.report.console import Lines, plain_console, print_lines
from segre.report.text import printed


@printed.register
def print_filter_point(found: FilterPoint) -> None:
    """The kind of point, and all filters with this function."""
    lines = _first(found)
    if not found.filters:
        lines.append(("filters", "", "one of them is zero, the others are arbitrary"))
    elif found.filters == 1:
        lines.append(("filters", "1", "choice up to scale"))
    else:
        lines.append(("filters", f"{found.filters:,}", "choices up to scale:"))
        for branch in found.branches:
            lines.append(("", "", " ".join(f"({', '.join(taps)})" for taps in branch)))
        if found.filters > len(found.branches):
            lines.append(("", "", f"and {found.filters - len(found.branches):,} more"))
    if found.tangent_span is not None and found.filters > 1:
        said = "dimensions spanned by the tangent spaces of all choices"
        lines.append(("tangents", str(found.tangent_span), said))
    _print(found, lines)


@printed.register
def print_quadratic_point(found: QuadraticPoint) -> None:
    """The kind of point, the signature, and whether output signs make it a boundary point."""
    n, m, _ = found.spec.widths
    lines = _first(found)
    plus, minus = found.signature
    lines.append(("rank", str(found.rank), f"of at most {min(n, m)}"))
    lines.append(("signature", "", f"{plus} positive and {minus} negative eigenvalues"))
    p, q, z = found.outputs
    signs = f"output weights: {p} positive, {q} negative" + f", {z} zero" * bool(z)
    said = "some functions nearby need other signs" if found.boundary else "all functions nearby"
    said = f"yes: {said}" if found.boundary else f"no: these signs reach {said}"
    lines.append(("boundary", "", f"{said} ({signs})"))
    _print(found, lines)


def _first(found: PolynomialPoint) -> Lines:
    why = f": {', '.join(found.reasons)}" if found.reasons else ""
    lines: Lines = [
        ("point", "", f"{found.kind}{why}"),
        ("dimension", str(found.dimension), "of the function space"),
    ]
    if found.tangent is not None:
        lines.append(
            ("tangent", str(found.tangent), "dimensions of the tangent space at these weights")
        )
    return lines


def _print(found: PolynomialPoint, lines: Lines) -> None:
    lines.append(("arithmetic", "", "exact" if found.exact else "float64, tolerance 1e-9"))
    console = plain_console()
    console.print(Text(str(found.spec), style="bold cyan"), soft_wrap=True)
    print_lines(console, lines)
