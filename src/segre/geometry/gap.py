"""Why may the bounds of a transformer not meet? Features with which gaps are known to remain."""

from __future__ import annotations

from collections.abc import Callable

from segre.spec import Architecture
from segre.transformer.spec import Transformer

# In this order, by how often designs with them stay open: `python -m bench.gaps` counts them.
_FEATURES: dict[str, Callable[[Transformer], bool]] = {
    "sublayers without a skip": lambda s: not s.residual,
    "a LayerNorm of two numbers": lambda s: s.norm == "layer" and s.d == 2,
    "few words for the width": lambda s: s.discrete and s.vocab <= 2 * s.d + 1,
    "norms of what is written": lambda s: s.normed_inside,
    "norms after the skips": lambda s: s.place == "post",
    "norms of queries and keys": lambda s: bool(s.qknorm),
    "one token": lambda s: s.t == 1,
    "lightning attention": lambda s: s.mechanism.bilinear,
    "units or experts that are off in a region": lambda s: s.piecewise,
}


def suspects(spec: Architecture) -> str:
    """The features of a design with which gaps are known to remain, in words; or nothing."""
    if not isinstance(spec, Transformer):
        return ""
    return ", ".join(name for name, has in _FEATURES.items() if has(spec))
