"""The residuals of a real model past the floor of single precision.

Without skips a sub-layer keeps mean and residual apart (`apart`), whatever its design. Where a
variant has skips, its curve does not come near the floor, and ends there if it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from segre.checkpoint.model import Model
from segre.collapse.apart import Apart, ApartField
from segre.collapse.variants import Variant
from segre.fields.interface import Array
from segre.transformer.forward import AFTER, ATTENTION, MLP, Place, Tokens, run


def can_continue(model: Model, variant: Variant) -> bool:
    """Whether a variant has patterns that sum to one, and no skips."""
    attention, mlp = (variant.edit(model.spec, number) for number in (ATTENTION, MLP))
    assert attention is not None
    skips = attention.residual or (mlp is not None and mlp.residual and model.spec.mlp != "none")
    return attention.sums_to_one and not skips


def continued(model: Model, variants: Sequence[Variant], words: Array) -> list[Array]:
    """log10 of the relative residual of tokens (1, n) before the layers and after each."""
    found = np.zeros((len(variants), model.spec.layers + 1))

    def hook(place: Place, name: str, x: Any) -> Any:
        """Keep mean and residual apart; a sub-layer that is left out changes neither."""
        depth = place.depth(name)
        if depth == 0:
            x = Apart.of(x)
        if depth == 0 or (name in AFTER and place.spec is not None):
            x = x.settled()
        if depth is not None:
            found[place.edit, depth] = x.log10_relative()
        return x

    edits = [variant.edit for variant in variants]
    run(model, [Tokens(words)], ApartField(), edits, hook)
    return list(found)
