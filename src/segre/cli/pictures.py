"""Commands that draw: plot slice, reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from segre.cli import completion
from segre.cli.options import Seed
from segre.cli.output import Out

SLICES = ("cone", "discriminant", "fiber")


def plot_slice(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="cone (functions of one layer, cut to a surface), discriminant (products of two"
            " linear forms and their wall) or fiber (weights that move, the function stays).",
            autocompletion=completion.one_of(lambda: SLICES),
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help=".png, .svg, .pdf or .html.")
    ],
    point: Annotated[
        list[Path] | None,
        typer.Option(help="discriminant: a point to place (as for `segre point`); repeatable."),
    ] = None,
    spec: Annotated[
        str, typer.Option(metavar="SPEC", help="fiber: the architecture, with a >= 2.")
    ] = "softmax/d=3,3/a=2/t=3",
    seed: Seed = 0,
    out: Out = Out(),
) -> None:
    """Draw the functions of one layer, or a fiber, as a picture or an interactive page."""
    from segre.errors import SegreError
    from segre.geometry.slices import discriminant, fiber_curve, segre_cone
    from segre.report.drawing import require_format
    from segre.report.slices import draw
    from segre.spec import Network
    from segre.weights import LayerPoint, Weights

    require_format(output)
    if kind not in SLICES:
        raise SegreError(f"slice {kind!r} is not known; allowed: {', '.join(SLICES)}")
    with out.waiting("drawing"):
        if kind == "cone":
            draw(segre_cone(), output)
        elif kind == "discriminant":
            files = point or []
            layers = [LayerPoint.read(file) for file in files]
            placed = [(f.stem, p.V, p.A, p.a or 1) for f, p in zip(files, layers, strict=True)]
            draw(discriminant(placed), output)
        else:
            draw(fiber_curve(Weights.random(Network.parse(spec), seed)), output)
    out.emit(files={"plot": output}, data={"slice": kind, "seed": seed})


def theorems(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the stores are kept.")
    ] = Path("theorems"),
    limit: Annotated[
        int | None, typer.Option(help="At most so many architectures of each sweep now.", min=0)
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes on this machine; one per core by default.", min=1)
    ] = None,
    out: Out = Out(),
) -> None:
    """Every theorem against the exact rank, on small architectures.

    3,500 stacks and 530 transformers within the hypotheses, and 60 outside: tens of minutes. The
    stores are kept, and the same command goes on where it was interrupted. Exit code 1 if there
    is a mismatch within the hypotheses.
    """
    from segre.cli.resumable import resumable
    from segre.reproduce.theorems import experiment

    with out.progress() as progress, resumable(output):
        found = experiment(output, limit=limit, workers=workers, progress=progress)
    out.emit(found, code=1 if found.mismatches else 0)


GROUPS = (
    (
        "plot",
        "Pictures of function spaces and fibers.",
        (
            (
                "slice",
                plot_slice,
                """Examples:
    segre plot slice cone -o cone.html
    segre plot slice discriminant -o wall.png --point P.json --point Q.json
    segre plot slice fiber -o fiber.svg --spec lightning/d=4,4/a=3/t=3""",
            ),
        ),
    ),
    (
        "reproduce",
        "Recompute the papers' tables and figures, every number afresh.",
        (
            (
                "theorems",
                theorems,
                """Examples:
    segre reproduce theorems -o theorems
    segre reproduce theorems -o theorems --limit 5""",
            ),
        ),
    ),
)
