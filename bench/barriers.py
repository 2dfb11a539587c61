"""Loss barriers between independently trained models: as they are, and aligned in three ways.

Tiny models of three kinds, each kind in pairs of seeds, trained on one small language. A barrier is
how far the loss along the straight line between two models rises above the line between its ends,
in nats. The peer is what tools for merging do: orders of coordinates, heads and units alone, by
weights, as in Git Re-Basin. Alignment by activations runs both models on a text of the language;
losses are measured on another. Tied models are aligned once more with unembeddings of their own.
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np

from bench.harness import Report, arguments, blas_threads
from bench.small_language import LENGTH, Language, new_model, saved, trained
from segre.checkpoint.assignment import assignment
from segre.checkpoint.layout import Tensors
from segre.checkpoint.match import stream_products
from segre.checkpoint.model import Model
from segre.checkpoint.saving import saving
from segre.checkpoints import align, barrier
from segre.fields.interface import Array
from segre.symmetry.compact import act
from segre.symmetry.orders import Order, head_orders, stream_ports, unit_orders
from segre.symmetry.space import FloatWeights

KINDS = ("gpt2 tied", "llama untied", "llama tied")
COLUMNS = {
    "kind": ("models", ""),
    "seeds": ("seeds", ""),
    "none": ("none", ".2f"),
    "permutations": ("permutations", ".2f"),
    "weights": ("by weights", ".2f"),
    "activations": ("by activations", ".2f"),
    "share": ("of none", ".2f"),
    "untied": ("untied, by activations", ".2f"),
}
WAYS = ("none", "permutations", "weights", "activations", "untied")


def permuted(one: Path, two: Path, rounds: int = 10) -> tuple[dict[str, Any], dict[str, Any]]:
    """The second model with coordinates, heads and units in the order nearest to the first."""
    with Model.open(one) as a, Model.open(two) as b:
        spec, ports = a.spec, stream_ports(a.spec)
        order = assignment(a.part("embed")["tokens"] @ b.part("embed")["tokens"].T)
        for done in range(rounds + 1):
            products: Array = np.zeros((spec.d, spec.d))
            with saving(b) as save:
                for part in b.parts:
                    ours, theirs = a.part(part), b.part(part)
                    w, stream = FloatWeights.of(spec, part, theirs), Order(spec.d, "order", ports)
                    stream.act(w, stream.of(order))
                    theirs.update(w.part(part))
                    if part not in ("embed", "head"):
                        heads = head_orders(spec, part)[0].of(_heads(ours, theirs))
                        units = unit_orders(spec, part)["units"].of(_units(ours, theirs))
                        act(spec, part, {"heads": heads, "units": units}, theirs)
                    products += stream_products(spec, part, ours, theirs)
                    save.part(part, theirs)
            if done < rounds:
                order = order[assignment(products)]
        return save.arrays, b.store.config


def _heads(one: Tensors, two: Tensors) -> Array:
    rows = [
        np.concatenate([w[f"W_{name}"].reshape(len(w["W_Q"]), -1) for name in "QKVO"], axis=1)
        for w in (one, two)
    ]
    return assignment(rows[0] @ rows[1].T)


def _units(one: Tensors, two: Tensors) -> Array:
    inner = one["W_down"].T @ two["W_down"]
    for name in ("W_up", "W_gate", "b_up"):
        if name in one:
            inner = inner + one[name] @ two[name].T
    return assignment(inner)


def measured(kind: str, seeds: tuple[int, int], steps: int, work: Path) -> dict[str, Any]:
    """The barriers between two models, by the way in which they are aligned."""
    words = Language()
    text, other = (words.write(work / f"{name}.txt", 64, n) for n, name in enumerate("ab"))
    one, two = (
        saved(trained(new_model(kind, seed), seed, steps), work / f"{kind} {seed}")
        for seed in seeds
    )
    said: dict[str, Any] = {"text": text, "length": LENGTH, "report": False}
    ways: dict[str, Any] = {
        "none": two,
        "permutations": permuted(one, two),
        "weights": align(one, two, report=False),
        "activations": align(one, two, by="activations", **said),
    }
    found = barrier(one, *ways.values(), text=other, length=LENGTH)
    row: dict[str, Any] = {"kind": kind, "seeds": f"{seeds[0]}, {seeds[1]}", "untied": None}
    row |= {way: line.barrier for way, line in zip(ways, found.lines, strict=True)}
    if kind.endswith(" tied"):
        places = [work / f"{kind} {seed}, untied" for seed in seeds]
        for end, place in zip((one, two), places, strict=True):
            align(one, end, place, by="activations", untie=True, **said)
        row["untied"] = barrier(*places, text=other, length=LENGTH).value
    return row | {"share": row["activations"] / row["none"]}


def main() -> None:
    options = arguments(__doc__).parse_args()
    import torch

    torch.set_num_threads(1)
    pairs, steps = (1, 150) if options.quick else (3, 600)
    report = Report("barriers", options)
    rows, began = list[dict[str, Any]](), process_time()
    with TemporaryDirectory() as folder, blas_threads(1):
        for kind in KINDS:
            seeds = [(2 * n, 2 * n + 1) for n in range(pairs)]
            own = [measured(kind, pair, steps, Path(folder)) for pair in seeds]
            rows += [*own, _mean(kind, own)]
    report.table("Barriers, in nats, by the way in which models are aligned", COLUMNS, rows)
    shares = [row["share"] for row in rows if row["seeds"] != "mean"]
    report.remark(
        "share", mean(shares), f"by activations: {mean(shares):.2f} of the barrier, on average"
    )
    spent = process_time() - began
    report.remark("seconds", spent, f"{spent:.0f} CPU seconds, training included")
    report.finish()


def _mean(kind: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    known = [way for way in (*WAYS, "share") if rows[0][way] is not None]
    found = {way: mean(row[way] for row in rows) for way in known}
    return dict.fromkeys(WAYS) | {"kind": kind, "seeds": "mean", **found}


if __name__ == "__main__":
    main()
