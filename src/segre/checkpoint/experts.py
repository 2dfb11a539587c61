"""The order of experts."""

from __future__ import annotations

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
