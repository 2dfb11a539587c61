"""The residual past the floating-point floor: what is it when it is 1e-1000?

Mean and residual are carried apart (`apart`). Without skips and masks differences of scores are
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

from segre.collapse.apart import Apart, ApartField
from segre.collapse.stack import FloatNetwork, Heads, Mlp, seen
from segre.fields.interface import Array
from segre.json_data import stated
from segre.transformer.layers import activate


@dataclass(frozen=True)
class Descent:
    """Residuals before the first layer and after every layer, as decimal logarithms."""

    states: tuple[Apart, ...]

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
        return np.stack([state.log10_relative() for state in self.states], axis=-1)

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
        return stated(self, "residual residual_frobenius relative exponents orders")


def descent(stack: FloatNetwork, X: Array) -> Descent:
    """Run tokens X (n, d) through a stack, mean and residual apart."""
    field = ApartField()
    states = [Apart.of_tokens(X)]
    with np.errstate(all="ignore"):  # what is lost has infinite noise
        for heads, mlp in stack.layers:
            x = states[-1]
            x = _added(field, x, _attended(field, heads, x, stack.causal), stack.skip)
            if mlp is not None:
                x = _added(field, x, _transformed(field, mlp, x), stack.skips_mlp)
            states.append(x)
    return Descent(tuple(states))


def _attended(field: ApartField, heads: Heads, x: Apart, causal: bool) -> Apart:
    """The sum of what all heads write."""
    queries = _mapped(field, heads.W_Q, heads.b_Q, x)
    keys = _mapped(field, heads.W_K, heads.b_K, x)
    values = _mapped(field, heads.W_V, heads.b_V, x)
    scores = field.matmul(field.transpose(keys), queries)
    shown = seen(x.rest.shape[-1]).T if causal else None
    pattern = field.softmax(field.mul(scores, np.array([[heads.factor]])), shown, shown)
    out: Apart = field.matmul(values, pattern)
    out = field.sum(_mapped(field, heads.W_O, None, out), axis=-4)
    return out if heads.b_O is None else out.shifted(heads.b_O[..., None, None, :, None])


def _transformed(field: ApartField, mlp: Mlp, x: Apart) -> Apart:
    """What an MLP writes: as maps of one head."""
    (W_1, b_1), (W_2, b_2) = (
        (W[..., None, :, :], None if b is None else b[..., None, :])
        for W, b in ((mlp.W_1, mlp.b_1), (mlp.W_2, mlp.b_2))
    )
    return _mapped(field, W_2, b_2, activate(field, mlp.activation, _mapped(field, W_1, b_1, x)))


def _mapped(field: ApartField, W: Array, b: Array | None, x: Apart) -> Apart:
    """Columns through the maps of heads, which are written for rows: (H, d, k) and (H, k)."""
    out: Apart = field.matmul(W.mT[..., None, :, :], x)
    return out if b is None else out.shifted(b[..., None, :, None])


def _added(field: ApartField, before: Apart, out: Apart, skip: bool) -> Apart:
    """What a sub-layer gave, and the tokens before it if there is a skip."""
    own = out.centred()
    after: Apart = field.add(before, own) if skip else own
    return after.judged()


def _ratios(after: Array, before: Array) -> Array:
    known = np.isfinite(after) & np.isfinite(before) & (before != 0)
    return np.where(known, after, np.nan) / np.where(known, before, np.nan)
