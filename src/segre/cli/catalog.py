"""The command that lists what is known: models."""

from __future__ import annotations

from typing import Annotated

import typer

from segre.cli import completion
from segre.cli.output import TableOut


def models(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Show everything about one family, such as llama, or one preset, such as "
            "llama-3-8b.",
            autocompletion=completion.one_of(completion.known_models),
        ),
    ] = None,
    match: Annotated[
        str,
        typer.Option("--filter", metavar="TEXT", help="List only names that contain this text."),
    ] = "",
    supports: Annotated[
        str,
        typer.Option(
            metavar="QUESTION",
            help="List only models that support this: counted, small-proof, files, normal-form, "
            "collapse or paths.",
            autocompletion=completion.one_of(completion.questions),
        ),
    ] = "",
    out: TableOut = TableOut(),
) -> None:
    """List the supported families and presets, and what can be computed for each."""
    from segre.discovery import catalog

    with out.waiting("checking what is supported"):
        found = catalog(name, match=match, supports=supports)
        for entry in found.entries:
            entry.row()  # here, where it is waited for
    out.emit(found)


COMMANDS = (
    (
        models,
        """Examples:
    segre models
    segre models llama-3-8b
    segre models --filter qwen --csv
    segre models --supports normal-form --json""",
    ),
)
