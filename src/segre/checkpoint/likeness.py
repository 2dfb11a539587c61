"""Which heads, experts and units of two layers go together? The most alike.

Heads are compared by the maps that they compute: values through outputs, and queries with keys, as
products without large matrices, which do not depend on the bases within heads. Units are similar if
their input and output weights are, experts if their affinities and their outputs are.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.checkpoint.elements import (
    NEAR,
    assignment,
    copied_rows,
    nested_assignment,
    of_length_1,
    projected,
    signed_assignment,
    signs_of,
)
from segre.checkpoint.layout import Tensors
from segre.checkpoint.planes import keys, met_keys, planes, queries, rotary_key, still
from segre.checkpoint.units import NAMES, dense, signed
from segre.fields.interface import Array
from segre.symmetry.compact import Elements
from segre.symmetry.orders import expert_order, head_orders, unit_orders
from segre.symmetry.wiring import expert_layer
from segre.transformer.spec import Transformer

PROBES = 16  # random directions along which experts are compared
Factors = tuple[Array, Array]  # left, by query head (kv, group, d, n), and right (kv, 1, n, d)
Alike = tuple[Array, Array, Array]  # inner products (kv, kv, group, group), and squares of norms


# --- heads ----------------------------------------------------------------------------------------


def match_heads(spec: Transformer, part: str, one: Tensors, two: Tensors) -> Elements:
    """The orders of heads with the largest sum: of key-value heads, and of the heads of each."""
    groups, within = head_orders(spec, part)
    heads, queries = nested_assignment(head_likeness(spec.at(part), one, two))
    return {"heads": groups.of(heads), "queries": within.of(queries)}


def head_likeness(spec: Transformer, one: Tensors, two: Tensors) -> Array:
    """(kv, kv, group, group): between -1 and 1 for either product."""
    values = _cosines([_products(*((w["W_O"], w["W_V"]) for w in (one, two)))])
    if queries(one).shape[-2] != queries(two).shape[-2]:
        return 2 * values  # heads of other widths have other planes
    found = [_turning(spec, one, two)]
    if spec.still:
        both = (still(spec, queries(w)).swapaxes(-1, -2) for w in (one, two))
        met = (still(spec, met_keys(spec, w)) for w in (one, two))
        found.append(_products(*zip(both, met, strict=True)))
    if "R_Q" in one:
        found.append(_against_one_key(spec, one, two))
    return values + _cosines(found)


def _cosines(found: list[Alike]) -> Array:
    """Of maps that consist of several parts."""
    inner, one, two = (np.sum(every, axis=0) for every in zip(*found, strict=True))
    size = np.sqrt(one)[:, None, :, None] * np.sqrt(two)[None, :, None, :]
    return np.asarray(inner / np.where(size > 0, size, 1.0))


def _products(one: Factors, two: Factors) -> Alike:
    """Of left @ right, without large matrices."""
    inner = np.einsum("ivd,jwd->ijvw", one[1][:, 0], two[1][:, 0], optimize=True)
    out = np.empty((*inner.shape[:2], one[0].shape[1], two[0].shape[1]))
    for i in range(len(inner)):
        written = np.einsum("adv,jbdw->jabvw", one[0][i], two[0], optimize=True)
        out[i] = np.einsum("jabvw,jvw->jab", written, inner[i], optimize=True)
    return out, product_squares(*one), product_squares(*two)


def product_squares(left: Array, right: Array) -> Array:
    """Squares (kv, group) of norms of left @ right: |O V|^2 is the inner product of O'O and VV'."""
    gram = right[:, 0] @ right[:, 0].swapaxes(-1, -2)
    found = np.einsum("hgdv,hgdw,hvw->hg", left, left, gram, optimize=True)
    return np.asarray(found.clip(0))


def _turning(spec: Transformer, one: Tensors, two: Tensors) -> Alike:
    """Of queries and keys in each plane that turns."""
    q1, q2, k1, k2 = (planes(spec, of(w)) for of in (queries, keys) for w in (one, two))
    k = np.einsum("ipd,jpd->ijp", np.conj(k1[:, 0]), k2[:, 0], optimize=True)
    out = np.empty((len(q1), len(q2), q1.shape[1], q2.shape[1]))
    for i in range(len(q1)):
        q = np.einsum("apd,jbpd->jabp", q1[i], np.conj(q2), optimize=True)
        out[i] = np.einsum("jabp,jp->jab", q, k[i], optimize=True).real
    ours, theirs = (
        ((np.abs(q) ** 2).sum(axis=-1) * (np.abs(k) ** 2).sum(axis=-1)).sum(axis=-1)
        for q, k in ((q1, k1), (q2, k2))
    )
    return out, ours, theirs


def _against_one_key(spec: Transformer, one: Tensors, two: Tensors) -> Alike:
    """All heads meet the same rotary key, by whose norms planes count."""
    flat = []
    for w in (one, two):
        sizes = np.linalg.norm(rotary_key(spec, w["R_K"]), axis=-1, keepdims=True)
        q = rotary_key(spec, w["R_Q"]) * sizes
        flat.append(q.reshape(*q.shape[:2], -1))
    inner = np.einsum("iaq,jbq->ijab", flat[0], np.conj(flat[1]), optimize=True).real
    ours, theirs = ((np.abs(x) ** 2).sum(axis=-1) for x in flat)
    return inner, ours, theirs


# --- experts and units ----------------------------------------------------------------------------


def match_units(spec: Transformer, part: str, one: Tensors, two: Tensors) -> Iterator[Elements]:
    """Experts assigned to experts, and then units to units of `two`, which is in that order."""
    own, group = spec.at(part), unit_orders(spec, part)
    if expert_layer(spec, part):
        yield {"experts": expert_order(spec, part).of(_match_experts(own, one, two))}
    for kind, name in NAMES.items():
        if name in group:
            every = zip(dense(one, kind), dense(two, kind), strict=True)
            yield unit_elements(spec, part, name, [_match_units(own, a, b) for a, b in every])


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


def joined(groups: Array, within: Array) -> Array:
    """An order of experts from one of groups, and one within each of these as they come to lie."""
    return np.asarray(groups[:, None] * within.shape[1] + within).ravel()


def _match_experts(spec: Transformer, one: Tensors, two: Tensors) -> Array:
    """The order of experts with the largest sum: of groups, and within each.

    W_down W_up does not depend on the order, scales and signs of units; it is compared along random
    directions.
    """
    probes = np.random.default_rng(0).standard_normal((one["W_up"].shape[-1], PROBES))
    seen = [(w["W_R"], w["W_down"] @ (w["W_up"] @ probes)) for w in (one, two)]
    ours, theirs = ([of_length_1(x.reshape(spec.experts, -1)) for x in own] for own in seen)
    alike = sum(a @ b.T for a, b in zip(ours, theirs, strict=True))
    groups = spec.groups or 1
    pairs = np.asarray(alike).reshape(groups, spec.experts // groups, groups, -1).swapaxes(1, 2)
    return joined(*nested_assignment(pairs))


def _match_units(spec: Transformer, one: Tensors, two: Tensors) -> tuple[Array, Array]:
    """Order and signs, by similarity of input and output weights."""
    if (copied := _copied_units(spec, one, two)) is not None:
        return copied

    def inner(name: str) -> Array:
        a, b = (of_length_1(_unit_rows(w, name)).astype(np.float32) for w in (one, two))
        return np.asarray(a @ b.T)

    up, down = inner("up"), inner("down")
    if signed(spec):  # scales and signs cancel in the product
        return signed_assignment(up * down + inner("gate"), up)
    return assignment(up + down), np.ones(len(up))


def _copied_units(spec: Transformer, one: Tensors, two: Tensors) -> tuple[Array, Array] | None:
    """The same, if all units are copies, so that no other unit is nearly as similar."""
    found = copied_rows(*(_unit_rows(w, "gate" if signed(spec) else "up") for w in (one, two)))
    if found is None:
        return None
    order, signs = found
    up, down = (
        (projected(_unit_rows(one, name)), projected(_unit_rows(two, name))[order])
        for name in ("up", "down")
    )
    if signed(spec):
        signs = signs_of((up[0] * up[1]).sum(axis=1))
    apart = [np.linalg.norm(a - b * signs[:, None], axis=1) for a, b in (up, down)]
    return (order, signs) if np.max(apart) <= NEAR else None


def _unit_rows(w: Tensors, name: str) -> Array:
    """The input weights (with bias) or output weights of every unit, as rows."""
    rows = w["W_down"].T if name == "down" else w[f"W_{name}"]
    if f"b_{name}" in w and name != "down":
        rows = np.concatenate([rows, w[f"b_{name}"]], axis=1)
    return rows
