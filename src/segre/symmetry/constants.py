"""Constants that one tensor adds and others take back, and entries without effect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from segre.fields.interface import Array
from segre.symmetry.piece import ModularWeights
from segre.symmetry.space import (
    Bias,
    FloatWeights,
    Freedom,
    Port,
    Tensor,
    Weights,
    inverse_gain,
    tensors_of,
    unit_shift,
)
from segre.symmetry.wiring import Norm


@dataclass(frozen=True)
class Constants(Freedom):
    """Constant vectors that sources add to a space, and readers and `takers` take back."""

    width: int
    sources: tuple[Bias, ...]
    readers: tuple[Port, ...] = ()
    takers: tuple[Bias, ...] = ()
    copies: tuple[int, ...] = ()
    start: int = 0  # the first dimension that is free

    def __call__(self, w: ModularWeights) -> Array:
        """The generators: one for every dimension of the space."""
        size = self.width - self.start
        canvas = w.canvas(prod(self.copies) * size)
        for sign, biases in ((1, self.sources), (-1, self.takers)):
            for bias in biases:
                view = canvas(*bias.tensor)
                unit = np.zeros(view.shape[:-1])
                for row, (*copy, i) in enumerate(np.ndindex(*self.copies, size)):
                    unit[(row, *copy, ..., self.start + i)] = sign
                bias.add(w, view, unit)
        for port in self.readers:
            assert port.bias is not None
            view = canvas(*port.bias.tensor)
            columns = self._columns(w(*port.tensor), port)
            for row, own in enumerate(np.ndindex(*self.copies)):
                read = -columns[own][self.start :]
                while read.ndim >= view.ndim:  # one bias for all heads of a group
                    read = w.field.reduce(read.sum(axis=1))
                port.bias.add(w, view[row * size : (row + 1) * size], read)
        return w.field.reduce(canvas.rows)

    def _columns(self, value: Array, port: Port) -> Array:
        """What a reader sees of the dimensions of the space: (*copies, width, ...)."""
        return np.moveaxis(value, port.axis % value.ndim, len(self.copies))

    def draw(self, rng: np.random.Generator, w: FloatWeights) -> Array:
        """A vector for each copy; of signs that do not cancel where a LayerNorm carries it."""
        out = np.zeros((*self.copies, self.width))
        size = max(w.size(bias.tensor) for bias in self.sources)
        out[..., self.start :] = size * rng.uniform(0.1, 0.3, out[..., self.start :].shape)
        sites = [p.bias.site for p in self.readers if p.bias is not None and p.bias.site]
        if sites and sites[0].gain:
            return np.asarray(out * np.sign(w(sites[0].part, sites[0].gain)[:, 0]))
        return out if sites else out * rng.choice([-1, 1], out.shape)

    def act(self, w: FloatWeights, element: Array) -> None:
        """Add the vector to the sources, and take it back."""
        if not element.any():
            return
        for sign, biases in ((1, self.sources), (-1, self.takers)):
            for bias in biases:
                if bias.tensor not in w.tensors:
                    continue
                value = w(*bias.tensor)
                ones = (1,) * (value.ndim - 2 - len(self.copies))
                added = sign * element.reshape(*self.copies, *ones, self.width)
                if bias.site is None and bias.columns is None:  # without a copy: tables are large
                    shift = added * unit_shift(w, bias.tensor)
                    w.tensors[bias.tensor] = np.add(value, shift[..., None], out=w.place(value))
                else:
                    w.tensors[bias.tensor] = value = value.copy()
                    bias.add(w, value, np.broadcast_to(added, value.shape[:-1]))
        for port in self.readers:
            assert port.bias is not None
            if port.tensor not in w.tensors or port.bias.tensor not in w.tensors:
                continue
            rows = w(*port.tensor)
            rows = rows if port.axis == -1 else rows.swapaxes(-1, -2)
            ones = (1,) * (rows.ndim - 2 - len(self.copies))
            read = -(rows @ element.reshape(*self.copies, *ones, self.width, 1))[..., 0]
            value = w.tensors[port.bias.tensor] = w(*port.bias.tensor).copy()
            while read.ndim >= value.ndim:  # one bias for all heads
                read = read.sum(axis=0)
            port.bias.add(w, value, read)

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
class Slack(Freedom):
    """Entries of a tensor along directions without effect; the reader's bias keeps their value."""

    port: Port
    forms: Forms

    def __call__(self, w: ModularWeights) -> Array:
        """The generators: each direction in each row or column of the tensor."""
        (D, value), shape = self._forms(w), w(*self.port.tensor).shape
        axis, others = self._split(shape)
        rest = prod(others)
        canvas = w.canvas(len(D) * rest)
        view = np.moveaxis(canvas(*self.port.tensor), axis + 1, 1)
        every = np.zeros((len(D), rest, shape[axis], rest))
        every[:, range(rest), :, range(rest)] = D
        view += every.reshape(len(D) * rest, shape[axis], *others)
        if value is not None:
            assert self.port.bias is not None
            moved = np.zeros((len(D), rest, rest))
            moved[:, range(rest), range(rest)] = -value[:, None]
            moved = moved.reshape(len(D) * rest, *others)
            self.port.bias.add(w, canvas(*self.port.bias.tensor), moved)
        return w.field.reduce(canvas.rows)

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

    def _split(self, shape: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        axis = self.port.axis % len(shape)
        return axis, tuple(n for i, n in enumerate(shape) if i != axis)

    def draw(self, rng: np.random.Generator, w: FloatWeights) -> Array:
        """For each direction what is added along it: (directions, *shape without the axis).

        Where directions are any basis, vectors whose projections are added: (width, ...).
        """
        axis, others = self._split(w(*self.port.tensor).shape)
        D = self.directions(w)
        if self.forms.spanned:
            width = w(*self.port.tensor).shape[axis]
            return np.asarray(w.size(self.port.tensor) * rng.standard_normal((width, *others)))
        return np.asarray(w.size(self.port.tensor) * rng.standard_normal((len(D), *others)))

    def act(self, w: FloatWeights, element: Array) -> None:
        """Add, and let the bias keep the value."""
        if self.port.tensor not in w.tensors:
            return
        before, (D, value) = w(*self.port.tensor), self._forms(w)
        axis, _ = self._split(before.shape)
        if not element.any():
            return
        if self.forms.spanned:
            element = np.tensordot(D, element, (1, 0))
        if len(D) == 1 and (D[0, 0] == D).all():  # without a copy: tables are large
            shift = np.expand_dims(D[0, 0] * element[0], axis)
            added = np.add(before, shift, out=w.place(before))
        else:
            added = np.moveaxis(np.tensordot(D, element, (0, 0)), 0, axis)
            added += before
        w.tensors[self.port.tensor] = added
        if value is not None:
            assert self.port.bias is not None
            bias = w.tensors[self.port.bias.tensor] = w(*self.port.bias.tensor).copy()
            self.port.bias.add(w, bias, -np.tensordot(value, element, (0, 0)))

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
class Entries(Freedom):
    """All entries of a tensor, which have no effect."""

    tensor: Tensor

    def __call__(self, w: ModularWeights) -> Array:
        """The generators: one for each entry."""
        size = w(*self.tensor).size
        canvas = w.canvas(size)
        canvas(*self.tensor).reshape(size, size)[range(size), range(size)] = 1
        return canvas.rows

    def draw(self, rng: np.random.Generator, w: FloatWeights) -> Array:
        """What is added."""
        return w.size(self.tensor) * rng.standard_normal(w(*self.tensor).shape)

    def act(self, w: FloatWeights, element: Array) -> None:
        """Add."""
        if self.tensor in w.tensors:
            w.tensors[self.tensor] = w(*self.tensor) + element

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
