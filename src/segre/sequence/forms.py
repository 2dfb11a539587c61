"""In which ways can a mechanism be computed? By definition, by features, or within its reach."""

from __future__ import annotations

from fractions import Fraction
from math import comb
from typing import Any

import numpy as np

from segre.attention.mechanism import Mechanism
from segre.errors import SegreError
from segre.fields.interface import Array
from segre.slope import Slope

METHODS = ("dense", "linear", "band")


def methods(how: Mechanism) -> tuple[str, ...]:
    """The methods that compute it; the dense one always does.

    >>> methods(Mechanism()), methods(Mechanism(window=8))
    (('dense',), ('dense', 'band'))
    >>> from segre.attention import NAMED
    >>> methods(NAMED["fast"])
    ('dense', 'linear')
    """
    return ("dense", *["linear"] * factors(how), *["band"] * banded(how))


def banded(how: Mechanism) -> bool:
    """Whether a query sees only keys near it."""
    return how.window is not None or how.local is not None


def factors(how: Mechanism) -> bool:
    """Whether weights are products of features, but for a division by their sums over keys."""
    return how.by_features and how.normalise in ("none", "keys") and not banded(how)


def feature_count(how: Mechanism, a: int) -> int:
    """How many features of queries and keys there are, where there are any.

    Of a Taylor polynomial they are the monomials, as many as there are in a variables.
    """
    return a if how.linear else comb(a + how.order, how.order)


def shared(how: Mechanism) -> bool:
    """Whether the weights of a query are divided by their sum."""
    return how.normalise != "none"


def rates_of(how: Mechanism, heads: tuple[int, ...], learned: Any = None) -> Array | None:
    """The decay of each head, or None if there is none; `learned` are those that are weights."""
    if how.decay == "none" or how.decay == 1:
        return None
    count = heads[-1] if heads else 1
    if how.decay == "learned":
        rates = np.asarray(learned, dtype=float).reshape(-1) if learned is not None else np.ones(0)
        if len(rates) not in (1, count) or not np.isfinite(rates).all():
            raise SegreError(
                f"decay: {len(rates)} numbers for {count} heads; allowed: one finite number for "
                "each head with a learned decay"
            )
        return np.broadcast_to(rates, count)
    value = how.decay.value if isinstance(how.decay, Slope) else float(Fraction(how.decay))
    return np.full(count, value)
