"""Symmetries of weights without effect: scores of a lone token, the router of a lone expert, ..."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from segre.fields.interface import Array
from segre.geometry.gauge.piece import Group, ModularWeights, Piece
from segre.geometry.gauge.wiring import (
    expert_layer,
    has,
    norm_after,
    points,
    reads_norm,
    sublayers,
    where,
)
from segre.transformer.spec import Transformer
from segre.transformer.tensors import part_shapes, parts

_SCORES = ("W_Q", "b_Q", "W_K", "b_K", "normq.gain", "R_Q", "R_K", "A_Q")


def silent_pieces(spec: Transformer, part: str) -> Iterator[Piece]:
    """The pieces of one layer."""
    spec = spec.at(part)
    if spec.t == 1 and spec.sums_to_one:
        names = [*_SCORES, *([] if spec.latent else ["normk.gain"])]
        kept = [name for name in names if has(spec, part, name)]
        yield free_entries(spec, part, kept, "silent-scores", "scores of a single token")
        if spec.gate == "none":
            yield _pooled(spec, part)
    elif spec.qknorm is True and spec.head == 1 and not spec.eps:
        names = [name for name in ("W_Q", "b_Q", "W_K", "b_K") if has(spec, part, name)]
        title = "queries and keys of one number, whose norm keeps only a sign"
        yield free_entries(spec, part, names, "signs", title)
    alone = spec.mixnorm and spec.heads == 1 and not spec.mixing_eps
    if alone and spec.mechanism.linear:
        # one head's scores of a query: a norm takes a common factor away
        letters = "QK" if spec.t == 1 else "Q" if spec.head == 1 else ""
        names = [f"{x}_{y}" for y in letters for x in "Wb" if has(spec, part, f"{x}_{y}")]
        if names:
            title = "scale of everything that one head mixes, before its norm"
            yield free_entries(spec, part, names, "signs", title)
    if _lone_gate(spec, part):
        names = [name for name in ("W_G", "b_G") if has(spec, part, name)]
        title = "the gate of the whole output, whose scale a norm removes"
        count = spec.d + has(spec, part, "b_G") - (spec.norm == "layer")
        yield free_entries(spec, part, names, "silent-gate", title, count)
    if lone_expert(spec, part):
        names = [name for name in ("W_R", "c_R") if has(spec, part, name)]
        title = "the router, if a token uses one expert"
        yield free_entries(spec, part, names, "router", title, _router_count(spec))


def sign_pieces(spec: Transformer) -> Iterator[Piece]:
    """A LayerNorm of two numbers keeps only a sign: weights before the last one are free."""
    if spec.norm != "layer" or spec.d != 2 or spec.eps or spec.place != "post" or spec.embed:
        return
    last = norm_after(spec, sublayers(spec)[-1])
    assert last is not None
    for part in parts(spec)[:-1]:
        kept = {last.gain, last.bias} if part == last.part else set()
        kept |= {"tokens"} if spec.tied else set()
        names = [name for name in part_shapes(spec, part) if name not in kept]
        if names:
            title = "weights before a norm of two numbers, which keeps only a sign"
            yield free_entries(spec, part, names, "signs", title)


def _lone_gate(spec: Transformer, part: str) -> bool:
    """Whether one gate scales the whole output of attention, and a norm without eps follows."""
    alone = spec.heads == 1 and spec.gate == "head" and not has(spec, part, "b_O")
    if not alone or spec.eps or spec.norm == "none":
        return False
    end = (part, "attention")
    after = [consumer for producer, consumer in points(spec) if producer == end]
    return spec.normed_inside or (
        not spec.residual and all(reads_norm(spec, consumer) for consumer in after)
    )


def lone_expert(spec: Transformer, part: str) -> bool:
    """Whether a token uses one expert, whose share is then 1."""
    return expert_layer(spec, part) and spec.active == 1 and spec.router in ("sigmoid", "softmax")


def _router_count(spec: Transformer) -> int:
    """Beyond what is added to all affinities, and what is read along the mean of a LayerNorm."""
    count = spec.experts * (spec.d + spec.expbias)
    if spec.softmax_router:
        count -= spec.d + spec.expbias
    if spec.norm == "layer" and spec.normed_before and not spec.norm_bias:
        count -= spec.experts - spec.softmax_router
    return count


def free_entries(
    spec: Transformer, part: str, names: list[str], kind: str, title: str, count: int = 0
) -> Piece:
    """All entries of tensors."""
    sizes = {name: prod(part_shapes(spec, part)[name]) for name in names}

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(sum(sizes.values()))
        start = 0
        for name, size in sizes.items():
            view = canvas(part, name).reshape(len(canvas.rows), size)
            view[range(start, start + size), range(size)] = 1
            start += size
        return canvas.rows

    groups: dict[str, Group] = {"router": "MLP", "silent-gate": "VO"}
    group = groups.get(kind, "QK")
    return Piece(kind, title, where(spec, part), group, "exact", count, build)


def _pooled(spec: Transformer, part: str) -> Piece:
    """The heads are one linear map: the sum of W_O[g, q] W_V[g]."""
    v, inner, group = spec.dv, spec.kv * spec.dv, spec.group

    def build(w: ModularWeights) -> Array:
        F, out = w.field, w(part, "W_O")
        canvas = w.canvas(inner * inner + spec.kv * (group - 1) * spec.d * v)
        dO, summed = canvas(part, "W_O"), F.reduce(out.sum(axis=1))
        row = 0
        for n, m in np.ndindex(inner, inner):
            (g, j), (other, k) = divmod(n, v), divmod(m, v)
            for name in ("W_V", "b_V"):
                if has(spec, part, name):
                    canvas(part, name)[row, g, 0, j] = w(part, name)[other, 0, k]
            dO[row, other, 0, :, k] = -summed[g, :, j]
            row += 1
        for g, q, i, j in np.ndindex(spec.kv, group - 1, spec.d, v):
            dO[row, g, q + 1, i, j], dO[row, g, 0, i, j] = 1, -1
            row += 1
        return canvas.rows

    name = "value-output basis of all heads, which act as one"
    return Piece("pooled-heads", name, where(spec, part), "VO", "exact", 0, build)
