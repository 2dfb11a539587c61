"""Free scales that bring one part closest to another, each optimised separately.

A gain g stands before what reads it, which is divided by g; a unit's scale multiplies what it
reads and divides what it writes; so do scales of rotary planes for keys and queries. Each is the
minimum of p s^2 - 2 q s + r / s^2 - 2 t / s, at a root of a quartic.
"""

from __future__ import annotations

import numpy as np

from segre.fields.interface import Array
from segre.symmetry.action import Actor
from segre.symmetry.basis import Basis
from segre.symmetry.orders import Order
from segre.symmetry.space import FloatWeights, rotary_planes
from segre.symmetry.wiring import End, readers
from segre.transformer.spec import Transformer

SUBLAYERS = {"norm1": "attention", "norm2": "mlp"}  # by the norm before each
_KEPT = 0.05  # a reader agrees when its distance is below this part of the largest one's


def nearest_choice(one: Actor, like: Array, a: FloatWeights, b: FloatWeights) -> Array:
    """The element `like`, or scales with which `b` is nearest to `a` once they are put back."""
    if isinstance(one, Order):
        return nearest_signs(one, like, a, b)
    if not isinstance(one, Basis) or any(port.degree > 1 for port in one.ports):
        return like
    vector = one.vector
    if vector is None:
        latent = one.group == "planes" and not one.copies
        free = one.group == "planes" or (one.group == "torus" and _gated(one))
        return 1 / _scales(one, a, b) if free and not latent else like
    name = vector.tensor[1].removesuffix(".gain")
    rms = a.transformer.norm == "rms"
    if name in (*SUBLAYERS, "normq", "normk") or (name == "norm" and rms):
        return 1 / _gains(one, 1 / like, a, b)
    return like


def _gated(one: Basis) -> bool:
    """Whether units have gates, beside what their scale passes through."""
    return any(port.tensor[1].endswith("_gate") for port in one.ports)


def nearest_signs(one: Order, like: Array, a: FloatWeights, b: FloatWeights) -> Array:
    """Signs of a gain after a sublayer and of the rows that it is of: a gain near 0 has either."""
    if one.kind != "signs" or not one.by[0][1].startswith("post"):
        return like
    ports = (one.ports[0], one.ports[-1])
    inner = sum((p.rows(a, 0) * p.rows(b, 0)).sum(axis=1) for p in ports)
    return one.of(signs=np.where(np.asarray(inner) < 0, -1.0, 1.0))


def norm_readers(spec: Transformer, part: str, norm: str) -> dict[str, str | None]:
    """The tensors that read what a norm before a sublayer norms, with their biases."""
    end: End = (part, SUBLAYERS[norm])
    return {reader.weight: reader.bias for reader in readers(spec, end)}


def nearest_scale(p: Array, q: Array, r: Array, t: Array, *, positive: bool = False) -> Array:
    """Where p s^2 - 2 q s + r / s^2 - 2 t / s is least, for p, r > 0; 1 for the others.

    >>> nearest_scale(*np.array([[1.0], [2.0], [4.0], [2.0]])).round(6).tolist()
    [2.0]
    """
    known = (p > 0) & (r > 0)
    p, q, r, t = (np.where(known, x, y) for x, y in zip((p, q, r, t), (1, 1, 1, 1), strict=True))
    companion = np.zeros((*p.shape, 4, 4))
    companion[..., 0, :] = np.stack([q / p, np.zeros_like(p), -t / p, r / p], axis=-1)
    companion[..., [1, 2, 3], [0, 1, 2]] = 1
    roots = np.linalg.eigvals(companion)
    real = (np.abs(roots.imag) <= 1e-6 * np.abs(roots)) & (np.abs(roots) > 0)
    s = np.where(real, roots.real, 1.0)
    p, q, r, t = (x[..., None] for x in (p, q, r, t))
    value = p * s**2 - 2 * q * s + r / s**2 - 2 * t / s
    value = np.where(real & ((s > 0) | (not positive)), value, np.inf)
    best = np.take_along_axis(s, value.argmin(axis=-1)[..., None], axis=-1)[..., 0]
    return np.where(known & np.isfinite(value.min(axis=-1)), best, 1.0)


def _scales(one: Basis, a: FloatWeights, b: FloatWeights) -> Array:
    """Scales of what is written to units or planes; phases of planes are matched already."""
    deep, sums = len(one.copies), [[np.zeros(1), np.zeros(1)] for _ in range(2)]
    for port in one.ports:
        if port.degree:
            x, y = port.rows(a, deep), port.rows(b, deep)
            own = sums[port.reads]
            own[0] = own[0] + (y * y).sum(axis=-1)
            own[1] = own[1] + (x * y).sum(axis=-1)
    every = [total for side in sums for total in side]
    if one.group != "planes":
        return nearest_scale(*every)
    first, second = np.array(rotary_planes(a.transformer, one.turning)).T
    p, q, r, t = (total[..., first] + total[..., second] for total in every)
    return nearest_scale(p, q, r, t, positive=True).astype(complex)


def _gains(one: Basis, like: Array, a: FloatWeights, b: FloatWeights) -> Array:
    """The nearest gains; those of the first, where with them one reader agrees and others do not.

    A fine-tune of some readers leaves the gain and the other readers unchanged. The smallest
    distance would spread the change over all of them.
    """
    rows = [(port.rows(b, 0), port.rows(a, 0)) for port in one.ports if port.reads]
    sizes = np.array([(x**2).sum(axis=1) for x, _ in rows])
    inner = np.array([(x * y).sum(axis=1) for x, y in rows]).sum(axis=0)
    scales = nearest_scale(np.ones(len(like)), like, sizes.sum(axis=0), inner)
    apart = np.array([((x - y * like[:, None]) ** 2).sum(axis=1) for x, y in rows])
    relative = apart / np.maximum(sizes, 1e-300)
    kept = relative.min(axis=0) < _KEPT**2 * relative.max(axis=0)
    return np.where(kept, like, scales)
