"""The command about trained layers of linear attention: certify-optimum."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from segre.cli.output import Out


def certify_optimum(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Data, weights and weight decay: X, Y, W_QK, W_OV and beta, as .json, .npz or "
            ".safetensors (docs/experiments-related.md); - reads standard input.",
        ),
    ],
    out: Out = Out(),
) -> None:
    """Prove how far, at most, a layer of linear attention is from its global optimum.

    The file holds a layer sum_h (X W_QK X^T) X W_OV, trained on 1/2 |f(X) - Y|^2 with weight decay
    beta/2 (|W_QK|^2 + |W_OV|^2). The bound holds for any number of heads.
    """
    from segre.optimum import certify_optimum as certified
    from segre.optimum.files import read_run

    problem, W_QK, W_OV = read_run(run)
    with out.progress() as progress:
        found = certified(problem, W_QK, W_OV, progress=progress)
    out.emit(found)


COMMANDS = (
    (
        certify_optimum,
        """Examples:
    segre certify-optimum run.json
    segre certify-optimum run.safetensors --json""",
    ),
)
