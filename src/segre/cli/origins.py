"""Commands about where checkpoints come from: weights lineage, weights hash."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from segre.cli.output import Out
from segre.cli.pages import draw, require_writable

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
    """Do checkpoints have a common origin, and what was done to them? All pairs, and a tree."""
    from segre.checkpoint.origins import lineage as related

    require_writable(plot=plot)
    with out.progress() as progress:
        found = related(*models, progress=progress)
    draw(found, plot)
    code = 0
    if len(found.pairs) == 1:
        code = {True: 0, False: 1, None: 3}[found.pairs[0].related]
    out.emit(found, files={"plot": plot}, code=code)


def content_hash(
    models: Annotated[list[Path], typer.Argument(metavar="DIR", help=_HELP)],
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
    """A hash of the contents of each checkpoint, the same for all copies of one function."""
    from segre.checkpoint.content_hash import Hashes
    from segre.checkpoint.origins import content_hash as computed
    from segre.checkpoint.origins import read_hash

    other = None if compare is None else read_hash(compare)
    with out.progress() as progress:
        every = tuple(computed(model, exact=exact, progress=progress) for model in models)
    found = every[0] if len(every) == 1 else Hashes(every)
    if other is None:
        out.emit(found)
        return
    agreed = [one.compare(other) for one in every]
    documents = [{"verdict": x.verdict, "reason": x.reason} for x in agreed]
    names = [f"{one.name}, " if len(every) > 1 else "" for one in every]
    out.emit(
        found,
        data={"compared": documents[0] if len(every) == 1 else documents},
        lines=[
            f"{name}compared: {x.verdict}; {x.reason}"
            for name, x in zip(names, agreed, strict=True)
        ],
        code=int(any(x.verdict == "different" for x in agreed)),
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
    segre weights hash one two three
    segre weights hash model --json > model.json
    segre weights hash other --compare model.json

The function hash misses very small changes: docs/lineage.md says which, with measured figures.
Exit code 1 with --compare: different.""",
    ),
)
