"""The gauge of routers: the common part of all experts, removed and restored; and their order.

A softmax over experts is invariant under adding a vector to all rows of its router, and the choice
of the largest is invariant under adding a number to all preferences (`b_R`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from segre.checkpoint.frame import descending
from segre.checkpoint.layout import Tensors
from segre.fields.interface import Array
from segre.transformer.spec import Transformer

PROBES = 16  # random directions along which experts are compared
OF_EXPERTS = (  # whose first axis is that of experts
    *("W_R", "b_R", "W_gate", "W_up", "W_down"),
    *("c_R", "c_gate", "c_up", "c_down"),
)


@dataclass
class RouterGauge:
    """The common part of all experts: of router rows, and of preferences."""

    shift: Array | None = None  # (1, 1, d), where a softmax shares tokens out
    preference: Array | None = None  # (1, 1, 1), where there are preferences
    bias: Array | None = None  # (1, 1, 1), where a softmax has biases


def centre_router(spec: Transformer, w: Tensors, slack: float = 0.0) -> RouterGauge | None:
    """Remove the means over experts, in place, unless rounding explains them."""
    if "W_R" not in w:
        return None
    out = RouterGauge()
    if spec.softmax_router:
        out.shift = _mean(w, "W_R", slack)
        if "c_R" in w:
            out.bias = _mean(w, "c_R", slack)
    if "b_R" in w:
        out.preference = _mean(w, "b_R", slack)
    return out


def shift_router(w: Tensors, gauge: RouterGauge) -> None:
    """Inverse of `centre_router`, for a given gauge."""
    if gauge.shift is not None:
        w["W_R"] = w["W_R"] + gauge.shift
    if gauge.preference is not None:
        w["b_R"] = w["b_R"] + gauge.preference
    if gauge.bias is not None:
        w["c_R"] = w["c_R"] + gauge.bias


def _mean(w: Tensors, name: str, slack: float) -> Array:
    mean: Array = w[name].mean(axis=0, keepdims=True)
    if np.linalg.norm(mean) <= slack * np.linalg.norm(w[name]):
        mean = np.zeros_like(mean)
    w[name] = w[name] - mean
    return mean


def reordered(w: Tensors, order: Array) -> None:
    """Experts in another order, in place."""
    for name in OF_EXPERTS:
        if name in w:
            w[name] = w[name][order]


def by_size(spec: Transformer, w: Tensors, slack: float) -> Array:
    """Experts from the largest row of the router to the smallest, group by group."""
    sizes = np.linalg.norm(w["W_R"][:, 0], axis=1)
    groups = sizes.reshape(spec.groups or 1, -1)
    within = np.stack([descending(own, slack) for own in groups])
    order = descending(np.linalg.norm(groups, axis=1), slack)
    return joined(order, within[order])


def joined(groups: Array, within: Array) -> Array:
    """An order of experts from one of groups, and one within each of these as they come to lie."""
    return np.asarray(groups[:, None] * within.shape[1] + within).ravel()


def kept_together(spec: Transformer, order: Array) -> bool:
    """Whether an order of experts keeps the groups together."""
    groups = (order // (spec.experts // (spec.groups or 1))).reshape(spec.groups or 1, -1)
    return bool((groups == groups[:, :1]).all())


def likeness(one: Tensors, two: Tensors) -> Array:
    """Similarity of experts, (E, E): the cosines of their affinities and of their outputs.

    W_down W_up does not depend on the order, scales and signs of units; it is compared along random
    directions.
    """
    rng = np.random.default_rng(0)
    probes = rng.standard_normal((one["W_up"].shape[-1], PROBES))
    sketches = [w["W_down"] @ (w["W_up"] @ probes) for w in (one, two)]
    routers = [w["W_R"] for w in (one, two)]
    return _cosines(routers[0], routers[1]) + _cosines(sketches[0], sketches[1])


def _cosines(one: Array, two: Array) -> Array:
    flat = [x.reshape(len(x), -1) for x in (one, two)]
    sizes = [np.linalg.norm(x, axis=1) for x in flat]
    by = sizes[0][:, None] * sizes[1]
    return np.asarray(flat[0] @ flat[1].T / np.where(by > 0, by, 1.0))
