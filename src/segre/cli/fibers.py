"""Commands about given weights: same, move, point, recover."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from segre.cli.options import AsJson, Quiet, Seed, print_json
from segre.files import shown

WeightsFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="Weights: a .json or .npz file (docs/geometry.md).")
]


def same(
    one: WeightsFile,
    two: WeightsFile,
    tolerance: Annotated[
        float, typer.Option(help="Relative tolerance for floats; fractions need none.", min=0)
    ] = 1e-8,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Are two small networks the same function? Proved for fractions."""
    from segre.cli.progress import waiting
    from segre.geometry.same import same_function
    from segre.report.text import print_comparison
    from segre.weights import Weights

    with waiting("comparing", quiet or as_json):
        found = same_function(Weights.read(one), Weights.read(two), tolerance=tolerance, seed=seed)
    if as_json:
        print_json(found.document())
    else:
        print_comparison(found)
    raise typer.Exit({"same": 0, "different": 1, "undecided": 3}[found.verdict])


def move(
    file: WeightsFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write: .json or .npz.")
    ],
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write other weights of the same function."""
    from segre.cli.progress import waiting
    from segre.geometry.fiber import sample
    from segre.weights import Weights

    with waiting("moving", quiet or as_json):
        weights = Weights.read(file)
        sample(weights, seed).write(output)
    if as_json:
        print_json({"file": shown(output), "spec": str(weights.spec), "seed": seed})
    else:
        typer.echo(f"{output}: other weights of {weights.spec}, the same function")


def point(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A .json or .npz file with V and A, or V, K, Q; fractions as strings are exact.",
        ),
    ],
    a: Annotated[
        int | None, typer.Option("--a", help="The head rank, if the file has V and A.", min=1)
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Is a function of one lightning layer a smooth or singular point?"""
    from segre.cli.progress import waiting
    from segre.errors import SegreError
    from segre.geometry.strata import classify
    from segre.report.text import print_stratum
    from segre.weights import LayerPoint

    given = LayerPoint.read(file)
    rank = a or given.a
    if rank is None:
        raise SegreError(f"point {str(file)!r}: A alone does not say the head rank; give --a")
    with waiting("classifying", quiet or as_json):
        stratum = classify(given.V, given.A, rank, given.weights if rank == given.a else None)
    if as_json:
        print_json(stratum.document())
    else:
        print_stratum(stratum)


def recover(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Inputs X and outputs Y: .npz, or .json (exact if fractions)."
        ),
    ],
    spec: Annotated[
        str, typer.Option("--spec", help="What to look for: lightning/d=8,8/a=3/t=4, or a kind.")
    ],
    a: Annotated[
        int | None, typer.Option("--a", help="Head rank, if --spec is just a kind.", min=1)
    ] = None,
    starts: Annotated[int, typer.Option(help="Starts of a fit.", min=1)] = 20,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Recover the weights of a layer from its inputs and outputs.

    As far as they determine them: otherwise segre says what is missing.
    """
    from segre.cli.progress import waiting
    from segre.geometry.recover import recover as find
    from segre.geometry.recovery.samples import Samples
    from segre.report.text import print_recovered

    with waiting("recovering", quiet or as_json):
        found = find(Samples.read(file), spec, a=a, starts=starts, seed=seed)
    if as_json:
        print_json(found.document())
    else:
        print_recovered(found)


COMMANDS = (
    (
        same,
        """Examples:
    segre same one.json two.json
    segre same one.npz two.npz --tolerance 1e-6 --json

Exit code 0: same; 1: different; 3: undecided.""",
    ),
    (
        move,
        """Example:
    segre move one.json -o two.json --seed 1 && segre same one.json two.json""",
    ),
    (
        point,
        """Example:
    segre point layer.json

where layer.json is {"V": [["1/2", 1], [0, 1]], "A": [[1, 0], [0, 0]], "a": 1}""",
    ),
    (
        recover,
        """Example:
    segre recover samples.npz --spec lightning/d=8,8/a=3/t=4

Exit code 3: the data do not determine the weights; the message says what is missing.""",
    ),
)
