"""Answers about given weights on the terminal: same function, strata, recovered weights."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from segre.geometry.recovery.answer import Recovered
from segre.geometry.strata import Stratum
from segre.geometry.verdict import Comparison
from segre.report.console import Lines, plain_console, print_lines
from segre.report.text import printed


@printed.register
def print_comparison(found: Comparison) -> None:
    """The verdict and what it rests on."""
    console = plain_console()
    proved = "proved" if found.proved else "not proved"
    colour = {"same": "green", "different": "red", "undecided": "yellow"}[found.verdict]
    head = Text(found.verdict, style=f"bold {colour}")
    console.print(head.append(f" ({proved}): {found.reason}", style="default"), soft_wrap=True)
    for name, value in (
        ("normal forms differ by", found.normal_form_residual),
        ("outputs differ by", found.output_residual),
        ("largest condition number", found.condition),
    ):
        if value is not None and not found.proved:
            console.print(f"  {name} {value:.1e}")
    if found.first_difference is not None:
        console.print(f"  first difference: {found.first_difference.invariant}", soft_wrap=True)


@printed.register
def print_stratum(found: Stratum) -> None:
    """What kind of point it is, and the numbers behind it."""
    why = f": {', '.join(found.reasons)}" if found.reasons else ""
    lines: Lines = [
        ("point", "", f"{found.kind}{why}"),
        ("boundary", "", "yes: real weights miss functions nearby" if found.boundary else "no"),
        ("rank of V", str(found.rank_V), f"of at most {min(found.d, found.d_out)}"),
        ("rank of A", str(found.rank_A), f"of at most {min(found.a, found.d)}"),
        ("dimension", str(found.dimension), "of the function space"),
        ("tangent", str(found.tangent), "dimensions of the tangent space at these weights"),
        (
            "tangents",
            str(found.tangent_span),
            "dimensions spanned by the tangent spaces at all weights with this function",
        ),
    ]
    lines += [("fiber" if not n else "", "", part) for n, part in enumerate(found.fiber)]
    lines.append(("arithmetic", "", "exact" if found.exact else "float64, tolerance 1e-9"))
    print_lines(plain_console(), lines)


@printed.register
def print_recovered(found: Recovered) -> None:
    """The matrices found, with their accuracy and the method."""
    console = plain_console()
    lines: Lines = [
        ("recovered", "", f"{found.spec} ({found.status}, {found.inputs} inputs)"),
        ("residual", "", f"{found.residual:.1e} (relative)"),
    ]
    if found.error is not None:
        lines.append(("error", "", f"about {found.error:.1e} (relative, estimated)"))
    if found.success_rate is not None:
        rate = f"{found.success_rate:.0%} of {found.starts} starts succeeded"
        lines.append(("starts", "", rate))
    lines += [("note", "", note) for note in found.notes]
    print_lines(console, lines)
    document = found.document()
    for number, head in enumerate(document["heads"], 1):
        label = f" of head {number}" if len(document["heads"]) > 1 else ""
        for name in ("V", "A"):
            _print_matrix(console, f"{name}{label}", head[name])
    for number, matrix in enumerate(document["products"]):
        _print_matrix(console, f"M_{number}" if number else "L", matrix)
    for head in document["alternatives"]:
        for name in ("V", "A"):
            _print_matrix(console, f"{name} of the other pair with this function", head[name])


def _print_matrix(console: Console, name: str, rows: list[list[Any]]) -> None:
    cells = [[x if isinstance(x, str) else f"{x:.6g}" for x in row] for row in rows]
    width = max(len(cell) for row in cells for cell in row)
    console.print(f"{name} =")
    for row in cells:
        console.print("  " + "  ".join(f"{cell:>{width}}" for cell in row), soft_wrap=True)
