"""The commands: what each takes, calls and prints. Heavy imports wait until a command runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from segre import __version__
from segre.cli.options import memory_bytes

if TYPE_CHECKING:
    from segre.geometry.dimension import Method

app = typer.Typer(
    name="segre",
    help="The exact geometry of attention networks: dimensions, symmetries and proofs.",
    epilog="""Examples:

    segre dim softmax/d=10,10,10/a=2,2/t=3

    segre dim lightning/d=6,6/a=2/heads=3/t=3 --json

    segre certify softmax/d=4,4,4/a=2/t=3 -o cert.json && segre verify cert.json

    segre reproduce normalized-dimension -o figure.png""",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
reproduce_app = typer.Typer(
    help="Recompute the papers' tables and figures, every number afresh.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(reproduce_app, name="reproduce")

Spec = Annotated[
    str,
    typer.Argument(
        metavar="SPEC",
        help="An inline spec such as softmax/d=4,4,4/a=2/t=3, or a .toml or .json file.",
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the random point; results name it.", min=0)]
Memory = Annotated[
    str, typer.Option(help="Memory limit; past it segre says what it would need and stops.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]


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


@app.command(
    epilog="""Examples:

    segre dim softmax/d=10,10,10/a=2,2/t=3

    segre dim lightning/d=4,4,4/a=2/t=3 --method closed-form

    segre dim network.toml --json"""
)
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
            memory=memory_bytes(memory),
            progress=progress,
        )
    if as_json:
        _print_json(found.document())
    else:
        print_finding(found)


@app.command(
    epilog="""Example:

    segre certify softmax/d=10,10,10/a=2,2/t=3 -o cert.json"""
)
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
        _print_json({"file": str(output), "digest": document["digest"], **claim})
        return
    typer.echo(f"{output}: {_claim_in_words(claim)}")
    typer.echo(f"check it with: segre verify {output}")


@app.command(
    epilog="""Example:

    segre verify cert.json

Exit code 0: valid; 1: invalid, with the reason; 2: not a certificate."""
)
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
        _print_json(
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


@reproduce_app.command("normalized-dimension")
def normalized_dimension(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The plot: .png, .svg or .pdf.")
    ] = Path("normalized-dimension.png"),
    widest: Annotated[int, typer.Option(help="The largest width d.", min=3, max=40)] = 10,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """The first paper's numerical experiment: l = 2, t = 3, a = 2, d = 3..10.

    For softmax, and lightning beside it: the conjectured dimension (closed form), the certified
    one (exact rank and symmetries), and floating-point estimates. All are computed.
    """
    from segre.cli.progress import progress_bar
    from segre.report.plots import plot_normalized_dimension
    from segre.report.text import print_normalized_dimension
    from segre.reproduce.normalized_dimension import experiment

    with progress_bar(quiet or as_json) as progress:
        rows = experiment(range(3, widest + 1), seed=seed, progress=progress)
    plot_normalized_dimension(rows, output)
    if as_json:
        _print_json({"plot": str(output), "rows": [row.document() for row in rows]})
    else:
        print_normalized_dimension(rows)
        typer.echo(f"plot: {output}")


def _claim_in_words(claim: dict[str, Any]) -> str:
    if claim["status"] == "proved":
        return f"dimension {claim['upper']} of {claim['parameters']} parameters, proved"
    return (
        f"{claim['lower']} <= dimension <= {claim['upper']} of {claim['parameters']} parameters, "
        "both bounds proved"
    )


def _print_json(document: dict[str, Any]) -> None:
    typer.echo(json.dumps(document, indent=2, sort_keys=True))
