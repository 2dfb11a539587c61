"""Components of conditional-independence varieties."""

from __future__ import annotations

from collections.abc import Iterator

from segre.report.blocks import Block, Cell, Fact, Facts, Say, Table, Tile, Title, table
from segre.report.views import tabled, view
from segre.variety.ci import Decomposition, Membership, said


@view.register
def of_decomposition(found: Decomposition) -> Iterator[Block]:
    """The kinds of components, and where a matrix lies if there is one."""
    grid = found.grid
    head = f"{grid.d} x {grid.k * grid.l} matrices on a {grid.k}x{grid.l} grid: rank < {grid.s} in "
    yield Title(f"{head}grid columns, rank < {grid.t} in grid rows")
    components = "component" if found.value == 1 else "components"
    yield Facts(
        (Tile(components, f"{found.value:,}", "proved by theorem", f"proved: {found.how}"),)
    )
    yield Say()
    tangents = [()] * len(found.kinds) if not found.tangents else [(n,) for n in found.tangents]
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (f"{kind.count:>6}", f"{kind.dimension:>9}", *more, said(grid, kind.example))
        for kind, more in zip(found.kinds, tangents, strict=True)
    )
    names = (" count", "dimension", *["tangent"] * bool(found.tangents), "points of one of them")
    yield Table("components", "", names, rows, (*[True] * (len(names) - 1), False))
    if found.membership is not None:
        yield Say()
        yield Facts(tuple(_matrix(found, found.membership)))


def _matrix(found: Decomposition, own: Membership) -> Iterator[Fact]:
    if own.reason:
        yield "matrix", "", f"not in the variety: {own.reason}"
        return
    components = "component" if own.count == 1 else "components"
    yield "matrix", "", f"on {own.count:,} {components}"
    yield from (("", one.dimension, said(found.grid, one)) for one in own.components)
    if own.count > len(own.components):
        yield "", "", f"and {own.count - len(own.components):,} more"


@tabled.register
def table_of_components(found: Decomposition) -> Table:
    """A line for each kind of component."""
    points = ("points", lambda one: said(found.grid, one.example))
    return table("components", "Components", found.kinds, "count", "dimension", points)
