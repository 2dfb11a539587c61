"""Constants that one tensor adds and others take back, and entries without effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from segre.fields.interface import Array
from segre.symmetry.piece import ModularWeights
from segre.symmetry.space import (
    ALL,
    Added,
    Additive,
    Bias,
    FloatWeights,
    Port,
    Tensor,
    Weights,
    inverse_gain,
    tensors_of,
)
from segre.symmetry.wiring import Norm


@dataclass(frozen=True)
class Constants(Additive):
    """Constant vectors that sources add to a space, and readers and `takers` take back."""

    width: int
    sources: tuple[Bias, ...]
    readers: tuple[Port, ...] = ()
    takers: tuple[Bias, ...] = ()
    copies: tuple[int, ...] = ()
    start: int = 0  # the first dimension that is free

    def shape(self, _w: Weights) -> tuple[int, ...]:
        """A vector for each copy."""
        return (*self.copies, self.width)

    def units(self, w: Weights) -> Array:
        """A vector for every dimension of the space that is free."""
        every = super().units(w).reshape(-1, self.width, *self.shape(w))
        return every[:, self.start :].reshape(-1, *self.shape(w))

    def added(self, w: Weights, elements: Array) -> Iterator[Added]:
        """Constants, and what takes them back."""
        for sign, biases in ((1, self.sources), (-1, self.takers)):
            for bias in filter(lambda bias: w.holds(bias.tensor), biases):
                yield bias.added(w, sign * self._like(elements, w(*bias.tensor)))
        product = np.matmul if isinstance(w, FloatWeights) else w.field.matmul
        for port in self.readers:
            assert port.bias is not None
            if w.holds(port.tensor) and w.holds(port.bias.tensor):
                rows, deep = w(*port.tensor), w(*port.bias.tensor).ndim
                rows = rows if port.axis == -1 else rows.swapaxes(-1, -2)
                vectors = self._like(elements, rows)
                read = -product(rows, vectors.reshape(*vectors.shape, 1))[..., 0]
                while read.ndim > deep:  # one bias for all heads
                    read = read.sum(axis=1)
                yield port.bias.added(w, read)

    def _like(self, elements: Array, value: Array) -> Array:
        """Elements with the axes of a tensor but for its columns."""
        ones = (1,) * (value.ndim - 2 - len(self.copies))
        return elements.reshape(-1, *self.copies, *ones, self.width)

    def draw(self, rng: np.random.Generator, w: FloatWeights) -> Array:
        """A vector for each copy; of signs that do not cancel where a LayerNorm carries it."""
        out = np.zeros((*self.copies, self.width))
        size = max(w.size(bias.tensor) for bias in self.sources)
        out[..., self.start :] = size * rng.uniform(0.1, 0.3, out[..., self.start :].shape)
        sites = [p.bias.site for p in self.readers if p.bias is not None and p.bias.site]
        if sites and sites[0].gain:
            return np.asarray(out * np.sign(w(sites[0].part, sites[0].gain)[:, 0]))
        return out if sites else out * rng.choice([-1, 1], out.shape)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Sources, and what takes their constants back."""
        return (*(bias.tensor for bias in self.sources), *self.sinks)

    @property
    def sinks(self) -> tuple[Tensor, ...]:
        """Takers, and the biases of readers."""
        kept = (port.bias for port in self.readers if port.bias is not None)
        return tuple(bias.tensor for bias in (*self.takers, *kept))

    @property
    def needed(self) -> tuple[Tensor, ...]:
        """Norms that carry what is taken back, and readers apart from their biases."""
        kept = [(port.tensor, port.bias) for port in self.readers if port.bias is not None]
        biases = (*self.sources, *(bias for _, bias in kept))
        apart = (tensor for tensor, bias in kept if tensor[0] != bias.tensor[0])
        return (*(tensor for bias in biases for tensor in bias.needed), *apart)


@dataclass(frozen=True)
class Forms:
    """Directions of a space without effect, and the value that they have on all its vectors."""

    directions: Callable[[Weights], Array]  # (count, width)
    value: Callable[[Weights], Array] | None = None  # (count,)
    needed: tuple[Tensor, ...] = ()  # on which they depend
    spanned: bool = False  # of floats, any orthonormal basis of a space
    document: Any = None  # what certificates say of them


def ones(width: int) -> Forms:
    """The mean, or what is added to all entries."""

    def mean(_: Weights) -> Array:
        return np.ones((1, width))

    return Forms(mean, document="ones")


def outside(site: Norm) -> Forms:
    """The form 1^T G^-1, which of all that a LayerNorm writes reads only its bias."""

    def value(w: Weights) -> Array:
        F = w.field
        assert site.bias is not None
        read = F.mul(inverse_gain(w, site), w(site.part, site.bias))
        return np.asarray(F.sum(read, axis=-2)[0])

    biased = site.bias is not None
    given = value if biased else None
    return Forms(lambda w: inverse_gain(w, site).T, given, tensors_of(site), document=site)


@dataclass(frozen=True)
class Slack(Additive):
    """Entries of a tensor along directions without effect; the reader's bias keeps their value."""

    port: Port
    forms: Forms

    def shape(self, w: Weights) -> tuple[int, ...]:
        """A number for each direction and each row or column of the tensor.

        Where directions are any basis, vectors whose projections are added.
        """
        shape = list(w(*self.port.tensor).shape)
        width = shape.pop(self.port.axis)
        floats = isinstance(w, FloatWeights)
        return (width if self.forms.spanned and floats else len(self.directions(w)), *shape)

    def added(self, w: Weights, elements: Array) -> Iterator[Added]:
        """Multiples of the directions; the bias keeps the value."""
        if not w.holds(self.port.tensor):
            return
        (D, value), axis = self._forms(w), self.port.axis
        if self.forms.spanned and isinstance(w, FloatWeights):
            elements = np.tensordot(D, elements, (1, 1)).swapaxes(0, 1)
        if len(D) == 1 and (D[0, 0] == D).all():
            change = np.expand_dims(D[0, 0] * elements[:, 0], axis)
        else:
            change = np.moveaxis(np.tensordot(D, elements, (0, 1)), 0, axis)
        yield self.port.tensor, ALL, change
        if value is not None:
            assert self.port.bias is not None
            yield self.port.bias.added(w, -np.tensordot(value, elements, (0, 1)))

    def directions(self, w: Weights) -> Array:
        """What has no effect, as rows, seen by the tensor itself; of floats, of length 1."""
        return self._forms(w, valued=False)[0]

    def _forms(self, w: Weights, *, valued: bool = True) -> tuple[Array, Array | None]:
        """The directions, and the value that each has on all vectors of the space."""
        D, value = self.forms.directions(w), None
        if self.forms.value is not None and valued:
            value = self.forms.value(w)
        if self.port.gain is not None:
            D = np.asarray(w.field.mul(D, w.inverse(*self.port.gain).reshape(1, -1)))
        if isinstance(w, FloatWeights):
            sizes = np.linalg.norm(D, axis=1)
            D, value = D / sizes[:, None], None if value is None else value / sizes
        return D, value

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensor, and its bias where the directions have a value."""
        bias = self.port.bias if self.forms.value is not None else None
        return (self.port.tensor,) if bias is None else (self.port.tensor, bias.tensor)

    @property
    def needed(self) -> tuple[Tensor, ...]:
        """What the directions depend on."""
        own = () if self.port.gain is None else (self.port.gain,)
        return (*own, *self.forms.needed)


@dataclass(frozen=True)
class Entries(Additive):
    """All entries of a tensor, which have no effect."""

    tensor: Tensor

    def shape(self, w: Weights) -> tuple[int, ...]:
        """The shape of the tensor."""
        return w(*self.tensor).shape

    def added(self, _w: Weights, elements: Array) -> Iterator[Added]:
        """The elements."""
        yield self.tensor, ALL, elements

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensor."""
        return (self.tensor,)


@dataclass(frozen=True)
class Several:
    """Several things that are free, under one name."""

    free: tuple[Callable[[ModularWeights], Array], ...]

    def __call__(self, w: ModularWeights) -> Array:
        """The generators of all of them."""
        return np.concatenate([one(w) for one in self.free])
