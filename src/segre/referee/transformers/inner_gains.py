"""Which gains of norms inside act like rows of what is written? Families 40 and 63 of section 9."""

from __future__ import annotations

from flint import nmod_mat

from segre.referee.linear import above, annihilator, beside, select
from segre.referee.meter import RESIDUES, charge
from segre.referee.transformers.stream import Actor
from segre.referee.transformers.tangents import Family, Point, Tangent


def inner_gains(point: Point) -> Family:
    """Family 40."""
    spec, stream = point.spec, point.stream
    if spec.norm == "none" or spec.place not in ("sandwich", "after") or not spec.gain:
        return
    (spot,) = stream.joint_spots
    for sublayer in stream.sublayers:
        if spec.norm == "rms" or stream.only_norms_read(spot, sublayer):
            yield from _inner_gains(point, sublayer)


def seen_inner_gains(point: Point) -> Family:
    """Family 63."""
    spec, stream = point.spec, point.stream
    if spec.norm != "layer" or spec.place != "sandwich" or not spec.gain:
        return
    (spot,) = stream.joint_spots
    for sublayer in stream.sublayers:
        if not stream.only_norms_read(spot, sublayer):
            yield from _inner_gains(point, sublayer, seen=True)


def _inner_gains(point: Point, sublayer: Actor, seen: bool = False) -> Family:
    spec, d, p = point.spec, point.spec.d, point.p
    keys = point.keys(point.stream.written(sublayer))
    norm = point.stream.norm_after(sublayer)
    assert norm is not None
    W = beside([point.matrices[key] for key in keys])
    m = W.ncols()
    if m * (m + 1) // 2 + m * seen >= d:
        return
    charge(d * m * (m + d) * RESIDUES.entry)
    lost = point.zero(
        d, d
    )  # column i, over 1^T Gam^-1 1, times row i of W: what dW has beside -E_ii W
    if spec.norm == "layer":
        W = W - point.field.ones(d, d) * W * pow(d, -1, p)
        inverse = point.gain(norm, d)[1]
        total = sum(int(inverse[i, i]) for i in range(d)) % p
        lost = lost if seen else inverse * point.field.ones(d, d) * pow(total, -1, p)
    changes = []
    for i in range(d):
        unit = point.unit(d, (i, i, 1))
        changes.append((lost * unit - unit) * W)
    pairs = [(a, b) for a in range(m) for b in range(a, m)]
    rows = [W.transpose() * change for change in changes]
    entries = [int(row[a, b]) + int(row[b, a]) for a, b in pairs for row in rows]
    forms = nmod_mat(len(pairs), d, entries, p)
    forms = above([forms, W.transpose()]) if seen else forms
    for D in annihilator(forms, "the form of what is written before a norm"):
        gain = point.matrices[*norm.gain, 0]
        tangent: Tangent = {
            (*norm.gain, 0): nmod_mat(d, 1, [D[i] * int(gain[i, 0]) for i in range(d)], p)
        }
        moved = point.zero(d, m)
        for factor, change in zip(D, changes, strict=True):
            moved = moved + change * factor
        start = 0
        for key in keys:
            width = point.matrices[key].ncols()
            tangent[key] = select(moved, range(d), range(start, start + width))
            start += width
        yield "inner-gain", tangent
