"""Matching units and experts of two layers.

Units are similar if their input and output weights are similar.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.checkpoint.assignment import NEAR, assignment, copied_rows, projected
from segre.checkpoint.experts import joined
from segre.checkpoint.experts import likeness as expert_likeness
from segre.checkpoint.layout import Tensors
from segre.checkpoint.units import as_dense, by_expert, signed
from segre.fields.interface import Array
from segre.symmetry.compact import Elements
from segre.symmetry.orders import expert_order, unit_orders
from segre.symmetry.wiring import expert_layer
from segre.transformer.spec import Transformer


def match_units(spec: Transformer, part: str, one: Tensors, two: Tensors) -> Iterator[Elements]:
    """Experts assigned to experts, and then units to units of `two`, which is in that order."""
    own, group = spec.at(part), unit_orders(spec, part)
    if expert_layer(spec, part):
        order = _match_experts(own, expert_likeness(one, two))
        yield {"experts": expert_order(spec, part).of(order)}
    if "units" in group:
        every = zip(by_expert(one), by_expert(two), strict=True)
        yield unit_elements(spec, part, "units", [_match_units(own, a, b) for a, b in every])
    if "shared" in group:
        found = _match_units(own, as_dense(one), as_dense(two))
        yield unit_elements(spec, part, "shared", [found])


def unit_elements(
    spec: Transformer, part: str, name: str, found: list[tuple[Array, Array]]
) -> Elements:
    """Orders and signs of units, of each expert, as elements."""
    group, signs = unit_orders(spec, part), {"units": "signs", "shared": "shared_signs"}[name]
    order, own = (
        np.stack(every).reshape(*group[name].copies, -1) for every in zip(*found, strict=True)
    )
    out = {name: group[name].of(order)}
    return out | ({signs: group[signs].of(signs=own)} if signs in group else {})


def _match_experts(spec: Transformer, likeness: Array) -> Array:
    """The order of experts with the largest sum: of groups, and within each."""
    groups = spec.groups or 1
    size = len(likeness) // groups
    pairs = likeness.reshape(groups, size, groups, size).swapaxes(1, 2)
    within = np.array([[assignment(pair) for pair in row] for row in pairs])
    best = np.take_along_axis(pairs, within[..., None], axis=-1).sum(axis=(-1, -2))
    order = assignment(best)
    return joined(order, within[np.arange(groups), order])


def _match_units(spec: Transformer, one: Tensors, two: Tensors) -> tuple[Array, Array]:
    """Order and signs, by similarity of input and output weights."""
    if (copied := _copied_units(spec, one, two)) is not None:
        return copied

    def inner(name: str) -> Array:
        both = [_of_length_1(_unit_rows(w, name)).astype(np.float32) for w in (one, two)]
        return np.asarray(both[0] @ both[1].T)

    up, down = inner("up"), inner("down")
    if signed(spec):  # scales and signs cancel in the product
        likeness = up * down + inner("gate")
        order = assignment(likeness)
        return order, np.where(up[np.arange(len(up)), order] < 0, -1.0, 1.0)
    return assignment(up + down), np.ones(len(up))


def _copied_units(spec: Transformer, one: Tensors, two: Tensors) -> tuple[Array, Array] | None:
    """The same, if all units are copies, so that no other unit is nearly as similar."""
    found = copied_rows(*(_unit_rows(w, "gate" if signed(spec) else "up") for w in (one, two)))
    if found is None:
        return None
    order, signs = found

    def both(name: str) -> tuple[Array, Array]:
        a, b = (projected(_unit_rows(w, name)) for w in (one, two))
        return a, b[order]

    up, down = both("up"), both("down")
    if signed(spec):
        signs = np.where((up[0] * up[1]).sum(axis=1) < 0, -1.0, 1.0)
    apart = [np.linalg.norm(a - b * signs[:, None], axis=1) for a, b in (up, down)]
    return (order, signs) if np.max(apart) <= NEAR else None


def _unit_rows(w: Tensors, name: str) -> Array:
    """The input weights (with bias) or output weights of every unit, as rows."""
    rows = w["W_down"].T if name == "down" else w[f"W_{name}"]
    if f"b_{name}" in w and name != "down":
        rows = np.concatenate([rows, w[f"b_{name}"]], axis=1)
    return rows


def _of_length_1(rows: Array) -> Array:
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(size > 0, size, 1))
