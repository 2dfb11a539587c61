"""The theorem on rank collapse with its constants, beside what is measured.

For a layer of H heads without skip and mask, in the composite norm, X = 1 x^T + R with any row x:

    |layer X - 1 y^T| <= c |R|^3 for some row y,    c = 4 gamma beta H scale lip,

    beta     largest norm_1(W_QK) times sqrt(largest norm_1(W) largest norm_inf(W)), W = W_V W_O
    gamma^2  sum_i max_jk |E_ij - E_ik| / max_jk sum_i |E_ij - E_ik|, E = scale R W_QK R^T
    lip      a Lipschitz constant of the MLP, 1 if there is none

(Dong, Cordonnier, Loukas 2021), while all |E_ij - E_ik| <= 1.256. The row y is what the proof
finds: neither the mean row nor the best one. Subtracting the mean row is multiplying by
1 - 1 1^T / n, whose norm_1 and norm_inf are both 2 (1 - 1/n). So with res the residual from the
mean row, which is what is measured here, what is proved is

    |res(layer X)| <= C |res X|^3,    C = 2 (1 - 1/n) c,

and after L layers C^((3^L - 1) / 2) |res X|^(3^L). docs/rank-collapse.md has the proof.

>>> stack = FloatNetwork.random(layers=2, heads=2, d=4, init=0.3, seed=1)
>>> found = bounds(stack, np.random.default_rng(0).standard_normal((4, 4)) / 4)
>>> bool(found.applies.all()), bool(found.exceeded().any())
(True, False)
>>> print(np.round(found.measured[1:], 1), np.round(found.step, 1))
[ -3.6 -13.6] [  0.2 -10. ]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from segre.collapse.activations import LIPSCHITZ
from segre.collapse.apart import Apart
from segre.collapse.floor import descent
from segre.collapse.mixing import power_of_two
from segre.collapse.residual import norm_1, norm_inf
from segre.collapse.stack import FloatNetwork, Heads, Mlp
from segre.fields.interface import Array
from segre.json_data import stated

WIDEST = 1.256  # exp(x) - 1 <= 2 x from 0 to here
_ROUNDING = 1e-14  # of logarithms


@dataclass(frozen=True)
class Bounds:
    """Constants of every layer, and residuals as decimal logarithms; there may be batches in front.

    `step` bounds the residual after each layer by the one measured before it, `theorem` by that
    of the input and the largest constant so far.
    """

    gamma: Array  # (..., layers)
    beta: Array
    lipschitz: Array  # of the MLPs
    constant: Array  # C, with the factor of the mean row
    widest: Array  # the largest |E_ij - E_ik|
    measured: Array  # (..., layers + 1)
    missing: tuple[str, ...]  # hypotheses that the architecture does not meet

    @property
    def step(self) -> Array:
        """log10 of C |res|^3, with the residual measured before the layer."""
        return np.asarray(np.log10(self.constant) + 3 * self.measured[..., :-1])

    @property
    def theorem(self) -> Array:
        """log10 of C^((3^l - 1) / 2) |res X|^(3^l) after l layers."""
        log_C = np.log10(np.maximum.accumulate(self.constant, axis=-1))
        cubed = 3.0 ** np.arange(1, log_C.shape[-1] + 1)
        return np.asarray(cubed * (log_C / 2 + self.measured[..., :1]) - log_C / 2)

    @property
    def applies(self) -> Array:
        """Where the step is proved: its hypotheses hold in the layer."""
        return np.asarray((self.widest <= WIDEST) & (not self.missing))

    @property
    def shrinks(self) -> Array:
        """Where C |res|^2 < 1; elsewhere a bound says nothing, though it holds."""
        return np.asarray(np.log10(self.constant) + 2 * self.measured[..., :-1] < 0)

    def exceeded(self, share: float = 1.0) -> Array:
        """Where the theorem applies and more than this share of the step is measured."""
        rounding = _ROUNDING * np.where(np.isfinite(self.step), np.abs(self.step), 0)
        limit = self.step + np.log10(share) + rounding
        return np.asarray(self.applies & (self.measured[..., 1:] > limit))

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        given = "gamma beta lipschitz constant widest measured missing"
        return stated(self, f"{given} step theorem applies shrinks")


def bounds(stack: FloatNetwork, X: Array) -> Bounds:
    """The theorem's bounds for tokens X (n, d) in every layer, and the residuals."""
    found = descent(stack, X)
    from_mean = mean_factor(X.shape[-2])
    columns = []
    for (heads, mlp), state in zip(stack.layers, found.states, strict=False):
        widest, gamma = spread(heads, state)
        beta, q = weight_norm(heads), lipschitz(mlp, stack.skips_mlp)
        constant = from_mean * 4 * gamma * beta * heads.heads * heads.factor * q
        columns.append(np.broadcast_arrays(gamma, beta, q, constant, widest))
    gamma, beta, q, constant, widest = (np.stack(x, axis=-1) for x in zip(*columns, strict=True))
    missing = [(stack.skip, "a skip"), (stack.causal, "a causal mask")]
    missing.append((bool(np.isinf(q).any()), "an MLP without a Lipschitz constant"))
    names = tuple(name for there, name in missing if there)
    return Bounds(gamma, beta, q, constant, widest, found.residual, names)


def mean_factor(n: int) -> float:
    """How much farther than from any other row n tokens can be from their mean row.

    >>> mean_factor(2), mean_factor(4)
    (1.0, 1.5)
    """
    return 2 * (1 - 1 / max(n, 2))


def spread(heads: Heads, state: Apart) -> tuple[Array, Array]:
    """The largest |E_ij - E_ik| over all heads, and gamma."""
    R = state.rest[..., 0, :, :].mT
    E = heads.factor * (R @ heads.W_Q) @ (R @ heads.W_K).mT
    rows = E.max(axis=-1) - E.min(axis=-1)
    columns = np.max(
        [np.abs(E - E[..., j : j + 1]).sum(axis=-2).max(axis=-1) for j in range(E.shape[-1])],
        axis=0,
    )
    ratio = rows.sum(axis=-1) / np.where(columns > 0, columns, 1)
    gamma = np.sqrt(np.where(columns > 0, ratio, 1).max(axis=-1))
    square = power_of_two(2 * state.exponent[..., 0, 0, 0, 0])
    return rows.max(axis=(-2, -1)) * square, gamma


def weight_norm(heads: Heads) -> Array:
    """beta, the largest over the heads."""
    W_QK, W = heads.W_Q @ heads.W_K.mT, heads.W_V @ heads.W_O
    largest = norm_1(W).max(axis=-1) * norm_inf(W).max(axis=-1)
    return np.asarray(norm_1(W_QK).max(axis=-1) * np.sqrt(largest))


def lipschitz(mlp: Mlp | None, skip: bool) -> Array:
    """A Lipschitz constant of an MLP in the composite norm: that of its activation, and norms."""
    if mlp is None:
        return np.asarray(1.0)
    slope = LIPSCHITZ[mlp.activation]
    one = slope * norm_1(mlp.W_1) * norm_1(mlp.W_2) + skip
    other = slope * norm_inf(mlp.W_1) * norm_inf(mlp.W_2) + skip
    return np.asarray(np.sqrt(one * other))
