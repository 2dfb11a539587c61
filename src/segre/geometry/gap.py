"""Gaps: features with which bounds are known not to meet, and dimensions that fall short."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import singledispatch

from segre.architectures import Architecture
from segre.finding import Finding
from segre.polynomial.bounds import expected
from segre.polynomial.spec import Polynomial
from segre.spec import Network
from segre.symmetry.reach import parallel_tokens
from segre.transformer.spec import Transformer

# In this order, by how often designs with them stay open: `python -m bench.gaps` counts them.
_FEATURES: dict[str, Callable[[Transformer], bool]] = {
    "sublayers without a skip": lambda s: not s.residual,
    "a LayerNorm of two numbers": lambda s: s.norm == "layer" and s.d == 2,
    "few words for the width": lambda s: s.discrete and s.vocab <= 2 * s.d + 1,
    "norms after the skips": lambda s: s.place == "post",
    "norms of sublayer outputs": lambda s: s.normed_inside,
    "norms of queries and keys": lambda s: bool(s.qknorm),
    "latents": lambda s: s.latent,
    "one token": lambda s: s.t == 1,
    "lightning attention": lambda s: any(one.bilinear for one in s.mechanisms),
    "quadratic maps of vectors of one length": lambda s: s.mlp == "bilinear" and not s.eps,
    "units or experts that are off in a region": lambda s: s.piecewise,
}
_OF_STACKS: dict[str, Callable[[Network], bool]] = {
    "one token": lambda s: s.t == 1,
    "layers of width 1": lambda s: min(s.widths) == 1,
    "tokens that are multiples of one vector": lambda s: s.t > 1 and any(parallel_tokens(s)),
    "heads with separate outputs": lambda s: any(layer.dv is not None for layer in s.layers),
}
_OF_MECHANISMS: dict[str, Callable[[Network], bool]] = {
    "one token": lambda s: s.t == 1,
    "layers of width 1": lambda s: min(s.widths) == 1,
    "keys compressed along the sequence": lambda s: any(x.conv != "none" for x in s.mechanisms),
    "tokens that see only themselves": lambda s: any(x.alone(s.t) for x in s.mechanisms),
    "square features": lambda s: any(x.feature == "square" for x in s.mechanisms),
    "gapless attention": lambda s: any(x.normalise == "centred" for x in s.mechanisms),
}


@singledispatch
def suspects(_spec: Architecture) -> str:
    """The features of a design with which gaps are known to remain, in words; or nothing."""
    return ""


@suspects.register
def _of_transformer(spec: Transformer) -> str:
    return ", ".join(name for name, has in _FEATURES.items() if has(spec))


@suspects.register
def _of_stack(spec: Network) -> str:
    features = _OF_STACKS if spec.plain else _OF_MECHANISMS
    known = not spec.plain or spec.mechanism.bilinear
    return ", ".join(name for name, has in features.items() if known and has(spec))


@singledispatch
def _expected(_spec: Architecture) -> int | None:
    """What counting suggests, where it is a usual thing to compare with."""
    return None


_expected.register(Polynomial, expected)


def with_defect(found: Finding) -> Finding:
    """The same finding, with a note on how much the dimension falls short, if it does.

    A polynomial network is defective if its dimension is smaller than counting suggests.
    """
    suggested = _expected(found.spec)
    missing = 0 if suggested is None or found.upper is None else suggested - found.upper
    if missing <= 0:
        return found
    least = "" if found.value is not None else "at least "
    note = (
        "defective: the expected dimension (parameters minus scales, or the ambient dimension) "
        f"is {suggested:,}; the defect is {least}{missing:,}"
    )
    return replace(found, notes=(*found.notes, note))
