"""Commands for a first look: demo, and doctor for this installation."""

from __future__ import annotations

from pathlib import Path
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


def demo(
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="Where to write them; must be new.")
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

The base model is a Llama with 14,712 parameters, trained on a small artificial language. The
fine-tune has learned a dialect of it through an update of rank 2. The third directory holds the
fine-tune with other weights and the same function.""",
    ),
    (
        doctor,
        """Examples:
    segre doctor
    segre doctor --imports
    segre doctor --json > installation.json

Exit code 0: segre works, though extras may be missing; 1: something installed is broken.""",
    ),
)
