"""The commands of segre, put together. Heavy imports wait until a command runs."""

from __future__ import annotations

from typing import Annotated

import typer

from segre import __version__
from segre.cli import (
    analysis,
    catalog,
    checkpoints,
    collapse,
    comparison,
    diff,
    dimensions,
    experiments,
    exploring,
    fibers,
    inspection,
    installation,
    optimum,
    pictures,
    samples,
    sequences,
    sweeps,
    variety,
)
from segre.cli.front import Front, Group
from segre.cli.help_page import Command, verbatim
from segre.cli.output import with_output
from segre.files import show_full_paths

app = typer.Typer(
    name="segre",
    cls=Front,
    help=verbatim("""Compare transformers as functions, and prove what an architecture can express.

Models to try it on   segre demo
The same function?    segre weights same segre-demo/fine-tune segre-demo/moved
What changed?         segre diff segre-demo/base segre-demo/moved
One report on it      segre analyze segre-demo/base -o report.html
What is redundant?    segre explain gpt2
Which design?         segre compare llama-3-8b llama-3-8b/kv=32
Which dimension?      segre dim softmax/d=10,10,10/a=2,2/t=3
Prove it              segre certify softmax/d=4,4,4/a=2/t=3 -o cert.json
Does depth collapse?  segre collapse bert-base-uncased --plot bert.png
Does a formula hold?  segre sweep run deep-softmax -o softmax.db"""),
    epilog=verbatim(
        "Every command has --help with examples, --json and --quiet; see docs/command-line.md.\n"
        "Exit codes: 0 answered, 1 no or invalid, 2 bad input, 3 inconclusive, 70 failed, "
        "130 interrupted."
    ),
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


ROOMS = (
    *(analysis, dimensions, samples, variety, comparison, exploring),
    *(fibers, diff, inspection, sequences, collapse, optimum),
    *(catalog, installation),
)
for room in ROOMS:
    for command, epilog in room.COMMANDS:
        app.command(cls=Command, epilog=verbatim(epilog))(with_output(command))
for name, help_text, group in (*checkpoints.GROUPS, *sweeps.GROUPS, *pictures.GROUPS):
    nested = typer.Typer(cls=Group, help=help_text, no_args_is_help=True, rich_markup_mode=None)
    if name == "reproduce":
        nested = experiments.group()
    for title, command, epilog in group:
        nested.command(title, cls=Command, epilog=verbatim(epilog))(with_output(command))
    app.add_typer(nested, name=name)
