"""Commands for a first look: demo, and doctor, which checks the installation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from segre.cli.output import Out


def doctor(
    imports: Annotated[
        bool,
        typer.Option(
            "--imports", help="Also import every package, each in a separate process (slower)."
        ),
    ] = False,
    out: Out = Out(),
) -> None:
    """Check the installation: what is installed, what is missing, and does it work?"""
    from segre.doctor import examine

    with out.progress() as progress:
        found = examine(imports, progress)
    out.emit(found, code=0 if found.works else 1)


def demo(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIRECTORY", help="Directory to write the models to; it must be new or empty."
        ),
    ] = Path("segre-demo"),
    out: Out = Out(),
) -> None:
    """Write three small models to try commands on: base, fine-tune, moved copy."""
    from segre.checkpoint.demo import demo as made

    with out.waiting("writing"):
        found = made(directory)
    out.emit(found)


COMMANDS = (
    (
        demo,
        """Examples:
    segre demo
    segre demo try-here && segre diff try-here/base try-here/moved

The base model is a Llama with 16,248 parameters, trained on a small artificial language. The
fine-tune learned a dialect of it with an update of rank 2. The third directory holds the fine-tune
again, with different weights but the same function.""",
    ),
    (
        doctor,
        """Examples:
    segre doctor
    segre doctor --imports
    segre doctor --json > installation.json

Exit code 0: segre works (missing extras are not an error); 1: an installed package is broken.""",
    ),
)
