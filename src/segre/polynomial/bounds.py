"""How large can the function space of a polynomial network be? Upper bounds by formulas.

A bound is an inequality, or a combination of several:

    scales     every hidden unit can be rescaled against the layer after it
    forms      what the layers up to j and the map after them compute are linear combinations of
               the forms of degree r^j, so that these forms can stand for the input
    cut        a network is a later part after an earlier part, and hidden units can be rescaled
    rank       the outputs are combinations of as many forms as the last hidden layer has units
    quadric    sums of squares do not change if the summands are rotated
    veronese   the Alexander-Hirschowitz theorem: one hidden layer, one output
    doubled    hypersurfaces through the hidden units, multiplied, are singular at all of them
    scroll     few hidden units lie on a rational normal curve, and can move along it
    curve      few hidden units and their readers lie on one rational curve, and can move along it
    pfaffian   three quadrics that are sums of few squares have a Pfaffian that vanishes
    filters    a convolutional network is determined by its filters up to scale
    linear     linear maps of bounded rank

docs/polynomial.md proves each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import comb
from typing import Any

from segre.polynomial.spec import Polynomial

# Quartics and cubics (n variables, degree, summands) whose sums of powers fill less than expected.
EXCEPTIONS = {(5, 3, 7): 34, (3, 4, 5): 14, (4, 4, 9): 34, (5, 4, 14): 69}
_DEEPEST = 24  # networks with more layers are bounded by scales alone
_MOST_FORMS = 10**12


@dataclass(frozen=True)
class Inequality:
    """An upper bound and its derivation: a rule, its numbers, and the bounds it combines.

    `at` is the layer of `forms` and `cut`, and the lower degree of `doubled`.
    """

    value: int
    rule: str
    says: str
    parts: tuple[Inequality, ...] = ()
    at: int | None = None

    @property
    def rules(self) -> tuple[str, ...]:
        """All rules that it uses, each once."""
        below = (rule for part in self.parts for rule in part.rules)
        return tuple(dict.fromkeys((self.rule, *below)))

    @property
    def words(self) -> str:
        """In one sentence."""
        inner = "; ".join(f"{part.value}: {part.words}" for part in self.parts if part.rule)
        return f"{self.says} ({inner})" if inner else self.says

    @property
    def step(self) -> dict[str, Any]:
        """The conclusion, its rule and place, without the bounds it combines."""
        at = {} if self.at is None else {"at": self.at}
        return {"rule": self.rule, **at, "value": self.value}

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The whole tree as a list: a step, then those of its parts, one part after the other."""
        return [self.step, *(step for part in self.parts for step in part.steps)]

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        parts = [part.document() for part in self.parts]
        return {**self.step, **({"parts": parts} if parts else {})}


def bound(spec: Polynomial) -> Inequality:
    """The best of the inequalities.

    >>> bound(Polynomial.parse("poly/3-5-1/degree=4")).value
    14
    >>> found = bound(Polynomial.parse("poly/3-2-2-1/degree=2"))
    >>> found.value, found.rules
    (7, ('cut', 'weights', 'veronese'))
    """
    if spec.convolutional:
        return _filters(spec)
    if spec.degree == 1:
        return _linear(spec)
    # with biases, the constant 1 is one more input, and the first layer needs none of its own
    widths = (spec.width_in + spec.bias, *spec.widths[1:])
    return _best(widths, spec.degree, spec.bias)


def expected(spec: Polynomial) -> int:
    """Parameters minus scales, or the dimension of the ambient space if that is smaller.

    A network whose dimension is below is called defective.

    >>> expected(Polynomial.parse("poly/3-5-2/degree=3"))
    20
    """
    if spec.convolutional or spec.degree == 1:
        return bound(spec).value
    scales = spec.parameters - sum(spec.widths[1:-1])
    ambient = spec.widths[-1] * forms(spec.width_in + spec.bias, spec.total_degree, scales)
    return min(scales, ambient)


def forms(variables: int, degree: int, most: int = _MOST_FORMS) -> int:
    """Dimension of the forms of a degree in some variables, or `most` if it is larger.

    >>> forms(3, 2), forms(1000, 1000, 50)
    (6, 50)
    """
    smaller, larger = sorted((variables - 1, degree))
    count = 1
    for i in range(1, smaller + 1):
        count = count * (larger + i) // i  # at least doubles
        if count >= most:
            return most
    return min(count, most)


def sums_of_powers(variables: int, degree: int, summands: int) -> int:
    """Dimension of the set of sums of powers of linear forms (Alexander and Hirschowitz).

    >>> [sums_of_powers(3, 4, count) for count in (4, 5, 6)]
    [12, 14, 15]
    """
    if degree == 2:
        rank = min(variables, summands)
        return rank * variables - rank * (rank - 1) // 2
    if (variables, degree, summands) in EXCEPTIONS:
        return EXCEPTIONS[variables, degree, summands]
    return forms(variables, degree, variables * summands)


def _filters(spec: Polynomial) -> Inequality:
    """One dimension per weight, minus one scale between layers; linear ones share one bias."""
    biases = spec.bias * (spec.depth if spec.degree > 1 else 1)
    value = sum(layer.kernel for layer in spec.convolutions) - spec.depth + 1 + biases
    return Inequality(value, "filters", "filters are determined up to their scales")


def _linear(spec: Polynomial) -> Inequality:
    rank, first, last = min(spec.widths), spec.widths[0], spec.widths[-1]
    value = rank * (first + last - rank) + spec.bias * last
    biases = f", and {last} biases" * spec.bias
    says = f"{last} x {first} matrices of rank at most {rank}{biases}"
    return Inequality(value, "linear", says)


@lru_cache(maxsize=4096)
def _best(widths: tuple[int, ...], degree: int, bias: bool) -> Inequality:
    if len(widths) == 2:
        return Inequality(widths[0] * widths[1], "weights", "entries of one matrix")
    return min(_inequalities(widths, degree, bias), key=lambda one: one.value)


def _inequalities(widths: tuple[int, ...], degree: int, bias: bool) -> Iterator[Inequality]:
    """The bound for a network whose first layer has no biases, and the others only with `bias`."""
    weights = sum(a * b for a, b in pairwise(widths)) + bias * sum(widths[2:])
    hidden = widths[1:-1]
    yield Inequality(weights - sum(hidden), "scales", f"{sum(hidden)} scales of hidden units")
    if len(widths) - 1 > _DEEPEST:
        return
    if len(widths) == 3:
        yield from _one_hidden_layer(*widths, degree, bias)
    yield from _rank(widths, degree, bias)
    for j in range(1, len(widths) - 1):
        count = forms(widths[0], degree**j)
        if count < _MOST_FORMS:
            inner = _best((count, *widths[j + 1 :]), degree, bias)
            says = f"{count} forms of degree {degree**j} can stand for the input"
            yield Inequality(inner.value, "forms", says, (inner,), j)
    for j in range(1, len(widths) - 1):
        if len(widths) > 3:
            before = _best(widths[: j + 1], degree, bias)
            after = _best((widths[j] + bias, *widths[j + 1 :]), degree, bias)
            value = before.value + after.value - widths[j]
            says = f"cut after layer {j}, whose {widths[j]} outputs can be rescaled"
            yield Inequality(value, "cut", says, (before, after), j)
    if degree == 2 and widths[-1] == 1:
        yield _quadric(widths, bias)


def _one_hidden_layer(n: int, m: int, k: int, degree: int, bias: bool) -> Iterator[Inequality]:
    """The bound for sums of m powers of linear forms in n variables, coefficients in k-space."""
    if k == 1:
        value = sums_of_powers(n, degree, m) + bias
        says = f"sums of {m} powers of degree {degree} in {n} variables (Alexander-Hirschowitz)"
        yield Inequality(value, "veronese", says)
    whole = k * forms(n, degree)
    for low in range(degree):
        first = k * forms(n, low) - m  # bidegree (1, low), through m general points
        second = forms(n, degree - low) - m
        if first > 0 and second > 0 and whole < _MOST_FORMS:
            value = whole - (first + second - 1) + bias * k
            says = f"products of hypersurfaces of bidegrees (1, {low}) and (0, {degree - low})"
            says += " are singular at all hidden units"
            yield Inequality(value, "doubled", says, at=low)
    yield from _curves(n, m, k, degree, bias)
    if degree == 2 and k == 3 and n % 2 == 0 and 2 * (m + bias) < 3 * n:
        says = f"the Pfaffian of {n} x {n} quadrics vanishes on sums of {m + bias} squares"
        yield Inequality(3 * n * (n + 1) // 2 - 1, "pfaffian", says)


def _quadric(widths: tuple[int, ...], bias: bool) -> Inequality:
    """The bound for a sum of squares, if this many summands are known to be independent."""
    m, earlier = widths[-2], _best(widths[:-1], 2, bias)
    independent = min(*widths[1:-1], forms(widths[0], 2 ** (len(widths) - 3)))
    rotations = comb(m, 2) - comb(m - independent, 2)
    says = f"{rotations} rotations of {m} squares that are added"
    return Inequality(earlier.value - rotations + bias, "quadric", says, (earlier,))


def _curves(n: int, m: int, k: int, degree: int, bias: bool) -> Iterator[Inequality]:
    """The bound from hidden units that can move along a curve without changing the function."""
    most = m * (n + k - 1) + bias * k  # what scales leave
    across = degree * (n - 1) + 1  # forms on a rational normal curve through the hidden units
    if n > 1 and m + bias <= n + 2:
        free = m * (k + 1) + bias * k - k * across
        says = f"{m} hidden units lie on a rational normal curve and have {free} free motions on it"
        yield Inequality(most - max(free, 0), "scroll", says)
    if n > 1 and (m <= min(n + 2, k + 1) or m <= min(n + 1, k + 2)):
        free = 2 * m - across - k + 1
        says = f"{m} hidden units and their readers have {free} free motions on a rational curve"
        yield Inequality(most - max(free, 0), "curve", says)


def _rank(widths: tuple[int, ...], degree: int, bias: bool) -> Iterator[Inequality]:
    """Constant terms of outputs are their biases; the other coefficients have bounded rank."""
    last, whole = widths[-1], forms(widths[0], degree ** (len(widths) - 2))
    if whole < _MOST_FORMS:
        rank = min(widths[-2], last, whole - bias)
        value = rank * (last + whole - bias - rank) + bias * last
        says = f"{last} x {whole - bias} coefficients of rank at most {rank}"
        yield Inequality(value, "rank", says)
