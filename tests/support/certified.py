"""The referee of `floor`: the same network in balls of thousands of bits, by its plain definition.

Tokens run through the layers as they are; only then is the mean subtracted. The precision is
doubled until the logarithms of all residuals are certain to as many digits as asked.

>>> stack = FloatNetwork.random(layers=3, heads=2, d=4, seed=1)
>>> found = certified_residuals(stack, np.random.default_rng(0).standard_normal((4, 4)))
>>> print(found.bits, np.round(found.residual[-1], 6))
128 -9.716823
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
from flint import arb

from segre.collapse.stack import FloatNetwork, seen
from segre.errors import SegreError, UnluckyError
from segre.fields.ball import Ball
from segre.fields.interface import Array
from segre.transformer.layers import activate

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
        field = Ball(bits)
        with field.precision():
            try:
                sizes = [size for state in _states(field, stack, X) for size in _sizes(state)]
                logs = [number(size, digits) for size in sizes]
                pairs = np.array(logs, dtype=np.float64).reshape(-1, 2)
                return CertifiedResiduals(pairs[:, 0], pairs[:, 1], bits, digits)
            except UnluckyError:
                bits *= 2
    raise SegreError(
        f"residuals are not known to {digits} digits with {most_bits} bits; a residual may be 0, "
        "or more bits are needed"
    )


def _states(field: Ball, stack: FloatNetwork, X: Array) -> Iterator[Array]:
    """Tokens, in rows, before the first layer and after each."""

    def linear(x: Array, W: Array, b: Array | None) -> Array:
        out = field.matmul(x, field.constant(W))
        return out if b is None else out + field.constant(b)[..., None, :]

    x = field.constant(X)
    yield x
    for heads, mlp in stack.layers:
        Q, K = linear(x, heads.W_Q, heads.b_Q), linear(x, heads.W_K, heads.b_K)
        grown = field.exp(field.matmul(Q, K.swapaxes(-1, -2)) * arb(heads.factor))
        if stack.causal:
            grown = grown * field.constant(seen(len(X)).astype(int))
        P = grown / grown.sum(axis=-1, keepdims=True)
        mixed = field.matmul(P, linear(x, heads.W_V, heads.b_V))
        out = field.matmul(mixed, field.constant(heads.W_O)).sum(axis=0)
        out = out if heads.b_O is None else out + field.constant(heads.b_O)
        x = x + out if stack.skip else out
        if mlp is not None:
            hidden = activate(field, mlp.activation, linear(x, mlp.W_1, mlp.b_1))
            out = linear(hidden, mlp.W_2, mlp.b_2)
            x = x + out if stack.skips_mlp else out
        yield x


def _sizes(X: Array) -> tuple[arb, arb]:
    """The composite and the Frobenius norm of tokens X minus their mean row."""
    rest = X - X.sum(axis=0) / len(X)
    return composite(rest), (rest * rest).sum().sqrt()


def composite(X: Array) -> arb:
    """The composite norm: the root of the largest row sum times the largest column sum."""
    sizes = np.frompyfunc(abs, 1, 1)(X)
    largest = (reduce(arb.max, sizes.sum(axis=axis)) for axis in (0, 1))
    return arb.sqrt(next(largest) * next(largest))


def number(size: arb, digits: int) -> float:
    """The decimal logarithm of a size; UnluckyError if it is not known to so many digits."""
    if not size > 0:
        raise UnluckyError("a residual is not known to be above zero")
    ball = size.log() / arb(10).log()
    if not float(ball.rad()) <= 10.0**-digits:
        raise UnluckyError("a residual is not known precisely enough")
    return float(ball.mid())
