"""Commands that ask what models are and how they differ: analyze, same, diff."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from segre.cli.given import meant, memory_bytes
from segre.cli.output import Out, TableOut
from segre.cli.pages import require_writable, write
from segre.cli.tree import app
from segre.files import extension, place, shown

REPORT = Path("report.html")


@app.answers(
    """segre analyze llama-3-8b
    segre analyze llama/d=8/layers=2/heads=4/kv=2/ff=16/t=3 -o llama.html
    segre analyze model-directory -o report.html --text book.txt
    segre analyze path/to/config.json --only dimension,redundancy --json
    segre analyze base --against fine-tuned -o both.html
    segre analyze gpt2 --against llama-3-8b""",
    note="Exit code 3: a part failed, which is a bug in segre; the report has the other parts.",
)
def analyze(
    target: str,
    report_page: Path | None = None,
    only: str | None = None,
    against: str | None = None,
    inputs: int = 4,
    length: int = 64,
    text: Path | None = None,
    defaults: bool = False,
    seed: int = 0,
    memory: str = "8G",
    out: Out = Out(),
) -> None:
    """Write one report on a model or a design: what is known about it, and how."""
    from segre.analysis.run import Analysis
    from segre.analysis.run import analyze as answers
    from segre.analysis.side_by_side import SideBySide, side_by_side

    file = report_page or (REPORT if out.is_text else None)
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


@app.answers(
    """segre same one two
    segre same one two --witness turn.safetensors --json
    segre same one.json two.json
    segre same one.npz two.npz --tolerance 1e-6 --json""",
    note="Exit code 0: identical, same function, same up to rounding to a half type or less (the "
    "verdict names it), or same on common tokens; 1: different; 3: undecided.",
)
def same(
    first: Path,
    second: Path,
    witness: Path | None = None,
    tolerance: float = 1e-8,
    seed: int = 0,
    out: Out = Out(),
) -> None:
    """Decide whether two models are the same function: from the weights, block by block.

    Checkpoints are compared up to rounding, which is measured; small networks are proved equal or
    different if their numbers are fractions.
    """
    from segre.checkpoint.any_size import same as compared
    from segre.checkpoint.comparison import Comparison
    from segre.errors import CheckpointError

    if witness is not None and extension(witness, (".safetensors",)) and place(witness) is None:
        raise CheckpointError(f"--witness {str(witness)!r}: name a file, since it is read back")
    asked: dict[str, Any] = {"tolerance": tolerance, "witness": witness, "seed": seed}
    with out.progress() as progress:
        found = compared(first, second, **asked, progress=progress)
    written = witness if isinstance(found, Comparison) and found.same and found.witness else None
    out.emit(
        found,
        data={"witness": written and shown(written)} if isinstance(found, Comparison) else None,
        lines=[f"witness: {written} (read back and checked)"] if written else (),
        code=0 if found.same else {"different": 1}.get(found.verdict, 3),
    )


@app.answers(
    """segre diff base fine-tuned
    segre diff one.json two.json
    segre diff base fine-tuned --text sample.txt -o changes.html
    segre diff base fine-tuned --plot changes.png --json > changes.json""",
    note="Only changes of the function are reported. The files may differ in dtype, sharding, "
    "prefix and\npadding of the vocabulary, and the second may be rotated, permuted or rescaled by "
    "symmetries.",
)
def diff(
    one: Path,
    two: Path,
    text: Path | None = None,
    inputs: int = 4,
    length: int = 64,
    page: Path | None = None,
    plot: Path | None = None,
    seed: int = 0,
    out: TableOut = TableOut(),
) -> None:
    """What changed between two models: where, how much, in how many directions."""
    from segre.analysis.small_diff import diff as difference

    asked: dict[str, Any] = {"text": text, "inputs": inputs, "length": length, "seed": seed}
    out.answer(difference, one, two, **asked, plot=plot, page=page)
