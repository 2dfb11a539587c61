"""A floating-point estimate of the dimension: singular values of the Jacobian, and their gap.

For comparison only. A gap of many orders of magnitude suggests a rank and proves nothing; a small
one means that the answer depends on the tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from segre.architectures import Architecture
from segre.errors import UnluckyError
from segre.fields.interface import Array
from segre.fields.real import Real
from segre.finding import Evidence, Finding
from segre.geometry.memory import DEFAULT_LIMIT, inputs_at_once, require_memory
from segre.geometry.real_point import RealPoint
from segre.network import jacobian, stages
from segre.values import quote

_SMALL_GAP = 1e3


@dataclass(frozen=True)
class Spectrum:
    """Singular values of a floating-point Jacobian, and the rank they suggest."""

    values: Array
    tolerance: float
    inputs: int

    @property
    def rank(self) -> int:
        """How many singular values exceed the tolerance."""
        return int((self.values > self.tolerance).sum())

    @property
    def gap(self) -> float:
        """Ratio of the smallest singular value kept to the largest one dropped."""
        if self.rank in (0, len(self.values)) or self.values[self.rank] == 0:
            return float("inf")
        return float(self.values[self.rank - 1] / self.values[self.rank])


def spectrum(
    spec: Architecture,
    *,
    seed: int = 0,
    inputs: int | None = None,
    dtype: npt.DTypeLike = np.float64,
    memory: int = DEFAULT_LIMIT,
) -> Spectrum:
    """Singular values of the Jacobian at normal weights (scaled by width) and inputs."""
    outputs, P = prod(spec.output_shape), spec.parameters
    count = inputs if inputs is not None else max(50, 2 * -(-P // outputs))
    field = Real(dtype)
    require_memory(spec, 3 * field.dtype.itemsize * count * outputs * P, memory)
    rng = np.random.default_rng(seed)
    weights = np.zeros(P)
    for stage in stages(spec):
        for name, slot in stage.slots.items():
            drawn = rng.standard_normal(slot.size) / np.sqrt(slot.shape[-1])
            weights[slot.range] = 1 + drawn / 2 if name.endswith(".gain") else drawn
    if spec.discrete:
        X = RealPoint(spec, seed).inputs(np.arange(count))
    else:
        X = rng.standard_normal((count, spec.width_in, spec.t))
    step = inputs_at_once(spec)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        rows = [
            jacobian(field, spec, field.constant(weights), field.constant(X[i : i + step]))
            for i in range(0, count, step)
        ]
    matrix = np.concatenate(rows).reshape(-1, P)
    if not np.isfinite(matrix).all():
        raise UnluckyError(
            f"spec {quote(str(spec))}: at random weights and inputs the network has no finite value"
        )
    values = np.linalg.svd(matrix, compute_uv=False)
    tolerance = float(values[0] * max(matrix.shape) * np.finfo(field.dtype).eps)
    return Spectrum(values, tolerance, count)


def estimate(spec: Architecture, *, seed: int = 0, memory: int = DEFAULT_LIMIT) -> Finding:
    """The rank that float64 suggests, as an estimate with its gap."""
    found = spectrum(spec, seed=seed, memory=memory)
    notes = [f"singular-value gap {found.gap:.1e} at rank {found.rank} ({found.inputs} inputs)"]
    if found.gap < _SMALL_GAP:
        notes.append("warning: the gap is small, so the estimate depends on the tolerance")
    evidence = Evidence(
        "float64-rank",
        f"{found.rank} singular values above {found.tolerance:.1e}; an estimate, not a bound",
        {"singular_values": found.values.tolist(), "gap": found.gap},
    )
    return Finding(
        spec=spec,
        status="estimate",
        estimate=found.rank,
        estimate_evidence=evidence,
        notes=tuple(notes),
        seed=seed,
    )
