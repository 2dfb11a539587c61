"""How large are the polynomials that a network computes? An interpreter of bounds.

The entries of a node are written as fractions N / (s_1^k_1 s_2^k_2 ...), where N is a polynomial
with integer coefficients in the variables (weights, inputs, and all that is not rational), and s_i
is the product of the numerators of all entries that the i-th division divides by. Carried are a
bound on the degree of N, one on the base-2 logarithm of its 1-norm (its *height*), and the powers
k_i; and the same for derivatives by any one weight. docs/soundness.md, "Degree and height".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import log2, prod

from segre.kernel.document import RejectionError
from segre.kernel.graph import Constant, Graph, Node
from segre.kernel.meter import RESIDUES, charge


@dataclass(frozen=True, slots=True)
class Size:
    """The degree and height of a numerator, and the powers of what it is divided by."""

    degree: int = 0
    height: float = 0.0
    below: Mapping[int, int] = field(default_factory=dict)


VARIABLE = Size(1)
MOST_DEGREE = 1 << 40


@dataclass(frozen=True, slots=True)
class Sized:
    """Bounds for all entries of a node, and for their derivatives; None if no weight enters."""

    value: Size
    slope: Size | None = None


class Degrees:
    """Bounds for all nodes; `arguments` has how many entries are drawn for how large arguments.

    `inputs` is the size of an entry of the input: a variable, or a given number.

    >>> from segre.kernel.graph import evaluate
    >>> graph = Graph(input_shape=(3, 1))
    >>> W = graph.weight("1", "W", (2, 3))
    >>> y = graph.contract("vk,kt->vt", W, graph.input)
    >>> found = evaluate(graph, Degrees(graph, VARIABLE))[y]
    >>> found.value.degree, 2**found.value.height, found.slope.degree
    (2, 3.0, 1)
    """

    def __init__(self, graph: Graph, inputs: Size) -> None:
        self.arguments: list[tuple[int, Size]] = []
        self._graph, self._inputs = graph, inputs
        self._divisors: list[Size] = []
        self._circles: dict[str, int] = {}

    # Leaves.

    def input(self, _node: Node) -> Sized:
        """An entry of the input."""
        return Sized(self._inputs)

    def weight(self, _node: Node) -> Sized:
        """A variable; its derivative by a weight is 1 or 0."""
        return Sized(VARIABLE, Size())

    def constant(self, node: Node) -> Sized:
        """Numbers; powers of decays and cosines are polynomials in variables."""
        given: Constant = node.data
        if given.kind == "rational":
            return Sized(self._number(given.data))
        if given.kind in ("seen", "ago"):
            return Sized(Size())
        most = max(1, node.shape[-1] - 1)  # the largest distance, or position
        if given.kind == "powers":
            return Sized(Size(most))
        # cos m w + i sin m w = (1 + i s)^2m / (1 + s^2)^m, over the divisors of all planes
        planes, name = node.shape[-2], repr(given.data)
        if name not in self._circles:
            self._circles[name] = self._divisor(Size(2 * planes, planes))
        below = {self._circles[name]: most}
        return Sized(Size(2 * planes * most, (planes + 1) * most, below))

    # Sums and products.

    def contract(self, node: Node, x: Sized, y: Sized) -> Sized:
        """Sums of products."""
        left, right = node.data.split("->")[0].split(",")
        sizes = dict(zip(left, self._graph.shape(node.args[0]), strict=True))
        sizes |= dict(zip(right, self._graph.shape(node.args[1]), strict=True))
        return self._product(x, y, prod(sizes.values()) // prod(node.shape))

    def total(self, node: Node, x: Sized) -> Sized:
        """A sum of entries."""
        count = prod(self._graph.shape(node.args[0])) // prod(node.shape)
        return self._product(x, Sized(Size()), count)

    def mul(self, _node: Node, x: Sized, y: Sized) -> Sized:
        """The product."""
        return self._product(x, y)

    def scale(self, node: Node, x: Sized) -> Sized:
        """Times a rational number, or times a variable that stands for an irrational one."""
        rational = isinstance(node.data, Fraction | int)
        return self._product(x, Sized(self._number(node.data) if rational else VARIABLE))

    def add(self, _node: Node, x: Sized, y: Sized) -> Sized:
        """The sum, over common divisors."""
        return Sized(self._plus(x.value, y.value), self._either(x.slope, y.slope))

    def inverse(self, node: Node, x: Sized) -> Sized:
        """The numerators of all other entries, over the product of all."""
        value = self._inverse(x.value, prod(node.shape))
        return self._chain(value, _times(value, value), x)

    # Functions: variables, with the derivatives that they have.

    def exp(self, node: Node, x: Sized) -> Sized:
        """de = e dz."""
        self.arguments.append((prod(node.shape), x.value))
        return self._chain(VARIABLE, VARIABLE, x)

    phi = exp  # the density is a variable too

    def root(self, node: Node, x: Sized) -> Sized:
        """dr = r dq / (2 q)."""
        self.arguments.append((prod(node.shape), x.value))
        half = _times(VARIABLE, self._number(Fraction(1, 2)))
        return self._chain(VARIABLE, _times(half, self._inverse(x.value, prod(node.shape))), x)

    def step(self, _node: Node, _x: Sized) -> Sized:
        """No polynomial describes all regions."""
        raise RejectionError("upper.kind: random points say nothing about piecewise functions")

    def choose(self, _node: Node, _x: Sized) -> Sized:
        """No polynomial describes all choices."""
        raise RejectionError("upper.kind: random points say nothing about experts")

    # Places.

    def take(self, _node: Node, x: Sized) -> Sized:
        """Some of the entries."""
        return x

    def join(self, _node: Node, *given: Sized) -> Sized:
        """All entries; those over fewer divisors are brought over all of them."""
        below: dict[int, int] = {}
        for x in given:
            for size in (x.value, x.slope or Size()):
                below = _larger(below, size.below)
        found = [self._over(x.value, below) for x in given]
        slopes = [self._over(x.slope, below) for x in given if x.slope is not None]
        return Sized(_largest(found), _largest(slopes) if slopes else None)

    # Fractions.

    def cleared(self, x: Size) -> Size:
        """What stands below the fraction, multiplied out."""
        return self._over(Size(), x.below)

    def _number(self, number: Fraction | int) -> Size:
        above, under = Fraction(number).as_integer_ratio()
        below = {self._divisor(Size(0, log2(under))): 1} if under > 1 else {}
        return Size(0, log2(max(1, abs(above))), below)

    def _inverse(self, x: Size, entries: int) -> Size:
        new = self._divisor(Size(entries * x.degree, entries * x.height))
        others = Size((entries - 1) * x.degree, (entries - 1) * x.height)
        found = _times(self.cleared(x), others)
        return Size(found.degree, found.height, {new: 1})

    def _chain(self, value: Size, derivative: Size, x: Sized) -> Sized:
        return Sized(value, None if x.slope is None else _times(derivative, x.slope))

    def _product(self, x: Sized, y: Sized, terms: int = 1) -> Sized:
        left = None if x.slope is None else _times(x.slope, y.value, terms)
        right = None if y.slope is None else _times(x.value, y.slope, terms)
        return Sized(_times(x.value, y.value, terms), self._either(left, right))

    def _either(self, x: Size | None, y: Size | None) -> Size | None:
        if x is None or y is None:
            return y if x is None else x
        return self._plus(x, y)

    def _plus(self, x: Size, y: Size) -> Size:
        below = _larger(x.below, y.below)
        x, y = self._over(x, below), self._over(y, below)
        height = max(x.height, y.height)
        total = height + log2(2.0 ** (x.height - height) + 2.0 ** (y.height - height))
        return Size(max(x.degree, y.degree), total, below)

    def _over(self, x: Size, below: Mapping[int, int]) -> Size:
        """The same over more divisors: its numerator is multiplied by those it lacks."""
        charge(len(below) * RESIDUES.entry)
        degree, height = x.degree, x.height
        for i, power in below.items():
            more = power - x.below.get(i, 0)
            degree += more * self._divisors[i].degree
            height += more * self._divisors[i].height
        return Size(degree, height, below)

    def _divisor(self, size: Size) -> int:
        self._divisors.append(size)
        return len(self._divisors) - 1


def _larger(x: Mapping[int, int], y: Mapping[int, int]) -> dict[int, int]:
    """The larger of the powers of every divisor."""
    return {i: max(x.get(i, 0), y.get(i, 0)) for i in {**x, **y}}


def _largest(sizes: list[Size]) -> Size:
    """A bound for several numerators over the same divisors."""
    degree, height = max(one.degree for one in sizes), max(one.height for one in sizes)
    return Size(degree, height, sizes[0].below)


def _times(x: Size, y: Size, terms: int = 1) -> Size:
    """The size of a sum of so many products; one that is hopeless is not carried on."""
    if x.degree + y.degree > MOST_DEGREE:
        raise RejectionError("upper.kind: the polynomials are too large for random points")
    charge((len(x.below) + len(y.below)) * RESIDUES.entry)
    below = {i: x.below.get(i, 0) + y.below.get(i, 0) for i in {**x.below, **y.below}}
    return Size(x.degree + y.degree, x.height + y.height + log2(max(1, terms)), below)
