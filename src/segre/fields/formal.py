"""F_p as one evaluation of a network sees it: what is drawn, what is heard, what has no root.

Exponentials (and normal distribution functions) are drawn as functions of their argument and of
a *salt* of the token they are computed for. A network that takes square roots needs points at
which the roots exist; changing the salt of a token changes its exponentials, and with them
what stands under the roots after them. docs/soundness.md says why the values are free.
"""

from __future__ import annotations

import numpy as np

from segre.fields.draw import Stream
from segre.fields.interface import Array
from segre.fields.prime import Prime

SALT = 1 << 32


class Drawn(Exception):  # noqa: N818
    """A probe has reached something that would be drawn."""


class Formal(Prime):
    """The field for one stage and one batch of inputs; `salt` has shape (inputs, tokens).

    With `probe` nothing is drawn: `Drawn` is raised instead, when all roots before are known.
    With `free_roots` roots are drawn too, as functions of what stands under them: no true roots,
    but have their derivative, which is all that symmetries ask of them.
    """

    def __init__(
        self,
        field: Prime,
        salt: Array | None = None,
        probe: bool = False,
        free_roots: bool = False,
    ) -> None:
        super().__init__(field.p, field.seed)
        self.salt = salt
        self.probe = probe
        self.free_roots = free_roots
        self.took_roots = False
        self.exp_arguments: list[tuple[Array, Array | None]] = []  # arguments, and which are used
        self.rootless: list[tuple[Array, bool]] = []  # where roots are missing; after draws?
        self.divided: list[Array] = []  # where something to be inverted is zero
        self.drew = False

    def drawn(self, stream: Stream, argument: Array) -> Array:
        """Random words, the same for the same argument and salt."""
        self.drew = True
        if self.probe:
            raise Drawn
        if self.salt is None:
            return super().drawn(stream, argument)
        salt = self.salt[:, : argument.shape[-1]]
        ones = [1] * (argument.ndim - 2)
        return super().drawn(stream, argument + SALT * salt.reshape(len(salt), *ones, -1))

    def exp(self, x: Array, used: Array | None = None) -> Array:
        """Drawn; the argument is recorded."""
        self.exp_arguments.append((x, used))
        return super().exp(x, used)

    def cdf(self, x: Array) -> Array:
        """Drawn; the argument of its density, exp(-x^2 / 2) up to a factor, is recorded."""
        self.exp_arguments.append((self.mul(x, x), None))
        return super().cdf(x)

    def sqrt(self, x: Array) -> Array:
        """A root where there is one; the places without are recorded."""
        self.took_roots = True
        if self.free_roots:
            if not x.all():
                self.divided.append(x == 0)
            return self.nonzero(self.drawn(Stream.ROOTS, self.residues(x)))
        root, found = self.roots(x)
        self.rootless.append((~found, self.drew))
        return np.where(found, root, 1.0)

    def reciprocal(self, x: Array) -> Array:
        """The inverse where there is one; the places without are recorded."""
        zero = x == 0
        if zero.any():
            self.divided.append(zero)
            x = np.where(zero, 1.0, x)
        return super().reciprocal(x)

    @property
    def sound(self) -> bool:
        """Whether every root existed and nothing was divided by zero."""
        return not self.divided and not any(mask.any() for mask, _ in self.rootless)
