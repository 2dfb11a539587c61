"""Commands about checkpoints: weights info, canonical, move, same, align, shrink, ..."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from segre.cli.merging import COMMANDS as MERGING
from segre.cli.options import Seed
from segre.cli.origins import COMMANDS as ORIGINS
from segre.cli.output import Out
from segre.cli.pages import draw, require_writable
from segre.cli.weight_options import (
    By,
    Directory,
    First,
    Length,
    Report,
    Rounds,
    Second,
    Target,
    Text,
    Untie,
)
from segre.files import extension, place, shown


def info(
    directory: Directory,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw a plot: .png, .svg or .pdf.")
    ] = None,
    out: Out = Out(),
) -> None:
    """What a checkpoint contains, how much of it is redundant, and statistics of its weights."""
    from segre.checkpoint.commands import info as describe

    require_writable(plot=plot)
    with out.progress() as progress:
        found = describe(directory, progress)
    draw(found, plot)
    out.emit(found, lines=() if plot is None else [f"plot: {plot}"])


def canonical(
    directory: Directory,
    output: Target,
    report: Report = False,
    seed: Seed = 0,
    out: Out = Out(),
) -> None:
    """Write the normal form, which is the same up to rounding for all copies of one function."""
    from segre.checkpoint.commands import canonical as write

    with out.progress() as progress:
        written = write(directory, output, report=report, seed=seed, progress=progress)
    out.emit(written, code=0 if written.agrees else 3)


def move(
    directory: Directory,
    output: Target,
    report: Report = False,
    seed: Seed = 0,
    out: Out = Out(),
) -> None:
    """Write different weights with the same function, using random symmetries of every kind."""
    from segre.checkpoint.commands import move as write

    with out.progress() as progress:
        written = write(directory, output, report=report, seed=seed, progress=progress)
    out.emit(written, code=0 if written.agrees else 3)


def same(
    one: First,
    two: Second,
    witness: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the group element that maps the second checkpoint to the first.",
        ),
    ] = None,
    seed: Seed = 0,
    out: Out = Out(),
) -> None:
    """Decide from the weights, block by block, whether two checkpoints are the same function."""
    from segre.checkpoint.commands import check as verify
    from segre.checkpoint.commands import same as compare
    from segre.errors import CheckpointError

    if witness is not None and extension(witness, (".safetensors",)) and place(witness) is None:
        raise CheckpointError(f"--witness {str(witness)!r}: name a file, since it is read back")
    with out.progress() as progress:
        found = compare(one, two, seed=seed, progress=progress)
        written = witness is not None and found.witness is not None and found.same
        if written:
            assert witness is not None
            assert found.witness is not None
            found.witness.write(witness)
            if not verify(one, two, witness, progress=progress).value:
                raise CheckpointError(
                    f"witness {str(witness)!r} fails its check when it is read back"
                )
    out.emit(
        found,
        data={"witness": shown(witness) if written and witness is not None else None},
        lines=[f"witness: {witness} (read back and checked)"] if written else (),
        code=0 if found.same else {"different": 1}.get(found.verdict, 3),
    )


def check(
    one: First,
    two: Second,
    witness: Annotated[
        Path, typer.Argument(metavar="WITNESS", help="A file written by `same --witness`.")
    ],
    out: Out = Out(),
) -> None:
    """Check that a witness maps the second checkpoint to the first; nothing is searched for."""
    from segre.checkpoint.commands import check as verify

    with out.progress() as progress:
        found = verify(one, two, witness, progress=progress)
    out.emit(found, code=0 if found.value else 1)


def align(
    one: First,
    two: Second,
    output: Target,
    by: By = "weights",
    text: Text = None,
    length: Length = None,
    rounds: Rounds = 1,
    untie: Untie = False,
    seed: Seed = 0,
    out: Out = Out(),
) -> None:
    """Write the second checkpoint, moved towards the first by symmetries.

    Its function stays the same, which is checked. Distances and cosines are printed by block.
    """
    from segre.checkpoint.commands import align as write

    with out.progress() as progress:
        written = write(
            *(one, two, output),
            by=by,
            text=text,
            length=length,
            rounds=rounds,
            untie=untie,
            seed=seed,
            progress=progress,
        )
    out.emit(written, code=0 if written.agrees else 3)


def shrink(
    directory: Directory,
    output: Target,
    out: Out = Out(),
) -> None:
    """Store the normal form without the entries that follow from the others."""
    from segre.checkpoint.commands import shrink as write

    with out.progress() as progress:
        done = write(directory, output, progress)
    out.emit(done)


def expand(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A directory written by `shrink`.")
    ],
    output: Target,
    out: Out = Out(),
) -> None:
    """Rebuild the normal form, up to rounding, from a directory written by `shrink`."""
    from segre.checkpoint.commands import expand as write

    with out.progress() as progress:
        write(directory, output, progress)
    said = f"{output}: the normal form, an ordinary model directory"
    out.emit(data={"directory": shown(output)}, lines=[said])


def convert(
    file: Annotated[Path, typer.Argument(metavar="FILE.gguf", help="A GGUF file.")],
    output: Target,
    out: Out = Out(),
) -> None:
    """Write a GGUF file as an ordinary model directory (float32, safetensors)."""
    from segre.checkpoint.commands import convert as write

    with out.waiting("converting"):
        write(file, output)
    out.emit(data={"directory": shown(output)}, lines=[f"{output}: an ordinary model directory"])


COMMANDS = (
    (
        "info",
        info,
        """Examples:
    segre weights info model
    segre weights info model --plot heads.png --json > info.json""",
    ),
    (
        "canonical",
        canonical,
        """Example:
    segre weights canonical model -o model-canonical --report

Exit code 3: outputs differ by more than rounding can explain.""",
    ),
    (
        "move",
        move,
        """Example:
    segre weights move model -o other --seed 1""",
    ),
    (
        "same",
        same,
        """Examples:
    segre weights same one two
    segre weights same one two --witness turn.safetensors --json

Exit code 0: identical, same function, same up to rounding to a half type or less (the verdict
names it), or same on common tokens; 1: different; 3: undecided.""",
    ),
    (
        "check",
        check,
        """Example:
    segre weights check one two turn.safetensors

Exit code 0: the witness holds; 1: it does not.""",
    ),
    (
        "align",
        align,
        """Examples:
    segre weights align base fine-tuned -o fine-tuned-aligned
    segre weights align one two -o aligned --by activations --text words.txt

Then merge with any tool, or with `segre weights merge`.""",
    ),
    (
        "shrink",
        shrink,
        """Example:
    segre weights shrink model -o small && segre weights expand small -o again""",
    ),
    (
        "expand",
        expand,
        """Example:
    segre weights expand small -o model""",
    ),
    (
        "convert",
        convert,
        """Example:
    segre weights convert model.gguf -o model""",
    ),
)
GROUPS = (
    (
        "weights",
        "Checkpoints: normal form, same function or not, alignment, merging, lineage.",
        (*COMMANDS, *MERGING, *ORIGINS),
    ),
)
