"""Commands about many architectures: sweep run, status, verify, export, plot, fit, list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from segre.cli.output import Out, resumable
from segre.cli.tree import sweep as group
from segre.files import shown


@group.answers(
    "plan new_store workers dask limit task_memory timeout certificates",
    """segre sweep run deep-softmax -o softmax.db
    segre sweep run my.toml -o my.db --workers 2 --limit 1000
    segre sweep run my.toml -o my.db --timeout 60
    segre sweep run my.toml -o my.db --dask tcp://scheduler:8786""",
    note="Exit code 1: there is a counterexample.",
)
def run(
    out: Out,
    plan: str,
    new_store: Path,
    task_memory: int,
    certificates: Path | None,
    **asked: Any,
) -> None:
    """Compute the dimension of every architecture in a sweep, and test the sweep's claim on it.

    The store is complete at any moment: after an interruption the same command continues.
    """
    from segre.sweep.builtin import plan_of
    from segre.sweep.export import keep_certificates
    from segre.sweep.run import Swept
    from segre.sweep.run import run as drive
    from segre.sweep.status import standing

    chosen = plan_of(plan)

    def swept(**bounds: Any) -> Swept:
        with resumable(new_store):
            ran = drive(chosen, new_store, memory=task_memory, **bounds)
            if certificates is not None:
                keep_certificates(new_store, certificates, bounds["progress"])
            return Swept(ran, standing(new_store))

    out.answer(swept, rate=True, code=lambda found: int(bool(found.standing.refuted)), **asked)


@group.answers(
    "store", "segre sweep status softmax.db", note="Exit code 1: there is a counterexample."
)
def status(out: Out, store: Path) -> None:
    """List counterexamples, then how many architectures are done and what was found."""
    from segre.sweep.status import standing

    out.answer(standing, store, waiting="reading", code=lambda found: int(bool(found.refuted)))


@group.answers(
    "store rows every workers task_memory seed",
    """segre sweep verify softmax.db
    segre sweep verify softmax.db --sample 200 --seed 1
    segre sweep verify softmax.db --all --json""",
    note="Exit code 1: a row differs from what is computed now.",
)
def verify(out: Out, store: Path, rows: int, every: bool, task_memory: int, **asked: Any) -> None:
    """Compute rows of a store again, a sample or all, and compare.

    The checksums of a store find damage. Rows that were altered on purpose, with new checksums,
    are found only by computing them again.
    """
    from segre.sweep.verify import verify as check

    out.answer(
        check,
        store,
        sample=None if every else rows,
        memory=task_memory,
        rate=True,
        code=lambda found: 0 if found.value else 1,
        **asked,
    )


@group.answers(
    "store table",
    """segre sweep export softmax.db -o softmax.csv
    segre sweep export softmax.db -o softmax.parquet""",
)
def export(out: Out, store: Path, table: Path) -> None:
    """Write all rows as a table: CSV, or Parquet (needs the extra segre[tables])."""
    from segre.sweep.export import export as write

    with out.waiting("writing"):
        rows = write(store, table)
    out.emit(data={"file": shown(table), "rows": rows}, lines=[f"{table}: {rows} rows"])


@group.answers(
    "store drawing x y",
    """segre sweep plot softmax.db -o softmax.png
    segre sweep plot softmax.db -o softmax.html --x d --y a""",
)
def plot(out: Out, store: Path, drawing: Path, x: str | None, y: str | None) -> None:
    """Plot exact against predicted dimensions, redundancy by two fields, and counterexamples."""
    from segre.report.png import draw, require_format
    from segre.sweep.picture import picture

    require_format(drawing)
    with out.waiting("drawing"):
        drawn = picture(store, x, y)
        draw(drawn, drawing)
    cells = [vars(cell) for cell in drawn.cells]
    out.emit(files={"plot": drawing}, data={"x": drawn.x, "y": drawn.y, "cells": cells})


@group.answers(
    "store fields where degree rational in_balls trials seed",
    """segre sweep fit softmax.db
    segre sweep fit softmax.db --fields l,d,a --where "a <= d" --degree 3""",
)
def fit(out: Out, store: Path, fields: str, in_balls: bool, trials: int, **asked: Any) -> None:
    """Propose formulas for the dimensions, and test them on new architectures."""
    from segre.sweep.fit import fit as search

    wanted = [name.strip() for name in fields.split(",") if name.strip()]
    said = "fitting polynomials"
    out.answer(search, store, fields=wanted, ranks=in_balls, fresh=trials, waiting=said, **asked)


@group.answers("", "segre sweep list", name="list")
def list_ready(out: Out) -> None:
    """List the sweeps that come with segre."""
    from segre.sweep.builtin import Builtin

    out.answer(Builtin.read, waiting="reading")
