"""Commands for a first look: doctor, which checks the installation, model list, model demo."""

from __future__ import annotations

from pathlib import Path

from segre.cli.output import Out, TableOut
from segre.cli.tree import LOOK, app, model


@app.answers(
    """segre doctor
    segre doctor --imports
    segre doctor --json > installation.json""",
    note="Exit code 0: segre works (missing extras are not an error); 1: an installed package is "
    "broken.",
)
def doctor(imports: bool = False, out: Out = Out()) -> None:
    """Check the installation: what is installed, what is missing, and does it work?"""
    from segre.doctor import examine

    with out.progress() as progress:
        found = examine(imports, progress)
    out.emit(found, code=0 if found.works else 1)


@model.answers(
    """segre model list
    segre model list llama-3-8b
    segre model list --filter qwen --csv
    segre model list --supports normal-form --json""",
    name="list",
    section=LOOK,
)
def catalog(
    family: str | None = None, match: str = "", supports: str = "", out: TableOut = TableOut()
) -> None:
    """List the supported families and presets, and what can be computed for each."""
    from segre.discovery import catalog as known

    with out.waiting("checking what is supported"):
        found = known(family, match=match, supports=supports)
        for entry in found.entries:
            entry.row()  # here, where it is waited for
    out.emit(found)


@model.answers(
    """segre model demo
    segre model demo try-here && segre diff try-here/base try-here/moved""",
    note="The base model is a Llama with 16,248 parameters, trained on a small artificial "
    "language. The\nfine-tune learned a dialect of it with an update of rank 2. The third "
    "directory holds the fine-tune\nagain, with different weights but the same function.",
    section=LOOK,
)
def demo(demo_folder: Path = Path("segre-demo"), out: Out = Out()) -> None:
    """Write three small models to try commands on: base, fine-tune, moved copy."""
    from segre.checkpoint.demo import demo as made

    out.answer(made, demo_folder, waiting="writing")
