"""Commands about an architecture: dim, certify, verify, symmetries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from segre.cli.options import AsJson, Memory, Quiet, Seed, Spec, memory_bytes, print_json

if TYPE_CHECKING:
    from segre.geometry.dimension import Method


def dim(
    spec: Spec,
    method: Annotated[
        str,
        typer.Option(
            help="auto (proved, all bounds), exact (proved, without the closed form), balls (lower "
            "bound in certified real arithmetic), closed-form (the formula, an upper bound) or "
            "estimate (a floating-point rank, proves nothing)."
        ),
    ] = "auto",
    seed: Seed = 0,
    memory: Memory = "8G",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """How many dimensions of function an architecture has, and how that is known."""
    from segre.cli.progress import progress_bar
    from segre.geometry.dimension import dimension
    from segre.report.text import print_finding

    with progress_bar(quiet or as_json) as progress:
        found = dimension(
            spec,
            method=cast("Method", method),
            seed=seed,
            symmetries=True,
            memory=memory_bytes(memory),
            progress=progress,
        )
    if as_json:
        print_json(found.document())
    else:
        print_finding(found)


def certify(
    spec: Spec,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write it.")
    ],
    seed: Seed = 0,
    memory: Memory = "8G",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write a proof of the dimension that anyone can check again with `segre verify`."""
    from segre.certificate import certify as make_certificate
    from segre.certificate import write_certificate
    from segre.cli.progress import progress_bar

    with progress_bar(quiet or as_json) as progress:
        document = make_certificate(spec, seed=seed, memory=memory_bytes(memory), progress=progress)
    write_certificate(document, output)
    claim = document["claim"]
    if as_json:
        print_json({"file": str(output), "digest": document["digest"], **claim})
        return
    typer.echo(f"{output}: {_claim_in_words(claim)}")
    typer.echo(f"check it with: segre verify {output}")


def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A certificate.")],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Check a certificate with arithmetic that shares nothing with the prover's."""
    from segre.cli.progress import progress_bar
    from segre.referee import verify as check

    with progress_bar(quiet or as_json) as progress:
        verdict = check(file, progress=progress)
    if as_json:
        print_json(
            {
                "file": str(file),
                "valid": verdict.valid,
                "reason": verdict.reason,
                "checks": list(verdict.checks),
                "claim": verdict.claim,
            }
        )
    elif verdict.valid:
        for sentence in verdict.checks:
            typer.echo(f"  ok  {sentence}")
        typer.echo(f"valid: {_claim_in_words(verdict.claim)}")
    else:
        typer.echo(f"invalid: {verdict.reason}")
    raise typer.Exit(0 if verdict.valid else 1)


def symmetries(
    spec: Spec,
    seed: Seed = 0,
    memory: Memory = "8G",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """The symmetries of an architecture, and what each keeps constant under gradient flow."""
    from segre.cli.progress import progress_bar
    from segre.geometry.symmetry_table import symmetry_table
    from segre.report.text import print_symmetries

    with progress_bar(quiet or as_json) as progress:
        table = symmetry_table(spec, seed, memory=memory_bytes(memory), progress=progress)
    if as_json:
        print_json(table.document())
    else:
        print_symmetries(table)


def _claim_in_words(claim: dict[str, Any]) -> str:
    if claim["status"] == "proved":
        return f"dimension {claim['upper']} of {claim['parameters']} parameters, proved"
    return (
        f"{claim['lower']} <= dimension <= {claim['upper']} of {claim['parameters']} parameters, "
        "both bounds proved"
    )


COMMANDS = (
    (
        dim,
        """Examples:

    segre dim softmax/d=10,10,10/a=2,2/t=3

    segre dim lightning/d=4,4,4/a=2/t=3 --method closed-form

    segre dim network.toml --json""",
    ),
    (
        certify,
        """Example:

    segre certify softmax/d=10,10,10/a=2,2/t=3 -o cert.json""",
    ),
    (
        verify,
        """Example:

    segre verify cert.json

Exit code 0: valid; 1: invalid, with the reason; 2: not a certificate.""",
    ),
    (
        symmetries,
        """Example:

    segre symmetries lightning/d=4,4,4/a=2/t=3""",
    ),
)
