"""Causal attention within a window, chunk by chunk: what is kept are the last keys and values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from segre.attention.mechanism import Mechanism
from segre.errors import SegreError
from segre.fields.interface import Array
from segre.sequence.rows import rows


@dataclass(frozen=True)
class Recent:
    """Keys and values that later queries may see: (..., tokens, a) and (..., tokens, dv)."""

    keys: Array
    values: Array

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.keys.size + self.values.size


def slide(
    how: Mechanism,
    rates: Array | None,
    q: Array,
    k: Array,
    v: Array,
    recent: Recent | None = None,
    block: int | None = None,
) -> tuple[Array, Recent]:
    """The outputs for the next tokens, and the recent keys and values after them."""
    before = 0
    if recent is not None:
        if not (_fits(recent.keys, k) and _fits(recent.values, v)):
            raise SegreError(
                f"state has keys {recent.keys.shape} and values {recent.values.shape}, but these "
                f"heads have {k.shape} and {v.shape}; start with a new state, or give the "
                "state of the same heads"
            )
        before = recent.keys.shape[-2]
        k = np.concatenate([recent.keys.astype(k.dtype), k], axis=-2)
        v = np.concatenate([recent.values.astype(v.dtype), v], axis=-2)
        # tokens before the chunk are queries too, so that distances are right; their rows are left
        q = np.concatenate([np.zeros((*q.shape[:-2], before, q.shape[-1]), q.dtype), q], axis=-2)
    out = rows(how, rates, q, k, v, True, block)[..., before:, :]
    kept = _kept(how, k.shape[-2])
    return out, Recent(
        k[..., k.shape[-2] - kept :, :].copy(), v[..., v.shape[-2] - kept :, :].copy()
    )


def _fits(old: Array, new: Array) -> bool:
    return old.shape[:-2] == new.shape[:-2] and old.shape[-1] == new.shape[-1]


def _kept(how: Mechanism, there: int) -> int:
    """How many of the tokens so far to keep; with local blocks, those of the unfinished one."""
    if how.local is not None:
        return there % how.local
    assert how.window is not None
    return min(how.window, there)
