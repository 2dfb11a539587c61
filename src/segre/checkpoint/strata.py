"""Weights at special points, where more of them give the same function than elsewhere.

There two checkpoints can differ in what is invariant elsewhere and be the same function all the
same; and the count of redundant parameters is larger than the formula's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from segre.checkpoint.heads import DEFICIENT, free_planes, keys, planes, queries
from segre.checkpoint.layout import Tensors
from segre.checkpoint.reduce import Reduced
from segre.checkpoint.units import dead_units, scaled
from segre.fields.interface import Array
from segre.transformer.spec import Transformer

PARALLEL = 1e-6  # units and patterns are alike if their cosine is this near to 1
PROBES = 32  # random directions along which units are compared
SCORES = 4  # random inputs on either side, for which patterns are compared


@dataclass(frozen=True)
class Special:
    """What is special, and where: head, MLP, or planes (which matching takes care of)."""

    place: str
    text: str


def special_points(spec: Transformer, found: Reduced) -> list[Special]:
    """What is special in a part."""
    if found.part in ("embed", "head"):
        return []
    return list(_special(spec, found.tensors))


def _special(spec: Transformer, w: Tensors) -> Iterator[Special]:
    lacking = np.flatnonzero(deficient(w["W_V"][:, 0]))
    if len(lacking):
        yield Special("head", f"values of key-value heads {listed(lacking)} lack rank")
    if spec.pos != "rope" and not spec.qknorm:
        lacking = np.flatnonzero(deficient(w["W_K"][:, 0]))
        if len(lacking):
            yield Special(
                "head", f"queries and keys of key-value heads {listed(lacking)} lack rank"
            )
    if spec.qknorm and free_planes(w).any():
        yield Special("planes", f"{int(free_planes(w).sum())} rotary planes have equal gains")
    alike = _alike(_patterns(spec, w))
    if alike is not None:
        one, two = alike[0] + 1, alike[1] + 1
        yield Special("head", f"heads {one} and {two} have the same attention pattern")
    if spec.mlp == "none":
        return
    dead = np.flatnonzero(dead_units(spec, w))
    if len(dead):
        yield Special("MLP", f"MLP units {listed(dead)} write nothing")
    alive = np.setdiff1d(np.arange(spec.ff), dead)
    alike = _alike(_unit_inputs(w)[alive])
    if alike is not None:
        one, two = alive[alike[0]] + 1, alive[alike[1]] + 1
        yield Special("MLP", f"MLP units {one} and {two} read the same")


def deficient(balanced: Array) -> Array:
    """Which balanced factors (heads, n, d) have rows that vanish."""
    size = np.linalg.norm(balanced, axis=-1)
    return np.asarray(size.min(axis=-1) ** 2 <= DEFICIENT * size.max(axis=-1) ** 2)


def listed(indices: Array) -> str:
    """Indices in words, counted from 1; of many the first few."""
    shown = ", ".join(str(i + 1) for i in indices[:5])
    return shown if len(indices) <= 5 else f"{shown} and {len(indices) - 5} more"


def _patterns(spec: Transformer, w: Tensors) -> Array:
    """What identifies the pattern of a query head, as one row for each."""
    if spec.pos == "rope":
        q, k = planes(queries(w)), planes(keys(w))
        first = np.conj(q) * np.linalg.norm(k, axis=-1, keepdims=True)
        phase = k.sum(axis=-1, keepdims=True)
        phase = phase / np.where(np.abs(phase) > 0, np.abs(phase), 1)
        rows = np.concatenate([first * phase, np.broadcast_to(k / phase, q.shape)], axis=-1)
        flat = rows.reshape(spec.heads, -1)
        return np.concatenate([flat.real, flat.imag], axis=1)
    rng = np.random.default_rng(0)  # products seen from two random vectors
    Q, K = queries(w), w["W_K"]
    x, y = rng.standard_normal((Q.shape[-1], 4)), rng.standard_normal((K.shape[-1], 4))
    scores = np.einsum("hgkm,hgkn->hgmn", Q @ x, np.broadcast_to(K @ y, (*Q.shape[:-1], 4)))
    return np.asarray(scores.reshape(spec.heads, -1))


def _unit_inputs(w: Tensors) -> Array:
    names = [name for name in ("W_gate", "b_gate", "W_up", "b_up") if name in w]
    return np.concatenate([w[name] for name in names], axis=1)


def _alike(rows: Array) -> tuple[int, int] | None:
    """Two rows that are parallel, if there are any."""
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(size > 0, size, 1)
    inner = np.abs(unit @ unit.T)
    np.fill_diagonal(inner, 0.0)
    if inner.size == 0 or inner.max() < 1 - PARALLEL:
        return None
    i, j = np.unravel_index(inner.argmax(), inner.shape)
    return int(min(i, j)), int(max(i, j))


# --- all pairs that are alike, whatever the basis of a head or the scale of a unit -------------


def equal_patterns(spec: Transformer, w: Tensors) -> list[tuple[int, int]]:
    """Query heads with the same scores (up to a factor, if queries and keys are normed)."""
    rng = np.random.default_rng(0)
    Q, K = queries(w), keys(w)
    q = Q @ rng.standard_normal((Q.shape[-1], SCORES))
    k = np.broadcast_to(K @ rng.standard_normal((K.shape[-1], SCORES)), q.shape)
    if spec.qknorm:
        q, k = q * w["normq.gain"], k * w["normk.gain"]
    if spec.pos == "rope":  # planes turn at different speeds, so each is seen by itself
        products = np.einsum("hgpm,hgpn->hgpmn", np.conj(planes(q)), planes(k))
    else:
        products = np.einsum("hgkm,hgkn->hgmn", q, k)
    flat = products.reshape(spec.heads, -1)
    unit, size = _unit(np.concatenate([flat.real, flat.imag], axis=1))
    return near_pairs(unit if spec.qknorm else np.concatenate([unit, size], axis=1))


def duplicate_units(spec: Transformer, w: Tensors) -> list[tuple[int, int]]:
    """Units that read the same, up to the scales and signs that are free; not the dead ones."""
    alive = np.flatnonzero(~dead_units(spec, w))
    up, size = _unit(_sketch(w, "up")[alive])
    if spec.gated:
        gate, size = _unit(_sketch(w, "gate")[alive])
        up = np.concatenate([up * np.where(up[:, :1] < 0, -1.0, 1.0), gate], axis=1)
    points = up if scaled(spec) and not spec.gated else np.concatenate([up, size], axis=1)
    return [(int(alive[i]), int(alive[j])) for i, j in near_pairs(points)]


def near_pairs(points: Array) -> list[tuple[int, int]]:
    """Every point with the one nearest to it, if these are nearer than parallel vectors are.

    >>> near_pairs(np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0001]]))
    [(0, 2)]
    """
    from scipy.spatial import cKDTree

    if len(points) < 2:
        return []
    near = (2 * PARALLEL) ** 0.5
    _, found = cKDTree(points).query(points, k=2, distance_upper_bound=near)
    pairs = {
        (min(i, j), max(i, j))
        for i, both in enumerate(np.asarray(found).tolist())
        for j in both
        if j != i and j < len(points)  # the length stands for none
    }
    return sorted(pairs)


def _sketch(w: Tensors, name: str) -> Array:
    """What units read, along random directions: about as far apart as the whole."""
    rng = np.random.default_rng(0)
    W = w[f"W_{name}"]
    rows = W @ rng.standard_normal((W.shape[1], PROBES))
    if f"b_{name}" in w:
        rows = rows + w[f"b_{name}"] * rng.standard_normal((1, PROBES))
    return np.asarray(rows / PROBES**0.5)


def _unit(rows: Array) -> tuple[Array, Array]:
    """Directions, and logarithms of sizes as a column; nothing has direction 0 and size 1."""
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    size = np.where(size > 0, size, 1.0)
    return rows / size, np.log(size)
