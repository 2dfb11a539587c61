"""How many weights are free? Upper bounds by lists of spaces: section 7 of the page.

An entry says which weights move, and how; `lemmas` proves that the network does not change, under
linear conditions for the parameters. The generators are the solutions, as rows mod p, and the bound
is the number of weights minus their rank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import structural_rank

from segre.kernel.arrays import one_hot
from segre.kernel.document import (
    Certificate,
    RejectionError,
    Spec,
    items,
    keys,
    quote,
    read_spec,
    text,
)
from segre.kernel.entries import Moves
from segre.kernel.forms import Facts
from segre.kernel.graph import Graph
from segre.kernel.group import Matrix
from segre.kernel.lemmas import Pass
from segre.kernel.linear import annihilator, rank, row_basis
from segre.kernel.meter import Progress, afford, meter
from segre.kernel.network import graph_of
from segre.kernel.point import ROW_BYTES, Batch, Point
from segre.kernel.residues import FreeRoots, Residues
from segre.kernel.special import special
from segre.kernel.variation import Shift, ancestors
from segre.transformer.spec import Transformer

STEP, ENTRY = 2e-5, 1e-7  # seconds for a node, and for an entry of a generator
MOST_INPUTS = 64  # that are tried, to find some at which the network has a value mod p
_WATCHED_BYTES = 24  # of an entry of the Jacobian: twice as it is, and as a float
_UNSEEN = 60  # bits: a change of the network goes unseen with a chance of about 2^-60


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
    entries, guard = items(upper["spaces"], "upper.spaces"), _Guard(facts, certificate.checksum)
    proved: list[Matrix] = []
    for i, entry in enumerate(entries):
        progress("upper bound", i, len(entries))
        rows = generators(facts, entry, f"upper.spaces[{i}]")
        if guard.changes(rows):
            raise RejectionError(f"upper.spaces[{i}]: a generator changes an output")
        proved = _gathered(facts, [*proved, rows])
    generated = _rank(facts, proved)
    if type(upper["rank"]) is not int or upper["rank"] != generated:  # a JSON true is no number
        raise RejectionError(f"upper.rank: {quote(upper['rank'])}, but the rank is {generated}")
    progress("upper bound", len(entries), len(entries))
    bound = graph.parameters - generated
    sentence = (
        f"{wider}Lemmas prove {len(entries)} space{'s' * (len(entries) != 1)}; their generators "
        f"have rank {generated}, so the dimension is at most {bound}."
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
    rows: list[Matrix] = []
    for entry in entries:
        try:
            rows = _gathered(facts, [*rows, generators(facts, entry, "entry")])
        except RejectionError:
            continue
        proved.append(entry)
    return proved, _rank(facts, rows)


def facts_of(spec: Spec, graph: Graph, prime: int, seed: int) -> Facts:
    """What is known about a network at the point of a certificate."""
    return Facts(spec, graph, Residues(prime, seed))


def _gathered(facts: Facts, rows: list[Matrix]) -> list[Matrix]:
    """The same span: a basis of it, once there are many rows."""
    if sum(map(len, rows)) <= 2 * facts.graph.parameters:
        return rows
    meter().require_bytes(16 * sum(some.size for some in rows))
    return [row_basis(np.concatenate(rows), facts.prime)]


def _rank(facts: Facts, rows: list[Matrix]) -> int:
    """The dimension of a span."""
    meter().require_bytes(16 * sum(some.size for some in rows))
    return rank(np.concatenate(rows), facts.prime) if rows else 0


class _Guard:
    """Whether generators change an output at some inputs, which is no part of the proof.

    Those that change one at soft token sequences must not at true ones. The inputs follow from the
    checksum of the document: whoever writes it cannot choose them.
    """

    def __init__(self, facts: Facts, checksum: str) -> None:
        self.facts, self.seed = facts, int(checksum[:16], 16)
        self._watched: dict[bool, Matrix] = {}

    def changes(self, rows: Matrix) -> bool:
        """Whether one of them does."""
        return bool(len(rows)) and all(
            self._seen(rows, hard=hard) for hard in (False, True)[: 1 + bool(self.facts.simplices)]
        )

    def _seen(self, rows: Matrix, *, hard: bool) -> bool:
        if hard not in self._watched:
            self._watched[hard] = watched(self.facts, self.seed, hard=hard)
        return bool(self.facts.field.matmul(self._watched[hard], rows.T[None]).any())


def watched(facts: Facts, seed: int, *, hard: bool) -> Matrix:
    """All rows of the Jacobian at inputs of this seed, mod p with free roots.

    There are as many as make it unlikely, below 2^-60, that all of them miss a change.
    """
    drawn_roots, graph = FreeRoots(facts.prime, facts.field.seed), facts.graph
    source, wanted = Residues(facts.prime, seed), -(-_UNSEEN // (facts.prime.bit_length() - 1))
    point = Point(graph, drawn_roots, drawn_roots.weights(graph))
    outputs = prod(graph.shape(graph.output))
    meter().require_bytes(outputs * wanted * (ROW_BYTES + _WATCHED_BYTES * graph.parameters))

    def inputs(numbers: Sequence[int]) -> Batch:
        salts = np.zeros((len(numbers), graph.input_shape[1]), np.uint64)
        drawn = source.inputs(graph.input_shape, numbers, salts)
        if not hard:
            return Batch(drawn_roots.soft(drawn, *graph.blocks))
        return Batch(one_hot(drawn[:, 0], drawn[:, -1], blocks=graph.blocks))

    def at(numbers: Sequence[int]) -> list[Matrix]:
        rows = [(number, o) for number in numbers for o in range(outputs)]
        meter().require(point.work(rows))
        try:
            return [point.jacobian(rows, inputs)]
        except RejectionError:  # a division by zero mod p
            return []

    if found := at(range(wanted)):
        return found[0][None]
    for number in range(MOST_INPUTS):
        found += at([number])
        if len(found) == wanted:
            return np.concatenate(found)[None]
    raise RejectionError("the point is unusable: the network has no value at most inputs")


def generators(facts: Facts, entry: Any, where: str) -> Matrix:
    """The generators of an entry, as rows of residues; rejected unless the lemmas prove them."""
    if not isinstance(entry, dict):
        raise RejectionError(f"{where}: {quote(entry)} is not an object")
    free = text(entry.get("free"), f"{where}.free", ("basis", "constants", "special"))
    try:
        return special(facts, entry, where) if free == "special" else _proved(facts, entry, where)
    except RejectionError as reason:
        known = str(reason)
        raise RejectionError(known if known.startswith(where) else f"{where}: {known}") from None


def _proved(facts: Facts, entry: dict[str, Any], where: str) -> Matrix:
    """The generators of an entry that the lemmas prove."""
    moves, size = Moves(facts, entry, where), facts.graph.parameters
    count = moves.parameters
    if not count:
        return np.zeros((0, size), np.int64)
    afford(len(facts.graph.nodes) * STEP + count * size * ENTRY)
    run = Pass(facts, moves)
    run.run()
    rows = np.zeros((count, size), np.int64)
    for place, tangent in moves.tangents.items():
        tensor = facts.graph.tensors[place]
        rows[:, tensor.offset : tensor.offset + tensor.size] = tangent.reshape(count, -1)
    return _solutions(run, rows)


def _solutions(run: Pass, rows: Matrix) -> Matrix:
    """Lemma (R): the rows that meet all conditions, whose matrix must have its generic rank."""
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
