"""The options that commands about checkpoints share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_HELP = (
    "A model directory (config.json and safetensors), a .safetensors file beside its config.json, "
    "or the id of a model in the local Hugging Face cache."
)
Directory = Annotated[Path, typer.Argument(metavar="DIR", help=_HELP)]
Target = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="OUT", help="The directory to write: new, whole or not at all."
    ),
]
Report = Annotated[
    bool, typer.Option("--report", help="List what moved; compare outputs on random tokens.")
]

By = Annotated[
    str,
    typer.Option(
        metavar="WAY",
        help="Match what heads and units are (weights), or what they do on tokens (activations).",
    ),
]
Text = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="With --by activations: a text instead of random tokens."),
]
Rounds = Annotated[
    int, typer.Option(metavar="N", help="How often the basis of the stream is found anew.")
]
Length = Annotated[
    int | None,
    typer.Option(metavar="N", help="Tokens of a sequence; at most 32 of them are read."),
]
Untie = Annotated[
    bool,
    typer.Option(
        "--untie", help="Give tied models an unembedding of their own, so that streams can turn."
    ),
]
