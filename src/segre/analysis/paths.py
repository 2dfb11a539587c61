"""Which paths carry the output? Numbers of paths by length, and with weights their sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from segre.analysis.part import Answer, percent
from segre.analysis.workbench import Workbench
from segre.collapse.paths import head_sums, path_sums
from segre.collapse.residual import norm, relative_residual
from segre.collapse.shares import counts_of, shares_of
from segre.errors import TooLargeError, UnsupportedError


def which_paths_carry(bench: Workbench) -> Answer:
    """Sums of all paths by length and head, where there are weights that can be run."""
    if bench.target.weights is None:
        return _counted(bench)
    try:
        return _summed(bench)
    except (TooLargeError, UnsupportedError) as error:  # no torch, or too large to run
        return _counted(bench, str(error))


def _counted(bench: Workbench, reason: str = "") -> Answer:
    spec = bench.target.spec
    counts, shares = counts_of(spec), shares_of(spec)
    longest = int(np.argmax(shares))
    total = sum(counts)
    lead = (
        f"{_large(total)} paths go through the heads and skips of its layers; "
        f"{percent(shares[longest], 1)} of them have length {longest}."
    )
    return Answer(
        status="exact",
        lead=lead if total > 1 else "One path goes through its layers: a head in each, no skips.",
        how="A path takes one head of a layer, or its skip; there are C(L, k) H^k of length k.",
        command=f"segre paths {bench.target.argument} --shares",
        data={"kind": "shares", "counts": [str(count) for count in counts], "shares": shares},
        notes=(f"What paths contribute is not shown: {reason}.",) if reason else (),
    )


def _large(number: int) -> str:
    return f"{number:,}" if number < 10**15 else f"{number:.2e}".replace("e+", "e")


def _summed(bench: Workbench) -> Answer:
    done = bench.recorded
    sums, heads = path_sums(done), head_sums(done)
    size = [float(norm(term)) for term in sums.by_length]
    error = float(abs(sums.total - done.output).max() / abs(done.output).max())
    strongest = int(np.argmax(size))
    through = [[float(norm(head)) for head in layer] for layer in heads.by_head]
    layer, head = max(
        ((i, j) for i, row in enumerate(through) for j in range(len(row))),
        key=lambda place: through[place[0]][place[1]],
    )
    options = bench.options(
        length=len(done.X), text=bench.text_given, seed=bench.seed, memory=bench.memory
    )
    return Answer(
        status="measured",
        lead=f"{_large(sum(sums.counts))} paths. Those of length {strongest} together are the "
        f"largest part of the output; of single heads, most goes through head {head + 1} of layer "
        f"{layer + 1}.",
        how=f"One forward pass on {len(done.X)} tokens is written down, MLPs and norms as the "
        "linear maps that they were; the sum over all paths is exact, without listing them. It "
        f"equals the output to {error:.1e}, relative.",
        command=f"segre paths {bench.target.argument} --mlp --norm{options}",
        data={
            "kind": "sums",
            "counts": [str(count) for count in sums.counts],
            "norms": size,
            "residuals": [_relative(term) for term in sums.by_length],
            "bias": float(norm(sums.bias)),
            "through": through,
            "layers": [float(norm(term)) for term in heads.by_layer],
            "identity": error,
        },
    )


def _relative(term: Any) -> float | None:
    """Paths that there are none of have no relative residual."""
    return float(relative_residual(term)) if np.any(term) else None
