"""How many points has a function variety in common with a random linear space, or critical points?

Both are counted by solving one system mod p in a chart of the weights. What is then proved: simple
solutions of a square system mod p lift, one by one, to solutions of the generic system over the
complex numbers, and those with different functions stay different (Hensel's lemma). So the number
of functions is a lower bound. A slice or a prime can be unlucky, and then the number is too small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from segre.errors import UnluckyError
from segre.fields.draw import Stream
from segre.fields.prime import PRIMES, Prime
from segre.polynomial.spec import Polynomial
from segre.variety.chart import Fixed, Functions, chart, cone_chart, functions
from segre.variety.groebner import Limits
from segre.variety.metric import Metric, gram
from segre.variety.points import Solutions, determinant, solutions

_ATTEMPTS = 3
_EQUATIONS = 1 << 20  # where the random numbers of each use begin
_DATA = 2 << 20
_TEST = 3 << 20


@dataclass(frozen=True)
class Count:
    """How many functions were found, from how many weights of the chart, and where."""

    functions: int
    weights: int
    free: int
    p: int
    seed: int

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        found = {"functions": self.functions, "weights": self.weights, "free": self.free}
        return {**found, "prime": self.p, "seed": self.seed}


def points_on_slice(spec: Polynomial, dimension: int, seed: int, limits: Limits) -> Count:
    """Points of the variety on a random affine space of complementary dimension."""

    def attempt(field: Prime) -> Count:
        found, equations = slice_equations(spec, dimension, field)
        roots = solutions(equations, range(dimension), field, limits)
        (test,) = _combinations(found, list(found.coefficients.values()), 1, field, _TEST)
        images = roots.distinct(roots.value(test))
        return Count(images, roots.count, dimension, field.p, field.seed)

    return _first_lucky(attempt, seed)


def slice_equations(spec: Polynomial, dimension: int, field: Prime) -> tuple[Functions, list[Any]]:
    """The functions of a chart, and random affine equations for their coefficients."""
    found = functions(spec, chart(spec, dimension, field), field.p)
    values = list(found.coefficients.values())
    return found, _combinations(found, values, dimension, field, _EQUATIONS)


def critical_points(
    spec: Polynomial, dimension: int, metric: Metric, seed: int, limits: Limits
) -> Count:
    """Critical points of the squared distance to random data, at immersed points."""

    def attempt(field: Prime) -> Count:
        roots, found = _stationary(spec, dimension, metric, field, limits)
        (test,) = _combinations(found.functions, found.values, 1, field, _TEST)
        images = roots.distinct(roots.value(test))
        return Count(images, roots.count, dimension, field.p, field.seed)

    return _first_lucky(attempt, seed)


@dataclass(frozen=True)
class _Scaled:
    """Coefficients of the functions, times a scale if they are a cone."""

    functions: Functions
    values: list[Any]


def _stationary(
    spec: Polynomial, dimension: int, metric: Metric, field: Prime, limits: Limits
) -> tuple[Solutions, _Scaled]:
    """Where the gradient of <f, f> / 2 - <f, u> vanishes and the weights are an immersion.

    Of a cone f = s g: then the derivatives by weights are divided by s, which is not zero at
    critical points of generic data, and c = 0 is no solution.
    """
    fixed = chart(spec, dimension, field)
    cone = None if spec.bias else _require(cone_chart(spec, fixed, dimension, field))
    found = functions(spec, cone or fixed, field.p)
    values = list(found.coefficients.values())
    square, linear = _loss(spec, found, metric, field)
    half = pow(2, -1, field.p)
    weights = range(len(found.variables))
    tangents = [[value.derivative(i) for value in values] for i in weights]
    if cone is None:
        used = [*weights]
        equations = [(square * half - linear).derivative(i) for i in weights]
    else:
        scale = found.ring.gens()[-2]
        used = [*weights, len(weights)]
        equations = [scale * square - linear]
        equations += [scale * square.derivative(i) * half - linear.derivative(i) for i in weights]
        tangents = [values, *tangents]
        values = [scale * value for value in values]
    return _immersed(equations, tangents, used, found, field, limits), _Scaled(found, values)


def _loss(spec: Polynomial, found: Functions, metric: Metric, field: Prime) -> tuple[Any, Any]:
    """<f, f> and <f, u> for random data u."""
    keys, values = list(found.coefficients), list(found.coefficients.values())
    table = gram(metric, keys, spec.total_degree, field)
    data = _numbers(field, _DATA, 1, len(keys))[0]
    square = linear = found.ring.constant(0)
    for row, value, known in zip(table, values, data, strict=True):
        image = _total(found, [other * c for other, c in zip(values, row, strict=True) if c])
        square += value * image
        linear += image * known
    return square, linear


def _immersed(
    equations: list[Any],
    tangents: Sequence[Sequence[Any]],
    used: list[int],
    found: Functions,
    field: Prime,
    limits: Limits,
) -> Solutions:
    """The solutions at which the tangents are linearly independent.

    Where they are not, there may be infinitely many solutions. Then an inverse of a random minor is
    one more unknown.
    """
    mixing = _numbers(field, _TEST + (1 << 19), len(tangents), len(tangents[0]))
    rows = [
        [_total(found, [v * c for v, c in zip(one, mix, strict=True)]) for mix in mixing]
        for one in tangents
    ]
    try:
        roots = solutions(equations, used, field, limits)
    except UnluckyError:
        minor = determinant(rows, limits=limits)
        last = found.ring.gens()[-1]
        equations = [*equations, last * minor - 1]
        return solutions(equations, [*used, len(found.variables) + 1], field, limits)
    limits.check("checking ranks")
    values = [[roots.value(entry) for entry in row] for row in rows]
    return roots.without(determinant(values, roots.modulus)) if roots.count else roots


def _first_lucky(attempt: Callable[[Prime], Count], seed: int) -> Count:
    """The first count that succeeds at several primes and seeds; otherwise the last error."""
    for number in range(_ATTEMPTS):
        try:
            return attempt(Prime(PRIMES[number % len(PRIMES)], (seed + number) % 2**63))
        except UnluckyError as error:
            reason = error
    raise reason


def _require(found: Fixed | None) -> Fixed:
    if found is None:
        raise UnluckyError("no weight fixes the scale")
    return found


def _combinations(
    found: Functions, values: Sequence[Any], count: int, field: Prime, start: int
) -> list[Any]:
    """Random affine functions of the coefficients."""
    return [
        _total(found, [v * c for v, c in zip(values, row, strict=False)]) + row[-1]
        for row in _numbers(field, start, count, len(values) + 1)
    ]


def _total(found: Functions, terms: Sequence[Any]) -> Any:
    return sum(terms, found.ring.constant(0))


def _numbers(field: Prime, start: int, rows: int, columns: int) -> list[list[int]]:
    drawn = field.residues(field.draw(Stream.COMBINATIONS, start, (rows, columns)))
    return [[int(value) for value in row] for row in drawn]
