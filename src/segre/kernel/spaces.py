"""How many weights are free? Upper bounds by lists of spaces, each checked by one pass.

An entry says which weights move, and how; `lemmas` proves that the network does not change, under
linear conditions for the parameters. The generators are the solutions, as rows mod p, and the bound
is the number of weights minus their rank.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import structural_rank

from segre.kernel.document import (
    Certificate,
    RejectionError,
    Spec,
    items,
    keys,
    quote,
    read_spec,
    text,
    whole,
)
from segre.kernel.forms import Facts
from segre.kernel.graph import Graph, Place
from segre.kernel.lemmas import Group, Matrix, Pass
from segre.kernel.linear import annihilator, row_basis
from segre.kernel.meter import meter
from segre.kernel.network import graph_of
from segre.kernel.point import Batch, Point, Progress
from segre.kernel.residues import FreeRoots, Residues
from segre.kernel.spans import images, readings
from segre.kernel.special import special
from segre.kernel.variation import (
    ONES,
    Charge,
    Direction,
    Shift,
    Turn,
    Variation,
    ancestors,
    bounded,
    times,
)
from segre.transformer.spec import Transformer

GROUPS = ("gl", "o", "o1", "torus", "planes", "plane-scales", "turns", "shear", "scale")
MOST_TIMES = 1 << 10
STEP, ENTRY = 2e-5, 1e-7  # seconds for a node, and for an entry of a generator
MOST_INPUTS = 64  # that are tried, to find two at which the network has a value mod p
NO_GROUP = Group(np.zeros((0, 0, 0), np.int64))


def check(certificate: Certificate, graph: Graph, progress: Progress) -> tuple[int, str]:
    """The bound by the spaces that a certificate lists, and a sentence."""
    upper, spec, wider = certificate.sections["upper"], certificate.spec, ""
    if certificate.claim.upper_by == "within":
        keys(upper, ("kind", "spec", "upper"), "upper")
        spec = _wider(spec, read_spec(upper["spec"]))
        graph, wider = graph_of(spec), f"Every function is one of {spec} as well. "
        upper = upper["upper"]
    keys(upper, ("kind", "spaces", "rank"), "upper")
    text(upper["kind"], "upper.kind", ("spaces",))
    progress("upper bound", 0, 1)
    facts = facts_of(spec, graph, certificate.prime, certificate.seed)
    entries, span, guard = items(upper["spaces"], "upper.spaces"), _Span(facts), _Guard(facts)
    for i, entry in enumerate(entries):
        progress("upper bound", i, len(entries))
        rows = generators(facts, entry, f"upper.spaces[{i}]")
        if guard.changes(rows):
            raise RejectionError(f"upper.spaces[{i}]: a generator changes an output")
        span.add(rows)
    if upper["rank"] != span.rank:
        raise RejectionError(f"upper.rank: {quote(upper['rank'])}, but the rank is {span.rank}")
    progress("upper bound", len(entries), len(entries))
    bound = graph.parameters - span.rank
    sentence = (
        f"{wider}Lemmas prove {len(entries)} spaces; their generators have rank {span.rank}, "
        f"so the dimension is at most {bound}."
    )
    return bound, sentence


def _wider(spec: Spec, other: Spec) -> Spec:
    """The second, if it is the first without the norm of its embedding, which its table absorbs."""
    if isinstance(spec, Transformer) and spec.vocab and spec.embnorm and spec.firstnorm:
        freed = not (spec.tied or spec.pos == "learned" or spec.types)
        plain = {key: value for key, value in spec.document().items() if key != "embnorm"}
        if freed and other.document() == plain:
            return other
    raise RejectionError("upper.spec: not one that has all functions of this spec")


def accepted(
    spec: Spec, graph: Graph, prime: int, seed: int, entries: Sequence[Any]
) -> tuple[list[Any], int]:
    """The entries that the lemmas prove, and the rank of their generators."""
    facts, proved = facts_of(spec, graph, prime, seed), []
    span = _Span(facts)
    for entry in entries:
        try:
            found = generators(facts, entry, "entry")
        except RejectionError:
            continue
        proved.append(entry)
        span.add(found)
    return proved, span.rank


def facts_of(spec: Spec, graph: Graph, prime: int, seed: int) -> Facts:
    """What is known about a network at the point of a certificate."""
    field = Residues(prime, seed)
    weights = {place: array[0] for place, array in field.weights(graph).items()}
    vocab, types = (getattr(spec, key, 0) for key in ("vocab", "types"))
    simplices = [range(vocab), range(vocab, vocab + types)] if vocab else []
    return Facts(spec, graph, field, weights, simplices)


class _Span:
    """A span that grows: rows are reduced to a basis from time to time."""

    def __init__(self, facts: Facts) -> None:
        self.prime, self.most = facts.prime, 2 * facts.graph.parameters
        self.rows: list[Matrix] = [np.zeros((0, facts.graph.parameters), np.int64)]

    def add(self, rows: Matrix) -> None:
        """More rows."""
        self.rows.append(rows)
        if sum(len(some) for some in self.rows) > self.most:
            self.rows = [self._basis()]

    def _basis(self) -> Matrix:
        meter().require_bytes(64 * sum(some.size for some in self.rows))
        return row_basis(np.concatenate(self.rows), self.prime)

    @property
    def rank(self) -> int:
        """The dimension."""
        self.rows = [self._basis()]
        return len(self.rows[0])


class _Guard:
    """Whether generators change an output at two inputs, which is no part of the proof.

    Those that change one at soft token sequences must not at true ones.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._watched: dict[bool, Matrix] = {}

    def changes(self, rows: Matrix) -> bool:
        """Whether one of them does."""
        if not len(rows):
            return False
        kinds = (False, True) if self.facts.simplices else (False,)
        return all(self._seen(rows, hard=hard) for hard in kinds)

    def _seen(self, rows: Matrix, *, hard: bool) -> bool:
        if hard not in self._watched:
            self._watched[hard] = watched(self.facts, hard=hard)
        return bool(self.facts.field.matmul(self._watched[hard], rows.T[None]).any())


def watched(facts: Facts, *, hard: bool) -> Matrix:
    """All rows of the Jacobian at two inputs, mod p with free roots."""
    drawn_roots, graph = FreeRoots(facts.prime, facts.field.seed), facts.graph
    point = Point(graph, drawn_roots, drawn_roots.weights(graph))
    outputs = prod(graph.shape(graph.output))
    sizes: Any = [getattr(facts.spec, key, 0) for key in ("vocab", "types")]
    blocks = [size for size in sizes if size]

    def inputs(numbers: Sequence[int]) -> Batch:
        salts = np.zeros((len(numbers), graph.input_shape[1]), np.uint64)
        drawn = drawn_roots.inputs(graph.input_shape, numbers, salts)
        if not hard:
            return Batch(drawn_roots.soft(drawn, *blocks))
        chosen = [np.eye(size, dtype=np.int64)[drawn[:, 0] % size] for size in blocks]
        return Batch(np.concatenate(chosen, -1).swapaxes(1, 2))

    found: list[Matrix] = [np.zeros((0, graph.parameters), np.int64)]
    for number in range(MOST_INPUTS):
        rows = [(number, o) for o in range(outputs)]
        meter().require(point.work(rows))
        try:
            found.append(point.jacobian(rows, inputs))
        except RejectionError:  # a division by zero mod p
            continue
        if len(found) == 3:
            break
    return np.concatenate(found)[None]


def generators(facts: Facts, entry: Any, where: str) -> Matrix:
    """The generators of an entry, as rows of residues; rejected unless the lemmas prove them."""
    if not isinstance(entry, dict):
        raise RejectionError(f"{where}: {quote(entry)} is not an object")
    free = text(entry.get("free"), f"{where}.free", (*_READERS, "special"))
    try:
        if free == "special":
            return special(facts, entry, where)
        return _proved(_READERS[free](facts, entry, where))
    except RejectionError as reason:
        known = str(reason)
        raise RejectionError(known if known.startswith(where) else f"{where}: {known}") from None


def _proved(reader: _Reader) -> Matrix:
    """The generators of an entry that the lemmas prove."""
    facts, where = reader.facts, reader.where
    group, tangents, moved = reader.read()
    count = next(iter(tangents.values())).shape[0] if tangents else 0
    if not count:
        return np.zeros((0, facts.graph.parameters), np.int64)
    meter().charge(len(facts.graph.nodes) * STEP + count * facts.graph.parameters * ENTRY)
    given = items(reader.entry.get("vanish", []), f"{where}.vanish")
    vanish = [reader.place(name, where) for name in given]
    run = Pass(facts, group, count, moved, vanish, reader.started)
    run.run()
    rows = np.zeros((count, facts.graph.parameters), np.int64)
    for place, tangent in tangents.items():
        tensor = facts.graph.tensors[place]
        rows[:, tensor.offset : tensor.offset + tensor.size] = tangent.reshape(count, -1)
    return _solutions(run, rows)


def _solutions(run: Pass, rows: Matrix) -> Matrix:
    """The rows for which all conditions hold; their matrix must have its generic rank here."""
    conditions = [shift for shift in run.conditions.values() if shift.mask.any()]
    if not conditions:
        return rows
    matrix = np.concatenate([_columns(shift.array) for shift in conditions])
    solutions = annihilator(matrix, run.prime)
    if len(rows) - len(solutions) < _largest_rank(conditions):
        raise RejectionError("its conditions may be dependent at this point alone")
    found: Matrix = run.facts.field.matmul(solutions[None], rows[None])[0]
    return found


def _largest_rank(conditions: list[Shift]) -> int:
    """A bound on the generic rank of linear conditions.

    A matrix has at most the rank of its pattern of zeros. Where conditions are linear functions of
    a shift, its array may be counted in their place: of one that several share, or the smallest.
    """
    chains = [ancestors(shift) for shift in conditions]
    often = Counter(shift.key for chain in chains for shift in chain)
    smallest, shared = {}, {}
    for chain in chains:
        best = min(chain, key=lambda shift: _pattern_rank([shift]))
        smallest[best.key] = best
        last = [shift for shift in chain if often[shift.key] > 1] or [best]
        shared[last[-1].key] = last[-1]
    choices = (conditions, list(smallest.values()), list(shared.values()))
    return min(_pattern_rank(some) for some in choices)


def _pattern_rank(shifts: list[Shift]) -> int:
    """The largest rank of matrices with these zeros; equal rows of whole numbers count once."""
    patterns = []
    for shift in shifts:
        rows = _columns(shift.array if shift.whole else shift.mask)
        patterns.append((np.unique(rows, axis=0) if shift.whole else rows) != 0)
    return int(structural_rank(csr_array(np.concatenate(patterns))))


def _columns(array: Any) -> Any:
    return array.reshape(len(array), -1).T


Read = tuple[Group, dict[Place, Matrix], dict[Place, Variation]]


@dataclass
class _Reader(ABC):
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


class _Basis(_Reader):
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
        diagonal = name in ("torus", "plane-scales", "scale")
        meter().require_bytes(16 * width ** (2 if diagonal else 4))
        basis = list(_matrices(name, width, start, planes))
        if not basis:
            raise RejectionError(f"{where}: the group has dimension 0")
        self.group = Group(np.array(basis, np.int64))
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
            own = ((size, axis),) if self.width > 1 else ()
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
        meter().require_bytes(16 * size * prod(shape))
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
            axis = next((a for n, a in term.axes if n == len(self.copies)), -1)
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
        here = term.axis if isinstance(term, Turn) else dict(term.axes).get(0)
        if len(uses) != 1 or len(norms) != 1 or self.started or self.copies or here != -2:
            raise RejectionError(f"{self.where}: not a table that is normed alone")
        node, params = graph.nodes[uses[0]], norms[0].params
        chosen = graph.nodes[node.args[1]]
        alone = facts.place(node.args[0]) == place and chosen.op == "take"
        readers = [node for node in graph.nodes if uses[0] in node.args]
        inside = range(norms[0].first, norms[0].output + 1)
        if not alone or chosen.data[1] not in facts.simplices or params["centred"]:
            raise RejectionError(f"{self.where}: not a table that is normed alone")
        if not params["eps"] or not all(graph.nodes.index(one) in inside for one in readers):
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


def _matrices(name: str, width: int, start: int, planes: list[Any]) -> Iterator[Matrix]:
    """A basis of a group: of matrices, or for tori of vectors."""

    def unit(j: int, k: int) -> Matrix:
        E = np.zeros((width, width), np.int64)
        E[j, k] = 1
        return E

    dims = range(start, width)
    if name == "scale":
        yield np.ones(1, np.int64)
    elif name in ("torus", "plane-scales") or width == 1:
        eye = np.eye(width, dtype=np.int64)
        yield from (eye[a] + eye[b] for a, b in planes)
        yield from (eye[j] for j in dims)
    elif name == "gl":
        yield from (unit(j, k) for j in dims for k in dims)
    elif name == "shear":
        yield from (np.repeat(unit(0, k)[:1], width, 0) for k in dims)
    elif name == "planes":
        for a, b in planes:
            yield unit(a, a) + unit(b, b)
            yield unit(a, b) - unit(b, a)
    elif name == "turns":
        yield from (unit(a, b) - unit(b, a) for a, b in planes)
        yield from (unit(j, k) - unit(k, j) for j in dims for k in dims if j < k)
    elif name == "o":
        yield from (unit(j, k) - unit(k, j) for j in dims for k in dims if j < k)
    else:  # u v^T - v u^T for u, v orthogonal to 1
        differences = np.eye(width, dtype=np.int64) - np.eye(width, dtype=np.int64)[-1]
        pairs = ((differences[j], differences[k]) for j in dims for k in dims if j < k < width - 1)
        yield from (np.outer(u, v) - np.outer(v, u) for u, v in pairs)


# A tensor, its directions, an array for every parameter, and a lemma (see Shift).
Source = tuple[Place, dict[int, Direction], Matrix, tuple[str, int] | None]


class _Constants(_Reader):
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
        tangents: dict[Place, Matrix] = {}
        moved: dict[Place, Variation] = {}
        for i, (place, along, patterns, lemma) in enumerate(sources):
            shape, first, sign = self.shape(place), starts[i], given[i].get("times", 1)
            meter().require_bytes(32 * count * prod(shape))
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


_READERS: dict[str, type[_Reader]] = {"basis": _Basis, "constants": _Constants}
