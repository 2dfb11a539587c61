"""Certified reals: every number is an interval that is proved to hold the true value.

Arrays of python-flint's `arb`. A determinant whose ball excludes zero proves that a matrix
of true real values is regular, softmax and all, with no theorem about exponentials needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction

import numpy as np
from flint import arb, arb_mat, ctx

from segre.errors import UnluckyError
from segre.fields.circle import Frequencies
from segre.fields.interface import Array, Factor
from segre.fields.operators import Operators, best_groups, largest_entries
from segre.slope import Slope


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

    def fraction(self, value: Fraction) -> Array:
        """A rational number, enclosed."""
        return np.array([[_number(value)]], dtype=object)

    def surd(self, n: int, over_pi: bool = False) -> Array:
        """A square root, enclosed."""
        return np.array([[(arb(n) / (arb.pi() if over_pi else 1)).sqrt()]], dtype=object)

    def slope(self, rate: Slope) -> Array:
        """A decay rate, enclosed."""
        power = arb(2) ** _number(-rate.exponent)
        return np.array([[(-_number(rate.factor) * power).exp()]], dtype=object)

    def exp(self, x: Array, used: Array | None = None) -> Array:  # noqa: ARG002
        """Entrywise exponential."""
        return _each(arb.exp, x)

    def sigmoid(self, x: Array) -> Array:
        """1 / (1 + exp(-x)): the sum is at least 1."""
        return np.asarray(1 / (1 + _each(arb.exp, -x)))

    def cdf(self, x: Array) -> Array:
        """Normal distribution function."""
        return np.asarray((1 + _each(arb.erf, x / arb(2).sqrt())) / 2)

    def pdf(self, x: Array) -> Array:
        """Normal density."""
        return np.asarray(_each(arb.exp, -x * x / 2) / (2 * arb.pi()).sqrt())

    def sqrt(self, x: Array) -> Array:
        """Square root; raises UnluckyError where the ball is not positive."""
        if not all(ball > 0 for ball in x.reshape(-1)):
            raise UnluckyError("a ball under a root is not positive; more bits may help")
        return _each(arb.sqrt, x)

    def step(self, x: Array) -> Array:
        """1 or 0 by the sign; raises UnluckyError where the ball holds zero."""
        if any(ball.contains(0) for ball in x.reshape(-1)):
            raise UnluckyError("a ball at a kink contains zero; more bits may help")
        return self.constant(np.vectorize(lambda ball: int(ball > 0), otypes=[int])(x))

    def relu(self, x: Array) -> Array:
        """x where it is positive, which is certain or refused."""
        return np.asarray(x * self.step(x))

    def largest(self, x: Array, count: int, groups: int = 0, within: int = 0) -> Array:
        """Ones at the largest entries along axis -3, certainly larger than the others."""
        middle = np.vectorize(lambda ball: float(ball.mid()), otypes=[float])(x)
        chosen = largest_entries(middle, count, groups, within)
        open_ = best_groups(middle, groups, within) if groups else np.ones(x.shape, np.int64)
        columns = [np.moveaxis(y, -3, -1).reshape(-1, x.shape[-3]) for y in (x, chosen, open_)]
        for balls, ones, may in zip(*columns, strict=True):
            if groups:
                _require_groups(balls, may, groups)
            inside = [ball for ball, one in zip(balls, ones, strict=True) if one]
            outside = [b for b, one, free in zip(balls, ones, may, strict=True) if free and not one]
            _require_larger(inside, outside)
        return chosen

    def absorbed(self, *factor: Fraction) -> Array:
        """A factor, enclosed."""
        square, up, down, of, under = Factor(*factor)
        log = _number(of).log()
        value = _number(square).sqrt() * (1 + _number(up) * log) / (1 + _number(down) * log)
        if under and of != 1:
            value *= (1 + log / _number(under).log()).sqrt()
        return np.array([[value]], dtype=object)

    def turns(self, speed: Frequencies, count: int) -> tuple[Array, Array]:
        """cos and sin of m times each frequency, enclosed."""
        planes = speed.planes
        cos, sin = np.empty((2, planes, count), dtype=object)
        for j in range(planes):
            frequency = _number(speed.base) ** (arb(-j) / planes)
            if speed.blend:
                a, b = map(_number, speed.blend[j])
                frequency *= a + b * frequency / arb.pi()
            if speed.stretch != 1:
                frequency *= _number(speed.stretch) ** (arb(-j) / (planes - 1))
            if speed.ramp:
                frequency *= _slowed(speed, j)
            for m in range(count):
                sin[j, m], cos[j, m] = (m * frequency).sin_cos()
        return cos, sin

    def reciprocal(self, x: Array) -> Array:
        """Entrywise inverse; raises UnluckyError where the ball holds zero."""
        if any(ball.contains(0) for ball in x.reshape(-1)):
            raise UnluckyError("a ball to be inverted contains zero; more bits may help")
        return np.asarray(1 / x)

    def matmul(self, x: Array, y: Array) -> Array:
        """Matrix product, by FLINT, matrix by matrix."""
        if not (x.size and y.size):
            return super().matmul(x, y)
        batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        left, right = _matrices(x, batch), _matrices(y, batch)
        out = np.empty((len(left), x.shape[-2] * y.shape[-1]), dtype=object)
        for n, (one, other) in enumerate(zip(left, right, strict=True)):
            out[n] = (one * other).entries()
        return out.reshape(*batch, x.shape[-2], y.shape[-1])

    def identity(self, rows: int, columns: int, first: int) -> Array:
        """Ones at (i, first + i), zeros elsewhere; all of them two numbers, which never change."""
        out = np.full((rows, columns), arb(0), dtype=object)
        out[np.eye(rows, columns, first, dtype=bool)] = arb(1)
        return out

    def regular(self, matrix: Array) -> bool:
        """Whether a square matrix A is *proved* regular; False proves nothing.

        With R about the inverse of A, in floating point: if every row of 1 - A R has absolute sum
        below one, A R is regular, and so is A. Else its determinant may exclude zero.
        """
        if len(matrix) == 0:
            return True
        middle = np.vectorize(lambda ball: float(ball.mid()), otypes=[float])(matrix)
        with self.precision():
            exact = arb_mat(matrix.tolist())
            try:
                inverse = np.linalg.inv(middle)
            except np.linalg.LinAlgError:
                return not exact.det().contains(0)
            if np.isfinite(inverse).all() and _near_one(exact * arb_mat(inverse.tolist())):
                return True
            return not exact.det().contains(0)


def _number(value: int | Fraction) -> arb:
    return arb(value.numerator) / arb(value.denominator)


def _matrices(x: Array, batch: tuple[int, ...]) -> list[arb_mat]:
    """The matrices of an array as FLINT has them, each made once, broadcast to a batch."""
    *_, rows, columns = x.shape
    made = np.empty(x.shape[:-2], dtype=object)
    for place in np.ndindex(made.shape):
        made[place] = arb_mat(rows, columns, x[place].reshape(-1).tolist())
    return list(np.broadcast_to(made, batch).flat)


def _near_one(product: arb_mat) -> bool:
    """Whether every row of 1 - product has absolute sum below one."""
    rest = np.array(product.tolist(), dtype=object) - np.eye(product.nrows(), dtype=np.int64)
    return all(sum(abs(ball) for ball in row) < 1 for row in rest)


def _each(function: Callable[[arb], arb], x: Array) -> Array:
    return np.asarray(np.frompyfunc(function, 1, 1)(x))


def _require_larger(inside: list[arb], outside: list[arb]) -> None:
    if not all(i > o for i in inside for o in outside):
        raise UnluckyError("balls to be sorted overlap; more bits may help")


def _require_groups(balls: Array, may: Array, groups: int) -> None:
    """Refuse to say whose two largest entries have the largest sums, unless it is certain."""
    sums: dict[int, list[arb]] = {0: [], 1: []}
    for own, free in zip(balls.reshape(groups, -1), may.reshape(groups, -1), strict=True):
        order = sorted(own, key=lambda ball: -float(ball.mid()))
        _require_larger(order[:2], order[2:])
        sums[int(free[0])].append(order[0] + order[1])
    _require_larger(sums[1], sums[0])


def _slowed(speed: Frequencies, plane: int) -> arb:
    """The factor by which a ramp slows a plane."""
    factor, length, fast, slow = map(_number, speed.ramp)
    first, last = (
        speed.planes * (length / (2 * arb.pi() * turns)).log() / _number(speed.base).log()
        for turns in (fast, slow)
    )
    first, last = first.max(arb(0)), last.min(arb(2 * speed.planes - 1))
    y = ((plane - first) / (last - first)).max(arb(0)).min(arb(1))
    return 1 - y + y / factor
