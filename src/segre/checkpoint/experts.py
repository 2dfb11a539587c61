"""The order of experts."""

from __future__ import annotations

import numpy as np

from segre.checkpoint.frame import descending
from segre.checkpoint.layout import Tensors
from segre.fields.interface import Array
from segre.transformer.spec import Transformer

PROBES = 16  # random directions along which experts are compared


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
