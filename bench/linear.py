"""Attention in linear time against PyTorch's: CPU time of one thread, float32, heads of width 64.

Peers: torch's fused causal softmax attention (scaled_dot_product_attention), the loop over blocks
of MiniMax's lightning layer in the transformers library (identity maps in place of its projections
and its norm, an open gate), and causal_linear_attn of linear-attention-transformer, which leaves
out what is inside a block. Then how time and memory grow, and how good the choice of `auto` is: its
time, and that of the method it chooses, over that of the quicker method. All calls are in turns.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from bench.harness import Report, arguments, blas_threads
from segre.attention.mechanism import LIGHTNING, Mechanism
from segre.sequence import Sizes, choose, crossover, methods, mix

WIDTH = 64
PLAIN = replace(LIGHTNING, causal=True)
DECAYING = replace(PLAIN, decay=Fraction(19, 20))
SHARED = replace(PLAIN, normalise="keys", feature="exp")
CHOICES = {
    "lightning": (PLAIN, WIDTH),
    "lightning, all keys": (replace(PLAIN, causal=False), WIDTH),
    "FAST p=1 a=64": (Mechanism(weigh="taylor", order=1), 64),
    "FAST p=2 a=16": (Mechanism(weigh="taylor", order=2), 16),
    "FAST p=2 a=32": (Mechanism(weigh="taylor", order=2), 32),
    "FAST p=2 a=64": (Mechanism(weigh="taylor", order=2), 64),
    "FAST p=2 a=32 causal": (Mechanism(weigh="taylor", order=2, causal=True), 32),
    "window 64": (Mechanism(window=64), WIDTH),
    "window 64 causal": (Mechanism(window=64, causal=True), WIDTH),
}
PEERS = {
    "peer": ("peer", ""),
    "tokens": ("tokens", ","),
    "milliseconds": ("segre ms", ".2f"),
    "peer_milliseconds": ("peer ms", ".2f"),
    "ratio": ("peer / segre", ".1f"),
}
GROWTH = {
    "tokens": ("tokens", ","),
    "milliseconds": ("CPU ms", ".1f"),
    "growth": ("time / half as many", ".2f"),
    "memory": ("memory with the output MiB", ".1f"),
}
AUTO = {
    "mechanism": ("mechanism", ""),
    "tokens": ("tokens", ","),
    "dense": ("dense ms", ".2f"),
    "other": ("other ms", ".2f"),
    "auto": ("auto ms", ".2f"),
    "ratio": ("auto / better", ".2f"),
    "chosen": ("its method / better", ".2f"),
}


def in_turns(
    calls: Mapping[str, Callable[[], Any]],
    repeats: int,
    typical: Callable[[list[float]], float] = median,
) -> dict[str, float]:
    """Milliseconds of CPU time of each call, all called in turns, the first not counted.

    Short calls are made several times.
    """
    often: dict[str, int] = {}
    for name, call in calls.items():
        call()
        began = process_time()
        call()
        often[name] = max(1, round(0.002 / max(process_time() - began, 1e-6)))
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for turn in range(repeats):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            call = calls[name]
            began = process_time()
            for _ in range(often[name]):
                call()
            seconds[name].append((process_time() - began) / often[name])
    return {name: 1000 * typical(found) for name, found in seconds.items()}


def heads(n: int, width: int = WIDTH) -> tuple[Any, Any, Any]:
    """Random queries, keys and values of one head."""
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 1, n, width), dtype=np.float32) / 4
    return q, k, v


def minimax(torch: Any, n: int, block: int) -> Callable[[], Any]:
    """A call of MiniMax's layer that does little more than its loop over blocks."""
    from transformers import MiniMaxConfig
    from transformers.models.minimax.modeling_minimax import MiniMaxLightningAttention

    config: Any = MiniMaxConfig(
        hidden_size=WIDTH,
        num_attention_heads=1,
        num_hidden_layers=2,
        head_dim=WIDTH,
        block_size=block,
        hidden_act="linear",
    )
    layer: Any = MiniMaxLightningAttention(config, 0)
    layer.qkv_proj = layer.norm = layer.out_proj = torch.nn.Identity()
    layer.output_gate = torch.nn.Identity()
    opened = torch.full((1, 1, 1), torch.inf)
    layer.output_gate.forward = lambda _: opened
    x = torch.from_numpy(np.concatenate(heads(n), -1))
    return lambda: layer(x, (None, None), None)


def against_peers(torch: Any, lengths: list[int], repeats: int) -> list[dict[str, Any]]:
    """Each peer, at each number of tokens, beside segre's counterpart."""
    softmax = torch.nn.functional.scaled_dot_product_attention
    try:
        from linear_attention_transformer.linear_attention_transformer import (
            causal_linear_attn,
        )
    except ImportError:
        causal_linear_attn = None
    rows = []
    for n in lengths:
        q, k, v = heads(n)
        Q, K, V = (torch.from_numpy(x)[None] for x in (q, k, v))
        calls: dict[str, Callable[[], Any]] = {
            "lightning": partial(mix, PLAIN, q, k, v),
            "decaying": partial(mix, DECAYING, q, k, v),
            "exp features": partial(mix, SHARED, q, k, v),
            "torch SDPA": partial(softmax, Q, K, V, is_causal=True),
        }
        counterparts = {"torch SDPA": "lightning"}
        for block in (64, 128, 256):
            calls[f"MiniMax block {block}"] = minimax(torch, n, block)
            counterparts[f"MiniMax block {block}"] = "decaying"
        if causal_linear_attn is not None:
            calls["linear-attention-transformer"] = partial(causal_linear_attn, Q, K, V)
            counterparts["linear-attention-transformer"] = "exp features"
        with torch.inference_mode():
            found = in_turns(calls, repeats)
        for peer, own in counterparts.items():
            rows.append(
                {
                    "peer": peer,
                    "tokens": n,
                    "milliseconds": found[own],
                    "peer_milliseconds": found[peer],
                    "ratio": found[peer] / found[own],
                }
            )
    return sorted(rows, key=lambda row: (list(counterparts).index(str(row["peer"])), row["tokens"]))


def allocated(call: Callable[[], Any]) -> float:
    """The most that a call holds at a time, with its result, in MiB."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def growth(lengths: list[int], repeats: int) -> list[dict[str, Any]]:
    """Time and memory of decaying lightning attention."""
    arrays = {n: heads(n) for n in lengths}
    calls = {str(n): partial(mix, DECAYING, *arrays[n]) for n in lengths}
    found = in_turns(calls, repeats)
    rows: list[dict[str, Any]] = []
    for n in lengths:
        half = found.get(str(n // 2))
        rows.append(
            {
                "tokens": n,
                "milliseconds": found[str(n)],
                "growth": None if half is None else found[str(n)] / half,
                "memory": allocated(calls[str(n)]),
            }
        )
    return rows


def choices(lengths: list[int], repeats: int) -> list[dict[str, Any]]:
    """Every method of each mechanism, and `auto`."""
    rows = []
    for name, (how, width) in CHOICES.items():
        other = next(method for method in methods(how) if method != "dense")
        for n in lengths:
            arrays = heads(n, width)
            calls = {
                method: partial(mix, how, *arrays, method=method)
                for method in ("dense", other, "auto")
            }
            found = in_turns(calls, repeats, min)  # two of the three run the same
            better = min(found["dense"], found[other])
            rows.append(
                {
                    "mechanism": name,
                    "tokens": n,
                    "dense": found["dense"],
                    "other": found[other],
                    "auto": found["auto"],
                    "ratio": found["auto"] / better,
                    "chosen": found[choose(how, Sizes(n, width, width))] / better,
                    "crossover": crossover(how, Sizes(n, width, width)),
                }
            )
    return rows


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    report = Report("linear", options)
    repeats = 2 if options.quick else options.repeats
    with blas_threads(1):
        peers = against_peers(
            torch, [1 << 10] if options.quick else [1 << 12, 1 << 14, 1 << 15], repeats
        )
        report.table("Beside peers, in turns", PEERS, peers)
        grown = growth(
            [1 << e for e in (range(11, 13) if options.quick else range(12, 18))], repeats
        )
        report.table("Lightning attention with decay", GROWTH, grown)
        sizes = [64, 256] if options.quick else [1 << e for e in range(5, 14)]
        chosen = choices(sizes, repeats)
        report.table("The choice of auto", AUTO, chosen)
    worst = max(row["chosen"] for row in chosen)
    report.remark(
        "worst", worst, f"the method of auto takes at most {worst:.2f} times the better one"
    )
    report.remark("peers", peers, "Where auto / better is larger, both calls ran the same method.")
    report.remark("growth", grown, "")
    for name in CHOICES:
        own = [row for row in chosen if row["mechanism"] == name]
        first = next((row["tokens"] for row in own if row["other"] < row["dense"]), None)
        report.remark(
            f"crossover {name}",
            [first, own[0]["crossover"]],
            f"{name}: faster than dense at {first} tokens; auto changes at {own[0]['crossover']}",
        )
    report.finish()


if __name__ == "__main__":
    main()
