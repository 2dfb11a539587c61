"""What a residual curve costs: a forward pass that is measured, beside a plain one.

The peer is segre's own forward pass of the same model on the same tokens, in turns with the
measured one; `bench.forward` has that pass against the transformers library's.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from bench.harness import Report, arguments
from segre.checkpoint.inputs import Inputs, random_tokens
from segre.checkpoint.model import Model
from segre.checkpoint.runnable import load
from segre.collapse.curves import curves
from segre.collapse.variants import FULL
from segre.fields import Real
from segre.fields.threads import threads_for
from segre.transformer.forward import Tokens, run

MODELS = ("bert-base-uncased", "gpt2", "smollm2-135m")
QUICK = ("bert/d=64/layers=4/heads=4/ff=128/vocab=500/t=64",)
COLUMNS = {
    "model": ("model", ""),
    "inputs": ("inputs", ""),
    "length": ("tokens", ""),
    "plain": ("plain pass s", ".3f"),
    "measured": ("curve s", ".3f"),
    "ratio": ("curve / plain", ".2f"),
}


@dataclass(frozen=True)
class Cost:
    """Seconds of a forward pass, and of one that is measured: the fastest of several."""

    plain: float
    measured: float

    @property
    def ratio(self) -> float:
        """What measuring costs, as a multiple of the plain pass."""
        return self.measured / self.plain


def cost(model: Model, inputs: Inputs, repeats: int = 5) -> Cost:
    """Time the whole model with and without measuring, in turns."""
    times: dict[str, list[float]] = {"plain": [], "measured": []}
    for attempt in range(repeats + 1):
        for name, taken in times.items():
            began = perf_counter()
            if name == "plain":
                with threads_for(model.spec.d):
                    run(model, list(map(Tokens, inputs.batches)), Real(np.float32))
            else:
                curves(model, inputs, [FULL])
            if attempt:  # the first is to warm up
                taken.append(perf_counter() - began)
    return Cost(min(times["plain"]), min(times["measured"]))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    report = Report("collapse", options)
    rows: list[dict[str, Any]] = []
    for name in QUICK if options.quick else MODELS:
        loaded = load(name, options.seed)
        inputs = random_tokens(loaded, 4, 64, options.seed)
        found = cost(loaded, inputs, options.repeats)
        rows.append(
            {
                "model": name,
                "inputs": inputs.count,
                "length": inputs.length,
                "plain": found.plain,
                "measured": found.measured,
                "ratio": found.ratio,
            }
        )
    report.table("Fastest of several passes, in turns", COLUMNS, rows)
    typical = median(row["ratio"] for row in rows)
    report.remark("ratio", typical, f"median ratio {typical:.2f}")
    report.finish()


if __name__ == "__main__":
    main()
