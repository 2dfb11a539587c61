"""What passes through the layers of a stack with a mechanism for every head?

The tokens before a layer span a space (its image), and what is computed later reads linear forms
of them. Where either is smaller than the width, weights are free. Dimensions have a formula that
no point exceeds; a point that falls short of it is not generic, and there nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from segre.attention.layer import Layer
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.fields.rank import Echelon
from segre.geometry.gauge.hybrid_scores import Head, constant_weights, stuck
from segre.geometry.gauge.piece import ModularWeights
from segre.spec import Network
from segre.stack.stages import named

Blind = dict[str, Array]  # by tensor: (count, heads, entries), to be added together


@dataclass(frozen=True)
class HeadPlace:
    """A head: its group and its place there (from 0), and its number in the layer (from 1)."""

    group: int
    head: int
    number: int


def heads_of(layer: Layer) -> list[HeadPlace]:
    """The heads of a layer, group by group."""
    pairs = [(g, h) for g, group in enumerate(layer.groups) for h in range(group.heads)]
    return [HeadPlace(g, h, n) for n, (g, h) in enumerate(pairs, 1)]


def head_at(spec: Network, layer: Layer, place: HeadPlace, parallel: bool = False) -> Head:
    """What the symmetries of a head depend on."""
    group = layer.groups[place.group]
    return Head(group.mechanism, layer.a, spec.t, tuple(layer.shapes[place.group]), parallel)


def dead(spec: Network, layer: Layer, place: HeadPlace) -> bool:
    """Whether a head mixes nothing: the weight of its only key, less one, is zero."""
    one = layer.groups[place.group].mechanism
    return one.normalise == "centred" and one.silent(spec.t)


def pools(spec: Network, layer: Layer) -> list[list[HeadPlace]]:
    """Heads that have the same constant weights, and no gate: they act as one."""
    found: dict[str, list[HeadPlace]] = {}
    for place in heads_of(layer):
        head = head_at(spec, layer, place)
        one = head.mechanism
        if one.gate != "none" or one.conv != "none" or dead(spec, layer, place):
            continue
        if constant_weights(head):
            found.setdefault("own" if one.alone(spec.t) else "all", []).append(place)
    return [pool for pool in found.values() if len(pool) > 1]


def parallel_tokens(spec: Network) -> list[bool]:
    """Before each layer: must all tokens be multiples of one vector?"""
    rank = [min(spec.widths[0], spec.t)]
    for layer in spec.layers:
        through = 0
        for place in heads_of(layer):
            one = layer.groups[place.group].mechanism
            most = one.features(layer.a) if not one.masked and one.normalise != "centred" else None
            keys = one.keys(spec.t) - (one.normalise == "centred")
            each = min(rank[-1] * one.kernel, keys, most or spec.t)
            through += spec.t if one.gate != "none" else min(each, layer.inner)
        rank.append(min(layer.width_out, spec.t, through))
    return [r == 1 for r in rank[:-1]]


@dataclass(frozen=True)
class Units:
    """Heads that act together: a pool, or one head alone; and whether rows are told apart."""

    places: list[HeadPlace]
    rowwise: bool


def units_of(spec: Network, layer: Layer) -> Iterator[Units]:
    """The heads of a layer that mix anything, those of a pool together."""
    joint = pools(spec, layer)
    for pool in joint:
        yield Units(pool, False)
    for place in heads_of(layer):
        if not any(place in pool for pool in joint) and not dead(spec, layer, place):
            one = layer.groups[place.group].mechanism
            yield Units([place], one.gate == "element" or one.conv == "depthwise")


class HybridPassage:
    """Bases of images and forms at given weights; None where the point is not generic."""

    def __init__(self, w: ModularWeights) -> None:
        assert isinstance(w.spec, Network)
        self.w, self.spec, self.field = w, w.spec, w.field
        self.images: list[Array | None] = [np.eye(self.spec.widths[0])]
        for i in range(self.spec.depth):
            self.images.append(self._image(i))
        forms: list[Array | None] = [np.eye(self.spec.widths[-1])]
        for i in reversed(range(self.spec.depth)):
            forms.append(self._forms(i, forms[-1]))
        self.forms = forms[::-1]

    def own(self, i: int, place: HeadPlace, name: str) -> Array:
        """A tensor of one head."""
        found: Array = self.w(str(i + 1), named(place.group, name))[place.head]
        return found

    def maps(self, i: int, place: HeadPlace, *letters: str) -> list[Array]:
        """The maps of one head that read tokens, by letter; those of a kernel one by one."""
        shapes = self.spec.layers[i].shapes[place.group]
        return [
            self.own(i, place, name)
            for name in shapes
            if name.partition("+")[0] in {f"W_{x}" for x in letters}
        ]

    def inner_image(self, i: int, unit: Units, image: Array) -> Array:
        """Columns that span what the values of a unit are before W_O, head under head."""
        parts = []
        for place in unit.places:
            columns = [self.field.matmul(V, image) for V in self.maps(i, place, "V")]
            parts.append(np.concatenate(columns, axis=1))
        return np.concatenate(parts)

    def _image(self, i: int) -> Array | None:
        """What layer i + 1 writes."""
        image, layer = self.images[i], self.spec.layers[i]
        if image is None:
            return None
        columns, bound = [np.zeros((layer.width_out, 0))], 0
        for unit in units_of(self.spec, layer):
            size = layer.inner * (len(unit.places) if layer.dv is not None else 1)
            if unit.rowwise:
                inner, rank = np.eye(size), size
            else:
                inner = self.inner_image(i, unit, image)
                if layer.dv is None:
                    inner = self.field.reduce(
                        inner.reshape(len(unit.places), layer.inner, -1).sum(axis=0)
                    )
                taps = len(self.maps(i, unit.places[0], "V"))
                rank = min(size, image.shape[1] * taps)
            if layer.dv is not None:
                out = np.concatenate([self.own(i, p, "W_O") for p in unit.places], axis=1)
                inner = self.field.matmul(out, inner)
            columns.append(inner)
            bound += rank
        return self._basis(np.concatenate(columns, axis=1).T, min(layer.width_out, bound))

    def _forms(self, i: int, after: Array | None) -> Array | None:
        """What layer i + 1 and those after it read."""
        layer = self.spec.layers[i]
        if after is None:
            return None
        rows, bound = [np.zeros((0, layer.width_in))], 0
        for place in heads_of(layer):
            head = head_at(self.spec, layer, place)
            letters = () if stuck(head) or dead(self.spec, layer, place) else ("K", "Q")
            gate = () if dead(self.spec, layer, place) else ("G",)
            own = self.maps(i, place, *letters, *gate)
            rows += own
            bound += sum(len(one) for one in own)
        for unit in units_of(self.spec, layer):
            wanted = self._wanted(i, unit, after)
            taps = len(self.maps(i, unit.places[0], "V"))
            for n in range(taps):
                V = [self.maps(i, p, "V")[n] for p in unit.places]
                if layer.dv is None and len(unit.places) > 1:
                    V = [self.field.reduce(np.sum(V, axis=0))]
                stacked = np.concatenate(V)
                rows.append(stacked if unit.rowwise else self.field.matmul(wanted, stacked))
                bound += len(stacked) if unit.rowwise else min(len(wanted), len(stacked))
        found = self._basis(np.concatenate(rows), min(layer.width_in, bound))
        return None if found is None else found.T

    def _wanted(self, i: int, unit: Units, after: Array) -> Array:
        """The forms of the values of a unit, before W_O, that are read later."""
        if self.spec.layers[i].dv is None:
            return after
        out = np.concatenate([self.own(i, p, "W_O") for p in unit.places], axis=1)
        return self.field.matmul(after, out)

    def _basis(self, rows: Array, bound: int) -> Array | None:
        """The transpose of rows that are a basis of all; None if they span less than they can."""
        space = Echelon(rows.shape[1], self.field, capacity=max(1, bound))
        space.add(rows)
        return rows[space.pivot_rows].T if space.rank == bound else None

    def blind_rows(self, i: int) -> Iterator[Blind]:
        """What can be added to every row of a map, since it vanishes on all that arrives."""
        image, layer = self.images[i], self.spec.layers[i]
        if image is None:
            return
        outside = _annihilator(self.field, image.T)
        for g, shapes in enumerate(layer.shapes):
            for name, shape in shapes.items():
                if name.startswith("W_") and name != "W_O" and len(outside):
                    for h in range(shape[0]):
                        yield {named(g, name): _in_head(outside, h, shape[0])}
        for unit in units_of(self.spec, layer) if layer.dv is not None else ():
            if not unit.rowwise:
                inner = self.inner_image(i, unit, image)
                rank = min(len(inner), inner.shape[1], image.shape[1] * inner.shape[1])
                yield from self._split(i, unit, self._generic_outside(inner.T, rank), "W_O")

    def blind_columns(self, i: int) -> Iterator[Blind]:
        """What can be added to every column of a map, since nothing reads it later."""
        after, layer = self.forms[i + 1], self.spec.layers[i]
        if after is None:
            return
        last = "W_V" if layer.dv is None else "W_O"
        outside = _annihilator(self.field, after)
        for g, shapes in enumerate(layer.shapes):
            one = layer.groups[g].mechanism
            if layer.dv is None and (one.gate == "element" or one.conv == "depthwise"):
                continue
            for name, shape in shapes.items():
                if name.partition("+")[0] == last and len(outside):
                    for h in range(shape[0]):
                        yield {named(g, name): _in_head(outside, h, shape[0])}
        for unit in units_of(self.spec, layer) if layer.dv is not None else ():
            if not unit.rowwise:
                wanted = self._wanted(i, unit, after)
                unread = self._generic_outside(wanted, min(wanted.shape))
                taps = [
                    n for n in layer.shapes[unit.places[0].group] if n.partition("+")[0] == "W_V"
                ]
                for name in taps:
                    yield from self._split(i, unit, unread, name)

    def _generic_outside(self, rows: Array, rank: int) -> Array:
        """The annihilator of rows, if they span as much as they can; else nothing."""
        space = Echelon(rows.shape[1], self.field)
        space.add(rows)
        if space.rank != min(rank, *rows.shape) or space.rank == rows.shape[1]:
            return np.zeros((0, rows.shape[1]))
        return self.field.reduce(space.kernel())

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


def _annihilator(field: Prime, rows: Array) -> Array:
    """A basis of the vectors orthogonal to rows that are linearly independent."""
    if len(rows) == rows.shape[1]:
        return np.zeros((0, rows.shape[1]))
    space = Echelon(rows.shape[1], field)
    space.add(rows)
    return field.reduce(space.kernel())


def _in_head(vectors: Array, head: int, heads: int) -> Array:
    out = np.zeros((len(vectors), heads, vectors.shape[1]))
    out[:, head] = vectors
    return out
