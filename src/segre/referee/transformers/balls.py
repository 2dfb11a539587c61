"""What is a transformer in real arithmetic? Its functions on balls that enclose the true values.

Section 8. What the balls are too wide to tell raises `UncertainError`, and more bits may help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

from flint import arb, arb_mat, ctx, fmpq

from segre.referee.meter import balls as rates_of_balls
from segre.referee.residues import INPUTS, WEIGHTS, Stream
from segre.referee.transformers.angles import angle
from segre.referee.transformers.numbers import Numbers, Radicand, Salts, Scalar
from segre.referee.transformers.tensors import Tensors
from segre.transformer.spec import Transformer

_TYPES = 1 << 41


class UncertainError(Exception):
    """Balls are too wide at this precision to tell what is asked."""


class Balls(Numbers):
    """Real numbers, each known to lie in a ball; the precision is that of flint's context."""

    def __init__(self) -> None:
        super().__init__()
        self.rates = rates_of_balls(ctx.prec)

    def matrix(self, rows: int, columns: int, entries: Iterable[Scalar] = ()) -> arb_mat:
        """The matrix with these entries, row-major; without any, the zero matrix."""
        given = list(entries)
        return arb_mat(rows, columns, given) if given else arb_mat(rows, columns)

    def _number(self, value: Fraction) -> arb:
        """A rational number."""
        return arb(fmpq(value.numerator, value.denominator))

    def inverses(self, A: arb_mat) -> arb_mat:
        """1 / a for every entry, none of which may be zero."""
        return self._each(A, lambda a: 1 / _apart(a))

    def roots(self, A: arb_mat, first: Radicand, salts: Salts) -> arb_mat:  # noqa: ARG002
        """The square root of every entry, all of which must be positive."""
        return self._each(A, lambda a: _positive(a).sqrt())

    def exp(self, A: arb_mat, salts: Salts) -> arb_mat:  # noqa: ARG002
        """exp of every entry."""
        return self._each(A, arb.exp)

    def normal(self, A: arb_mat, salts: Salts) -> tuple[arb_mat, arb_mat]:  # noqa: ARG002
        """The normal distribution function and its density."""
        scale, spread = 1 / arb(2).sqrt(), 1 / (2 * arb.pi()).sqrt()
        value = self._each(A, lambda a: (1 + (a * scale).erf()) / 2)
        return value, self._each(A, lambda a: (-a * a / 2).exp() * spread)

    def step(self, A: arb_mat, salts: Salts) -> arb_mat:  # noqa: ARG002
        """1 for positive entries, 0 for negative ones; there may be no others."""
        return self._each(A, lambda a: arb(int(_apart(a) > 0)))

    def choice(self, affinities: arb_mat, spec: Transformer, salts: Salts) -> arb_mat:  # noqa: ARG002
        """The experts with the largest affinities, certainly larger than all others."""
        experts, tokens = affinities.nrows(), affinities.ncols()
        result = arb_mat(experts, tokens)
        for c in range(tokens):
            column = [affinities[i, c] for i in range(experts)]
            allowed = list(range(experts))
            if spec.groups:
                size = experts // spec.groups
                parts = [allowed[g * size : (g + 1) * size] for g in range(spec.groups)]
                sums = []
                for part in parts:
                    first, second = _certainly_largest([column[i] for i in part], 2)
                    sums.append(column[part[first]] + column[part[second]])
                best = _certainly_largest(sums, spec.within)
                allowed = [i for g in best for i in parts[g]]
            for i in _certainly_largest([column[i] for i in allowed], spec.active):
                result[allowed[i], c] = 1
        return result

    def root_of_two_over_pi(self) -> arb:
        """The square root of 2 / pi."""
        return (2 / arb.pi()).sqrt()

    def root_of_width(self, width: int) -> arb:
        """The square root of the width."""
        return arb(width).sqrt()

    def grown(self, square: Fraction, up: Fraction, down: Fraction, of: Fraction) -> arb:
        """The factor."""
        log = self._number(of).log()
        quotient = (1 + self._number(up) * log) / (1 + self._number(down) * log)
        return self._number(square).sqrt() * quotient

    def lengthened(self, factor: Fraction, length: Fraction) -> arb:
        """The factor; 1 if ln(factor) is 0."""
        if factor == 1:
            return arb(1)
        return (1 + self._number(factor).log() / self._number(length).log()).sqrt()

    def turn(self, spec: Transformer, plane: int, position: int) -> tuple[arb, arb]:
        """cos and sin of the angle of a plane at a position."""
        turned = position * angle(spec, plane)
        return turned.cos(), turned.sin()

    def slope(self, exponent: Fraction, factor: Fraction, fine: int = 1) -> arb:  # noqa: ARG002
        """The decay rate."""
        return (-self._number(factor) * arb(2) ** -self._number(exponent)).exp()

    def _each(self, A: arb_mat, function: Callable[[arb], arb]) -> arb_mat:
        self.handle(A, functions=1)
        return arb_mat(A.nrows(), A.ncols(), [function(a) for a in A.entries()])


def _apart(a: arb) -> arb:
    """A number that is certainly not zero."""
    if not (a > 0 or a < 0):
        raise UncertainError("a number may be zero that must not be, or its sign is not certain")
    return a


def _positive(a: arb) -> arb:
    if not a > 0:
        raise UncertainError("a number under a square root is not certainly positive")
    return a


def real_weights(layout: Tensors, seed: int) -> list[arb]:
    """The weights of the real point: gains around 1, all others around 0."""
    u = Stream.of(seed, WEIGHTS)
    result = []
    for tensor in layout.tensors:
        gain = tensor.name.endswith(".gain")
        for j in range(tensor.offset, tensor.offset + tensor.size):
            value = _dyadic(u(j))
            result.append(1 + value / 2 if gain else value)
    return result


def real_input(spec: Transformer, seed: int, number: int) -> arb_mat:
    """Input `number` of the real point; one-hot columns if there is a vocabulary."""
    u, t = Stream.of(seed, INPUTS), spec.t
    if not spec.vocab:
        return real_matrix(seed, number, spec.patch or spec.d, t)
    result = arb_mat(spec.vocab + spec.types, t)
    for c in range(t):
        result[u(number * t + c) % spec.vocab, c] = 1
        if spec.types:
            result[spec.vocab + u(number * t + c + _TYPES) % spec.types, c] = 1
    return result


def real_matrix(seed: int, number: int, rows: int, t: int) -> arb_mat:
    """Input `number` of the real point, of any entries."""
    u, size = Stream.of(seed, INPUTS), rows * t
    return arb_mat(rows, t, [_dyadic(u(number * size + i)) for i in range(size)])


def _dyadic(u: int) -> arb:
    """A number from -1 to 1 with 20 bits after the point."""
    return arb(((u >> 43) - (1 << 20), -20))


def _certainly_largest(values: list[arb], count: int) -> list[int]:
    """Where the largest numbers are, certainly larger than all others."""
    order = sorted(range(len(values)), key=lambda i: float(values[i].mid()), reverse=True)
    if not all(values[i] > values[j] for i in order[:count] for j in order[count:]):
        raise UncertainError("which experts a token chooses is not certain")
    return order[:count]
