"""How much memory an exact computation needs, known before anything is allocated."""

from __future__ import annotations

from functools import lru_cache, singledispatch
from math import prod

from segre.architectures import Architecture, Layered
from segre.errors import TooLargeError
from segre.network import stages
from segre.polynomial.spec import Polynomial
from segre.spec import Network
from segre.transformer.spec import Transformer

DEFAULT_LIMIT = 8 << 30
_ENTRY = 8
_WORKING = 1 << 28
_MACHINE = 1 << 43  # more memory than any machine that segre is likely to run on


@lru_cache(maxsize=64)
def bytes_per_input(spec: Architecture) -> int:
    """Peak memory of differentiating the network at one input, tangents of all stages kept."""
    kept = passing = 0
    for (own, widest), directions in zip(_numbers(spec), stage_directions(spec), strict=True):
        kept += own * directions
        passing = max(passing, widest * directions)
    return _ENTRY * (kept + passing + 2 * prod(spec.output_shape) * spec.parameters)


@singledispatch
def _numbers(spec: Architecture) -> list[tuple[int, int]]:
    """Numbers that a stage writes, and the most that it needs meanwhile, for each direction."""
    raise TypeError(f"the memory needed for a {type(spec).__name__} is not known")


@_numbers.register
def _of_stack(spec: Network) -> list[tuple[int, int]]:
    t, much = spec.t, 1 if spec.plain else 2  # mechanisms with options have more steps
    found = []
    for layer in spec.layers:
        width = 4 * much * (t + layer.a) + 2 * layer.width_in + 2 * much * layer.width_out
        heads = max(group.heads for group in layer.groups)
        found.append((layer.width_out * t, heads * t * width))
    return found


@_numbers.register
def _of_polynomial(spec: Polynomial) -> list[tuple[int, int]]:
    return [(layer.width_out, 4 * layer.width_out) for layer in spec.layers]


@_numbers.register
def _of_transformer(spec: Transformer) -> list[tuple[int, int]]:
    t, rows = spec.t, prod(spec.output_shape)
    widest = {
        "attention": spec.heads * (4 * t + 4 * spec.head + 3 * spec.dv + 2 * spec.d) + 4 * spec.d,
        "mlp": 5 * max(spec.ff, spec.experts * (spec.eff + spec.d)) + 4 * spec.d,
        "embed": 4 * spec.d,
        "head": 4 * spec.output_shape[0] + 4 * spec.d,
    }
    widest["layer"] = widest["attention"] + widest["mlp"]
    names = [stage.name.split()[0] for stage in stages(spec)]
    return [(max(spec.d * t, rows), t * widest[name]) for name in names]


@lru_cache(maxsize=64)
def stage_directions(spec: Architecture) -> list[int]:
    """By how many variables each stage is differentiated: its input and its weights."""
    every = stages(spec)
    widths = spec.widths if isinstance(spec, Layered) else [spec.width] * len(every)
    return [
        width * spec.t + sum(slot.size for slot in stage.slots.values())
        for width, stage in zip(widths, every, strict=False)
    ]


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
