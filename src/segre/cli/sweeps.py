"""Commands about many architectures: sweep run, status, verify, export, plot, fit, list."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from segre.cli import completion
from segre.cli.options import Seed, memory_bytes
from segre.cli.output import Out
from segre.files import shown

StoreFile = Annotated[
    Path, typer.Argument(metavar="STORE", help="A store written by `segre sweep run`.")
]


def run(
    sweep: Annotated[
        str,
        typer.Argument(
            metavar="SWEEP",
            help="A sweep file (.toml), or a name from `segre sweep list`.",
            autocompletion=completion.sweep,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="STORE", help="The store: a new file, or one to continue."
        ),
    ],
    workers: Annotated[
        int | None, typer.Option(help="Processes on this machine (default: one per core).", min=1)
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Address of a Dask scheduler, such as tcp://host:8786."
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            help="Stop after this many architectures; the same command continues later.", min=0
        ),
    ] = None,
    memory: Annotated[
        str,
        typer.Option(
            help="Memory limit for one architecture; those that need more are not started."
        ),
    ] = "2G",
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Time limit for one architecture; slower ones are retried at the end.",
        ),
    ] = None,
    certificates: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep a certificate of every row, as DIGEST.json."),
    ] = None,
    out: Out = Out(),
) -> None:
    """Compute the dimension of every architecture in a sweep, and test the sweep's claim on it.

    The store is complete at any moment: after an interruption the same command continues.
    """
    from segre.cli.resumable import resumable
    from segre.sweep.builtin import plan_of
    from segre.sweep.certificates import keep
    from segre.sweep.run import Swept
    from segre.sweep.run import run as drive
    from segre.sweep.status import standing

    plan = plan_of(sweep)
    limit_bytes = memory_bytes(memory)
    with resumable(output), out.progress(rate=True) as progress:
        ran = drive(
            plan,
            output,
            workers=workers,
            dask=dask,
            limit=limit,
            memory=limit_bytes,
            timeout=timeout,
            progress=progress,
        )
        if certificates is not None:
            keep(output, certificates, progress)
        found = standing(output)
    out.emit(Swept(ran, found), code=1 if found.refuted else 0)


def status(store: StoreFile, out: Out = Out()) -> None:
    """List counterexamples, then how many architectures are done and what was found."""
    from segre.sweep.status import standing

    with out.waiting("reading"):
        found = standing(store)
    out.emit(found, code=1 if found.refuted else 0)


def verify(
    store: StoreFile,
    sample: Annotated[
        int, typer.Option(metavar="N", help="Number of rows to compute again.", min=1)
    ] = 20,
    every: Annotated[bool, typer.Option("--all", help="Compute all rows again.")] = False,
    workers: Annotated[
        int | None, typer.Option(help="Processes on this machine (default: one per core).", min=1)
    ] = None,
    memory: Annotated[str, typer.Option(help="Memory limit for one architecture.")] = "2G",
    seed: Seed = 0,
    out: Out = Out(),
) -> None:
    """Compute rows of a store again, a sample or all, and compare.

    The checksums of a store find damage. Rows that were altered on purpose, with new checksums,
    are found only by computing them again.
    """
    from segre.sweep.verify import verify as check

    with out.progress(rate=True) as progress:
        found = check(
            store,
            sample=None if every else sample,
            seed=seed,
            workers=workers,
            memory=memory_bytes(memory),
            progress=progress,
        )
    out.emit(found, code=0 if found.value else 1)


def export(
    store: StoreFile,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="File to write: .csv or .parquet."),
    ],
    out: Out = Out(),
) -> None:
    """Write all rows as a table: CSV, or Parquet (needs the extra segre[tables])."""
    from segre.sweep.export import export as write

    with out.waiting("writing"):
        rows = write(store, output)
    out.emit(data={"file": shown(output), "rows": rows}, lines=[f"{output}: {rows} rows"])


def plot(
    store: StoreFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help=".png, .svg, .pdf or .html.")
    ],
    x: Annotated[
        str | None,
        typer.Option("--x", help="Field on the horizontal axis (default: chosen by segre)."),
    ] = None,
    y: Annotated[
        str | None,
        typer.Option("--y", help="Field on the vertical axis (default: chosen by segre)."),
    ] = None,
    out: Out = Out(),
) -> None:
    """Plot exact against predicted dimensions, redundancy by two fields, and counterexamples."""
    from segre.report.drawing import require_format
    from segre.report.sweep_plots import draw_sweep
    from segre.sweep.picture import picture

    require_format(output)
    with out.waiting("drawing"):
        drawn = picture(store, x, y)
        draw_sweep(drawn, output)
    cells = [vars(cell) for cell in drawn.cells]
    out.emit(files={"plot": output}, data={"x": drawn.x, "y": drawn.y, "cells": cells})


def fit(
    store: StoreFile,
    fields: Annotated[
        str,
        typer.Option(
            metavar="F,G,...", help="Variables of the formula (default: all fields that vary)."
        ),
    ] = "",
    where: Annotated[
        str | None,
        typer.Option(metavar="EXPRESSION", help="Use only rows that satisfy this condition."),
    ] = None,
    degree: Annotated[
        int, typer.Option(help="Largest degree of the polynomial.", min=0, max=6)
    ] = 4,
    rational: Annotated[bool, typer.Option(help="Allow fractional coefficients.")] = False,
    ranks: Annotated[
        bool,
        typer.Option(
            help="Also accept ranks found in ball arithmetic as dimensions, as is done "
            "for exact ranks mod p."
        ),
    ] = False,
    fresh: Annotated[
        int,
        typer.Option(help="Number of new architectures on which each formula is tested.", min=1),
    ] = 20,
    seed: Seed = 0,
    out: Out = Out(),
) -> None:
    """Propose formulas for the dimensions, and test them on new architectures."""
    from segre.sweep.fit import fit as search

    with out.waiting("fitting polynomials"):
        found = search(
            store,
            fields=[name.strip() for name in fields.split(",") if name.strip()],
            where=where,
            degree=degree,
            rational=rational,
            ranks=ranks,
            fresh=fresh,
            seed=seed,
        )
    out.emit(found)


def list_ready(out: Out = Out()) -> None:
    """List the sweeps that come with segre."""
    from segre.sweep.builtin import Builtin

    with out.waiting("reading"):
        found = Builtin.read()
    out.emit(found)


GROUPS = (
    (
        "sweep",
        "Test a claim exactly on thousands of architectures.",
        (
            (
                "run",
                run,
                """Examples:
    segre sweep run deep-softmax -o softmax.db
    segre sweep run my.toml -o my.db --workers 2 --limit 1000
    segre sweep run my.toml -o my.db --timeout 60
    segre sweep run my.toml -o my.db --dask tcp://scheduler:8786

Exit code 1: there is a counterexample.""",
            ),
            (
                "status",
                status,
                """Example:
    segre sweep status softmax.db

Exit code 1: there is a counterexample.""",
            ),
            (
                "verify",
                verify,
                """Examples:
    segre sweep verify softmax.db
    segre sweep verify softmax.db --sample 200 --seed 1
    segre sweep verify softmax.db --all --json

Exit code 1: a row differs from what is computed now.""",
            ),
            (
                "export",
                export,
                """Examples:
    segre sweep export softmax.db -o softmax.csv
    segre sweep export softmax.db -o softmax.parquet""",
            ),
            (
                "plot",
                plot,
                """Examples:
    segre sweep plot softmax.db -o softmax.png
    segre sweep plot softmax.db -o softmax.html --x d --y a""",
            ),
            (
                "fit",
                fit,
                """Examples:
    segre sweep fit softmax.db
    segre sweep fit softmax.db --fields l,d,a --where "a <= d" --degree 3""",
            ),
            (
                "list",
                list_ready,
                """Example:
    segre sweep list""",
            ),
        ),
    ),
)
