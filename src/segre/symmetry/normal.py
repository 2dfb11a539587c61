"""The normal form of weights of floats: for all that is free continuously, one element.

Constants go to the last that can have them, gains become 1, tensors have nothing along directions
without effect, and factors are balanced. What is left is finite, or orthogonal.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch

import numpy as np

from segre.fields.interface import Array
from segre.symmetry.action import Actor
from segre.symmetry.balance import DEFICIENT, balancing
from segre.symmetry.basis import TINY, Basis
from segre.symmetry.constants import Constants, Entries, Slack
from segre.symmetry.orders import Order
from segre.symmetry.space import (
    VALUES,
    FloatWeights,
    inverse_gain,
    rotary_planes,
    unit_shift,
)
from segre.symmetry.special import CommonForm, Mean, UnseenShift, ValueKernel

EQUAL = 1e-20  # squared, relative: gains that are equal up to rounding
POSITIONS = ("embed", "positions")
EXACT = 4 * float(np.finfo(float).eps)  # of gains that are divided and multiplied again


def fix(one: Actor, w: FloatWeights, slack: float) -> Array:
    """Act with the element that leads to the normal form; returns the one that can be undone."""
    if isinstance(one, Constants):
        return _constants(one, w, slack)
    if isinstance(one, Basis):
        return _unit_vector(one, w) if one.vector is not None else _BASES[one.group](one, w, slack)
    out = _best(one, w, slack)
    one.act(w, out)
    return out


@singledispatch
def _best(one: Actor, w: FloatWeights, slack: float) -> Array:  # noqa: ARG001
    """The element that leads to the normal form."""
    raise TypeError(one)


def none_within(found: Array, of: Array, axis: int, by: float, slack: float) -> Array:
    """A mean or component of a tensor along an axis; 0 where it is within rounding."""
    if not slack:
        return found
    return np.where(np.abs(found) <= slack * by * _sizes(of, axis), 0.0, found)


def _sizes(of: Array, axis: int) -> Array:
    """Norms along an axis, without a copy."""
    rows = np.moveaxis(of, axis, -1)
    return np.asarray(np.sqrt(np.einsum("...i,...i->...", rows, rows)))


# --- constants and slack -------------------------------------------------------------------------


def _constants(one: Constants, w: FloatWeights, slack: float) -> Array:
    """Sources become zero or, tables, have a mean of zero; what a LayerNorm carries becomes 1."""
    source = one.sources[-1]
    shape = (*one.copies, one.width)
    if source.site is not None:
        return np.zeros(shape)
    value = w(*source.tensor)
    if source.tensor == POSITIONS:
        value = value[:, w.transformer.offset :]
    mean = none_within(value.mean(axis=-1), value, -1, 1 / value.shape[-1], slack)
    out = -mean.reshape(shape) / unit_shift(w, source.tensor)
    out[..., : one.start] = 0.0
    site = next((p.bias.site for p in one.readers if p.bias is not None and p.bias.site), None)
    if site is None:
        one.act(w, out)
        return out
    gain = w(site.part, site.gain)[:, 0] if site.gain else np.ones(one.width)
    if not gain.all():
        return np.zeros(shape)
    one.act(w, gain + out)
    carries = abs(float((value[:, 0] / gain).sum())) > TINY * one.width
    return gain + out if carries else np.zeros(shape)


@_best.register
def _(one: Slack, w: FloatWeights, slack: float) -> Array:
    """Nothing is left along the directions."""
    value, D = w(*one.port.tensor), one.directions(w)
    axis = one.port.axis % value.ndim
    rows = np.moveaxis(value, axis, -1)
    if not len(D):
        return np.zeros((0, *rows.shape[:-1]))
    if one.forms.spanned:  # by an orthonormal basis
        found = (rows @ D.T) @ D
        size = _sizes(rows, -1)[..., None]
        inside = np.linalg.norm(found, axis=-1, keepdims=True) <= slack * size
        found = np.moveaxis(np.where(inside, 0.0, found), -1, 0)
    else:  # one direction, or some that are orthogonal
        found = rows @ D.T
        if slack:
            by = np.abs(D).max(axis=1)
            found[np.abs(found) <= slack * by * _sizes(rows, -1)[..., None]] = 0.0
        found = np.moveaxis(found, -1, 0)
    return -found


@_best.register
def _(one: Entries, w: FloatWeights, slack: float) -> Array:  # noqa: ARG001
    """Zero."""
    return -w(*one.tensor)


@_best.register
def _(one: Mean, w: FloatWeights, slack: float) -> Array:
    """The mean becomes zero."""
    value = w(*one.source)
    mean = value.mean(axis=-2)
    mean = none_within(mean, value, -2, 1 / value.shape[-2], slack).mean()
    return np.array([-mean / (one.often[1] * unit_shift(w, one.source)[0])])


@_best.register
def _(one: UnseenShift, w: FloatWeights, slack: float) -> Array:
    """The mean of the other table vanishes along what a LayerNorm passes on of the shift."""
    form = inverse_gain(w, one.site)
    seen, size = form - form.mean(), float(((form - form.mean()) ** 2).sum())
    if size < EQUAL * float((form**2).sum()):  # equal gains: nobody sees the shift of the tokens
        along = -form.T @ w("embed", "tokens") / float((form**2).sum())
    else:
        along = seen.T @ w(*one.table)[:, w.transformer.offset :] / size
    return none_within(along.mean(axis=1), along, 1, 1 / along.shape[1], slack)


@_best.register
def _(one: ValueKernel, w: FloatWeights, slack: float) -> Array:
    """Value biases are the least that write the same."""
    if one.source.site is not None:
        return np.zeros(one.shape(w))
    value = w(*one.source.tensor)[..., 0]
    out = -one.unwritten(w, value)
    least = slack * np.linalg.norm(value)
    return np.zeros_like(out) if np.linalg.norm(out) <= least else out


@_best.register
def _(one: CommonForm, w: FloatWeights, slack: float) -> Array:
    """The form is as large as the map is beside its mean; of two signs, with the smaller mean."""
    table = w(*one.shear.ports[0].tensor)
    table = table * w("embed", "norm.gain").T if ("embed", "norm.gain") in w.tensors else table
    table = table - table.mean(axis=1, keepdims=True)
    form, mean = inverse_gain(w, one.site).T, table.mean(axis=0, keepdims=True)
    seen = form @ table
    size = float(np.linalg.norm(seen))
    factor = float(np.linalg.norm(table - mean)) / size if size else 1.0
    means = {f: np.linalg.norm(mean + (f - 1) / form.sum() * seen) for f in (factor, -factor)}
    best = min(means, key=lambda f: float(means[f])) if size else 1.0
    return np.array([1.0 if abs(best - 1) <= slack else best])


@_best.register
def _(one: Order, w: FloatWeights, slack: float) -> Array:  # noqa: ARG001
    """Gains are positive."""
    gain = w(*one.by[0]).reshape(*one.copies, one.width)
    return one.of(signs=np.where(gain < 0, -1.0, 1.0))


# --- bases and scales ----------------------------------------------------------------------------


def _unit_vector(one: Basis, w: FloatWeights) -> Array:
    """A gain that is next to zero goes into the maps, too, unless a bias needs them."""
    vector, deep = one.vector, len(one.copies)
    assert vector is not None
    value = w(*vector.tensor).reshape(*one.copies, one.width)
    sure = np.abs(value) > TINY * np.abs(value).max(initial=0.0)
    by = np.where(sure, value, 1.0)
    out = np.asarray(by if vector.reads else 1 / by)
    one.act(w, out)
    for port in one.ports:
        if port.reads == vector.reads and port.tensor in w.tensors:  # exactly
            own = w(*port.tensor)
            w.tensors[port.tensor] = np.where(np.abs(own - 1) <= EXACT, 1.0, own)
    if not sure.all():
        beside = [p for p in one.ports if p.reads == vector.reads and p is not vector]
        for port in beside:
            sure = sure | port.rows(w, deep).any(axis=-1)
        rest = np.where(sure, 1.0, value)
        for port in one.ports:
            if port.reads != vector.reads:
                port.times(w, rest, deep)
        w.tensors[vector.tensor] = np.where(
            sure.reshape(w(*vector.tensor).shape), w(*vector.tensor), 1.0
        )
    return out


def _squares(side: list[Array]) -> Array:
    """Squared norms of all rows."""
    return np.asarray(sum(np.einsum("...i,...i->...", rows, rows) for rows in side))


def _matrices(one: Basis, w: FloatWeights, slack: float) -> Array:
    """Equal and diagonal Gram matrices; where rank is lacking, nothing is recorded.

    Heads that lack rank stay as they are if they have value biases, which may need all dimensions.
    """
    joined = (np.concatenate(side, -1) if side[1:] else side[0] for side in one.sides(w))
    writes, reads = (side[..., one.start :, :] for side in joined)
    P, G = balancing(writes, reads.swapaxes(-1, -2), slack)
    full = np.asarray(P.any(axis=-1).all(axis=-1))[..., None, None]
    for port in one.ports:
        if port.tensor[1] == VALUES and port.rows(w, len(one.copies)).any():
            P, G = (np.where(full, x, np.eye(P.shape[-1])) for x in (P, G))
    eye = np.broadcast_to(np.eye(one.width), (*one.copies, one.width, one.width))
    M, inverse = eye.copy(), eye.copy()
    M[..., one.start :, one.start :], inverse[..., one.start :, one.start :] = P, G
    one.act_by(w, M, inverse)
    return np.where(full, M, eye)


def _factors(writes: Array, reads: Array, degrees: tuple[int, int], slack: float) -> Array:
    """Scales that make norms equal; 1 where one of them is 0, or within `slack`."""
    alive = (writes > 0) & (reads > 0)
    ratio = np.where(alive, reads, 1.0) / np.where(alive, writes, 1.0)
    out: Array = ratio ** (1 / sum(degrees))
    return np.where(np.abs(1 / out - 1) <= slack, 1.0, out)


def _clear(one: Basis, w: FloatWeights, alive: Array) -> None:
    """Nothing passes where one side is zero: both are set to zero."""
    if not alive.all():
        for port in one.ports:
            port.times(w, alive, len(one.copies))


def _scales(one: Basis, w: FloatWeights, slack: float) -> Array:
    """Norms of what units read and write are equal."""
    writes, reads = (np.sqrt(_squares(side)) for side in one.sides(w))
    _clear(one, w, (writes > 0) & (reads > 0))
    degrees = [max(p.degree for p in one.ports if p.reads == reads) for reads in (False, True)]
    out = _factors(writes, reads, (degrees[0], degrees[1]), slack)
    one.act(w, out)
    return out


def _planes(one: Basis, w: FloatWeights, slack: float) -> Array:
    """Norms of queries and keys are equal, plane by plane."""
    planes = rotary_planes(w.transformer, one.turning)
    first, second = np.array(planes, int).reshape(-1, 2).T
    squares = [_squares(side) for side in one.sides(w)]
    writes, reads = (np.sqrt(x[..., first] + x[..., second]) for x in squares)
    alive = np.ones((*one.copies, one.width))
    alive[..., first] = alive[..., second] = (writes > 0) & (reads > 0)
    _clear(one, w, alive)
    scales = _factors(writes, reads, (1, 1), slack)
    if one.group == "planes":
        out = scales.astype(complex)
    else:
        every = [np.sqrt(x) for x in squares]
        out = _factors(every[0], every[1], (1, 1), slack)
        out[..., first] = out[..., second] = scales
    one.act(w, out)
    return out


def _shear(one: Basis, w: FloatWeights, slack: float) -> Array:
    """The means of what is written are zero, if it leaves room for that."""
    value = next(port for port in one.ports if not port.reads).rows(w, 0)
    mean = none_within(value.mean(axis=0), value, 0, 1 / len(value), slack)
    form = -np.linalg.lstsq(value.T, mean, rcond=DEFICIENT)[0]
    out = np.eye(one.width) + np.ones((one.width, 1)) * form
    if abs(1 + form.sum()) < TINY:  # singular
        return np.eye(one.width)
    one.act(w, out)
    return out


_BASES: dict[str, Callable[[Basis, FloatWeights, float], Array]] = {
    "gl": _matrices,
    "torus": _scales,
    "planes": _planes,
    "plane-scales": _planes,
    "shear": _shear,
}
