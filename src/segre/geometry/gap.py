"""Why may the bounds of a design not meet? Features with which gaps are known to remain."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch

from segre.architectures import Architecture
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
