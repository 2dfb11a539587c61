"""What does an entry of a certificate say? The tangents and variations of the weights it moves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from segre.kernel.document import RejectionError, items, keys, quote, text, whole
from segre.kernel.forms import Facts
from segre.kernel.graph import Place
from segre.kernel.group import GROUPS, NO_GROUP, Group, Matrix, group_of
from segre.kernel.meter import afford, meter
from segre.kernel.spans import images, readings
from segre.kernel.variation import (
    EACH,
    ONES,
    Charge,
    Direction,
    Shift,
    Turn,
    Variation,
    bounded,
    times,
)

MOST_TIMES = 1 << 10
ENTRY, PORT = 3e-8, 10_000  # seconds for an entry of a tangent, and entries for every port


Read = tuple[Group, dict[Place, Matrix], dict[Place, Variation]]


@dataclass
class Reader(ABC):
    """An entry that is being read."""

    facts: Facts
    entry: dict[str, Any]
    where: str
    started: dict[int, Variation] = field(default_factory=dict)

    @abstractmethod
    def read(self) -> Read:
        """The group, and for every tensor its tangents and variation."""

    def place(self, value: Any, where: str) -> Place:
        """A tensor "part/name"."""
        parts = value.split("/") if isinstance(value, str) else ()
        if len(parts) != 2 or (place := (parts[0], parts[1])) not in self.facts.graph.tensors:
            raise RejectionError(f"{where}: {quote(value)} is not a tensor")
        return place

    def shape(self, place: Place) -> tuple[int, ...]:
        """The shape of a tensor."""
        return self.facts.graph.tensors[place].shape

    def axis(self, value: Any, place: Place, where: str) -> int:
        """An axis of a tensor, counted from the last one."""
        return whole(value, where, -len(self.shape(place)), -1)


class _Basis(Reader):
    """A matrix E, or charges, that act along axes of tensors."""

    def read(self) -> Read:
        """The group, and for every tensor its tangents and variation."""
        entry, where = self.entry, self.where
        keys(entry, ("free", "group", "copies", "ports"), where, ("width", "start", "planes"))
        name = text(entry["group"], f"{where}.group", GROUPS)
        width = whole(entry.get("width", 1), f"{where}.width", 1, 1 << 16)
        start = whole(entry.get("start", 0), f"{where}.start", 0, width)
        planes = [
            tuple(whole(x, f"{where}.planes", 0, width - 1) for x in items(plane, where, 2))
            for plane in items(entry.get("planes", []), f"{where}.planes")
        ]
        if len({x for plane in planes for x in plane}) != 2 * len(planes):
            raise RejectionError(f"{where}.planes: a dimension occurs twice")
        copies = [whole(x, f"{where}.copies", 1, 1 << 16) for x in items(entry["copies"], where)]
        self.group = group_of(name, width, start, planes)
        self.copies, self.width, self.scale = tuple(copies), width, name == "scale"
        tangents: dict[Place, Matrix] = {}
        moved: dict[Place, Variation] = {}
        for i, port in enumerate(items(entry["ports"], f"{where}.ports")):
            place, term, count = self._port(port, f"{where}.ports[{i}]")
            if port.get("normed"):
                node, more = self._normed(place, term, count)
                tangents[place] = (tangents.get(place, 0) + more) % self.facts.prime
                self.started[node] = Variation({term: count})
                continue
            more = self._tangent(place, term, count)
            tangents[place] = (tangents.get(place, 0) + more) % self.facts.prime
            moves = dict(moved[place].moves) if place in moved else {}
            moves[term] = moves.get(term, 0) + count
            moved[place] = Variation({key: value for key, value in moves.items() if value})
        return self.group, tangents, moved

    def _port(self, port: Any, where: str) -> tuple[Place, Turn | Charge, int]:
        keys(port, ("tensor", "reads"), where, ("axis", "gain", "under", "degree", "normed"))
        place, reads = self.place(port["tensor"], f"{where}.tensor"), port["reads"]
        shape, size = self.shape(place), len(self.copies)
        if shape[:size] != self.copies or not isinstance(reads, bool):
            raise RejectionError(f"{where}: its first axes are not the copies")
        degree = whole(port.get("degree", 1), f"{where}.degree", 1, MOST_TIMES)
        copies = tuple((i, i - len(shape)) for i in range(size) if shape[i] > 1)
        if self.scale:
            return place, Charge(copies), -degree if reads else degree
        axis = self.axis(port.get("axis"), place, f"{where}.axis")
        if shape[axis] != self.width or axis + len(shape) < size:
            raise RejectionError(f"{where}.axis: not an axis of {self.width} entries")
        if self.group.basis.ndim == 2:
            own = ((EACH, axis),) if self.width > 1 else ()
            return place, Charge((*copies, *own)), -degree if reads else degree
        if degree > 1:
            raise RejectionError(f"{where}.degree: only charges have one")
        gains: Direction = ONES
        if "gain" in port:
            gain = self.place(port["gain"], f"{where}.gain")
            if self.shape(gain) != (self.width, 1):
                raise RejectionError(f"{where}.gain: not a vector of {self.width} entries")
            gains = ((gain, -1 if reads or port.get("under") else 1),)
        return place, Turn(axis, copies, gains, reads and not self.group.skew), 1

    def _tangent(self, place: Place, term: Turn | Charge, count: int) -> Matrix:
        """The tangents of a tensor, one for every copy and element of the basis."""
        shape, basis, prime = (
            self.shape(place),
            self.group.basis % self.facts.prime,
            self.facts.prime,
        )
        tensor, number = self.facts.weights[place], len(basis)
        size = prod(self.copies) * number
        meter().require_bytes(32 * size * self.facts.graph.parameters)
        afford((size * prod(shape) + PORT) * ENTRY)
        result = np.zeros((*self.copies, number, *shape), np.int64)
        axis = -1
        if isinstance(term, Turn):
            axis = term.axis
            if term.dual:
                basis = (-basis.swapaxes(1, 2)) % prime
            vector = self.facts.vector(term.gains, self.width)
            inverse = self.facts.field.inverse(vector)
            basis = basis * vector[:, None] % prime * inverse % prime
        elif not self.scale:
            axis = dict(term.axes).get(EACH, -1)
        for copy in np.ndindex(self.copies):
            part = tensor[copy]
            if self.scale:
                moved = part[None]
            elif basis.ndim == 2:
                moved = part * basis.reshape(number, *self._line(axis, part.ndim)) % prime
            else:
                line = np.moveaxis(part, axis, 0).reshape(1, self.width, -1)
                moved = self.facts.field.matmul(basis, line)
                rest = np.moveaxis(part, axis, 0).shape
                moved = np.moveaxis(moved.reshape(number, *rest), 1, axis)
            result[(*copy, slice(None), *copy)] = moved * count % prime
        return result.reshape(size, *shape)

    def _normed(self, place: Place, term: Turn | Charge, count: int) -> tuple[int, Matrix]:
        """A table whose columns move so that what its norm gives moves like a port."""
        facts, graph, prime = self.facts, self.facts.graph, self.facts.prime
        uses = [i for i, node in enumerate(graph.nodes) if place in map(facts.place, node.args)]
        norms = [r for r in graph.regions if r.name == "norm" and r.inputs == tuple(uses)]
        here = term.axis if isinstance(term, Turn) else dict(term.axes).get(EACH)
        if len(uses) != 1 or len(norms) != 1 or self.started or self.copies or here != -2:
            raise RejectionError(f"{self.where}: not a table that is normed alone")
        node, params = graph.nodes[uses[0]], norms[0].params
        readers = [i for i, one in enumerate(graph.nodes) if uses[0] in one.args]
        inside = range(norms[0].first, norms[0].output + 1)
        columns = facts.place(node.args[0]) == place and facts.tokens(node.args[1])
        if node.op != "contract" or not columns or params["centred"]:
            raise RejectionError(f"{self.where}: not a table that is normed alone")
        if not params["eps"] or not all(i in inside for i in readers):
            raise RejectionError(f"{self.where}: not a table that is normed alone, with an eps")
        moved = self._tangent(place, term, count)
        Y, d = facts.weights[place], self.width
        sizes = (moved * Y % prime).sum(1, keepdims=True) % prime
        share = pow(facts.number(params["eps"] * d), -1, prime)
        return norms[0].output, (moved + sizes * share % prime * Y) % prime

    def _line(self, axis: int, axes: int) -> tuple[int, ...]:
        shape = [1] * axes
        shape[axis] = self.width
        return tuple(shape)


# A tensor, its directions, an array for every parameter, and a lemma (see Shift).
Source = tuple[Place, dict[int, Direction], Matrix, tuple[str, int] | None]


class _Constants(Reader):
    """Arrays that are added to tensors: free, or multiples of directions along some axes."""

    def read(self) -> Read:
        """No group, and for every tensor its tangents and shift."""
        keys(self.entry, ("free", "sources"), self.where, ("vanish",))
        where = f"{self.where}.sources"
        given = items(self.entry["sources"], where)
        sources = [self._source(source, f"{where}[{i}]") for i, source in enumerate(given)]
        starts: list[int] = []
        count = 0
        for i, source in enumerate(given):
            starts.append(starts[source["as"]] if self._follows(source, sources, i) else count)
            count = max(count, starts[-1] + len(sources[i][2]))
        afford(count * sum(prod(self.shape(source[0])) for source in sources) * ENTRY)
        meter().require_bytes(32 * count * self.facts.graph.parameters)
        tangents: dict[Place, Matrix] = {}
        moved: dict[Place, Variation] = {}
        for i, (place, along, patterns, lemma) in enumerate(sources):
            shape, first, sign = self.shape(place), starts[i], given[i].get("times", 1)
            array = np.zeros((count, *patterns.shape[1:]), np.int64)
            array[first : first + len(patterns)] = patterns * sign % self.facts.prime
            key = "source", shape, tuple(along), first, sign, str(given[i].get("columns")), lemma
            size = 0 if lemma else bounded(abs(sign))
            shift = Shift(array, array != 0, along, True, key, whole=size, lemma=lemma)
            tangent = array
            for axis, direction in along.items():
                line = self.facts.vector(direction, shape[axis]).reshape(-1, *(1,) * (-axis - 1))
                tangent = tangent * line % self.facts.prime
            if place in tangents:  # named twice: both are added, written out
                tangent = (tangents[place] + tangent) % self.facts.prime
                (one,) = moved[place].shifts
                mask = np.broadcast_to(one.mask | shift.mask, tangent.shape)
                shift = Shift(tangent, mask, {}, exact=True, key=("both", one.key, key, place))
            tangents[place], moved[place] = tangent, Variation({}, (shift,))
        return NO_GROUP, tangents, moved

    def _follows(self, source: Any, sources: list[Any], number: int) -> bool:
        """Whether a source has the parameters of an earlier one, times a whole number."""
        where = f"{self.where}.sources[{number}]"
        whole(source.get("times", 1), f"{where}.times", -MOST_TIMES, MOST_TIMES)
        if "as" not in source:
            return False
        other = whole(source["as"], f"{where}.as", 0, number - 1)
        if len(sources[other][2]) != len(sources[number][2]):
            raise RejectionError(f"{where}.as: a source with other parameters")
        return True

    def _source(self, source: Any, where: str) -> Source:
        """A tensor, the directions, and an array of zeros and ones for every parameter."""
        keys(source, ("tensor",), where, ("along", "columns", "as", "times", "where"))
        place = self.place(source["tensor"], f"{where}.tensor")
        shape, along = self.shape(place), source.get("along", {})
        if "where" in source:
            name = text(source["where"], f"{where}.where", ("unreached", "unread"))
            return self._unseen(place, name, where)
        if not isinstance(along, dict):
            raise RejectionError(f"{where}.along: {quote(along)} is not an object")
        directions = {}
        for name, gains in along.items():
            axis = next((a for a in range(-len(shape), 0) if str(a) == name), None)
            if axis is None:
                raise RejectionError(f"{where}.along: {quote(name)} is not an axis")
            direction = self._inverse(gains, shape[axis], f"{where}.along")
            if shape[axis] > 1 or not direction:  # along a single entry all is a multiple of 1
                directions[axis] = direction
        size = prod(1 if axis in directions else shape[axis] for axis in range(-len(shape), 0))
        meter().require_bytes(16 * size * prod(shape))
        free = [1 if axis in directions else shape[axis] for axis in range(-len(shape), 0)]
        patterns = np.eye(size, dtype=np.int64).reshape(size, *free)
        if "columns" in source:
            a, b = (whole(x, where, 0, shape[-1]) for x in items(source["columns"], where, 2))
            if directions.get(-1, ONES) != ONES:
                raise RejectionError(f"{where}: columns of a direction")
            directions.pop(-1, None)
            patterns = np.repeat(patterns, shape[-1] // patterns.shape[-1], -1)
            patterns[..., :a] = patterns[..., b:] = 0
            patterns = patterns[patterns.reshape(size, -1).any(1)]
        return place, directions, patterns, None

    def _unseen(self, place: Place, name: str, where: str) -> Source:
        """Rows that are zero, or constant, on what they read; or columns that nobody reads."""
        facts, graph, lead = self.facts, self.facts.graph, self.shape(place)[:-2]
        uses = [
            (i, node)
            for i, node in enumerate(graph.nodes)
            if node.op == "contract" and facts.place(node.args[0]) == place
        ]
        if len(uses) != 1 or not (mapped := images(facts).map_of(uses[0][1])):
            raise RejectionError(f"{where}: not a linear map that is used once")
        number, x = uses[0][0], mapped[1]
        if name == "unreached":
            found, value = images(facts).forms(x), ("unreached", x)
        else:
            found, value = readings(facts).vectors(number), ("unread", number)
        found = found if len(found) == prod(lead) else found * prod(lead)
        rows, columns = self.shape(place)[-2:]
        others = rows if name == "unreached" else columns
        size = sum(len(one) for one in found) * others
        meter().require_bytes(16 * size * prod(self.shape(place)))
        patterns = np.zeros((size, prod(lead), rows, columns), np.int64)
        first = 0
        for head, some in enumerate(found):
            for vector in some:
                for other in range(others):
                    at = (other, slice(None)) if name == "unreached" else (slice(None), other)
                    patterns[(first, head, *at)] = vector
                    first += 1
        return place, {}, patterns.reshape(size, *self.shape(place)), value

    def _inverse(self, gains: Any, size: int, where: str) -> Direction:
        """1 over a product of gains."""
        direction = ONES
        for name in items(gains, where):
            gain = self.place(name, where)
            if self.shape(gain) != (size, 1):
                raise RejectionError(f"{where}: {quote(name)} is not a vector of {size} entries")
            direction = times(direction, ((gain, 1),), -1)
        return direction


READERS: dict[str, type[Reader]] = {"basis": _Basis, "constants": _Constants}
