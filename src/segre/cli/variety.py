"""Commands about varieties of functions: degree, critical."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from segre.cli import completion
from segre.cli.options import Memory, PolynomialSpec, Seed, memory_bytes
from segre.cli.output import Out
from segre.cli.pages import draw, require_writable
from segre.errors import SegreError

METRICS = ("generic", "gaussian", "identity")
Seconds = Annotated[
    float, typer.Option(help="Time limit for counting; past it only the formula answers.", min=0)
]


def degree(
    spec: PolynomialSpec,
    seconds: Seconds = 20,
    seed: Seed = 0,
    memory: Memory = "8G",
    out: Out = Out(),
) -> None:
    """The degree of the function variety of a polynomial network.

    The degree is computed by a formula where one is proved, and by counting the intersection points
    of the variety with a random linear space mod p, which gives a proved lower bound.
    """
    from segre.variety.degree import degree as answer

    with out.progress() as progress:
        found = answer(spec, seed, seconds=seconds, memory=memory_bytes(memory), progress=progress)
    out.emit(found, code=3 if found.status == "not run" else 0)


def critical(
    spec: PolynomialSpec,
    metric: Annotated[
        str | None,
        typer.Option(
            help="Squared loss: generic (a generic quadratic form), gaussian (expected loss on "
            "standard normal inputs) or identity (the Frobenius norm of symmetric tensors). "
            "Default: generic; with --target, gaussian.",
            autocompletion=completion.one_of(lambda: METRICS),
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="T",
            help="For poly/n-r-1/degree=2: list all critical points for this target, given as "
            "eigenvalues such as 3,2,1,-1.5 or as a .json or .npy file with a symmetric "
            "matrix.",
        ),
    ] = None,
    descent: Annotated[
        int,
        typer.Option(
            metavar="N", help="With --target: run gradient descent from N random starts.", min=0
        ),
    ] = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="With --descent: also draw a plot: .png, .svg or .pdf.",
        ),
    ] = None,
    seconds: Seconds = 20,
    seed: Seed = 0,
    memory: Memory = "8G",
    out: Out = Out(),
) -> None:
    """Count the critical points of the squared loss, or list them for a given target.

    The count is that of complex critical points for generic data. It comes from a formula where one
    is proved, and from counting mod p, which gives a proved lower bound.
    """
    from segre.variety.critical import critical as answer

    if target is None:
        if descent or output is not None:
            raise SegreError(
                "--descent and -o need a target; add --target, for example --target 3,2,1,-1.5"
            )
        with out.progress() as progress:
            found = answer(
                spec,
                metric or "generic",
                seed,
                seconds=seconds,
                memory=memory_bytes(memory),
                progress=progress,
            )
        out.emit(found, code=3 if found.status == "not run" else 0)
        return
    from segre.variety.landscape import landscape

    if output is not None and not descent:
        raise SegreError("-o draws gradient descent; add --descent, for example --descent 50")
    require_writable(plot=output)
    with out.progress() as progress:
        whole = landscape(
            spec, target, metric or "gaussian", descent=descent, seed=seed, progress=progress
        )
    draw(whole, output)
    out.emit(whole, files={} if output is None else {"plot": output})


COMMANDS = (
    (
        degree,
        """Examples:
    segre degree cnn/k=3,2/degree=2
    segre degree poly/4-2-1/degree=2
    segre degree poly/3-2-1/degree=3 --seconds 60

Exit code 3: no formula is known, and nothing was counted.""",
    ),
    (
        critical,
        """Examples:
    segre critical cnn/k=2,2/degree=2
    segre critical poly/3-1-1/degree=2 --metric gaussian
    segre critical poly/4-2-1/degree=2 --target 3,2,1,-1.5 --descent 50

Exit code 3: no formula is known, and nothing was counted.""",
    ),
)
