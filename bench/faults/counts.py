"""Counts of symmetries against the exact rank of the Jacobian, on random designs over all keys.

A count that is shown as a bound may never be below the rank. The rank is computed without any
symmetry: mod p or, where square roots of many tokens would have to exist mod p, in floating point,
if its singular values have a clear gap. Designs without such a rank are not counted as tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from bench.faults.tally import Tally
from bench.random_specs import random_core, random_design, random_transformer
from segre.errors import SegreError, UnluckyError
from segre.finding import Finding
from segre.geometry.at_any_size import counted, formulas
from segre.geometry.estimate import spectrum
from segre.geometry.independence import only_in_balls
from segre.geometry.point import Point
from segre.geometry.rank import jacobian_rank
from segre.transformer.spec import Transformer

_POINTS = 8
_LARGEST = 400  # parameters
_FEW_TOKENS = 3
_CLEAR = 1e4  # gap between singular values
_NOISE = 1e-8  # below it, all singular values may be rounding: the function is locally constant


def rank_of(spec: Transformer) -> int | None:
    """The rank of the Jacobian at a random point; None if it is not clear."""
    many_roots = spec.salted and (spec.t > _FEW_TOKENS or bool(spec.qknorm))
    if many_roots or only_in_balls(spec) is not None:
        with suppress(UnluckyError):
            found = spectrum(spec)
            clear = found.gap > _CLEAR and found.values[0] > _NOISE
            return found.rank if clear else None
        return None
    for attempt in range(_POINTS):
        try:
            return jacobian_rank(Point.draw(spec, 0, attempt), spec.parameters).rank
        except UnluckyError:
            continue
    return None


def tally(quick: bool = False) -> list[Tally]:
    """The bounds of `--method count`, which `dim` shows of networks too large to compute."""
    return [
        *_against_rank("designs over all keys", random_design, 160 if quick else 4_000),
        *_against_rank("designs of most models", random_core, 30 if quick else 1_000),
        *_against_rank("any features", random_transformer, 30 if quick else 1_000),
    ]


def _against_rank(name: str, draw: Callable[[int], Transformer], count: int) -> list[Tally]:
    said: Counter[str] = Counter()
    wrong: list[str] = []
    low = below = 0
    for seed in range(count):
        spec = draw(seed)
        rank = rank_of(spec) if spec.parameters <= _LARGEST else None
        if rank is None:
            continue
        found = counted(spec)
        said["by formulas" if _by_formulas(found) else "by rank at a point"] += 1
        if found.upper is None or found.upper < rank:
            wrong.append(f"count {found.upper} < rank {rank}: {spec}")
        low += found.upper == rank
        below += _estimated_below(spec, rank)
    note = ", ".join(f"{number:,} {what}" for what, number in sorted(said.items()))
    note += f"; {low:,} equal to the rank; {below:,} unproved formulas below the rank, not shown"
    fault = f"counts shown as bounds: {name}"
    return [Tally(fault, sum(said.values()), len(wrong), "; ".join([note, *wrong[:3]]))]


def _by_formulas(found: Finding) -> bool:
    return found.upper_evidence is not None and found.upper_evidence.kind == "counted-symmetries"


def _estimated_below(spec: Transformer, rank: int) -> bool:
    """Whether the formulas, where they are not proved, are below the rank."""
    try:
        estimate = formulas(spec).estimate
    except SegreError:
        return False
    return estimate is not None and estimate < rank
