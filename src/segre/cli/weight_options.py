"""Options shared by the commands on checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_HELP = (
    "A model directory (config.json and safetensors), a .safetensors file beside its config.json, "
    "or the id of a model in the local Hugging Face cache."
)
Directory = Annotated[Path, typer.Argument(metavar="DIR", help=_HELP)]
First = Annotated[
    Path, typer.Argument(metavar="A", help=f"The first checkpoint: {_HELP[0].lower()}{_HELP[1:]}")
]
Second = Annotated[
    Path, typer.Argument(metavar="B", help="The second checkpoint, in any of these forms.")
]
Target = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="OUT",
        help="Directory to write; it must be new or empty, and nothing is left there if writing "
        "fails.",
    ),
]
Report = Annotated[
    bool, typer.Option("--report", help="List the changes, and compare outputs on random tokens.")
]

By = Annotated[
    str,
    typer.Option(
        metavar="WAY",
        help="How to match heads and units: by weights, or by activations on tokens.",
    ),
]
Text = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="With --by activations: a text file instead of random tokens."
    ),
]
Rounds = Annotated[
    int, typer.Option(metavar="N", help="How many times the basis of the stream is recomputed.")
]
Length = Annotated[
    int | None,
    typer.Option(metavar="N", help="Tokens per sequence; at most 32 sequences are read."),
]
Untie = Annotated[
    bool,
    typer.Option(
        "--untie",
        help="Untie the unembedding of tied models, so that their residual stream can be rotated.",
    ),
]
