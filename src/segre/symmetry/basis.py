"""The basis of a space, up to a group; and scales of whole tensors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np

from segre.fields.interface import Array
from segre.symmetry.groups import (
    DIAGONAL,
    ORTHOGONAL,
    Group,
    algebra,
    factors,
    random_element,
    unit_matrices,
)
from segre.symmetry.piece import ModularWeights
from segre.symmetry.space import VALUES, FloatWeights, Freedom, OfPorts, Port, Tensor, rotary_planes
from segre.transformer.spec import Transformer

GAINS = (".gain", "scale1", "scale2")  # how names end of gains of norms, and scales of outputs
TINY = 1e-6  # gains below this fraction of the largest are not divided by


@dataclass(frozen=True)
class Basis(OfPorts):
    """M of a group acts on writers as M W, and on readers as W M^-1.

    `copies` are leading axes that all ports have: a space for each. The group acts on the
    dimensions from `start` on; `turning` is the part whose rotary planes it respects.
    """

    width: int
    group: Group
    ports: tuple[Port, ...]
    copies: tuple[int, ...] = ()
    start: int = 0
    turning: str | None = None

    def __call__(self, w: ModularWeights) -> Array:
        """The generators: E W for writers, -W E for readers."""
        planes = rotary_planes(w.transformer, self.turning) if self.turning else ()
        own = partial(algebra, self.group, self.width, self.start, planes)
        units = unit_matrices(self.group, self.width, self.start)
        size, count = len(own() if units is None else units[0]), prod(self.copies)
        canvas, deep = w.canvas(count * size), len(self.copies)
        for port in self.ports:
            if not port.degree:
                continue
            value = w(*port.tensor)
            axis = port.axis % value.ndim
            view = canvas(*port.tensor).reshape(count, size, *value.shape)
            if axis != deep:
                view, value = view.swapaxes(axis + 2, deep + 2), value.swapaxes(axis, deep)
            fast = units is not None and port.gain is None
            for row, copy in enumerate(product(*map(range, self.copies))):
                at: tuple[Any, ...] = (row, slice(None), *copy)
                before, changed = value[copy], view[at]
                if fast:
                    self._by_units(port, before[self.start :], changed[:, self.start :])
                else:
                    moved = port.tangent(w, own()) @ before.reshape(self.width, -1)
                    changed += moved.reshape(size, *before.shape)
        return canvas.rows

    def _by_units(self, port: Port, before: Array, changed: Array) -> None:
        """Add the generators of a group whose basis is matrices with a single 1."""
        sign = -port.degree if port.reads else port.degree
        moved = before if sign == 1 else sign * before
        if self.group == "torus":
            into = np.einsum("ii...->i...", changed)
        else:
            square = changed.reshape(len(before), len(before), *changed.shape[1:])
            into = np.einsum("ijj...->ij..." if port.reads else "iji...->ij...", square)
            moved = moved[:, None] if port.reads else moved
        into += moved

    def draw(self, rng: np.random.Generator, w: FloatWeights) -> Array:
        """Factors or matrices, one for each copy."""
        planes = rotary_planes(w.transformer, self.turning)
        drawn = random_element(rng, self.group, self.width, self.copies, self.start, planes)
        return drawn if self.vector is None else drawn * rng.choice([-1, 1], drawn.shape)

    @property
    def vector(self) -> Port | None:
        """The gain of a norm, or the scale of an output, if it is one that is free."""
        found = (port for port in self.ports if port.tensor[1].endswith(GAINS))
        return next(found, None) if self.group == "torus" else None

    def act(self, w: FloatWeights, element: Array) -> None:
        """Multiply writers and readers."""
        if not self.plain:
            self.act_by(w, element, self.inverse(element))
            return
        deep, planes = len(self.copies), rotary_planes(w.transformer, self.turning)
        for port in self.ports:
            if self.group in DIAGONAL and port.degree:
                port.by_factors(w, element, deep)
            elif self.group == "planes":
                port.by_phases(w, element, planes, deep)

    def act_by(self, w: FloatWeights, M: Array, inverse: Array) -> None:
        """Multiply writers by matrices, and readers by the inverse ones."""
        for port in self.ports:
            if port.degree:
                port.by_matrix(w, M, inverse, len(self.copies))

    def meets(self, port: Port) -> bool:
        """Elements act on ports of a degree; which value biases write nothing depends on them."""
        return port.degree > 0 and port.tensor[1] != VALUES

    @property
    def plain(self) -> bool:
        """Whether elements are factors, not matrices."""
        return self.group in DIAGONAL or self.group == "planes"

    def identity(self, spec: Transformer) -> Array:
        """The element that does nothing."""
        if self.group == "planes":
            planes = rotary_planes(spec, self.turning)
            return np.ones((*self.copies, len(planes)), complex)
        shape = (*self.copies, self.width)
        return np.ones(shape) if self.plain else np.tile(np.eye(self.width), (*self.copies, 1, 1))

    def after(self, second: Array, first: Array) -> Array:
        """The element that acts like two, one after the other."""
        return np.asarray(second * first if self.plain else second @ first)

    def on(self, element: Array, x: Array) -> Array:
        """What the rows of a matrix become that are vectors of the space."""
        return np.asarray(element @ x)

    def still(self, element: Array) -> bool:
        """Whether all dimensions stay in their place, up to their signs."""
        return not (element * (1 - np.eye(self.width))).any()

    def inverse(self, element: Array) -> Array:
        """The inverse factors or matrices."""
        if self.group in ORTHOGONAL:
            return element.swapaxes(-1, -2)
        return np.asarray(1 / element if self.plain else np.linalg.inv(element))

    @property
    def needed(self) -> tuple[Tensor, ...]:
        """Gains between them and the space."""
        return tuple(port.gain for port in self.ports if port.gain is not None)


@dataclass(frozen=True)
class Scale(Freedom):
    """One factor for whole tensors, and its inverse, or a power of it, for others; per copy."""

    up: tuple[Tensor, ...]
    down: tuple[Tensor, ...] = ()
    copies: tuple[int, ...] = ()
    degree: int = 1  # in which the others read what the factor scales

    def __call__(self, w: ModularWeights) -> Array:
        """One generator for each copy."""
        canvas = w.canvas(prod(self.copies))
        for times, tensors in ((1, self.up), (-self.degree, self.down)):
            for tensor in tensors:
                value, view = w(*tensor), canvas(*tensor)
                for row, copy in enumerate(product(*map(range, self.copies))):
                    view[(row, *copy)] += times * value[copy]
        return canvas.rows

    def draw(self, rng: np.random.Generator, w: FloatWeights) -> Array:  # noqa: ARG002
        """Factors, one for each copy."""
        return factors(rng, self.copies)

    def act(self, w: FloatWeights, element: Array) -> None:
        """Multiply and divide."""
        for tensors, by in ((self.up, element), (self.down, element**-self.degree)):
            for tensor in tensors:
                if tensor in w.tensors:
                    value = w(*tensor)
                    w.tensors[tensor] = value * by.reshape(
                        *self.copies, *(1,) * (value.ndim - len(self.copies))
                    )

    def inverse(self, element: Array) -> Array:
        """The inverse factors."""
        return np.asarray(1 / element)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All of them."""
        return (*self.up, *self.down)
