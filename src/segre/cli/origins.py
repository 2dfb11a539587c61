"""Commands about where checkpoints come from: weights lineage, weights hash."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from segre.cli.output import Out
from segre.cli.pages import require_writable
from segre.cli.weight_options import Directory

_HELP = (
    "Model directories (config.json and safetensors), .safetensors files beside their "
    "config.json, or ids of models in the local Hugging Face cache."
)


def lineage(
    models: Annotated[list[Path], typer.Argument(metavar="DIR", help=_HELP)],
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the distances and the tree: .png, .svg or .pdf."),
    ] = None,
    out: Out = Out(),
) -> None:
    """Do checkpoints have a common origin? Moved, rounded, noised, fine-tuned and pruned copies."""
    from segre.checkpoint.origins import lineage as related

    require_writable(plot=plot)
    with out.progress() as progress:
        found = related(*models, progress=progress)
    if plot is not None:
        from segre.report.lineage_plots import plot_lineage

        plot_lineage(found, plot)
    code = 0
    if len(found.pairs) == 1:
        code = {True: 0, False: 1, None: 3}[found.pairs[0].related]
    out.emit(found, files={"plot": plot}, code=code)


def content_hash(
    directory: Directory,
    exact: Annotated[
        bool, typer.Option("--exact", help="Hash only the values; works for all families.")
    ] = False,
    compare: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Compare with another checkpoint: a file written by `hash --json`."
        ),
    ] = None,
    out: Out = Out(),
) -> None:
    """A hash of the contents of a checkpoint, the same for all copies of one function."""
    from segre.checkpoint.origins import content_hash as computed
    from segre.checkpoint.origins import read_hash

    other = None if compare is None else read_hash(compare)
    with out.progress() as progress:
        found = computed(directory, exact=exact, progress=progress)
    if other is None:
        out.emit(found)
        return
    agreement = found.compare(other)
    out.emit(
        found,
        data={"compared": {"verdict": agreement.verdict, "reason": agreement.reason}},
        lines=[f"compared: {agreement.verdict}; {agreement.reason}"],
        code=int(agreement.verdict == "different"),
    )


COMMANDS = (
    (
        "lineage",
        lineage,
        """Examples:
    segre weights lineage base other
    segre weights lineage base one two three --plot tree.png --json

Exit code for two checkpoints: 0 a common origin; 1 no evidence of one; 3 undecided.""",
    ),
    (
        "hash",
        content_hash,
        """Examples:
    segre weights hash model
    segre weights hash model --json > model.json
    segre weights hash other --compare model.json

Exit code 1 with --compare: different.""",
    ),
)
