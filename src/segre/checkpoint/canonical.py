"""Points of the fiber of a checkpoint: a random one, and the normal form, the same for all copies.

After the free continuous choices are removed (`reduced`), the basis of the stream is chosen from
the token table, that of each head from its balanced factors, and heads and units are sorted by
size. Weights that already satisfy the conditions up to rounding stay unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import fsum

import numpy as np

from segre.checkpoint.elements import (
    centred_basis,
    chosen_basis,
    chosen_frame,
    descending,
    phases,
    signs_of,
    weights,
)
from segre.checkpoint.flips import written_flips
from segre.checkpoint.layout import Tensors
from segre.checkpoint.likeness import joined, product_squares
from segre.checkpoint.model import Model
from segre.checkpoint.planes import free_planes, rotary_key
from segre.checkpoint.reduce import reduced
from segre.checkpoint.units import SHARED, UNITS, biased, unit_sizes
from segre.fields.interface import Array
from segre.symmetry.basis import Basis
from segre.symmetry.compact import Elements, act, of_layer, of_stream
from segre.symmetry.move import RandomMove
from segre.symmetry.orders import Order, head_orders
from segre.symmetry.space import FloatWeights
from segre.transformer.spec import Transformer

SLACK = 8  # in units of the rounding error of the storage type


def canonical_parts(model: Model) -> Iterator[tuple[str, Tensors]]:
    """The parts of a checkpoint in normal form."""
    spec, slack = model.spec, SLACK * model.roundoff()
    stream: Elements = {}
    for found in reduced(model, slack):
        part, w = found.part, found.tensors
        if part == "embed":
            stream = _stream_elements(spec, w, slack)
        act(spec, part, stream, w, stream=True)
        if part == "head":
            _choose_head(spec, w, slack)
        elif part != "embed":
            _choose_layer(spec, part, w, slack)
        yield part, w


def moved_parts(model: Model, seed: int) -> Iterator[tuple[str, Tensors]]:
    """The parts of a checkpoint at a random point of its fiber, of bounded condition."""
    move = RandomMove(model.spec, seed, lambda one: model.part(one[0], [one[1]])[one[1]])
    for part in model.parts:
        tensors = model.part(part)
        move.part(part, tensors)
        yield part, tensors


def _stream_elements(spec: Transformer, embed: Tensors, slack: float) -> Elements:
    group = of_stream(spec)
    names = ("tokens",) if spec.discrete else ("W_P", "positions")  # whose columns have names
    table = np.concatenate([embed[name] for name in names], axis=1)
    if not spec.embed:
        return {"stream": _chosen(group["stream"], table, slack)} if "stream" in group else {}
    out = {"embeddings": _chosen(group["embeddings"], table, slack)}
    if "stream" in group:
        read = {"W_E": embed["W_E"]}
        act(spec, "embed", out, read, stream=True)
        rows = read["W_E"] * weights(spec.embed)  # whose sums are 0 without weights
        out["stream"] = _chosen(group["stream"], rows, slack)
    return out


def _chosen(one: Basis | Order, table: Array, slack: float) -> Array:
    """The element that is determined by rows."""
    if isinstance(one, Basis):
        if one.group != "o1":
            return chosen_basis(table, slack)
        basis = centred_basis(one.width)
        inner = chosen_basis(basis.T @ table, slack)
        return basis @ inner @ basis.T + 1 / one.width
    order = descending(np.array([np.linalg.norm(row) for row in np.ascontiguousarray(table)]))
    sums = np.array([fsum(table[i]) for i in order])  # exact, so that signs are
    if one.kind == "order and one sign":
        sums = np.full(one.width, fsum(sums * weights(one.width)))
    return one.of(order, signs_of(sums) if one.kind != "order" else None)


def _choose_head(spec: Transformer, head: Tensors, slack: float) -> None:
    """Units of a transform and of a pooler in order of size, of these each with a positive sum."""
    group = of_stream(spec)
    for name, key in (("transform", "W_T"), ("pooled", "W_pool")):
        one = group.get(name)
        if isinstance(one, Order):
            order = descending(np.linalg.norm(head[key], axis=1), slack)
            act(spec, "head", {name: one.of(order)}, head, stream=True)
            if name == "pooled":
                sums = head[key] @ weights(spec.d) + head["b_pool"][:, 0]
                act(spec, "head", {name: one.of(signs=signs_of(sums))}, head, stream=True)


def _choose_layer(spec: Transformer, part: str, w: Tensors, slack: float) -> None:
    """Orders and bases of heads and units of a reduced layer, the stream's basis being fixed."""
    act(spec, part, written_flips(spec, part, w, slack), w)
    for name, one in of_layer(spec, part).items():
        found: Elements = {}
        if isinstance(one, Basis):
            found[name] = _frame(spec, part, one, w, slack)
        elif name == "heads":
            sizes = np.sqrt(product_squares(w["W_O"], w["W_V"]))  # of every query head
            order, within = _nested(sizes, slack)
            found = {name: one.of(order), "queries": head_orders(spec, part)[1].of(within)}
        elif name == "experts":  # by the rows of the router, group by group
            sizes = np.linalg.norm(w["W_R"][:, 0], axis=1).reshape(spec.groups or 1, -1)
            found[name] = one.of(joined(*_nested(sizes, slack)))
        elif name in ("units", "shared"):
            found[name] = one.of(_by_size(unit_sizes(w, _KINDS[name]), slack))
        elif name in ("signs", "shared_signs"):
            found[name] = one.of(signs=signs_of(_signed_sums(w, _KINDS[name])))
        act(spec, part, found, w)


_KINDS = {"units": UNITS, "signs": UNITS, "shared": SHARED, "shared_signs": SHARED}


def _frame(spec: Transformer, part: str, one: Basis, w: Tensors, slack: float) -> Array:
    """The basis in which what writes to a space has a certain form; of planes, the phases."""
    rows = np.concatenate(one.sides(FloatWeights.of(spec, part, w))[0], axis=-1)
    if one.group == "planes":
        return _phases(spec.at(part), rotary_key(spec.at(part), rows), w, slack)
    if not one.copies:
        return chosen_basis(rows, slack)
    out = np.tile(np.eye(one.width), (*one.copies, 1, 1))
    for own, head in zip(out, rows[..., one.start :, :], strict=True):
        own[one.start :, one.start :] = chosen_frame(head, slack)
    return out


def _phases(spec: Transformer, rows: Array, w: Tensors, slack: float) -> Array:
    """By plane, the phase with which a weighted sum of its keys is positive."""
    sums = rows @ weights(rows.shape[-1])
    found = np.conj(phases(sums))
    if spec.qknorm:  # half turns only, unless the gains let planes turn
        found = np.where(free_planes(spec, w), found, signs_of(sums.real))
    near = np.abs(found - 1) * np.abs(sums) <= slack * np.linalg.norm(rows, axis=-1)
    return np.where(near, 1.0, found)


def _nested(sizes: Array, slack: float) -> tuple[Array, Array]:
    """Rows from the largest to the smallest, and the order within each."""
    order = descending(np.linalg.norm(sizes, axis=1), slack)
    return order, _by_size(sizes[order], slack)


def _by_size(sizes: Array, slack: float) -> Array:
    """Units by size, those of each expert by themselves."""
    rows = sizes.reshape(-1, sizes.shape[-1])
    return np.stack([descending(row, slack) for row in rows]).reshape(sizes.shape)


def _signed_sums(w: Tensors, kind: str) -> Array:
    up = w[f"{kind}_up"]
    sums = up @ weights(up.shape[-1])
    bias = biased(w, kind, "up")
    return sums + w[bias][..., 0] if bias else sums
