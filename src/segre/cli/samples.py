"""Commands about identifiability: samples, ci."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from segre.cli.options import Defaults, Memory, Seed, Spec, meant, memory_bytes
from segre.cli.output import TableOut
from segre.cli.pages import draw, require_writable
from segre.errors import SegreError
from segre.values import quote


def samples(
    spec: Spec,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Plot the rank against the number of inputs: .png, .svg or .pdf."
        ),
    ] = None,
    defaults: Defaults = False,
    seed: Seed = 0,
    memory: Memory = "8G",
    out: TableOut = TableOut(),
) -> None:
    """How many generic inputs determine the function, up to finitely many others."""
    from segre.geometry.samples import samples as count

    require_writable(plot=plot)
    limit = memory_bytes(memory)
    with out.progress() as progress:
        found = count(meant(spec, defaults), seed, memory=limit, progress=progress)
    if plot is not None and not found.ranks:
        raise SegreError(
            f"--plot needs computed ranks, and {str(found.spec)!r} is too large for that; "
            f"leave out --plot to see the bounds"
        )
    draw(found, plot)
    out.emit(found, files={} if plot is None else {"plot": plot})


def ci(
    grid: Annotated[
        str,
        typer.Option(
            "--grid", metavar="KxL", help="Rows and columns of the grid, for example 2x3."
        ),
    ],
    s: Annotated[int, typer.Option("--s", help="Rank below s in every grid column.")],
    t: Annotated[int, typer.Option("--t", help="Rank below t in every grid row.")],
    d: Annotated[int, typer.Option("--d", help="Length of the vector at each place of the grid.")],
    matrix: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Say which components contain this d x KL matrix (.csv or .json, exact). Its "
            "columns are the places (1, 1), (1, 2), ..., (K, L).",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Also compute the tangent space of the variety mod p at a random "
            "point of each component.",
        ),
    ] = False,
    seed: Seed = 0,
    out: TableOut = TableOut(),
) -> None:
    """Components of a conditional-independence variety with hidden variables."""
    from segre.variety.ci import components
    from segre.variety.ci_matrix import read_matrix

    sizes = re.fullmatch(r"([0-9]{1,6})[xX]([0-9]{1,6})", grid)
    if sizes is None:
        raise SegreError(
            f"--grid {quote(grid)} is not allowed; allowed: rows x columns, for example 2x3"
        )
    with out.waiting("decomposing"):
        found = components(
            (int(sizes[1]), int(sizes[2])),
            s=s,
            t=t,
            d=d,
            matrix=None if matrix is None else read_matrix(matrix),
            check=check,
            seed=seed,
        )
    outside = found.membership is not None and bool(found.membership.reason)
    out.emit(found, code=1 if outside else 0)


COMMANDS = (
    (
        samples,
        """Examples:
    segre samples lightning/d=3,3/a=1/t=3
    segre samples poly/4-2-5/degree=2 --csv
    segre samples softmax/d=8,8/a=4/t=2 --plot ranks.png

Status: proved; computed (ranks at random points mod p); or, for large architectures, bounds.""",
    ),
    (
        ci,
        """Examples:
    segre ci --grid 2x3 --s 2 --t 3 --d 3
    segre ci --grid 3x3 --s 2 --t 2 --d 3 --check
    segre ci --grid 2x2 --s 2 --t 2 --d 2 --matrix matrix.csv

Decided cases: s=2 with t=L, t=2 with s=K, and s=t=2.
Exit code 1: the matrix is not in the variety.""",
    ),
)
