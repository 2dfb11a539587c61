"""The command that writes one report on a model or a design: analyze."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from segre.cli import completion
from segre.cli.options import Defaults, Memory, Seed, meant, memory_bytes
from segre.cli.output import Out
from segre.cli.pages import require_writable, write
from segre.files import shown

REPORT = Path("report.html")


def analyze(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="A model directory, a config.json, a name such as llama-3-8b, an inline spec such "
            "as llama/d=8/heads=2/ff=16/t=3, or a .toml or .json file.",
            autocompletion=completion.architecture,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.html",
            help="Report file (default: report.html; none with --json unless given).",
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            metavar="PARTS",
            help="Only these parts, separated by commas: findings, what, dimension, redundancy, "
            "proof, depth, heads, paths, weights.",
            autocompletion=completion.several_of(completion.parts),
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET",
            help="A second model or design, shown side by side in the same report.",
            autocompletion=completion.architecture,
        ),
    ] = None,
    inputs: Annotated[
        int, typer.Option(help="Number of inputs on which depth is measured.", min=1)
    ] = 4,
    length: Annotated[int, typer.Option(help="Largest number of tokens in an input.", min=2)] = 64,
    text: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Take inputs from a text file, with the model's tokenizer."
        ),
    ] = None,
    defaults: Defaults = False,
    seed: Seed = 0,
    memory: Memory = "8G",
    out: Out = Out(),
) -> None:
    """Write one report on a model or a design: what is known about it, and how."""
    from segre.analysis.run import Analysis
    from segre.analysis.run import analyze as answers
    from segre.analysis.side_by_side import SideBySide, side_by_side

    file = output or (REPORT if out.is_text else None)
    require_writable(page=file)
    asked: dict[str, Any] = {
        "only": [key.strip() for key in only.split(",")] if only is not None else (),
        "seed": seed,
        "inputs": inputs,
        "length": length,
        "text": text,
        "memory": memory_bytes(memory),
    }
    found: Analysis | SideBySide
    with out.progress() as progress:
        if against is None:
            found = answers(meant(target, defaults), **asked, progress=progress)
        else:
            both = (meant(one, defaults) for one in (target, against))
            found = side_by_side(*both, **asked, progress=progress)
    write(found, file)
    out.emit(
        found,
        data={"report": None if file is None else shown(file)},
        lines=[
            *([] if file is None else [_written(file)]),
            *(f"{part.title} failed: {part.reason}" for part in found.failed),
        ],
        code=3 if found.failed else 0,
    )


def _written(file: Path) -> str:
    if not file.is_file():
        return f"report: {file}"
    size = file.stat().st_size / 1e6
    return f"report: {file} ({size:.1f} MB, one file; open it in a browser)"


COMMANDS = (
    (
        analyze,
        """Examples:
    segre analyze llama-3-8b
    segre analyze llama/d=8/layers=2/heads=4/kv=2/ff=16/t=3 -o llama.html
    segre analyze model-directory -o report.html --text book.txt
    segre analyze path/to/config.json --only dimension,redundancy --json
    segre analyze base --against fine-tuned -o both.html
    segre analyze gpt2 --against llama-3-8b

Exit code 3: a part failed, which is a bug in segre; the report has the other parts.""",
    ),
)
