"""Certified reals: every number is an interval that is proved to hold the true value.

Arrays of python-flint's `arb`. A determinant whose ball excludes zero proves that a matrix
of true real values is regular, softmax and all, with no theorem about exponentials needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from flint import arb, arb_mat, ctx

from segre.errors import UnluckyError
from segre.fields.interface import Array
from segre.fields.operators import Operators


class Ball(Operators):
    """Real numbers as balls of the given precision in bits.

    >>> F = Ball(64)
    >>> with F.precision():
    ...     third = F.reciprocal(F.constant(np.array([[3]])))[0, 0]
    >>> third.is_exact(), (3 * third).contains(1)
    (False, True)
    """

    def __init__(self, bits: int = 128) -> None:
        self.bits = bits

    def __repr__(self) -> str:
        return f"Ball({self.bits})"

    @contextmanager
    def precision(self) -> Iterator[None]:
        """Work at this field's precision (python-flint keeps it in a global)."""
        before = ctx.prec
        ctx.prec = self.bits
        try:
            yield
        finally:
            ctx.prec = before

    def constant(self, x: Array) -> Array:
        """Integers and floats, exactly, as balls of radius zero."""
        x = np.asarray(x)
        flat = [arb(item) for item in x.reshape(-1).tolist()]
        out = np.empty(len(flat), dtype=object)
        out[:] = flat
        return out.reshape(x.shape)

    def exp(self, x: Array) -> Array:
        """Entrywise exponential."""
        return np.asarray(np.frompyfunc(lambda ball: ball.exp(), 1, 1)(x))

    def reciprocal(self, x: Array) -> Array:
        """Entrywise inverse; raises UnluckyError where the ball holds zero."""
        if any(ball.contains(0) for ball in x.reshape(-1)):
            raise UnluckyError("a ball to be inverted holds zero; more bits may separate them")
        return np.asarray(1 / x)

    def anchor(self, x: Array) -> Array:
        """Nothing to do: balls have exponents of any size."""
        return x

    def regular(self, matrix: Array) -> bool:
        """Whether a square matrix is *proved* regular; False proves nothing."""
        if matrix.shape[0] == 0:
            return True
        with self.precision():
            return not arb_mat(matrix.tolist()).det().contains(0)
