"""What does an entry of a certificate say? The tangents and variations of the weights it moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from segre.kernel.document import RejectionError, items, keys, quote, text, whole
from segre.kernel.forms import Facts
from segre.kernel.graph import Place, Shape
from segre.kernel.group import GROUPS, NO_GROUP, Matrix, group_of
from segre.kernel.meter import afford, meter
from segre.kernel.spans import Images, Readings
from segre.kernel.variation import (
    NONE,
    ONES,
    Direction,
    Shift,
    Turn,
    Variation,
    fixed,
    times,
)

MOST_TIMES = 1 << 10
ENTRY, PORT = 3e-8, 10_000  # seconds for an entry of a tangent, and entries for every port


@dataclass(frozen=True, eq=False)
class Source:
    """A tensor to which something is added: an array for every parameter, along directions.

    Where the columns that it meets are known, `use` is the product with them, and `met` is one.
    """

    place: Place
    patterns: Matrix
    along: Mapping[int, Direction]
    use: int | None = None
    met: Matrix | None = None


class Moves:
    """The weights that an entry moves: their tangents, one for every parameter, and variations.

    `started` has the variations of other nodes that a lemma about the entry gives.
    """

    def __init__(self, facts: Facts, entry: dict[str, Any], where: str) -> None:
        self.facts, self.entry, self.where, self.prime = facts, entry, where, facts.prime
        self.group = NO_GROUP
        self.tangents: dict[Place, Matrix] = {}
        self.moved: dict[Place, Variation] = {}
        self.started: dict[int, Variation] = {}
        given = entry.get("vanish", []) if entry["free"] == "constants" else []
        self.vanish = [self._place(name, where) for name in items(given, f"{where}.vanish")]
        (self._basis if entry["free"] == "basis" else self._constants)()

    @property
    def parameters(self) -> int:
        """How many numbers are free."""
        return len(next(iter(self.tangents.values()), ()))

    def _place(self, value: Any, where: str) -> Place:
        """A tensor "part/name"."""
        parts = value.split("/") if isinstance(value, str) else ()
        if len(parts) != 2 or (place := (parts[0], parts[1])) not in self.facts.graph.tensors:
            raise RejectionError(f"{where}: {quote(value)} is not a tensor")
        return place

    def _shape(self, place: Place) -> Shape:
        return self.facts.graph.tensors[place].shape

    def _gain(self, value: Any, size: int, where: str) -> Place:
        """A tensor that is a vector."""
        place = self._place(value, where)
        if self._shape(place) != (size, 1):
            raise RejectionError(f"{where}: {quote(value)} is not a vector of {size} entries")
        return place

    def _move(self, place: Place, tangent: Matrix, variation: Variation) -> None:
        """A tensor moves; if it is moved already, both are added."""
        self.tangents[place] = (self.tangents.get(place, 0) + tangent) % self.prime
        known = self.moved.get(place, NONE)
        turns = dict(known.turns)
        for turn, count in variation.turns.items():
            turns[turn] = turns.get(turn, 0) + count
        shifts = known.shifts + variation.shifts
        self.moved[place] = Variation({turn: n for turn, n in turns.items() if n}, shifts)

    # A matrix E, or charges, that act along axes of tensors.

    def _basis(self) -> None:
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
        for i, port in enumerate(items(entry["ports"], f"{where}.ports")):
            place, variation, tangent = self._port(port, f"{where}.ports[{i}]")
            if port.get("normed"):
                node, tangent = self._normed(place, port, tangent)
                self._move(place, tangent, NONE)
                self.started[node] = variation
            else:
                self._move(place, tangent, variation)

    def _port(self, port: Any, where: str) -> tuple[Place, Variation, Matrix]:
        """A tensor, and how it moves."""
        keys(port, ("tensor", "reads"), where, ("axis", "gain", "under", "degree", "normed"))
        place, reads = self._place(port["tensor"], f"{where}.tensor"), port["reads"]
        shape, size = self._shape(place), len(self.copies)
        if shape[:size] != self.copies or not isinstance(reads, bool):
            raise RejectionError(f"{where}: its first axes are not the copies")
        degree = whole(port.get("degree", 1), f"{where}.degree", 1, MOST_TIMES)
        axis = -1
        if not self.scale:
            axis = whole(port.get("axis"), f"{where}.axis", -len(shape), -1)
            if shape[axis] != self.width or axis + len(shape) < size:
                raise RejectionError(f"{where}.axis: not an axis of {self.width} entries")
        parameters = prod(self.copies) * len(self.group.basis)
        meter().require_bytes(32 * parameters * self.facts.graph.parameters)
        afford((parameters * prod(shape) + PORT) * ENTRY)
        if self.group.diagonal:
            shift = self._charge(shape, axis, -degree if reads else degree)
            tangent = shift.array * self.facts.weights[place] % self.prime
            return place, Variation({}, (shift,)), tangent
        if degree > 1:
            raise RejectionError(f"{where}.degree: only charges have one")
        gains: Direction = ONES
        if "gain" in port:
            gain = self._gain(port["gain"], self.width, f"{where}.gain")
            gains = ((gain, -1 if reads or port.get("under") else 1),)
        along = tuple((i, i - len(shape)) for i in range(size) if shape[i] > 1)
        turn = Turn(axis, along, gains, reads and not self.group.skew)
        return place, Variation({turn: 1}), self._turned(place, turn)

    def _charge(self, shape: Shape, axis: int, degree: int) -> Shift:
        """Charges of a tensor: numbers for every copy, and for every place along the axis."""
        basis, count = self.group.basis, prod(self.copies)
        sizes = [*self.copies, *(1,) * (len(shape) - len(self.copies))]
        sizes[axis] *= basis.shape[1]
        table = np.einsum("cd,nw->cndw", np.eye(count, dtype=np.int64), basis)
        array = table.reshape(-1, *sizes) * degree % self.prime
        along = {k: ONES for k in range(-len(shape), 0) if sizes[k] == 1}
        return fixed(array, along, ("charge", *sizes, degree), abs(degree), relative=True)

    def _turned(self, place: Place, turn: Turn) -> Matrix:
        """The tangents of a tensor, one for every copy and element of the basis."""
        tensor, basis, prime = self.facts.weights[place], self.group.basis, self.prime
        vector = self.facts.vector(turn.gains, self.width)
        basis = (-basis.swapaxes(1, 2) if turn.dual else basis) % prime
        basis = basis * vector[:, None] % prime * self.facts.field.inverse(vector) % prime
        result = np.zeros((*self.copies, len(basis), *tensor.shape), np.int64)
        for copy in np.ndindex(self.copies):
            line = np.moveaxis(tensor[copy], turn.axis, 0)
            moved = self.facts.field.matmul(basis, line.reshape(1, self.width, -1))
            moved = np.moveaxis(moved.reshape(len(basis), *line.shape), 1, turn.axis)
            result[(*copy, slice(None), *copy)] = moved
        return result.reshape(-1, *tensor.shape)

    def _normed(self, place: Place, port: Any, moved: Matrix) -> tuple[int, Matrix]:
        """A table whose columns move so that what its norm gives moves like a port."""
        facts, graph, prime, axis = self.facts, self.facts.graph, self.prime, port.get("axis")
        uses = facts.uses(place)
        norms = [r for r in graph.regions if r.name == "norm" and r.inputs == tuple(uses)]
        if len(uses) != 1 or len(norms) != 1 or self.started or self.copies or axis != -2:
            raise RejectionError(f"{self.where}: not a table that is normed alone")
        node, params = graph.nodes[uses[0]], norms[0].params
        readers = [i for i, one in enumerate(graph.nodes) if uses[0] in one.args]
        inside = range(norms[0].first, norms[0].output + 1)
        columns = facts.place(node.args[0]) == place and facts.tokens(node.args[1])
        if node.op != "contract" or not columns or params["centred"]:
            raise RejectionError(f"{self.where}: not a table that is normed alone")
        if not params["eps"] or not all(i in inside for i in readers):
            raise RejectionError(f"{self.where}: not a table that is normed alone, with an eps")
        Y = facts.weights[place]
        sizes = (moved * Y % prime).sum(1, keepdims=True) % prime
        share = facts.field.inverse(np.array(facts.number(params["eps"] * len(Y))))
        return norms[0].output, (moved + sizes * share % prime * Y) % prime

    # Arrays that are added to tensors: free, or multiples of directions along some axes.

    def _constants(self) -> None:
        keys(self.entry, ("free", "sources"), self.where, ("vanish",))
        where = f"{self.where}.sources"
        given = items(self.entry["sources"], where)
        sources = [self._source(source, f"{where}[{i}]") for i, source in enumerate(given)]
        starts: list[int] = []
        count = 0
        for i, source in enumerate(given):
            starts.append(starts[source["as"]] if self._follows(source, sources, i) else count)
            count = max(count, starts[-1] + len(sources[i].patterns))
        afford(count * sum(prod(self._shape(source.place)) for source in sources) * ENTRY)
        meter().require_bytes(32 * count * self.facts.graph.parameters)
        for one, source, first in zip(sources, given, starts, strict=True):
            shape, sign = self._shape(one.place), source.get("times", 1)
            array = np.zeros((count, *one.patterns.shape[1:]), np.int64)
            array[first : first + len(one.patterns)] = one.patterns * sign % self.prime
            tangent = array
            for axis, direction in one.along.items():
                line = self.facts.vector(direction, shape[axis]).reshape(-1, *(1,) * (-axis - 1))
                tangent = tangent * line % self.prime
            if one.use is None:
                key = "source", shape, tuple(one.along), first, sign, str(source.get("columns"))
                shift = fixed(array, one.along, key, abs(sign))
                self._move(one.place, tangent, Variation({}, (shift,)))
            elif one.use in self.started:
                raise RejectionError(f"{where}: a tensor is named twice")
            else:
                self._move(one.place, tangent, NONE)
                self.started[one.use] = self._product(one, array)

    def _follows(self, source: Any, sources: list[Source], number: int) -> bool:
        """Whether a source has the parameters of an earlier one, times a whole number."""
        where = f"{self.where}.sources[{number}]"
        whole(source.get("times", 1), f"{where}.times", -MOST_TIMES, MOST_TIMES)
        if "as" not in source:
            return False
        other = whole(source["as"], f"{where}.as", 0, number - 1)
        if len(sources[other].patterns) != len(sources[number].patterns):
            raise RejectionError(f"{where}.as: a source with other parameters")
        return True

    def _source(self, source: Any, where: str) -> Source:
        """A tensor, the directions, and an array of zeros and ones for every parameter."""
        keys(source, ("tensor",), where, ("along", "columns", "as", "times", "where"))
        place = self._place(source["tensor"], f"{where}.tensor")
        shape, along = self._shape(place), source.get("along", {})
        if "where" in source:
            name = text(source["where"], f"{where}.where", ("unreached", "unread"))
            return self._unseen(place, name, where)
        if not isinstance(along, dict):
            raise RejectionError(f"{where}.along: {quote(along)} is not an object")
        directions: dict[int, Direction] = {}
        for name, gains in along.items():
            axis = next((a for a in range(-len(shape), 0) if str(a) == name), None)
            if axis is None:
                raise RejectionError(f"{where}.along: {quote(name)} is not an axis")
            direction = ONES
            for gain in items(gains, f"{where}.along"):
                one = self._gain(gain, shape[axis], f"{where}.along")
                direction = times(direction, ((one, 1),), -1)
            if shape[axis] > 1 or not direction:  # along a single entry all is a multiple of 1
                directions[axis] = direction
        free = [1 if axis in directions else shape[axis] for axis in range(-len(shape), 0)]
        size = prod(free)
        meter().require_bytes(16 * size * prod(shape))
        patterns = np.eye(size, dtype=np.int64).reshape(size, *free)
        if "columns" in source:
            a, b = (whole(x, where, 0, shape[-1]) for x in items(source["columns"], where, 2))
            if directions.pop(-1, ONES) != ONES:
                raise RejectionError(f"{where}: columns of a direction")
            patterns = np.repeat(patterns, shape[-1] // patterns.shape[-1], -1)
            patterns[..., :a] = patterns[..., b:] = 0
            patterns = patterns[patterns.reshape(size, -1).any(1)]
        return Source(place, patterns, directions)

    def _unseen(self, place: Place, name: str, where: str) -> Source:
        """Rows that are zero, or constant, on what they read; or columns that nobody reads."""
        facts, graph = self.facts, self.facts.graph
        *lead, rows, columns = self._shape(place)
        uses = facts.uses(place)
        node = graph.nodes[uses[0]] if uses else graph.nodes[0]
        mapped = Images.of(facts).map_of(node) if node.op == "contract" and len(uses) == 1 else None
        if mapped is None or facts.place(node.args[0]) != place:
            raise RejectionError(f"{where}: not a linear map that is used once")
        unread, heads = name == "unread", prod(lead)
        found = Readings.of(facts).vectors(uses[0]) if unread else Images.of(facts).forms(mapped[1])
        found = found if len(found) == heads else found * heads
        others = columns if unread else rows
        ends = np.cumsum([0, *map(len, found)]) * others
        meter().require_bytes(16 * int(ends[-1]) * heads * rows * columns)
        patterns = np.zeros((ends[-1], heads, rows, columns), np.int64)
        for head, some in enumerate(found):
            each = np.einsum("no,pq->npoq", some, np.eye(others, dtype=np.int64))
            each = each if unread else each.swapaxes(2, 3)
            patterns[ends[head] : ends[head + 1], head] = each.reshape(-1, rows, columns)
        met = None if unread else Images.of(facts).spans[mapped[1]].shift[..., :1]
        return Source(place, patterns.reshape(int(ends[-1]), *self._shape(place)), {}, uses[0], met)

    def _product(self, source: Source, array: Matrix) -> Variation:
        """What is added to the product of a tensor that moves where nothing reads, or is met."""
        if source.met is None or not source.met.shape[-1]:
            return NONE
        shape = self.facts.graph.shape(source.use or 0)[:-1]
        *lead, rows, columns = array.shape[1:]
        met = np.broadcast_to(source.met[..., 0], (*lead, columns)).reshape(1, prod(lead), columns)
        each = array.reshape(len(array), prod(lead), rows, columns)
        added, mask = (
            self.facts.field.contract("hrc,hc->hr" if len(shape) > 1 else "hrc,hc->r", *both)
            for both in ((each, met), ((each != 0).astype(np.int64), np.ones_like(met)))
        )
        added, mask = (x.reshape(len(array), *shape, 1) for x in (added, mask))
        key = "met", source.place
        return Variation({}, (Shift(added, mask > 0, {-1: ONES}, exact=True, key=key),))
