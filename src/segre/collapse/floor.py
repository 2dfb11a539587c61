"""The residual past the floating-point floor: what is it when it is 1e-1000?

Mean and residual are carried apart (`split`). Without skips and masks differences of scores are
quadratic in the residual, and so every layer cubes it: ratios of its logarithms tend to 3.

>>> stack = FloatNetwork.random(layers=6, heads=2, d=8, seed=1)
>>> found = descent(stack, np.random.default_rng(0).standard_normal((6, 8)))
>>> print(np.round(found.residual, 1))
[   0.9    0.4   -0.8   -4.3  -15.2  -47.7 -145.7]
>>> print(np.round(found.exponents[-3:], 2), np.round(found.orders[-3:], 2))
[3.5  3.14 3.05] [3.04 3.   3.01]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from segre.collapse.residual import norm
from segre.collapse.split import Split, attend, log10_of, transform
from segre.collapse.stack import FloatNetwork
from segre.fields.interface import Array


@dataclass(frozen=True)
class Descent:
    """Residuals before the first layer and after every layer, as decimal logarithms."""

    states: tuple[Split, ...]

    @property
    def residual(self) -> Array:
        """log10 of the composite norm of the residuals: (..., layers + 1)."""
        return np.stack([state.log10_residual() for state in self.states], axis=-1)

    @property
    def residual_frobenius(self) -> Array:
        """The same in the Frobenius norm."""
        return np.stack([state.log10_residual("frobenius") for state in self.states], axis=-1)

    @property
    def relative(self) -> Array:
        """log10 of the relative residuals, composite norm."""
        whole = np.stack([log10_of(norm(state.tokens)) for state in self.states], axis=-1)
        return np.asarray(self.residual - whole)

    @property
    def exponents(self) -> Array:
        """Each log10 residual over the one before: (..., layers).

        They tend to 3 without skips and masks, and mean little until residuals are well below 1.
        """
        logs = self.residual
        return _ratios(logs[..., 1:], logs[..., :-1])

    @property
    def orders(self) -> Array:
        """Each step of log10 residuals over the one before: (..., layers - 1).

        They tend to 3 as well, and sooner: if every layer is r -> C r^3 they are 3, whatever C.
        """
        logs = np.where(np.isfinite(self.residual), self.residual, np.nan)
        steps = np.diff(logs, axis=-1)
        return _ratios(steps[..., 1:], steps[..., :-1])

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        names = ("residual", "residual_frobenius", "relative", "exponents", "orders")
        return {name: getattr(self, name).tolist() for name in names}


def descent(stack: FloatNetwork, X: Array) -> Descent:
    """Run tokens X (n, d) through a stack, mean and residual apart."""
    state = Split.of(X)
    states = [state]
    for heads, mlp in stack.layers:
        state = attend(heads, state, stack.skip, stack.causal)
        if mlp is not None:
            state = transform(mlp, state, stack.skips_mlp)
        states.append(state)
    return Descent(tuple(states))


def _ratios(after: Array, before: Array) -> Array:
    known = np.isfinite(after) & np.isfinite(before) & (before != 0)
    return np.where(known, after, np.nan) / np.where(known, before, np.nan)
