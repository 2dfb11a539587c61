"""Commands for a first look: analyze, same, diff, doctor, model list, model demo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from segre.cli.given import meant
from segre.cli.output import Out, TableOut, require_writable, write
from segre.cli.tree import app, look
from segre.files import extension, place, shown

REPORT = Path("report.html")


@app.answers(
    "target report_page only against inputs length=64 text defaults seed memory",
    """segre analyze llama-3-8b
    segre analyze llama/d=8/layers=2/heads=4/kv=2/ff=16/t=3 -o llama.html
    segre analyze model-directory -o report.html --text book.txt
    segre analyze path/to/config.json --only dimension,redundancy --json
    segre analyze base --against fine-tuned -o both.html
    segre analyze gpt2 --against llama-3-8b""",
    note="Exit code 3: a part failed, which is a bug in segre; the report has the other parts.",
)
def analyze(
    out: Out,
    target: str,
    report_page: Path | None,
    only: str | None,
    against: str | None,
    defaults: bool,
    **asked: Any,
) -> None:
    """Write one report on a model or a design: what is known about it, and how."""
    from segre.analysis.run import Analysis
    from segre.analysis.run import analyze as answers
    from segre.analysis.side_by_side import SideBySide, side_by_side

    file = report_page or (REPORT if out.is_text else None)
    require_writable(page=file)
    asked["only"] = [key.strip() for key in only.split(",")] if only is not None else ()
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


@app.answers(
    "first second witness tolerance seed",
    """segre same one two
    segre same one two --witness turn.safetensors --json
    segre same one.json two.json
    segre same one.npz two.npz --tolerance 1e-6 --json""",
    note="Exit code 0: identical, same function, same up to rounding to a half type or less (the "
    "verdict names it), or same on common tokens; 1: different; 3: undecided.",
)
def same(out: Out, first: Path, second: Path, witness: Path | None, **asked: Any) -> None:
    """Decide whether two models are the same function: from the weights, block by block.

    Checkpoints are compared up to rounding, which is measured; small networks are proved equal or
    different if their numbers are fractions.
    """
    from segre.checkpoint.any_size import same as compared
    from segre.checkpoint.comparison import Comparison
    from segre.errors import CheckpointError

    if witness is not None and extension(witness, (".safetensors",)) and place(witness) is None:
        raise CheckpointError(f"--witness {str(witness)!r}: name a file, since it is read back")
    with out.progress() as progress:
        found = compared(first, second, **asked, witness=witness, progress=progress)
    written = witness if isinstance(found, Comparison) and found.same and found.witness else None
    out.emit(
        found,
        data={"witness": written and shown(written)} if isinstance(found, Comparison) else None,
        lines=[f"witness: {written} (read back and checked)"] if written else (),
        code=0 if found.same else {"different": 1}.get(found.verdict, 3),
    )


@app.answers(
    "one two text inputs length=64 page plot seed",
    """segre diff base fine-tuned
    segre diff one.json two.json
    segre diff base fine-tuned --text sample.txt -o changes.html
    segre diff base fine-tuned --plot changes.png --json > changes.json""",
    note="Only changes of the function are reported. The files may differ in dtype, sharding, "
    "prefix and\npadding of the vocabulary, and the second may be rotated, permuted or rescaled by "
    "symmetries.",
)
def diff(out: TableOut, one: Path, two: Path, **asked: Any) -> None:
    """What changed between two models: where, how much, in how many directions."""
    from segre.analysis.diff import diff as difference

    out.answer(difference, one, two, **asked)


@app.answers(
    "imports",
    """segre doctor
    segre doctor --imports
    segre doctor --json > installation.json""",
    note="Exit code 0: segre works (missing extras are not an error); 1: an installed package is "
    "broken.",
)
def doctor(out: Out, imports: bool) -> None:
    """Check the installation: what is installed, what is missing, and does it work?"""
    from segre.doctor import examine

    out.answer(examine, imports, code=lambda found: 0 if found.works else 1)


@look(
    "family match supports",
    """segre model list
    segre model list llama-3-8b
    segre model list --filter qwen --csv
    segre model list --supports normal-form --json""",
    name="list",
)
def catalog(out: TableOut, family: str | None, **asked: str) -> None:
    """List the supported families and presets, and what can be computed for each."""
    from segre.discovery import catalog as known

    with out.waiting("checking what is supported"):
        found = known(family, **asked)
        for entry in found.entries:
            entry.row()  # here, where it is waited for
    out.emit(found)


@look(
    "demo_folder",
    """segre model demo
    segre model demo try-here && segre diff try-here/base try-here/moved""",
    note="The base model is a Llama with 16,248 parameters, trained on a small artificial "
    "language. The\nfine-tune learned a dialect of it with an update of rank 2. The third "
    "directory holds the fine-tune\nagain, with different weights but the same function.",
)
def demo(out: Out, demo_folder: Path) -> None:
    """Write three small models to try commands on: base, fine-tune, moved copy."""
    from segre.checkpoint.demo import demo as made

    out.answer(made, demo_folder, waiting="writing")
