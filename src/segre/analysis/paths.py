"""Which paths carry the output? Numbers of paths by length, and with weights their sums.

The paths are those of the model as it is, as in `segre model paths` unless that is told otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from segre.analysis.part import Part, percent
from segre.analysis.workbench import RECORDED_VARIANT, Workbench
from segre.checkpoint.outputs import furthest
from segre.collapse.commands import Paths
from segre.collapse.paths import counts_of, head_shares, path_sums, shares_of
from segre.collapse.residual import norm, relative_residual
from segre.errors import TooLargeError, UnsupportedError
from segre.values import counted


def which_paths_carry(bench: Workbench) -> Part:
    """Sums of all paths by length and head, where there are weights that can be run."""
    if bench.model is None:
        return _counted(bench)
    try:
        return _summed(bench)
    except (TooLargeError, UnsupportedError) as error:  # no patterns, or too large to keep
        return _counted(bench, str(error))


def _counted(bench: Workbench, reason: str = "") -> Part:
    spec = bench.spec
    counts, shares = counts_of(spec), shares_of(spec)
    longest = int(np.argmax(shares))
    total = sum(counts)
    lead = (
        f"{_paths(total)} through the heads and skips of its layers; "
        f"{percent(shares[longest], 1)} of them have length {longest}."
    )
    return Part(
        status="exact",
        lead=lead if total > 1 else "One path goes through its layers: a head in each, no skips.",
        how="A path takes one head of a layer, or its skip. There are C(L, k) H^k paths of "
        "length k.",
        command=f"segre model paths {bench.argument} --shares",
        data={"kind": "shares", "counts": [str(count) for count in counts], "shares": shares},
        notes=(f"What paths contribute is not shown: {reason}.",) if reason else (),
        takeaways={
            "paths-by-length": f"The most common length is {longest}: "
            f"{percent(shares[longest], 1)} of the paths go through {counted(longest, 'head')}."
            if total > 1
            else "There is one path, through one head in every layer."
        },
    )


def _paths(number: int) -> str:
    if number == 1:
        return "There is 1 path"
    large = f"{number:,}" if number < 10**15 else f"{number:.2e}".replace("e+", "e")
    return f"There are {large} paths"


def _summed(bench: Workbench) -> Part:
    done = bench.recorded
    sums, heads = path_sums(done), head_shares(done)
    error = furthest(done.output, sums.total)
    shares, bias = [float(one) for one in sums.shares], float(sums.bias_share)
    through = [[float(one) for one in layer] for layer in heads]
    asked = {"length": len(done.X), "text": bench.text_given, "seed": bench.seed}
    return Part(
        status="measured",
        lead=f"{_paths(sum(sums.counts))} through its heads. "
        f"{_largest(shares, bias)} {_largest_head(through)}".rstrip(),
        how=f"One forward pass on {len(done.X)} tokens is recorded, with MLPs and norms as the "
        "linear maps that they were. The sum over all paths is computed without listing them; it "
        f"equals the output up to a relative error of {error:.1e}. The share of a term is "
        "`<term, output> / |output|^2`; with the biases, shares add up to one.",
        command=bench.asking("model paths", **asked, memory=bench.memory),
        data={
            "kind": "sums",
            "variant": str(RECORDED_VARIANT),
            "counts": [str(count) for count in sums.counts],
            "shares": shares,
            "bias_share": bias,
            "norms": [float(norm(term)) for term in sums.by_length],
            "residuals": [_relative(term) for term in sums.by_length],
            "bias": float(norm(sums.bias)),
            "through": through,
            "past": [1 - bias - sum(layer) for layer in through],
            "identity": error,
        },
        takeaways={
            "paths-by-length": _by_length(shares, bias),
            "paths-through-heads": _by_head(through),
        },
        details=Paths(bench.name, sums, heads, error, []),
    )


def _by_length(shares: Sequence[float], bias: float) -> str:
    """How much goes past all heads, and how much through at least one.

    >>> _by_length([0.62, 0.2, 0.05], 0.13)
    'Past all heads, through skips and MLPs, goes 62% of the output; through heads, 25%.'
    """
    if not np.isfinite(bias):
        return "The output is 0, so nothing has a share of it."
    return (
        f"Past all heads, through skips and MLPs, goes {percent(shares[0], 1)} of the output; "
        f"through heads, {percent(sum(shares[1:]), 1)}."
    )


def _by_head(through: Sequence[Sequence[float]]) -> str:
    """Which layer and which head carry most."""
    layers = [sum(row) for row in through]
    if not np.isfinite(layers).all():
        return "The output is 0, so nothing has a share of it."
    best = int(np.argmax(layers))
    return (
        f"The layer whose heads carry most is layer {best + 1}: together, "
        f"{percent(layers[best], 1)} of the output."
    )


def _largest(shares: Sequence[float], bias: float) -> str:
    """What carries most of the output: paths of a length, or the biases.

    >>> _largest([0.62, 0.25], 0.13)
    'Paths of length 0 carry the largest share of the output, 62%; biases carry 13%.'
    >>> _largest([0.1, 0.3, -0.1], 0.7)
    'Biases carry the largest share of the output, 70%; of paths, those of length 1 do, 30%.'
    """
    if not np.isfinite(bias):
        return "The output is 0, and nothing has a share of it."
    length = int(np.argmax(shares))
    if bias > shares[length]:
        return (
            f"Biases carry the largest share of the output, {percent(bias, 1)}; of paths, those of "
            f"length {length} do, {percent(shares[length], 1)}."
        )
    biases = f"biases carry {percent(bias, 1)}" if bias else "there are no biases"
    return (
        f"Paths of length {length} carry the largest share of the output, "
        f"{percent(shares[length], 1)}; {biases}."
    )


def _largest_head(through: Sequence[Sequence[float]]) -> str:
    if not all(np.isfinite(row).all() for row in through):
        return ""
    share, layer, head = max(
        (share, layer, head)
        for layer, row in enumerate(through, 1)
        for head, share in enumerate(row, 1)
    )
    return f"The head that carries most is head {head} of layer {layer}: {percent(share, 1, 1)}."


def _relative(term: Any) -> float | None:
    """The relative residual of a sum of paths; None if there are no such paths."""
    return float(relative_residual(term)) if np.any(term) else None
