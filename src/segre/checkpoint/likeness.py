"""Similarity of the heads of two layers, by inner products of the maps that they compute.

Values through outputs, and queries with keys, are compared as products, without large matrices:
they do not depend on the bases within heads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from segre.checkpoint.layout import Tensors
from segre.checkpoint.planes import keys, met_keys, planes, queries, rotary_key, still
from segre.fields.interface import Array
from segre.transformer.spec import Transformer


def head_likeness(spec: Transformer, one: Tensors, two: Tensors) -> Array:
    """(kv, kv, group, group): between -1 and 1 for either product."""
    values = _values(one, two)
    if queries(one).shape[-2] != queries(two).shape[-2]:
        return 2 * values  # heads of other widths have other planes
    return values + _scores(spec, one, two)


def _values(one: Tensors, two: Tensors) -> Array:
    """Inner products of values through outputs, (kv, kv, group, group), by their norms."""
    a, b = (_Factors(w["W_O"], w["W_V"]) for w in (one, two))
    return _products(a, b) / _outer(_squares(a), _squares(b))


@dataclass(frozen=True)
class _Factors:
    """Left factors by query head (kv, group, d, n), and right ones (kv, 1, n, d)."""

    left: Array
    right: Array


def _products(one: _Factors, two: _Factors) -> Array:
    """Inner products (kv, kv, group, group) of left @ right, without large matrices."""
    inner = np.einsum("ivd,jwd->ijvw", one.right[:, 0], two.right[:, 0], optimize=True)
    out = np.empty((*inner.shape[:2], one.left.shape[1], two.left.shape[1]))
    for i in range(len(inner)):
        written = np.einsum("adv,jbdw->jabvw", one.left[i], two.left, optimize=True)
        out[i] = np.einsum("jabvw,jvw->jab", written, inner[i], optimize=True)
    return out


def _squares(of: _Factors) -> Array:
    """Squares (kv, group) of the norms of left @ right."""
    gram = of.right[:, 0] @ of.right[:, 0].swapaxes(-1, -2)
    found = np.einsum("hgdv,hgdw,hvw->hg", of.left, of.left, gram, optimize=True)
    return np.asarray(found.clip(0))


def _outer(one: Array, two: Array) -> Array:
    out = np.sqrt(one)[:, None, :, None] * np.sqrt(two)[None, :, None, :]
    return np.where(out > 0, out, 1.0)


def _scores(spec: Transformer, one: Tensors, two: Tensors) -> Array:
    """Likewise for queries and keys: in what does not turn, and in each plane that does."""
    q1, q2, k1, k2 = (planes(spec, x) for x in (queries(one), queries(two), keys(one), keys(two)))
    k = np.einsum("ipd,jpd->ijp", np.conj(k1[:, 0]), k2[:, 0], optimize=True)
    out = np.empty((len(q1), len(q2), q1.shape[1], q2.shape[1]))
    for i in range(len(q1)):
        q = np.einsum("apd,jbpd->jabp", q1[i], np.conj(q2), optimize=True)
        out[i] = np.einsum("jabp,jp->jab", q, k[i], optimize=True).real
    sizes = _plane_squares(q1, k1), _plane_squares(q2, k2)
    if spec.still:
        a, b = (
            _Factors(still(spec, queries(w)).swapaxes(-1, -2), still(spec, met_keys(spec, w)))
            for w in (one, two)
        )
        out, sizes = out + _products(a, b), (sizes[0] + _squares(a), sizes[1] + _squares(b))
    if "R_Q" in one:  # all heads meet the same key, by whose norms planes count
        q = [rotary_key(spec, w["R_Q"]) * _key_norms(spec, w) for w in (one, two)]
        flat = [x.reshape(*x.shape[:2], -1) for x in q]
        out = out + np.einsum("iaq,jbq->ijab", flat[0], np.conj(flat[1]), optimize=True).real
        squares = [np.asarray((np.abs(x) ** 2).sum(axis=-1)) for x in flat]
        sizes = (sizes[0] + squares[0], sizes[1] + squares[1])
    return out / _outer(*sizes)


def _key_norms(spec: Transformer, w: Tensors) -> Array:
    """Norms of the planes of the rotary key, as a column."""
    return np.asarray(np.linalg.norm(rotary_key(spec, w["R_K"]), axis=-1, keepdims=True))


def _plane_squares(q: Array, k: Array) -> Array:
    size = (np.abs(q) ** 2).sum(axis=-1) * (np.abs(k) ** 2).sum(axis=-1)
    return np.asarray(size.sum(axis=-1))
