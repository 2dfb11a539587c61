"""How does a certificate list the symmetries of a stack? As entries of docs/certificate.md.

The heads of a group are alike, so that an entry is about all of them: `copies` is their number. The
families of `stack` and `stack_scores` are written out here one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from segre.spec import Network
from segre.symmetry.reach import (
    Units,
    dead,
    head_at,
    parallel_tokens,
    reached,
    read,
    units_of,
)
from segre.symmetry.stack_mixing import alike_heads, filled_pieces, mixed_pieces
from segre.symmetry.stack_scores import Head

Entry = dict[str, Any]


def stack_entries(spec: Network) -> Iterator[Entry]:
    """All that is free in a stack."""
    for layer in spec.layers:
        if all(dead(spec, layer, group) for group in range(len(layer.groups))):
            for i in range(spec.depth):
                for g, shapes in enumerate(spec.layers[i].shapes):
                    part = _part(spec, i, g)
                    yield from (sources({"tensor": f"{part}/{name}"}) for name in shapes)
            return
    parallel, arrives, wanted = parallel_tokens(spec), reached(spec), read(spec)
    for i, layer in enumerate(spec.layers):
        if i + 1 < spec.depth:
            yield _between(spec, i)
        if layer.dv is not None or wanted[i + 1] < layer.width_out:
            yield from _beside(spec, i, "unread", ("W_V", "W_O"))
        if layer.dv is not None or arrives[i] < layer.width_in:
            yield from _beside(spec, i, "unreached", ("W_V", "W_K", "W_Q", "W_G", "W_O"))
        joint = parallel[i] and (arrives[i] > 1 or spec.mechanism.bilinear)
        pools = [unit for unit in units_of(spec)[i] if unit.pooled]
        pooled = {one.group for unit in pools for one in unit.places}
        for g in range(len(layer.groups)):
            yield from _Group(spec, i, g, joint).entries(pooled=g in pooled)
        for unit in pools:
            if layer.dv is not None or len(unit.places) > 1:
                yield _pooled(i, unit)
        for alike in alike_heads(spec, i, arrives[i], parallel[i]):
            kinds = [piece.kind for piece in (*mixed_pieces(alike), *filled_pieces(alike))]
            heads = [one.number for one in alike.places]
            for kind in dict.fromkeys(kinds):
                yield {"free": "special", "name": kind, "layer": i + 1, "heads": heads}


def _part(spec: Network, i: int, group: int) -> str:
    """The part of a group of heads."""
    return f"{i + 1}.{group + 1}" if len(spec.layers[i].groups) > 1 else str(i + 1)


def port(tensor: str, axis: int = -2, *, reads: bool = False, degree: int = 1) -> Entry:
    """An axis of a tensor that lies in a space."""
    more = {"degree": degree} if degree != 1 else {}
    return {"tensor": tensor, "axis": axis, "reads": reads, **more}


def basis(
    group: str, width: int, copies: Iterable[int], ports: list[Entry], start: int = 0
) -> Entry:
    """A group that acts on the axes that lie in a space."""
    own = {"width": width, "copies": list(copies), "start": start}
    return {"free": "basis", "group": group, **own, "ports": ports}


def scale(
    up: Iterable[str], down: Iterable[str] = (), copies: Iterable[int] = (), degree: int = 1
) -> Entry:
    """One number by which tensors grow, and others shrink to the power of the degree."""
    ports: list[Entry] = [{"tensor": one, "reads": False} for one in up]
    less = {"degree": degree} if degree != 1 else {}
    ports += [{"tensor": one, "reads": True, **less} for one in down]
    return {"free": "basis", "group": "scale", "copies": list(copies), "ports": ports}


def sources(*given: Entry) -> Entry:
    """Tensors to which something is added, with no effect together."""
    return {"free": "constants", "sources": list(given)}


def _between(spec: Network, i: int) -> Entry:
    """The basis of the tokens between two layers."""
    layer, after = spec.layers[i], spec.layers[i + 1]
    diagonal = layer.dv is None and any(group.mechanism.rowwise for group in layer.groups)
    last = "W_V" if layer.dv is None else "W_O"
    ports = [
        port(f"{_part(spec, i, g)}/{name}")
        for g in range(len(layer.groups))
        for name in layer.taps(g, last)
    ]
    ports += [
        port(f"{_part(spec, i + 1, g)}/{name}", -1, reads=True)
        for g in range(len(after.groups))
        for root in ("W_K", "W_Q", "W_V", "W_G")
        for name in after.taps(g, root)
    ]
    return basis("torus" if diagonal else "gl", layer.width_out, (), ports)


def _beside(spec: Network, i: int, where: str, roots: Iterable[str]) -> Iterator[Entry]:
    """What maps do to directions that no token has, or write along those that nothing reads."""
    layer = spec.layers[i]
    for g in range(len(layer.groups)):
        for name in (name for root in roots for name in layer.taps(g, root)):
            yield sources({"tensor": f"{_part(spec, i, g)}/{name}", "where": where})


def _pooled(i: int, unit: Units) -> Entry:
    """Heads with the same constant weights: only the sum of their value maps matters."""
    heads = [one.number for one in unit.places]
    return {"free": "special", "name": "pooled-heads", "layer": i + 1, "heads": heads}


class _Group:
    """The heads of a group, all with one mechanism."""

    def __init__(self, spec: Network, i: int, group: int, joint: bool = False) -> None:
        layer = spec.layers[i]
        self.part = _part(spec, i, group)
        self.head: Head = head_at(spec, layer, group, joint)
        self.one = self.head.mechanism
        self.copies = [layer.groups[group].heads]
        self.dv, self.dead = layer.dv, dead(spec, layer, group)
        self.rows = {name: shape[1] for name, shape in layer.shapes[group].items()}

    def entries(self, *, pooled: bool) -> Iterator[Entry]:
        """What is free in these heads alone."""
        if self.head.stuck:
            yield from self._any("K", "Q")
            if "decay" in self.head.tensors and self.head.constant:
                yield self._free("decay")
        else:
            yield from self._scores()
        if self.dead:
            roots = ("W_V", "c_V", "W_G", "W_O")
            names = [n for n in self.head.tensors if n.partition("+")[0] in roots]
            yield from (self._free(name) for name in names)
        else:
            yield from self._values(pooled=pooled)

    def _free(self, *names: str) -> Entry:
        """Tensors to which anything is added."""
        return sources(*({"tensor": f"{self.part}/{name}"} for name in names))

    def _any(self, *letters: str) -> Iterator[Entry]:
        for letter in letters:
            for name in (*self.head.side(letter), *self.head.filters(letter)):
                yield self._free(name)

    def _basis(self, group: str, width: int, ports: list[Entry]) -> Entry:
        return basis(group, width, self.copies, ports)

    def _writers(self, names: Iterable[str], *, reads: bool = False) -> list[Entry]:
        return [port(f"{self.part}/{name}", reads=reads) for name in names]

    def _scale(self, up: Iterable[str], down: Iterable[str] = ()) -> Entry:
        grow, shrink = ([f"{self.part}/{name}" for name in names] for names in (up, down))
        return scale(grow, shrink, self.copies)

    def _ones(self, names: Iterable[str]) -> Iterator[Entry]:
        for name in names:
            yield sources({"tensor": f"{self.part}/{name}", "along": {"-2": []}})

    def _special(self, name: str) -> Entry:
        return {"free": "special", "name": name, "part": self.part}

    def _scores(self) -> Iterator[Entry]:
        """What leaves the mixing weights alone."""
        head, one = self.head, self.one
        if head.a == 1 and one.splits and one.normalise != "none":
            yield from self._any("K" if one.normalise == "both" else "Q")
        yield from self._bases()
        yield from self._shifts()
        if filters := head.filters("K"):
            yield self._against(filters, ("W_K",))
        alone = one.alone(head.tokens) and one.normalise == "none"
        if alone and one.feature == "exp" and one.unit == "none":
            yield self._special("key-query-sums")
        plain = one.unit == one.feature == one.conv == one.bias == "none"
        if plain and head.a > 1 and (alone or head.parallel):
            yield self._special("skew-scores")
        if "decay" in head.tensors and one.alone(head.tokens):
            yield self._free("decay")

    def _bases(self) -> Iterator[Entry]:
        """Matrices that act on keys and queries."""
        head, one, a = self.head, self.one, self.head.a
        keys, queries = head.side("K"), head.side("Q")
        if one.unit == "none" and one.feature in ("none", "square", "relu"):
            diagonal = one.feature != "none" or one.conv == "depthwise"
            ports = [*self._writers(keys), *self._writers(queries, reads=True)]
            yield self._basis("torus" if diagonal else "gl", a, ports)
        elif one.unit != "none":
            for letter in ("K", "Q"):
                yield self._scale(head.side(letter))
                if head.filters(letter) and "b_K" not in head.tensors:
                    yield self._scale(head.filters(letter))
            turning = a - (one.unit == "layer")
            if one.feature == "none" and one.conv != "depthwise" and turning > 1:
                group = "o1" if one.unit == "layer" else "o"
                yield self._basis(group, a, self._writers((*queries, *keys)))
        if one.homogeneous and one.unit == "none" and one.normalise != "none":
            yield self._scale(queries)

    def _shifts(self) -> Iterator[Entry]:
        """What is added to all entries of keys or queries, or to all scores."""
        head, one = self.head, self.one
        apart = "W_K" if one.conv == "depthwise" else ""
        letters = ""
        if one.unit == "layer":
            letters = "KQ"
        elif one.sums_of_exponentials:
            letters = {"keys": "Q", "centred": "Q", "both": "K"}.get(one.normalise, "")
            if one.normalise != "none" and one.bias != "none":
                yield from self._ones([n for n in ("b_K", "b_Q") if n in head.tensors])
        for letter in letters:
            yield from self._ones([n for n in head.side(letter) if n != apart])
        if one.unit == "none" and one.feature == "exp" and one.bias == "both":
            yield self._free("b_K", "b_Q")
        if one.unit == one.feature == "none":
            for silent, letter in ((one.ignores_shifts, "K"), (one.ignores_key_shifts, "Q")):
                if silent and f"b_{letter}" in head.tensors:
                    yield self._free(f"b_{letter}")

    def _against(self, filters: Sequence[str], maps: Sequence[str]) -> Entry:
        """Filters grow, row by row, and the maps before them shrink; or all rows at once."""
        width = self.rows[filters[0]]
        if width == 1:
            return self._scale(filters, maps)
        ports = [*self._writers(filters), *self._writers(maps, reads=True)]
        return self._basis("torus", width, ports)

    def _values(self, *, pooled: bool) -> Iterator[Entry]:
        """Values against outputs, and scores against values."""
        head, one = self.head, self.one
        values = [n for n in head.tensors if n.partition("+")[0] == "W_V"]
        last = values if self.dv is None else ["W_O"]
        if self.dv is not None and not pooled:
            ports = [*self._writers(values), port(f"{self.part}/W_O", -1, reads=True)]
            yield self._basis("torus" if one.rowwise else "gl", self.dv, ports)
        if filters := head.filters("V"):
            yield self._against(filters, ("W_V",))
        if one.scales:
            power = one.power * (2 if one.feature == "square" else 1)
            # what reads (queries) is divided by c, what is written is multiplied by c^power
            tensors = [f"{self.part}/{name}" for name in last]
            queries = [f"{self.part}/{name}" for name in head.side("Q")]
            yield scale(queries, tensors, self.copies, power)
        biased = any(name in head.tensors for name in ("b_Q", "b_K"))
        if one.sums_of_exponentials and one.normalise == "none" and biased:
            yield self._special("bias-against-values")
