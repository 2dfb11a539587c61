"""Which verdicts `segre model lineage` gives on pairs whose history is known.

Tiny models of six families are trained from several seeds on the same data (needs torch). Pairs of
different seeds are the null distribution: how many nearest relatives of heads and units are in the
other model, although the two have nothing to do with each other. Descendants of the first seed are
made in all ways that the verdicts name, in place and moved afterwards. There is no peer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from time import perf_counter
from typing import Any

import numpy as np

from bench.descendants import (
    moved,
    multiplied,
    noised,
    pruned,
    quantised,
    rounded,
    smaller_llama,
    without_heads,
)
from bench.harness import Report, arguments
from bench.tiny_models import FAMILIES, Checkpoint, fine_tuned, taken, trained
from segre.checkpoint.lineage import related_checkpoints
from segre.checkpoint.model import Model

VERDICTS = (
    *("identical", "same function, moved", "rounded", "noise added", "fine-tuned"),
    *("pruned", "quantised", "unrelated", "undecided"),
)
Case = tuple[str, str, Checkpoint]  # what it is, what should be said, the checkpoint


def descendants(model: Any, base: Checkpoint, family: str, *, quick: bool) -> Iterator[Case]:
    """What comes of a checkpoint."""
    yield "identical", "identical", base
    yield "moved", "same function, moved", moved(base)
    yield "rounded", "rounded", rounded(base)
    for number, size in enumerate((0.01,) if quick else (0.001, 0.01, 0.1)):
        found = noised(base, size, number)
        yield f"noise {size:.1%}", "noise added", found
        yield f"noise {size:.1%}, moved", "noise added", moved(found, 2)
    yield "quantised, 8 bits", "quantised", quantised(base, 8)
    for steps in (10, 100) if quick else (10, 30, 100, 300, 1000):
        found = fine_tuned(model, family, steps)
        yield f"fine-tuned, {steps} steps", "fine-tuned", found
        yield f"fine-tuned, {steps} steps, moved", "fine-tuned", moved(found, 3)
    if quick:
        return
    yield "moved, then noise 10.0%", "noise added", noised(moved(base, 4), 0.1)
    yield "multiplied by noise 5%", "noise added", multiplied(base, 0.05)
    for bits, group in ((4, 0), (4, 32), (8, 32)):
        yield f"quantised, {bits} bits", "quantised", quantised(base, bits, group)
    yield "pruned, 10%", "pruned", pruned(base, 0.1)
    yield "pruned, 50%", "pruned", pruned(base, 0.5)
    yield "pruned, 30%, moved", "pruned", moved(pruned(base), 5)
    yield "heads zeroed", "pruned", without_heads(base)
    yield "heads zeroed, moved", "pruned", moved(without_heads(base), 6)
    if family == "llama":
        yield "heads removed", "pruned", smaller_llama(base, 3, 96)
        yield "units removed", "pruned", smaller_llama(base, 4, 64)
        yield "both removed, moved", "pruned", moved(smaller_llama(base, 3, 64), 7)


def judged(one: Checkpoint, two: Checkpoint) -> dict[str, Any]:
    """The verdict on a pair, and the numbers behind it."""
    start = perf_counter()
    with Model.open(one) as a, Model.open(two) as b:
        found = related_checkpoints(a, b)
    kin, change = found.kinship, found.change
    return {
        "verdict": found.verdict,
        "share": None if kin is None else kin.share,
        "threshold": None if kin is None else kin.threshold,
        "structure": None if change is None else change.structure,
        "size": None if change is None else change.size,
        "seconds": perf_counter() - start,
    }


def main() -> None:
    """Train, make pairs, judge them, and print the confusion table."""
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="number of models of every family")
    options = parser.parse_args()
    report = Report("lineage", options)
    seeds = 4 if options.quick else options.seeds
    families = FAMILIES[:2] if options.quick else FAMILIES
    steps = 150 if options.quick else 400
    pairs = []
    for family in families:
        pairs += _of_family(family, seeds, steps, quick=options.quick)
    report.table("verdicts", _columns(), _confusion(pairs))
    _null(report, pairs)
    _wrong(report, pairs)
    report.remark("pairs", pairs, f"{len(pairs)} pairs")
    report.finish()


def _of_family(family: str, seeds: int, steps: int, *, quick: bool) -> list[dict[str, Any]]:
    import torch

    torch.set_num_threads(1)
    models = [trained(family, seed, steps) for seed in range(seeds)]
    taken_all = [taken(model) for model in models]
    out = []
    for case, truth, other in descendants(models[0], taken_all[0], family, quick=quick):
        found = judged(taken_all[0], other)
        out.append({"family": family, "case": case, "truth": truth, **found})
    for one, two in combinations(taken_all, 2):
        found = judged(one, two)
        out.append({"family": family, "case": "trained apart", "truth": "unrelated", **found})
    return out


def _columns() -> dict[str, tuple[str, str]]:
    return {"truth": ("history", ""), "pairs": ("pairs", "d")} | {
        verdict: (verdict, "d") for verdict in VERDICTS
    }


def _confusion(pairs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    counts = Counter((pair["truth"], pair["verdict"]) for pair in pairs)
    truths = [truth for truth in VERDICTS if any(pair["truth"] == truth for pair in pairs)]
    return [
        {
            "truth": truth,
            "pairs": sum(counts[truth, verdict] for verdict in VERDICTS),
            **{verdict: counts[truth, verdict] for verdict in VERDICTS},
        }
        for truth in truths
    ]


def _null(report: Report, pairs: list[dict[str, Any]]) -> None:
    shares = np.array([pair["share"] for pair in pairs if pair["truth"] == "unrelated"])
    related = [x["share"] for x in pairs if x["truth"] != "unrelated" and x["share"] is not None]
    limits = [pair["threshold"] for pair in pairs if pair["truth"] == "unrelated"]
    null = {
        "pairs": len(shares),
        "mean": float(shares.mean()),
        "spread": float(shares.std()),
        "most": float(shares.max()),
        "threshold": float(min(limits)),
        "least related": float(min(related)),
    }
    report.remark(
        "null",
        null,
        f"nearest relatives in the other model, of {null['pairs']} pairs trained apart: mean "
        f"{null['mean']:.3f}, standard deviation {null['spread']:.3f}, largest {null['most']:.3f}; "
        f"smallest threshold {null['threshold']:.2f}; smallest of related pairs "
        f"{null['least related']:.3f}",
    )


def _wrong(report: Report, pairs: list[dict[str, Any]]) -> None:
    wrong = [pair for pair in pairs if pair["verdict"] != pair["truth"]]
    for pair in wrong:
        numbers = {name: pair[name] for name in ("share", "structure", "size")}
        said = ", ".join(f"{name} {x:.3g}" for name, x in numbers.items() if x is not None)
        line = f"{pair['family']}, {pair['case']}: {pair['verdict']} ({said})"
        report.remark(f"{pair['family']}, {pair['case']}", pair["verdict"], line)
    false = sum(pair["truth"] == "unrelated" for pair in wrong)
    report.remark("false positives", false, f"trained apart, and not called unrelated: {false}")


if __name__ == "__main__":
    main()
