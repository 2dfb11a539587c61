"""Free scales that bring one part closest to another, each optimised separately.

A gain g stands before what reads it, which is divided by g; a unit's scale multiplies what it
reads and divides what it writes; so do scales of rotary planes for keys and queries. Each is the
minimum of p s^2 - 2 q s + r / s^2 - 2 t / s, at a root of a quartic.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from segre.checkpoint.experts import shift_router
from segre.checkpoint.flips import rows_of
from segre.checkpoint.heads import unbalance
from segre.checkpoint.latents import normed_readers, turn_planes
from segre.checkpoint.layout import Tensors
from segre.checkpoint.planes import keys, planes, queries
from segre.checkpoint.reduce import GaugeChoice, Reduced
from segre.checkpoint.sublayers import SUBLAYERS
from segre.checkpoint.units import SHARED, UNITS, biased, scale_units, signed, unit_norms
from segre.fields.interface import Array
from segre.symmetry.wiring import readers
from segre.transformer.spec import Transformer

_KEPT = 0.05  # a reader agrees when its distance is below this part of the largest one's


def nearest_choice(
    spec: Transformer, found: Reduced, like: GaugeChoice, target: Tensors
) -> GaugeChoice:
    """The choices `like`, with scales that bring the reduced part `found` nearest to `target`."""
    w, folded = dict(found.tensors), dict(target)
    for norm, gain in like.norms.gains.items():
        for name, bias in norm_readers(spec, found.part, norm).items():
            if bias is not None and norm in like.norms.shifts:
                folded[bias] = folded[bias] + folded[name] @ like.norms.shifts[norm]
            if name in folded:
                folded[name] = folded[name] * gain.T
    for norm, signs in like.norms.signs.items():
        writer = rows_of(spec, norm)[0]
        folded[writer] = folded[writer] * signs
    heads, units, shared = like.heads, like.units, like.shared
    if heads is not None:
        own = spec.at(found.part)
        if heads.planes is not None:
            heads = replace(heads, planes=_planes(own, w, folded))
        unbalance(own, w, heads)
    if like.latents is not None:
        turn_planes(spec, w, like.latents)
    if units is not None and signed(spec):
        units = _units(w, folded)
    if units is not None:
        scale_units(spec, w, units)
    if shared is not None:
        shared = _units(w, folded, SHARED)
        scale_units(spec, w, shared, SHARED)
    if like.router is not None:
        shift_router(w, like.router)
    for name, read in like.norms.reads.items():
        w[name] = w[name] + read * spec.d**-0.5
    free = (*SUBLAYERS, *normed_readers(spec), *(("norm",) if spec.norm == "rms" else ()))
    gains = {
        norm: _gains(norm_readers(spec, found.part, norm), gain, w, target)
        if norm in free
        else gain
        for norm, gain in like.norms.gains.items()
    }
    flips = {norm: _signs(spec, norm, w, target) for norm in like.norms.signs}
    norms = replace(like.norms, gains=gains, signs=flips)
    return GaugeChoice(norms, heads, units, shared, like.router, like.latents, like.signs)


def _signs(spec: Transformer, norm: str, w: Tensors, target: Tensors) -> Array:
    """Signs of a gain and of the rows that its norm is of: a gain near 0 has either."""
    writer = rows_of(spec, norm)[0]
    products = np.moveaxis(w[writer] * target[writer], -2, 0)
    inner = products.reshape(len(products), -1).sum(axis=1)[:, None]
    gain = f"{norm}.gain"
    return np.where(inner + w[gain] * target[gain] < 0, -1.0, 1.0)


def norm_readers(spec: Transformer, part: str, norm: str) -> dict[str, str | None]:
    """The tensors that read what a norm norms, with their biases."""
    if norm in (latents := normed_readers(spec)):
        return dict.fromkeys(latents[norm])
    if norm not in SUBLAYERS:
        return {}
    return {reader.weight: reader.bias for reader in readers(spec, (part, SUBLAYERS[norm]))}


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


def _planes(spec: Transformer, w: Tensors, target: Tensors) -> Array:
    """Scales of the keys by plane; their phases are matched already."""
    k, q = planes(spec, keys(w)), planes(spec, queries(w))
    k2, q2 = planes(spec, keys(target)), planes(spec, queries(target))

    def inner(a: Array, b: Array) -> Array:
        return np.asarray((a * np.conj(b)).real.sum(axis=(1, 3)))

    return nearest_scale(
        inner(k, k), inner(k, k2), inner(q, q), inner(q, q2), positive=True
    ).astype(complex)


def _units(w: Tensors, target: Tensors, kind: str = UNITS) -> Array:
    reads, writes = unit_norms(w, kind)
    up, down = f"{kind}_up", f"{kind}_down"
    read = (w[up] * target[up]).sum(axis=-1)
    if bias := biased(w, kind, "up"):
        read = read + (w[bias] * target[bias])[..., 0]
    written = (w[down] * target[down]).sum(axis=-2)
    return nearest_scale(reads**2, read, writes**2, written)


def _gains(by: Iterable[str], like: Array, w: Tensors, target: Tensors) -> Array:
    """The nearest gains; those of the first, where with them one reader agrees and others do not.

    A fine-tune of some readers leaves the gain and the other readers unchanged. The smallest
    distance would spread the change over all of them.
    """
    found = [name for name in (list(by) or ["W_U"]) if name in w]
    rows = [(w[name].reshape(-1, len(like)), target[name].reshape(-1, len(like))) for name in found]
    sizes = np.array([(one**2).sum(axis=0) for one, _ in rows])
    inner = np.array([(one * two).sum(axis=0) for one, two in rows]).sum(axis=0)
    ones = np.ones(len(like))
    scales = nearest_scale(ones, like[:, 0], sizes.sum(axis=0), inner)
    apart = np.array([((one - two * like[:, 0]) ** 2).sum(axis=0) for one, two in rows])
    relative = apart / np.maximum(sizes, 1e-300)
    kept = relative.min(axis=0) < _KEPT**2 * relative.max(axis=0)
    return np.where(kept, like[:, 0], scales)[:, None]
