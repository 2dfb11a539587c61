"""The symmetries of a stack, layer by layer.

What is free in a single head follows from the properties of its mechanism (`stack_heads`). This
module has the rest: bases between layers, heads that act as one, and directions that no token
reaches or no layer reads (docs/mathematics.md, section 3, and docs/mechanisms.md). How many
dimensions each adds to those before it is counted at a point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial

import numpy as np

from segre.attention.layer import Layer
from segre.attention.symmetries import POOLED, UNREACHED, UNREAD, between, group_of
from segre.fields.interface import Array
from segre.spec import Network
from segre.stack.stages import named, tensors
from segre.symmetry.basis import Basis
from segre.symmetry.constants import Entries, Several
from segre.symmetry.groups import unit_matrices
from segre.symmetry.piece import Given, Head, ModularWeights, Piece
from segre.symmetry.reach import (
    HeadPlace,
    Units,
    dead,
    head_at,
    heads_of,
    parallel_tokens,
    reached,
    read,
    units_in,
)
from segre.symmetry.space import Port
from segre.symmetry.stack_heads import OfHead, families, silent_scores
from segre.symmetry.stack_mixing import FACTORED, alike_heads, filled_pieces, mixed_pieces, together

Build = Callable[[ModularWeights], Array]
_LATE = ("mix-some-heads", "filled", FACTORED)  # what several heads have free comes last
READING = ("W_K", "W_Q", "W_V", "W_G")


def stack_pieces(spec: Network) -> Iterator[Piece]:
    """The pieces that apply to a stack, from the last layer to the first.

    In this order the weights that a piece moves are mostly untouched by the pieces before, and
    their joint rank is cheap to compute. What needs most of the layer's heads comes last.
    """
    for layer in spec.layers:
        if all(dead(layer, group, spec.t) for group in range(len(layer.groups))):
            every = Several(tuple(Entries(tensor) for tensor in tensors(spec)))
            yield Piece("zero", "the network is zero", "everywhere", "VO", "exact", None, every)
            return
    parallel, arrives, wanted = parallel_tokens(spec), reached(spec), read(spec)
    late: list[Piece] = []
    for i in reversed(range(spec.depth)):
        layer = spec.layers[i]
        if i + 1 < spec.depth:
            yield _between(layer, spec.layers[i + 1], i)
        if layer.dv is not None or wanted[i + 1] < layer.width_out:
            yield _beside(layer, i, reached=True)
        if layer.dv is not None or arrives[i] < layer.width_in:
            yield _beside(layer, i, reached=False)
        # of tokens of one dimension GL(a) does it all
        skew = parallel[i] and (arrives[i] > 1 or spec.mechanism.bilinear)
        yield from _heads(layer, i, spec.t, skew)
        if spec.has_closed_form:  # heads are alone
            continue
        for alike in alike_heads(spec, i, arrives[i], parallel[i]):
            mixed = list(mixed_pieces(alike))
            yield from (piece for piece in mixed if piece.kind != FACTORED)
            late += [*filled_pieces(alike), *(piece for piece in mixed if piece.kind == FACTORED)]
    yield from sorted(late, key=lambda piece: _LATE.index(piece.kind))


def place(layer: Layer, kind: str, number: int, head: int | None) -> str:
    """Where a piece acts, in words; a lone head is not mentioned."""
    if kind == "between":
        return f"between layers {number} and {number + 1}"
    several = layer.heads > 1
    return f"layer {number}" + (f", head {head}" if several and head is not None else "")


def _piece(
    layer: Layer, kind: str, name: str, i: int, build: Build, head: int | None = None
) -> Piece:
    where = place(layer, kind, i + 1, head)
    return Piece(kind, name, where, group_of(kind), "exact", None, build, i + 1, head)


@lru_cache(maxsize=4096)  # stacks of a sweep have layers in common
def _heads(layer: Layer, i: int, t: int, parallel: bool) -> tuple[Piece, ...]:
    """What is free in single heads, and in those that act as one."""
    return tuple(_of_heads(layer, i, t, parallel))


def _of_heads(layer: Layer, i: int, t: int, parallel: bool) -> Iterator[Piece]:
    every = heads_of(layer)
    heads = [head_at(layer, g, t, parallel) for g in range(len(layer.groups))]
    quiet = [(p, silent_scores(heads[p.group])) for p in every if heads[p.group].stuck]
    if quiet:
        at = (Head(str(i + 1), p.group, p.head) for p, _ in quiet)
        silent = Several(tuple(map(OfHead, at, (family for _, family in quiet))))
        yield _piece(layer, quiet[0][1].kind, quiet[0][1].name, i, silent)
    pools = [unit for unit in units_in(layer, t) if unit.pooled]
    pooled = {one.group for unit in pools for one in unit.places}
    free = [families(h, layer.dv, g in pooled, dead(layer, g, t)) for g, h in enumerate(heads)]
    for one in every:
        for family in free[one.group]:
            own = OfHead(Head(str(i + 1), one.group, one.head), family)
            yield _piece(layer, family.kind, family.name, i, own, one.number)
    for unit in pools:
        if layer.dv is not None or len(unit.places) > 1:
            yield _pooled(layer, i, unit)


@lru_cache(maxsize=4096)
def _between(layer: Layer, after: Layer, i: int) -> Piece:
    """Basis of the tokens between two layers: written with C, read with C^-1."""
    d, last = layer.width_out, ("W_V",) if layer.dv is None else ("W_O",)
    diagonal = layer.dv is None and any(group.mechanism.rowwise for group in layer.groups)
    ports = [Port((str(i + 1), name)) for name in _taps(layer, last)]
    ports += [Port((str(i + 2), name), -1, True) for name in _taps(after, READING)]
    free = Basis(d, "torus" if diagonal else "gl", tuple(ports))
    return _piece(layer, *between(d, diagonal=diagonal), i, free)


def _taps(layer: Layer, roots: tuple[str, ...]) -> Iterator[str]:
    """The tensors of all groups with these names."""
    for g in range(len(layer.groups)):
        yield from (named(g, name) for root in roots for name in layer.taps(g, root))


@lru_cache(maxsize=4096)
def _beside(layer: Layer, i: int, *, reached: bool) -> Piece:
    """What is added to maps where no token lies or, if tokens are there, where nothing reads."""
    where, part = "unread" if reached else "unreached", str(i + 1)
    every = _taps(layer, ("W_V", "W_O") if reached else (*READING, "W_O"))
    sources = ({"tensor": f"{part}/{name}", "where": where} for name in every)
    entries = tuple({"free": "constants", "sources": [own]} for own in sources)

    def build(w: ModularWeights) -> Array:
        """Vectors added to each row, or each column, of the tensors with them."""
        found = [w.canvas(0).rows]
        for vectors in w.passage.blind_columns(i) if reached else w.passage.blind_rows(i):
            first, own = next(iter(vectors.items()))
            places, count = w(part, first).shape[2 if reached else 1], len(own)
            canvas, each = w.canvas(places * count), np.arange(places)
            for name, own in vectors.items():
                tensor = canvas(part, name)
                tensor = tensor.reshape(places, count, *tensor.shape[1:])
                np.moveaxis(tensor, 4 if reached else 3, 1)[each, each] = own
            found.append(canvas.rows)
        return np.concatenate(found)

    return _piece(layer, *(UNREAD if reached else UNREACHED), i, Given(entries, build))


def _pooled(layer: Layer, i: int, unit: Units) -> Piece:
    """Heads with the same constant weights: only the sum of their value maps matters."""
    dv, pool = layer.dv, unit.places
    build = _differences if dv is None else _one_basis
    basis = f"value-output basis of pooled heads GL({len(pool) * (dv or 0)})"
    name = POOLED.name if dv is None else basis
    free = together(POOLED.kind, i, pool, partial(build, i=i, pool=pool))
    return _piece(layer, POOLED.kind, name, i, free)


def _differences(w: ModularWeights, i: int, pool: list[HeadPlace]) -> Array:
    part, layer = str(i + 1), w.stack.layers[i]
    size = layer.width_out * layer.width_in
    canvas = w.canvas((len(pool) - 1) * size)
    for n, other in enumerate(pool[1:]):
        for at, sign in ((other, 1), (pool[0], -1)):
            tensor = canvas(part, named(at.group, "W_V"))[n * size : (n + 1) * size, at.head]
            tensor[:] = sign * np.eye(size).reshape(-1, *tensor.shape[1:])
    return canvas.rows


def _one_basis(w: ModularWeights, i: int, pool: list[HeadPlace]) -> Array:
    """The W_V of all heads above each other, and the W_O beside each other: GL acts."""
    part, dv = str(i + 1), w.stack.layers[i].dv or 0
    units = unit_matrices("gl", len(pool) * dv)
    assert units is not None
    canvas, every = w.canvas(len(units[0])), np.arange(len(units[0]))
    for name, (to, of), sign in (("W_V", units, 1), ("W_O", units[::-1], -1)):
        own = [w(part, named(at.group, name))[at.head] for at in pool]
        joined = np.concatenate([x if name == "W_V" else x.T for x in own])
        moved = np.zeros((len(every), *joined.shape))
        moved[every, to] = sign * joined[of]
        for n, at in enumerate(pool):
            block = moved[:, n * dv : (n + 1) * dv]
            view = canvas(part, named(at.group, name))[:, at.head]
            view[:] = block if name == "W_V" else block.swapaxes(1, 2)
    return canvas.rows
