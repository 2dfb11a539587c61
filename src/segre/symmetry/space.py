"""A space: a place where vectors live, the axes of tensors that lie in it, and what is free there.

*Ports* are the axes that write into the space or read from it. Three things can be free:

- the basis (`Basis`): M of a group acts on writers as M W and on readers as W M^-1;
- constants (`Constants`): what one tensor adds, others take back;
- entries without effect (`Slack`): what is written where nobody looks, or read where nothing lies.

Each is data, and a `Freedom`: on weights of floats it acts with elements, which are drawn at random
and can be inverted. What is free continuously can be called with weights mod p, and returns its
generators, one per row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from segre.fields.interface import Array
from segre.fields.real import Real
from segre.symmetry.groups import Planes
from segre.symmetry.piece import ModularWeights
from segre.symmetry.wiring import Norm
from segre.transformer.layers import plane_dimensions
from segre.transformer.spec import Transformer

Tensor = tuple[str, str]  # part and name
VALUES = "b_V"  # biases
SMALL = 0.02  # of offsets of tensors that are zero
BLOCK = 1 << 15  # numbers at a time: these stay in the cache


class FloatWeights:
    """Tensors of floats; not all need to be there."""

    field = Real()

    def __init__(
        self,
        spec: Transformer,
        tensors: dict[Tensor, Array],
        sizes: dict[Tensor, float] | None = None,
    ) -> None:
        """`sizes` are those of tensors that are not there, as far as they are known."""
        self.transformer, self.tensors = spec, tensors
        self.sizes = {} if sizes is None else sizes
        self.owned = False  # whether arrays may be changed where they are

    @classmethod
    def of(cls, spec: Transformer, part: str, tensors: dict[str, Array]) -> FloatWeights:
        """The tensors of one part."""
        return cls(spec, {(part, name): x for name, x in tensors.items()})

    def part(self, part: str) -> dict[str, Array]:
        """The tensors of a part by name."""
        return {name: x for (where, name), x in self.tensors.items() if where == part}

    def __call__(self, part: str, name: str) -> Array:
        """A tensor, by part and name."""
        return self.tensors[part, name]

    def holds(self, tensor: Tensor) -> bool:
        """Whether a tensor is there."""
        return tensor in self.tensors

    def inverse(self, part: str, name: str) -> Array:
        """The entrywise inverse of a tensor."""
        return np.asarray(1 / self(part, name))

    def place(self, value: Array) -> Array | None:
        """Where a changed tensor is written: where it was, or None for a new array."""
        return value if self.owned and value.flags.writeable else None

    def size(self, tensor: Tensor) -> float:
        """The size of the entries of a tensor, to draw offsets in proportion."""
        if tensor not in self.sizes:
            value = self.tensors.get(tensor, np.zeros(1))
            self.sizes[tensor] = float(np.sqrt((value**2).mean())) or SMALL
        return self.sizes[tensor]


Weights = ModularWeights | FloatWeights


Added = tuple[Tensor, slice, Array]  # what is added to columns of a tensor, by each element
ALL = slice(None)


class Freedom(ABC):
    """What is free in a space."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, w: FloatWeights) -> Array:
        """A random element, with bounded condition."""

    @abstractmethod
    def act(self, w: FloatWeights, element: Array) -> None:
        """Act on the tensors that are there, in place."""

    @abstractmethod
    def inverse(self, element: Array) -> Array:
        """The element that undoes another."""

    @property
    @abstractmethod
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors that it changes."""

    @property
    def needed(self) -> tuple[Tensor, ...]:
        """Further tensors on which the changes depend."""
        return ()


class Additive(Freedom):
    """What is added to tensors: elements add up, and what they add is linear in them."""

    @abstractmethod
    def shape(self, w: Weights) -> tuple[int, ...]:
        """The shape of an element."""

    @abstractmethod
    def added(self, w: Weights, elements: Array) -> Iterator[Added]:
        """What each of the elements adds; tensors change while this goes on."""

    def units(self, w: Weights) -> Array:
        """A basis of the elements."""
        shape = self.shape(w)
        return np.eye(prod(shape)).reshape(-1, *shape)

    def __call__(self, w: ModularWeights) -> Array:
        """The generators: what the elements of a basis add."""
        units = self.units(w)
        canvas = w.canvas(len(units))
        for tensor, columns, change in self.added(w, units):
            view = canvas(*tensor)[..., columns]
            view += change
        return w.field.reduce(canvas.rows)

    def draw(self, rng: np.random.Generator, w: FloatWeights) -> Array:
        """Numbers of the size of the first tensor's."""
        return np.asarray(w.size(self.tensors[0]) * rng.standard_normal(self.shape(w)))

    def act(self, w: FloatWeights, element: Array) -> None:
        """Add; where arrays may be changed, without a copy, since tables are large."""
        for tensor, columns, change in self.added(w, element[None]) if element.any() else ():
            if w.holds(tensor) and columns == ALL:
                value, own = w(*tensor), change[0]
                out = np.empty_like(own) if own.shape == value.shape else w.place(value)
                w.tensors[tensor] = np.add(value, own, out=out)
            elif w.holds(tensor):
                value = w.tensors[tensor] = w(*tensor).copy()
                value[..., columns] += change[0]

    def inverse(self, element: Array) -> Array:
        """The element that takes it back."""
        return -element


@dataclass(frozen=True)
class Bias:
    """What adds constants: a bias, or a table, in all its columns or a range of them.

    After a LayerNorm with a bias, `site`, a map without a bias does so too: what a LayerNorm writes
    is orthogonal to 1 before its gain, so that the form 1^T G^-1 reads its bias alone.
    """

    tensor: Tensor
    site: Norm | None = None
    columns: tuple[int, int] | None = None

    @property
    def needed(self) -> tuple[Tensor, ...]:
        """The tensors of the LayerNorm."""
        return () if self.site is None else tensors_of(self.site)

    def added(self, w: Weights, values: Array) -> Added:
        """What adds constants."""
        F = w.field
        if self.site is None:
            columns = ALL if self.columns is None else slice(*self.columns)
            return self.tensor, columns, F.mul(values, unit_shift(w, self.tensor))[..., None]
        assert self.site.bias is not None
        form = inverse_gain(w, self.site)
        total = F.sum(F.mul(form, w(self.site.part, self.site.bias)), axis=-2)
        change = F.mul(values[..., None], F.mul(form[:, 0], F.reciprocal(total)[0]))
        return self.tensor, ALL, change


def tensors_of(site: Norm) -> tuple[Tensor, ...]:
    """The gain and bias of a norm."""
    return tuple((site.part, name) for name in (site.gain, site.bias) if name)


def unit_shift(w: Weights, tensor: Tensor) -> Array:
    """What to add to a tensor so that the stream moves by one: embeddings may be scaled."""
    if tensor == ("embed", "tokens") and w.transformer.embscale:
        return np.asarray(w.field.reciprocal(w.field.surd(w.transformer.d))[0])
    return np.ones(1)


def inverse_gain(w: Weights, site: Norm) -> Array:
    """1 / gain, as a column."""
    if not site.gain:
        return np.ones((site.width, 1))
    if isinstance(w, FloatWeights):
        return inverse_direction(w(site.part, site.gain))
    return w.inverse(site.part, site.gain)


def inverse_direction(gain: Array) -> Array:
    """1 / gain; if entries vanish, the limit of its direction, of length 1."""
    zero = gain == 0
    if zero.any():
        return np.asarray(np.eye(len(gain))[:, [int(np.argmax(zero))]])
    return np.asarray(1 / gain)


@dataclass(frozen=True)
class Port:
    """An axis of a tensor that lies in a space; axes are counted from the end."""

    tensor: Tensor
    axis: int = -2
    reads: bool = False
    bias: Bias | None = None  # of a reader: takes back the constants that it reads
    gain: Tensor | None = None  # between the tensor and the space
    under: bool = False  # of a writer: its gain is applied to what it writes
    degree: int = 1  # in which a scale of the space enters

    def tangent(self, w: ModularWeights, E: Array) -> Array:
        """Generators of a group of the space, as they act on this axis."""
        E = self._seen(w, E)
        return -self.degree * E.swapaxes(-1, -2) if self.reads else self.degree * E

    def by_matrix(self, w: FloatWeights, M: Array, inverse: Array, deep: int) -> None:
        """M W or, for readers, W M^-1, in place, for each of the `deep` leading axes of copies."""
        if self.tensor not in w.tensors:
            return
        value, M = w(*self.tensor), self._seen(w, inverse if self.reads else M)
        M = M.swapaxes(-1, -2) if self.reads == (self.axis == -2) else M
        if self.axis == -1 and not deep:
            out = (value.reshape(-1, value.shape[-1]) @ M).reshape(*value.shape[:-1], -1)
        else:
            M = M.reshape(*M.shape[:deep], *(1,) * (value.ndim - deep - 2), *M.shape[deep:])
            out = value @ M if self.axis == -1 else M @ value
        w.tensors[self.tensor] = out

    def by_factors(self, w: FloatWeights, x: Array, deep: int) -> None:
        """Writers times factors, readers divided by them."""
        self.times(w, (1 / x if self.reads else x) ** self.degree, deep)

    def times(self, w: FloatWeights, x: Array, deep: int) -> None:
        """Rows times numbers."""
        if self.tensor in w.tensors and (x != 1).any():
            value = w(*self.tensor)
            w.tensors[self.tensor] = value * self._along(x, value.ndim, deep)

    def by_phases(self, w: FloatWeights, z: Array, planes: Planes, deep: int) -> None:
        """Planes of writers times complex factors, those of readers divided by the conjugates."""
        if self.tensor not in w.tensors or (z == 1).all():
            return
        value, (first, second) = w(*self.tensor), np.array(planes).T
        by = self._along(1 / np.conj(z) if self.reads else z, value.ndim, deep)
        x, y = value[..., first, :], value[..., second, :]
        out = w.tensors[self.tensor] = value.copy()
        out[..., first, :] = x * by.real - y * by.imag
        out[..., second, :] = x * by.imag + y * by.real

    def by_order(self, w: FloatWeights, order: Array | None, signs: Array, deep: int) -> None:
        """Dimension i becomes dimension order[i]; signs concern ports of degree 1."""
        if self.tensor not in w.tensors:
            return
        value, fresh = w(*self.tensor), order is not None
        if order is not None and deep:
            every = np.ndindex(*order.shape[:deep])
            found = [_taken(value[i], order[i], self.axis, owned=False) for i in every]
            value = np.stack(found).reshape(value.shape)
        elif order is not None:
            value = _taken(value, order, self.axis, owned=w.owned)
        if self.degree and (signs != 1).any():
            by = self._along(signs, value.ndim, deep)
            value = np.multiply(value, by, out=value if fresh else None)
        w.tensors[self.tensor] = value

    def _along(self, x: Array, ndim: int, deep: int) -> Array:
        """Numbers (*copies, width) in the shape in which they multiply a tensor."""
        between, after = (1,) * (ndim + self.axis - deep), (1,) * (-1 - self.axis)
        return x.reshape(*x.shape[:deep], *between, -1, *after)

    def rows(self, w: FloatWeights, deep: int) -> Array:
        """The tensor as matrices whose rows are along the axis: (*copies, width, ...)."""
        value = w(*self.tensor)
        moved = np.moveaxis(value, self.axis % value.ndim, deep)
        return moved.reshape(*moved.shape[: deep + 1], -1)

    def _seen(self, w: Weights, M: Array) -> Array:
        """Matrices of the space, seen through the gain."""
        if self.gain is None:
            return M
        g, inverse = w(*self.gain).reshape(-1), w.inverse(*self.gain).reshape(-1)
        up, down = (inverse, g) if self.under else (g, inverse)
        return np.asarray(w.field.mul(w.field.mul(up[:, None], M), down))


class OfPorts(Freedom):
    """What acts on all ports of a space."""

    ports: tuple[Port, ...]
    copies: tuple[int, ...]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Those of all ports."""
        return tuple(port.tensor for port in self.ports)

    def meets(self, _port: Port) -> bool:
        """Whether a port says something about which element is best."""
        return True

    def sides(self, w: FloatWeights) -> tuple[list[Array], list[Array]]:
        """The rows of writers and of readers that are there: (*copies, width, n)."""
        out: tuple[list[Array], list[Array]] = [], []
        for port in self.ports:
            if port.tensor in w.tensors and self.meets(port):
                out[port.reads].append(port.rows(w, len(self.copies)))
        return out


def _taken(value: Array, order: Array, axis: int, *, owned: bool) -> Array:
    """Entries along an axis in another order; tables, whose columns lie together, in place."""
    if value.flags.c_contiguous:
        return np.take(value, order, axis)
    whole = value.ndim == 2 and axis == -2  # else columns change places
    if not (owned and whole and value.flags.f_contiguous and value.flags.writeable):
        return np.take(value.T, order, -1 - axis).T
    rows, step = value.T, max(1, BLOCK // len(value))
    for start in range(0, len(rows), step):
        rows[start : start + step] = np.take(rows[start : start + step], order, 1)
    return value


def writer(part: str, name: str, **more: Any) -> Port:
    """A tensor whose rows write into a space."""
    return Port((part, name), **more)


def reader(part: str, name: str, **more: Any) -> Port:
    """A tensor whose columns read from a space."""
    return Port((part, name), -1, True, **more)


def rotary_planes(spec: Transformer, part: str | None) -> Planes:
    """The two dimensions of each rotary plane of a layer."""
    own = None if part is None else spec.at(part)
    if own is None or not own.rotary_dim:
        return ()
    first, second = plane_dimensions(own)
    return tuple(zip(first.tolist(), second.tolist(), strict=True))
