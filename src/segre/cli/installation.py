"""The command about this installation: doctor."""

from __future__ import annotations

from typing import Annotated

import typer

from segre.cli.options import AsJson, Quiet, print_json


def doctor(
    imports: Annotated[
        bool,
        typer.Option(
            "--imports", help="Also import every package, each in its own process (slower)."
        ),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """What is installed, what is missing, and does it work?"""
    from segre.cli.progress import progress_bar
    from segre.doctor import examine
    from segre.report.doctor import print_examination

    with progress_bar(quiet or as_json) as progress:
        found = examine(imports, progress)
    if as_json:
        print_json(found.document())
    else:
        print_examination(found)
    raise typer.Exit(0 if found.works else 1)


COMMANDS = (
    (
        doctor,
        """Examples:
    segre doctor
    segre doctor --imports
    segre doctor --json > installation.json

Exit code 0: segre works, though extras may be missing; 1: something installed is broken.""",
    ),
)
