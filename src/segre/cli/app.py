"""The command line put together: every module adds its commands, and segre has two options."""

from __future__ import annotations

from typing import Annotated

import typer

from segre import __version__
from segre.cli import checkpoints, designs, experiments, insides, models, sweeps, variety
from segre.cli.tree import app
from segre.files import show_full_paths

__all__ = ["app"]
ROOMS = (models, designs, checkpoints, insides, variety, sweeps, experiments)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"segre {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[  # noqa: ARG001 - its callback prints it
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
    full_paths: Annotated[
        bool,
        typer.Option(
            "--full-paths",
            envvar="SEGRE_PATHS",
            show_envvar=False,
            help="Show full paths in reports and JSON.",
        ),
    ] = False,
) -> None:
    """Options of segre itself."""
    show_full_paths(full_paths)
