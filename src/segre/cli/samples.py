"""Commands about identifiability: samples, ci."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from segre.cli.options import Defaults, Memory, Seed, Spec, meant, memory_bytes
from segre.cli.output import TableOut
from segre.errors import SegreError


def samples(
    spec: Spec,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw rank against inputs, as .png, .svg or .pdf."),
    ] = None,
    defaults: Defaults = False,
    seed: Seed = 0,
    memory: Memory = "8G",
    out: TableOut = TableOut(),
) -> None:
    """How many generic inputs determine the function, up to finitely many others."""
    from segre.geometry.samples import samples as count

    if plot is not None:
        from segre.report.drawing import require_static_format

        require_static_format(plot)
    limit = memory_bytes(memory)
    with out.progress() as progress:
        found = count(meant(spec, defaults), seed, memory=limit, progress=progress)
    if plot is not None:
        if not found.ranks:
            raise SegreError(
                f"{str(found.spec)!r} is too large to compute ranks of, so --plot has nothing to "
                "draw; leave it out to see the bounds"
            )
        from segre.report.samples import plot_samples

        plot_samples(found, plot)
    out.emit(found, files={} if plot is None else {"plot": plot})


COMMANDS = (
    (
        samples,
        """Examples:
    segre samples lightning/d=3,3/a=1/t=3
    segre samples poly/4-2-5/degree=2 --csv
    segre samples softmax/d=8,8/a=4/t=2 --plot ranks.png

Status: proved, or computed (ranks at random points mod p), or bounds for large architectures.""",
    ),
)
