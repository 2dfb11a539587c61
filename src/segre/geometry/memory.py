"""How much memory an exact computation needs, known before anything is allocated."""

from __future__ import annotations

from functools import singledispatch
from math import prod

from segre.architectures import Architecture
from segre.attention.layer import Layer
from segre.errors import TooLargeError
from segre.network import stages
from segre.polynomial.spec import Polynomial
from segre.spec import Network
from segre.transformer.spec import Transformer

DEFAULT_LIMIT = 8 << 30
_ENTRY = 8
_WORKING = 1 << 28
_MACHINE = 1 << 43  # more memory than any machine that segre is likely to run on


@singledispatch
def bytes_per_input(spec: Architecture) -> int:
    """Peak memory of differentiating the network at one input, tangents of all stages kept."""
    raise TypeError(f"the memory needed for a {type(spec).__name__} is not known")


@bytes_per_input.register(Network)
def _stack_bytes(spec: Network) -> int:
    if not spec.plain:
        return _mixed_bytes(spec)
    t = spec.t

    def directions(layer: Layer) -> int:
        return layer.parameters + layer.width_in * t

    kept = sum(layer.width_out * t * directions(layer) for layer in spec.layers)
    passing = max(
        layer.heads
        * t
        * (4 * t + 4 * layer.a + 2 * layer.width_in + 2 * layer.width_out)
        * directions(layer)
        for layer in spec.layers
    )
    rows = spec.widths[-1] * t * spec.parameters
    return _ENTRY * (kept + passing + 2 * rows)


def _mixed_bytes(spec: Network) -> int:
    t = spec.t
    kept = passing = 0
    for layer in spec.layers:
        directions = layer.parameters + layer.width_in * t
        kept += layer.width_out * t * directions
        width = 8 * t + 8 * layer.a + 2 * layer.width_in + 4 * layer.width_out
        most = max(group.heads for group in layer.groups)
        passing = max(passing, most * t * width * directions)
    return _ENTRY * (kept + passing + 2 * spec.widths[-1] * t * spec.parameters)


@bytes_per_input.register(Polynomial)
def _polynomial_bytes(spec: Polynomial) -> int:
    kept = passing = 0
    for layer in spec.layers:
        directions = layer.weights + spec.bias * layer.units + layer.width_in
        kept += layer.width_out * directions
        passing = max(passing, 4 * layer.width_out * directions)
    return _ENTRY * (kept + passing + 2 * spec.widths[-1] * spec.parameters)


@bytes_per_input.register(Transformer)
def _transformer_bytes(spec: Transformer) -> int:
    t, rows = spec.t, prod(spec.output_shape)
    widest = {
        "attention": spec.heads * (4 * t + 4 * spec.head + 3 * spec.dv + 2 * spec.d) + 4 * spec.d,
        "mlp": 5 * max(spec.ff, spec.experts * (spec.eff + spec.d)) + 4 * spec.d,
        "embed": 4 * spec.d,
        "head": 4 * spec.output_shape[0] + 4 * spec.d,
    }
    widest["layer"] = widest["attention"] + widest["mlp"]
    kept = passing = 0
    for directions, stage in zip(stage_directions(spec), stages(spec), strict=True):
        kept += max(spec.d * t, rows) * directions
        passing = max(passing, t * widest[stage.name.split()[0]] * directions)
    return _ENTRY * (kept + passing + 2 * rows * spec.parameters)


@singledispatch
def stage_directions(spec: Architecture) -> list[int]:
    """By how many variables each stage is differentiated: its input and its weights."""
    inner = [sum(slot.size for slot in stage.slots.values()) for stage in stages(spec)]
    return [spec.width * spec.t + size for size in inner]


@stage_directions.register(Network)
def _stack_directions(spec: Network) -> list[int]:
    return [layer.parameters + layer.width_in * spec.t for layer in spec.layers]


@stage_directions.register(Polynomial)
def _polynomial_directions(spec: Polynomial) -> list[int]:
    return [layer.weights + spec.bias * layer.units + layer.width_in for layer in spec.layers]


def inputs_at_once(spec: Architecture) -> int:
    """How many inputs to differentiate in one batch, so that the batch stays small."""
    return max(1, min(256, _WORKING // bytes_per_input(spec)))


def bytes_for_rank(spec: Architecture, rank: int) -> int:
    """Memory for the exact rank: an echelon form of `rank` rows, seeds, and a batch of rows."""
    largest = max(stage_directions(spec))
    echelon = 2 * _ENTRY * rank * spec.parameters
    return echelon + _ENTRY * largest**2 + max(_WORKING, bytes_per_input(spec))


def bytes_for_symmetries(spec: Architecture) -> int:
    """Memory for the rank of the symmetry generators: at most as many rows as parameters."""
    return 3 * _ENTRY * spec.parameters**2


def require_memory(spec: Architecture, needed: int, limit: int) -> None:
    """Stop, saying what would be needed, if it is more than the limit."""
    if needed > limit:
        more = "raise the limit with --memory, or " if needed < _MACHINE else ""
        raise TooLargeError(
            f"spec {_short(spec)}: the rank of the Jacobian of {spec.parameters:,} parameters "
            f"needs {_gib(needed)} of memory, over the limit of {limit / 2**30:,.1f} GiB; {more}"
            f"use {_instead(spec)}"
        )


def _instead(spec: Architecture) -> str:
    if spec.counted:
        return "segre dim with --method auto: a theorem, or an upper bound by counting symmetries"
    stacks = " (one-head stacks)" if spec.head_axes else ""
    return f"segre dim with --method closed-form{stacks}: an upper bound"


def _gib(count: int) -> str:
    return f"about {count / 2**30:,.1f} GiB" if count < 2**50 else "more than 1 PiB"


def _short(spec: Architecture) -> str:
    text = str(spec)
    return repr(text if len(text) <= 80 else text[:77] + "...")
