"""How alike tokens are after each layer of a real model, and of the model with parts removed.

Layer 0 is what goes into the layers; layer l is the stream after the l-th, before the final norm of
pre-norm models. Measures are those of `segre.collapse.residual`, taken as the stream goes by: a
curve costs little more than the forward pass.

A model is run in single precision. Rounding the entries of a stream, by at most 2^-24 of each,
moves its relative residual by at most 2^-23; a layer does so about eight times (values, their
mixture, the output, its bias; centre, root, gain and bias of a norm). Below eight times that,
`FLOOR`, a curve is rounding, and all that comes after it in the layers is made of rounding. Where
the layers allow it (`continued`), the first input is carried on in split arithmetic; elsewhere the
curve ends there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from time import perf_counter
from typing import Any

import numpy as np

from segre.collapse.continued import can_continue, continued
from segre.collapse.inputs import Inputs
from segre.collapse.library import libraries
from segre.collapse.models import Loaded
from segre.collapse.residual import Measures
from segre.collapse.sinks import Sink, sink_of, without_largest
from segre.collapse.surgery import FULL, PAPER, Variant, operated, run
from segre.fields.interface import Array
from segre.fields.threads import threads_for
from segre.geometry.progress import Progress, quiet

FLOOR = 8 * 2.0**-23  # 9.5e-7: relative residuals below are rounding, not the model
_LEAST = 1e-300  # a threshold of 0 is below everything
LEAST = 1e-30  # streams of this size have too few digits left in single precision
SPECTRAL = ("rank", "stable_rank")
CACHED = 1 << 17  # numbers


@dataclass(frozen=True)
class Curve:
    """Measures of one variant: each (layers + 1, inputs).

    `relative` and `relative_frobenius` are relative residuals, `cosine` the mean cosine between
    two tokens, `size` the root mean square of all entries; with ranks, `rank` and `stable_rank`.
    """

    variant: Variant
    values: Mapping[str, Array]
    spectrum: Array | None = None  # (layers + 1, values): singular values, mean over inputs
    past: Array | None = None  # (layers + 1,): log10 of the first input's, in split arithmetic
    sink: Sink | None = None  # the token that dominates, if one does

    def mean(self, measure: str = "relative") -> Array:
        """The mean over inputs, by layer; not a number where numbers overflow."""
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(self.values[measure].mean(axis=-1))

    def spread(self, measure: str = "relative") -> Array:
        """The standard deviation over inputs, by layer."""
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(self.values[measure].std(axis=-1))

    @property
    def lost(self) -> int | None:
        """The first layer after which numbers say nothing: not finite, or next to nothing."""
        size = self.values["size"]
        wrong = ~np.isfinite(size + self.values["relative"]) | (size < LEAST)
        layers = np.flatnonzero(wrong.any(axis=-1))
        return int(layers[0]) if layers.size else None

    @property
    def floored(self) -> int | None:
        """The first layer after which the mean is rounding; what comes after it is, too."""
        layers = np.flatnonzero(self.mean()[: self.lost] < FLOOR)
        return int(layers[0]) if layers.size else None

    @property
    def log10(self) -> Array:
        """log10 of the mean relative residual, past the floor that of the first input.

        Where nothing is known, as past the floor of a curve that is not continued, nan.
        """
        means = self.mean()
        known = np.isfinite(means) & (means > 0)
        known[len(means) if self.lost is None else self.lost :] = False
        logs = np.where(known, np.log10(np.where(known, means, 1)), np.nan)
        if self.floored is not None:
            logs[self.floored :] = np.nan if self.past is None else self.past[self.floored :]
        return logs

    def below(self, threshold: float) -> int | None:
        """The layer from which the mean stays below a threshold, as far as it is known."""
        logs = self.log10[: self.lost]
        if self.floored is not None and self.past is None:
            logs = logs[: self.floored + 1]
            logs[-1] = np.log10(FLOOR)  # at most
        above = np.flatnonzero(~(logs < np.log10(max(threshold, _LEAST))))
        first = int(above[-1]) + 1 if above.size else 0
        return first if first < len(logs) else None

    def document(self) -> dict[str, Any]:
        """As plain data; what is not finite is null."""
        variant = self.variant
        found: dict[str, Any] = {"variant": str(variant), **vars(variant), "lost": self.lost}
        found["mlp_skip"] = variant.skips_mlp
        found |= {
            "floored": self.floored,
            "log10": _plain(self.log10),
            "continued": self.past is not None,
            "sink": None if self.sink is None else self.sink.document(),
        }
        for name in self.values:
            if name == "position" or (name == "without" and self.sink is None):
                continue
            found[name] = {
                "mean": _plain(self.mean(name)),
                "spread": _plain(self.spread(name)),
                "lowest": _plain(self.values[name].min(axis=-1)),
                "highest": _plain(self.values[name].max(axis=-1)),
            }
        if self.spectrum is not None:
            found["spectrum"] = [_plain(row) for row in self.spectrum]
        return found


@dataclass(frozen=True)
class Curves:
    """The curves of a model's variants on the same inputs."""

    model: Mapping[str, Any]
    inputs: Mapping[str, Any]
    curves: tuple[Curve, ...]
    floor: float = FLOOR

    def __getitem__(self, variant: Variant) -> Curve:
        return next(curve for curve in self.curves if curve.variant == variant)

    def __contains__(self, variant: object) -> bool:
        return any(curve.variant == variant for curve in self.curves)

    @property
    def layers(self) -> int:
        """How many layers the model has."""
        return len(self.curves[0].mean()) - 1

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            **self.model,
            "inputs": dict(self.inputs),
            "floor": self.floor,
            "curves": [curve.document() for curve in self.curves],
        }


def curves(
    loaded: Loaded,
    inputs: Inputs,
    variants: Sequence[Variant] = PAPER,
    *,
    ranks: bool = False,
    past_floor: bool = False,
    progress: Progress = quiet,
) -> Curves:
    """Measure every variant after every layer; `ranks` adds what needs singular values.

    With `past_floor` curves that reach the floor are continued below it, where that is possible.
    """
    torch, _ = libraries()
    total = len(variants) * len(inputs.batches)
    found = []
    for place, variant in enumerate(variants):
        parts: list[list[dict[str, Array]]] = [[] for _ in range(loaded.layers + 1)]

        def see(depth: int, X: Any, parts: Any = parts) -> None:
            parts[depth].append(_measured(torch, X, ranks))

        with operated(loaded, variant):
            for number, batch in enumerate(inputs.batches):
                progress(str(variant), place * len(inputs.batches) + number, total)
                run(loaded, batch, see)
        curve = _curve(variant, parts)
        if past_floor and curve.floored is not None and can_continue(loaded, variant):
            progress(f"{variant}, past the floor", place * len(inputs.batches), total)
            curve = replace(curve, past=_continued(loaded, inputs, variant))
        found.append(replace(curve, sink=sink_of(curve.values, loaded, inputs)))
    progress("measured", total, total)
    return Curves(loaded.document(), inputs.document(), tuple(found))


def _continued(loaded: Loaded, inputs: Inputs, variant: Variant) -> Array:
    """The first input in split arithmetic: log10 of its relative residuals."""
    tokens: list[Array] = []

    def see(depth: int, X: Any) -> None:
        if depth == 0:
            tokens.append(X[0].double().numpy().copy())

    run(loaded, inputs.batches[0][:1], see)
    with threads_for(0):  # small matrices, and torch has threads of its own
        return continued(loaded, variant, tokens[0])


@dataclass(frozen=True)
class Cost:
    """Seconds of a forward pass, and of one that is measured: the fastest of several."""

    plain: float
    measured: float

    @property
    def ratio(self) -> float:
        """What measuring costs, as a multiple of the plain pass."""
        return self.measured / self.plain


def cost(loaded: Loaded, inputs: Inputs, repeats: int = 5) -> Cost:
    """Time the model as it is, without and with measuring, in turns."""
    times: dict[str, list[float]] = {"plain": [], "measured": []}
    for attempt in range(repeats + 1):
        for name, taken in times.items():
            began = perf_counter()
            if name == "plain":
                for batch in inputs.batches:
                    run(loaded, batch)
            else:
                curves(loaded, inputs, [FULL])
            if attempt:  # the first is to warm up
                taken.append(perf_counter() - began)
    return Cost(min(times["plain"]), min(times["measured"]))


def _curve(variant: Variant, parts: list[list[dict[str, Array]]]) -> Curve:
    def joined(name: str) -> Array:
        return np.stack([np.concatenate([part[name] for part in layer]) for layer in parts])

    names = [name for name in parts[0][0] if name != "spectrum"]
    spectrum = None
    if "spectrum" in parts[0][0]:
        widest = max(part["spectrum"].shape[-1] for part in parts[0])

        def padded(part: Mapping[str, Array]) -> Array:
            short = widest - part["spectrum"].shape[-1]
            return np.pad(part["spectrum"], ((0, 0), (0, short)))

        spectrum = np.stack([np.concatenate(list(map(padded, layer))).mean(0) for layer in parts])
    return Curve(variant, {name: joined(name) for name in names}, spectrum)


def _measured(torch: Any, X: Any, ranks: bool) -> dict[str, Array]:
    """What is measured of each stream of a batch (inputs, tokens, width)."""
    step = max(1, CACHED // (X.shape[1] * X.shape[2]))  # what fits the cache is measured fast
    parts = [_of_streams(torch, part) for part in X.split(step)]
    found = {name: torch.cat([part[name] for part in parts]).double().numpy() for name in parts[0]}
    if ranks:
        finite = torch.isfinite(X).all(2).all(1)[:, None, None]
        every = Measures.of(X.where(finite, 0).numpy())
        found |= {name: np.asarray(vars(every)[name], float) for name in (*SPECTRAL, "spectrum")}
    return found


def _of_streams(torch: Any, X: Any) -> dict[str, Any]:
    """The cheap measures. The mean is summed in double precision: equal tokens have residual 0."""
    n, d = X.shape[1:]
    rest = X - X.mean(1, keepdim=True, dtype=torch.float64).to(X.dtype)
    size = _frobenius(torch, X, dim=2)
    whole = _frobenius(torch, size, dim=1)
    weights = 1 / size.where(size != 0, 1)
    total = (weights[:, None].to(X.dtype) @ X)[:, 0]
    relative = _share(_composite(rest), _composite(X))
    return {
        "relative": relative,
        "relative_frobenius": _share(_frobenius(torch, rest, dim=(1, 2)), whole),
        "cosine": ((total**2).sum(1) - (size != 0).sum(1)) / (n * (n - 1)),
        "size": whole / (n * d) ** 0.5,
        **without_largest(torch, X, size, relative, lambda Y: _relative(torch, Y)),
    }


def _relative(torch: Any, X: Any) -> Any:
    rest = X - X.mean(1, keepdim=True, dtype=torch.float64).to(X.dtype)
    return _share(_composite(rest), _composite(X))


def _frobenius(torch: Any, X: Any, dim: int | tuple[int, int]) -> Any:
    """In double precision: squares of small numbers are not lost."""
    return torch.linalg.vector_norm(X, dim=dim, dtype=torch.float64)


def _composite(X: Any) -> Any:
    sizes = X.abs()
    return sizes.sum(1).amax(1).sqrt() * sizes.sum(2).amax(1).sqrt()


def _share(part: Any, whole: Any) -> Any:
    return part / whole.where(whole != 0, 1)


def _plain(values: Array) -> list[float | None]:
    return [float(value) if isfinite(value) else None for value in values]
