"""The referee of `floor`: the same network in balls of thousands of bits, by its plain definition.

Tokens run through the layers as they are; only then is the mean subtracted. The precision is
doubled until the logarithms of all residuals are certain to as many digits as asked.

>>> stack = FloatNetwork.random(layers=3, heads=2, d=4, seed=1)
>>> found = certified_residuals(stack, np.random.default_rng(0).standard_normal((4, 4)))
>>> print(found.bits, np.round(found.residual[-1], 6))
128 -9.716823
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import add

import numpy as np
from flint import arb, arb_mat

from segre.collapse.stack import FloatNetwork, Heads, Mlp
from segre.errors import SegreError
from segre.fields.ball import Ball
from segre.fields.interface import Array

FIRST_BITS = 128
MOST_BITS = 1 << 17


@dataclass(frozen=True)
class CertifiedResiduals:
    """log10 of the residuals (layers + 1) in both norms, certain to about `digits` digits."""

    residual: Array
    residual_frobenius: Array
    bits: int
    digits: int


def certified_residuals(
    stack: FloatNetwork, X: Array, digits: int = 12, most_bits: int = MOST_BITS
) -> CertifiedResiduals:
    """Residuals of tokens X (n, d) before the first and after every layer, certified."""
    if X.ndim != 2:
        raise SegreError(f"tokens have shape {X.shape}; allowed: one matrix (n, d)")
    bits = FIRST_BITS
    while bits <= most_bits:
        with Ball(bits).precision():
            balls = [_logarithms(state) for state in _states(stack, arb_mat(X.tolist()))]
            found = [_number(ball, digits) for pair in balls for ball in pair]
        if None not in found:
            logs = np.array(found, dtype=np.float64).reshape(-1, 2)
            return CertifiedResiduals(logs[:, 0], logs[:, 1], bits, digits)
        bits *= 2
    raise SegreError(
        f"residuals are not known to {digits} digits with {most_bits} bits; a residual may be 0, "
        "or more bits are needed"
    )


def _states(stack: FloatNetwork, X: arb_mat) -> list[arb_mat]:
    states = [X]
    for heads, mlp in stack.layers:
        out = _attention(heads, X, stack.causal)
        X = X + out if stack.skip else out
        if mlp is not None:
            out = _mlp(mlp, X)
            X = X + out if stack.skips_mlp else out
        states.append(X)
    return states


def _attention(heads: Heads, X: arb_mat, causal: bool) -> arb_mat:
    every = [_head(heads, X, causal, h) for h in range(heads.heads)]
    return _plus(reduce(add, every), heads.b_O)


def _head(heads: Heads, X: arb_mat, causal: bool, h: int) -> arb_mat:
    def linear(W: Array, b: Array | None) -> arb_mat:
        return _plus(X * arb_mat(W[h].tolist()), None if b is None else b[h])

    Q, K = linear(heads.W_Q, heads.b_Q), linear(heads.W_K, heads.b_K)
    scores = (Q * K.transpose() * arb(heads.factor)).tolist()
    rows = []
    for i, row in enumerate(scores):
        grown = [arb(0) if causal and j > i else score.exp() for j, score in enumerate(row)]
        total = sum(grown, arb(0))
        rows.append([one / total for one in grown])
    values = linear(heads.W_V, heads.b_V)
    return arb_mat(rows) * values * arb_mat(heads.W_O[h].tolist())


def _mlp(mlp: Mlp, X: arb_mat) -> arb_mat:
    hidden = _plus(X * arb_mat(mlp.W_1.tolist()), mlp.b_1)
    act = _ACTIVATIONS[mlp.activation]
    hidden = arb_mat([[act(z) for z in row] for row in hidden.tolist()])
    return _plus(hidden * arb_mat(mlp.W_2.tolist()), mlp.b_2)


def _plus(X: arb_mat, b: Array | None) -> arb_mat:
    return X if b is None else X + arb_mat([b.tolist()] * X.nrows())


def _tanh_gelu(z: arb) -> arb:
    inner = (z + arb(0.044715) * z**3) * (2 / arb.pi()).sqrt()
    return z * (1 + inner.tanh()) / 2


_ACTIVATIONS: dict[str, Callable[[arb], arb]] = {
    "identity": lambda z: z,
    "relu": lambda z: z.max(0),
    "relu2": lambda z: z.max(0) ** 2,
    "gelu": lambda z: z * (1 + (z / arb(2).sqrt()).erf()) / 2,
    "gelu-tanh": _tanh_gelu,
    "gelu-quick": lambda z: z / (1 + (-z * 1702 / 1000).exp()),
    "silu": lambda z: z / (1 + (-z).exp()),
}


def _logarithms(X: arb_mat) -> tuple[arb, arb]:
    """log10 of the composite and of the Frobenius norm of X minus its mean row."""
    n, d = X.nrows(), X.ncols()
    means = [sum((X[i, j] for i in range(n)), arb(0)) / n for j in range(d)]
    R = [[X[i, j] - means[j] for j in range(d)] for i in range(n)]
    columns = [sum((abs(row[j]) for row in R), arb(0)) for j in range(d)]
    rows = [sum((abs(x) for x in row), arb(0)) for row in R]
    square = reduce(arb.max, columns) * reduce(arb.max, rows)
    frobenius = sum((R[i][j] ** 2 for i, j in product(range(n), range(d))), arb(0))
    return square.log() / 2 / arb(10).log(), frobenius.log() / 2 / arb(10).log()


def _number(ball: arb, digits: int) -> float | None:
    """The middle, if the radius is small enough."""
    if not ball.is_finite():
        return None
    middle = float(ball.mid())
    return middle if float(ball.rad()) <= 10.0**-digits * max(1.0, abs(middle)) else None
