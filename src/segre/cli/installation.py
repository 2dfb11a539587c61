"""The command about this installation: doctor."""

from __future__ import annotations

from typing import Annotated

import typer

from segre.cli.output import Out


def doctor(
    imports: Annotated[
        bool,
        typer.Option(
            "--imports", help="Also import every package, each in its own process (slower)."
        ),
    ] = False,
    out: Out = Out(),
) -> None:
    """What is installed, what is missing, and does it work?"""
    from segre.doctor import examine

    with out.progress() as progress:
        found = examine(imports, progress)
    out.emit(found, code=0 if found.works else 1)


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
