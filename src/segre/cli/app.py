"""The commands of segre, put together. Heavy imports wait until a command runs."""

from __future__ import annotations

from typing import Annotated

import typer

from segre import __version__
from segre.cli import analysis, checkpoints, collapse, dimensions, fibers, pictures, sweeps

app = typer.Typer(
    name="segre",
    help="The exact geometry of attention networks: dimensions, symmetries, fibers and proofs.",
    epilog="""Examples:

    segre dim softmax/d=10,10,10/a=2,2/t=3

    segre dim llama/d=8/layers=2/heads=4/kv=2/head=2/ff=16/t=3

    segre dim llama-3-8b

    segre explain gpt2

    segre certify softmax/d=4,4,4/a=2/t=3 -o cert.json && segre verify cert.json

    segre symmetries lightning/d=4,4,4/a=2/t=3

    segre same one.json two.json

    segre weights same model other-model

    segre collapse bert-base-uncased --plot bert.png

    segre sweep run deep-softmax -o softmax.db

    segre plot slice cone -o cone.html""",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"segre {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Options of segre itself."""


for room in (analysis, dimensions, fibers, collapse):
    for command, epilog in room.COMMANDS:
        app.command(epilog=epilog)(command)
for name, help_text, group in (*checkpoints.GROUPS, *sweeps.GROUPS, *pictures.GROUPS):
    nested = typer.Typer(help=help_text, no_args_is_help=True, rich_markup_mode=None)
    for title, command, epilog in group:
        nested.command(title, epilog=epilog)(command)
    app.add_typer(nested, name=name)
