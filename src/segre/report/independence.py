"""Components of conditional-independence varieties on the terminal."""

from __future__ import annotations

from rich.text import Text

from segre.report.console import Lines, plain_console, print_lines
from segre.report.text import printed
from segre.variety.ci import Decomposition, Membership, said


@printed.register
def print_decomposition(found: Decomposition) -> None:
    """The kinds of components, and where a matrix lies if there is one."""
    console, grid = plain_console(), found.grid
    head = f"{grid.d} x {grid.k * grid.l} matrices on a {grid.k}x{grid.l} grid: rank < {grid.s} in "
    head += f"grid columns, rank < {grid.t} in grid rows"
    console.print(Text(head, style="bold cyan"), soft_wrap=True)
    components = "component" if found.value == 1 else "components"
    print_lines(
        console,
        [(components, f"{found.value:,}", Text(f"proved: {found.how}", style="green"))],
    )
    console.print()
    title = f"{'count':>6}  {'dimension':>9}  {'tangent':>7}  " if found.tangents else ""
    title = title or f"{'count':>6}  {'dimension':>9}  "
    console.print(Text(f"{title}points of one of them", style="bold"), soft_wrap=True)
    for n, kind in enumerate(found.kinds):
        tangent = f"{found.tangents[n]:>7}  " if found.tangents else ""
        words = said(grid, kind.example)
        line = f"{kind.count:>6}  {kind.dimension:>9}  {tangent}{words}"
        console.print(line, soft_wrap=True)
    if found.membership is not None:
        console.print()
        print_lines(console, _matrix_lines(found, found.membership))


def _matrix_lines(found: Decomposition, own: Membership) -> Lines:
    if own.reason:
        return [("matrix", "", Text(f"not in the variety: {own.reason}", style="red"))]
    components = "component" if own.count == 1 else "components"
    lines: Lines = [("matrix", "", f"on {own.count:,} {components}")]
    lines += [("", str(one.dimension), said(found.grid, one)) for one in own.components]
    if own.count > len(own.components):
        lines.append(("", "", f"and {own.count - len(own.components):,} more"))
    return lines
