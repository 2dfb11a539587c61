"""A random point mod p: weights and inputs drawn by the documented generator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from segre.fields.draw import Stream
from segre.fields.interface import Array
from segre.fields.prime import PRIMES, Prime
from segre.geometry.memory import inputs_at_once
from segre.network import jacobian
from segre.spec import Network


@dataclass(frozen=True)
class Point:
    """Weights of a network over F_p, and the inputs it is looked at with.

    Weight j is u(seed, WEIGHTS, j); entry (r, c) of input n is u(seed, INPUTS, n d0 t + r t + c).
    """

    spec: Network
    field: Prime

    @classmethod
    def draw(cls, spec: Network, seed: int, attempt: int = 0) -> Point:
        """The point of a seed; later attempts use other seeds and other primes."""
        return cls(spec, Prime(PRIMES[attempt % len(PRIMES)], (seed + attempt) % 2**64))

    @cached_property
    def weights(self) -> Array:
        """The weights, one vector."""
        return self.field.draw(Stream.WEIGHTS, 0, (self.spec.parameters,))

    @property
    def first_inputs(self) -> int:
        """How many inputs to begin with: to see a linear map on the tokens, and one more."""
        spec = self.spec
        return min(-(-spec.widths[0] // spec.t) + 1, inputs_at_once(spec))

    @cached_property
    def first_rows(self) -> Array:
        """All rows of the Jacobian at the first inputs."""
        return self.jacobian_rows(0, self.first_inputs)

    def inputs(self, start: int, count: int) -> Array:
        """Inputs number start, ..., start + count - 1."""
        shape = (count, self.spec.widths[0], self.spec.t)
        return self.field.draw(Stream.INPUTS, start * shape[1] * shape[2], shape)

    def jacobian_rows(self, start: int, count: int, outputs: Array | slice = slice(None)) -> Array:
        """Rows of the Jacobian: for each input, the chosen output entries, by the weights."""
        X = self.inputs(start, count)
        matrices = jacobian(self.field, self.spec, self.weights, X, outputs)
        return matrices.reshape(-1, self.spec.parameters)
