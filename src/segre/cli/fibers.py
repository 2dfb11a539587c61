"""Commands about given weights: same, move, point, recover."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from segre.cli.options import Seed
from segre.cli.output import Out
from segre.files import shown

_WEIGHTS = "a .json or .npz file (docs/geometry.md)."
WeightsFile = Annotated[Path, typer.Argument(metavar="FILE", help=f"Weights: {_WEIGHTS}")]
FirstWeights = Annotated[Path, typer.Argument(metavar="A", help=f"The first weights: {_WEIGHTS}")]
SecondWeights = Annotated[Path, typer.Argument(metavar="B", help=f"The second weights: {_WEIGHTS}")]


def same(
    one: FirstWeights,
    two: SecondWeights,
    tolerance: Annotated[
        float,
        typer.Option(help="Relative tolerance for floats; fractions are compared exactly.", min=0),
    ] = 1e-8,
    seed: Seed = 0,
    out: Out = Out(),
) -> None:
    """Decide whether two small networks are the same function; proved for fractions."""
    from segre.geometry.same import same_function
    from segre.weights import read_weights

    with out.waiting("comparing"):
        found = same_function(read_weights(one), read_weights(two), tolerance=tolerance, seed=seed)
    out.emit(found, code={"same": 0, "different": 1, "undecided": 3}[found.verdict])


def move(
    file: WeightsFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="File to write: .json or .npz.")
    ],
    seed: Seed = 0,
    out: Out = Out(),
) -> None:
    """Write different weights with the same function."""
    from segre.geometry.fiber import sample
    from segre.weights import Weights

    with out.waiting("moving"):
        weights = Weights.read(file)
        sample(weights, seed).write(output)
    out.emit(
        data={"file": shown(output), "spec": str(weights.spec), "seed": seed},
        lines=[f"{output}: different weights of {weights.spec} with the same function"],
    )


def point(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A .json or .npz file with V and A, or V, K and Q, of a lightning layer, or with "
            "the weights of a polynomial network. Fractions written as strings are exact.",
        ),
    ],
    a: Annotated[
        int | None, typer.Option("--a", help="Head rank, if the file has V and A.", min=1)
    ] = None,
    out: Out = Out(),
) -> None:
    """Is the function of these weights a smooth or a singular point?

    Supported: one lightning layer, convolutional and shallow quadratic networks.
    """
    from segre.errors import SegreError
    from segre.geometry.polynomial_point import classify_polynomial
    from segre.geometry.strata import classify
    from segre.weights import PolynomialWeights, read_point

    given = read_point(file)
    if isinstance(given, PolynomialWeights):
        if a is not None:
            raise SegreError(
                f"point {str(file)!r}: --a is the head rank of a lightning layer, "
                f"and this file holds a polynomial network; leave it out"
            )
        with out.waiting("classifying"):
            found = classify_polynomial(given)
        out.emit(found)
        return
    rank = a or given.a
    if rank is None:
        raise SegreError(f"point {str(file)!r}: the file does not give the head rank; add --a")
    with out.waiting("classifying"):
        stratum = classify(given.V, given.A, rank, given.weights if rank == given.a else None)
    out.emit(stratum)


def recover(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Inputs X and outputs Y: .npz or .json (fractions are exact)."
        ),
    ],
    spec: Annotated[
        str,
        typer.Option(
            "--spec",
            help="The architecture, for example lightning/d=8,8/a=3/t=4, or just its kind.",
        ),
    ],
    a: Annotated[
        int | None, typer.Option("--a", help="Head rank, if --spec is only a kind.", min=1)
    ] = None,
    starts: Annotated[int, typer.Option(help="Number of random starts of a fit.", min=1)] = 20,
    seed: Seed = 0,
    out: Out = Out(),
) -> None:
    """Recover the weights of a layer from its inputs and outputs.

    If the data do not determine the weights, segre says what is missing.
    """
    from segre.geometry.recover import recover as find
    from segre.geometry.recovery.samples import Samples

    with out.waiting("recovering"):
        found = find(Samples.read(file), spec, a=a, starts=starts, seed=seed)
    out.emit(found)


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
        """Examples:
    segre point layer.json
    segre point filters.json

What the two files may contain:
    {"V": [["1/2", 1], [0, 1]], "A": [[1, 0], [0, 0]], "a": 1}
    {"spec": "cnn/k=2,2/degree=2", "layers": [{"w": [0, 1]}, {"w": [1, 0]}]}""",
    ),
    (
        recover,
        """Example:
    segre recover samples.npz --spec lightning/d=8,8/a=3/t=4

Exit code 3: the data do not determine the weights; the message says what is missing.""",
    ),
)
