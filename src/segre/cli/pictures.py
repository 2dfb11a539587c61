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
            help="cone (a surface in the space of functions of one layer), discriminant (products "
            "of two linear forms and their boundary) or fiber (weights that all have the same "
            "function).",
            autocompletion=completion.one_of(lambda: SLICES),
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help=".png, .svg, .pdf or .html.")
    ],
    point: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="With discriminant: weights to mark (a file as for `segre point`); repeatable.",
        ),
    ] = None,
    spec: Annotated[
        str, typer.Option(metavar="SPEC", help="With fiber: the architecture, with a >= 2.")
    ] = "softmax/d=3,3/a=2/t=3",
    seed: Seed = 0,
    out: Out = Out(),
) -> None:
    """Draw the functions of one layer, or a fiber, as a picture or an interactive page."""
    from segre.errors import SegreError
    from segre.geometry.slices import discriminant, fiber_curve, segre_cone
    from segre.report.drawing import require_format
    from segre.report.png import draw
    from segre.spec import Network
    from segre.weights import LayerPoint, Weights

    require_format(output)
    if kind not in SLICES:
        raise SegreError(f"unknown slice {kind!r}; allowed: {', '.join(SLICES)}")
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
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Directory for the stores.")
    ] = Path("theorems"),
    limit: Annotated[
        int | None, typer.Option(help="Stop each sweep after this many architectures.", min=0)
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes on this machine (default: one per core).", min=1)
    ] = None,
    out: Out = Out(),
) -> None:
    """Test every theorem against the exact rank on small architectures.

    The sweeps cover 3,500 stacks and 530 transformers that satisfy the hypotheses, and 60 that do
    not; they take tens of minutes. If interrupted, the same command continues. Exit code 1: an
    architecture that satisfies the hypotheses disagrees with its theorem.
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
        "Recompute tables and figures of the papers from scratch.",
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
