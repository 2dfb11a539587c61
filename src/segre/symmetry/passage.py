"""What passes through the layers of a stack at given weights mod p?

The tokens before a layer span a space (its image), and what is computed later reads linear forms
of them. Where either is smaller than the width, weights are free. A point that falls short of the
dimensions that the spec allows (`reach`) is not generic, and there nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.fields.profile import SMALL, new_rows
from segre.fields.rank import Echelon
from segre.spec import Network
from segre.stack.stages import named
from segre.symmetry.reach import (
    HeadPlace,
    Units,
    heads_of,
    inner_size,
    reached,
    read,
    reading_maps,
    units_of,
)

Blind = dict[str, Array]  # by tensor: (count, heads, entries), to be added together
Tensor = Callable[[str, str], Array]  # by part and name


class Passage:
    """Bases of images and forms at given weights; None where the point is not generic."""

    def __init__(self, field: Prime, spec: Network, tensor: Tensor) -> None:
        self.field, self.spec, self.tensor = field, spec, tensor
        self.units, self.depth = units_of(spec), spec.depth
        self._images: dict[int, Array | None] = {0: np.eye(spec.widths[0])}
        self._read: dict[int, Array | None] = {self.depth: np.eye(spec.widths[-1])}

    def image(self, i: int) -> Array | None:
        """Columns that span the tokens before layer i + 1, or at the end."""
        if i not in self._images:
            self._images[i] = self._image(i - 1, self.image(i - 1), reached(self.spec)[i])
        return self._images[i]

    def forms(self, i: int) -> Array | None:
        """Rows that span the linear forms of these tokens that are read later."""
        if i not in self._read:
            self._read[i] = self._forms(i, self.forms(i + 1), read(self.spec)[i])
        return self._read[i]

    def own(self, i: int, place: HeadPlace, name: str) -> Array:
        """A tensor of one head."""
        found: Array = self.tensor(str(i + 1), named(place.group, name))[place.head]
        return found

    def values(self, i: int, place: HeadPlace) -> list[Array]:
        """The value maps of one head; those of a kernel one by one."""
        taps = self.spec.layers[i].taps(place.group, "W_V")
        return [self.own(i, place, name) for name in taps]

    def inner_image(self, i: int, unit: Units, image: Array) -> Array:
        """Columns that span what the values of a unit are before W_O, head under head."""
        parts = []
        for place in unit.places:
            columns = [self.field.matmul(V, image) for V in self.values(i, place)]
            parts.append(np.concatenate(columns, axis=1))
        return np.concatenate(parts)

    def _image(self, i: int, image: Array | None, most: int) -> Array | None:
        """What layer i + 1 writes."""
        layer = self.spec.layers[i]
        if image is None:
            return None
        columns = [np.zeros((layer.width_out, 0))]
        for unit in self.units[i]:
            if unit.rowwise:
                inner = np.eye(inner_size(layer, unit))
            else:
                inner = self.inner_image(i, unit, image)
                if layer.dv is None:
                    inner = inner.reshape(len(unit.places), layer.inner, -1).sum(axis=0)
            inner, outputs = self.field.reduce(inner), self._outputs(i, unit)
            columns.append(inner if outputs is None else self.field.matmul(outputs, inner))
        return self._basis(np.concatenate(columns, axis=1).T, most)

    def _outputs(self, i: int, unit: Units) -> Array | None:
        """The W_O of the heads of a unit beside each other, if heads have any."""
        if self.spec.layers[i].dv is None:
            return None
        return np.concatenate([self.own(i, p, "W_O") for p in unit.places], axis=1)

    def _forms(self, i: int, after: Array | None, most: int) -> Array | None:
        """What layer i + 1 and those after it read."""
        layer = self.spec.layers[i]
        if after is None:
            return None
        rows = [np.zeros((0, layer.width_in))]
        for place in heads_of(layer):
            maps = reading_maps(layer, place.group, self.spec.t)
            rows += [self.own(i, place, name) for name in maps]
        for unit in self.units[i]:
            wanted = self._wanted(i, unit, after)
            each = [self.values(i, place) for place in unit.places]
            for V in zip(*each, strict=True):
                stacked = np.sum(V, axis=0) if layer.dv is None else np.concatenate(V)
                stacked = self.field.reduce(stacked)
                rows.append(stacked if unit.rowwise else self.field.matmul(wanted, stacked))
        found = self._basis(np.concatenate(rows), most)
        return None if found is None else found.T

    def _wanted(self, i: int, unit: Units, after: Array) -> Array:
        """The forms of the values of a unit, before W_O, that are read later."""
        outputs = self._outputs(i, unit)
        return after if outputs is None else self.field.matmul(after, outputs)

    def _basis(self, rows: Array, most: int) -> Array | None:
        """The transpose of rows that are a basis of all; None if they span less than they can."""
        if rows.size <= SMALL:
            found = new_rows(rows, self.field)
        else:
            space = Echelon(rows.shape[1], self.field, capacity=max(1, most))
            space.add(rows)
            found = space.pivot_rows
        return rows[found].T if len(found) == most else None

    def blind_rows(self, i: int) -> Iterator[Blind]:
        """What can be added to every row of a map, since it vanishes on all that arrives."""
        image, layer = self.image(i), self.spec.layers[i]
        if image is None:
            return
        outside = self._outside(image.T, image.shape[1])
        for g, shapes in enumerate(layer.shapes):
            for name, shape in shapes.items():
                if name.startswith("W_") and name != "W_O" and len(outside):
                    for h in range(shape[0]):
                        yield {named(g, name): _in_head(outside, h, shape[0])}
        for unit in self.units[i] if layer.dv is not None else ():
            if not unit.rowwise:
                inner = self.inner_image(i, unit, image)
                yield from self._split(i, unit, self._outside(inner.T, min(inner.shape)), "W_O")

    def blind_columns(self, i: int) -> Iterator[Blind]:
        """What can be added to every column of a map, since nothing reads it later."""
        after, layer = self.forms(i + 1), self.spec.layers[i]
        if after is None:
            return
        last = "W_V" if layer.dv is None else "W_O"
        outside = self._outside(after, len(after))
        for g, group in enumerate(layer.groups):
            if len(outside) and not (layer.dv is None and group.mechanism.rowwise):
                for name in layer.taps(g, last):
                    for h in range(group.heads):
                        yield {named(g, name): _in_head(outside, h, group.heads)}
        for unit in self.units[i] if layer.dv is not None else ():
            if not unit.rowwise:
                wanted = self._wanted(i, unit, after)
                unread = self._outside(wanted, min(wanted.shape))
                for name in layer.taps(unit.places[0].group, "W_V"):
                    yield from self._split(i, unit, unread, name)

    def _outside(self, rows: Array, rank: int) -> Array:
        """The vectors orthogonal to rows, if they span as much as they can; else nothing."""
        none = np.zeros((0, rows.shape[1]))
        if rank == rows.shape[1]:
            return none
        space = Echelon(rows.shape[1], self.field)
        space.add(rows)
        return self.field.reduce(space.kernel()) if space.rank == rank else none

    def _split(self, i: int, unit: Units, vectors: Array, name: str) -> Iterator[Blind]:
        """Vectors on the inner spaces of the heads of a unit, head after head, by tensor."""
        if not len(vectors):
            return
        layer = self.spec.layers[i]
        out: Blind = {}
        for n, place in enumerate(unit.places):
            mine = vectors[:, n * layer.inner : (n + 1) * layer.inner]
            key, heads = named(place.group, name), layer.groups[place.group].heads
            out.setdefault(key, np.zeros((len(vectors), heads, layer.inner)))
            out[key][:, place.head] = mine
        yield out


def _in_head(vectors: Array, head: int, heads: int) -> Array:
    out = np.zeros((len(vectors), heads, vectors.shape[1]))
    out[:, head] = vectors
    return out
