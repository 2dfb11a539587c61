"""What the first layer reads where no token lies: beside narrow embeddings, or few patches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from typing import Any

import numpy as np

from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.symmetry.constants import Forms, Several, Slack
from segre.symmetry.norms import port_of
from segre.symmetry.piece import Piece
from segre.symmetry.reach import annihilator
from segre.symmetry.space import Tensor, Weights, tensors_of
from segre.symmetry.wiring import (
    Norm,
    has,
    norm_after,
    norm_before,
    readers,
    sublayers,
    where,
)
from segre.transformer.spec import Transformer
from segre.transformer.tensors import part_shapes

EMBED = ("embed", "")
Columns = Callable[[Weights], Array]


def unreached_pieces(spec: Transformer) -> Iterator[Piece]:
    """Weights of the first attention on directions that its input never has."""
    if spec.embed:
        yield from _narrow(spec)
    room = spec.d - (spec.norm == "layer") - spec.patch - spec.t
    if spec.patch and room > 0:
        yield _beside_patches(spec, room)


def filled_by_embeddings(spec: Transformer) -> int:
    """How many dimensions of the stream embeddings of another width fill, up to a constant."""
    centred = spec.embnorm and spec.norm == "layer"
    placed = spec.t - 1 if spec.project else 0  # positions are added in the stream
    return min(spec.d, spec.embed + placed - centred) if spec.embed else spec.d


def _narrow(spec: Transformer) -> Iterator[Piece]:
    """Embeddings of another width, which are mapped to the stream."""
    first = sublayers(spec)[0]
    if spec.normed_before or sublayers(spec).count(first) > 1:
        return
    free = spec.d - filled_by_embeddings(spec)
    biased = any(has(spec, "embed", name) for name in ("b_E", "norm.bias"))
    constant = spec.project or biased
    if not free or not all(read.bias or not constant for read in readers(spec, first)):
        return
    site = norm_after(spec, EMBED)

    def added(w: Weights) -> Array:
        F, total = w.field, np.zeros((spec.d, 1))
        if site is not None and site.bias is not None:
            total = F.add(total, F.matmul(w("embed", "W_E"), w("embed", site.bias)))
        if spec.project:
            total = F.add(total, _used(w)[:, :1])
        return F.add(total, w("embed", "b_E")) if has(spec, "embed", "b_E") else total

    name = "weights of the first layer on directions without embeddings"
    # a form of the embedding added to its mean is one of these, where it vanishes on all
    names = ("W_E", "b_E", "positions", "norm.gain", "norm.bias")
    needed = tuple(("embed", name) for name in names if has(spec, "embed", name))
    columns = partial(_image, site=site)
    yield _piece(spec, name, free, needed, columns, added if constant else None)


def _piece(
    spec: Transformer,
    name: str,
    each: int,
    needed: tuple[Tensor, ...],
    columns: Columns,
    constant: Columns | None,
) -> Piece:
    """Forms that vanish on columns; maps with a bias keep the value that they have on a constant.

    Others need those that vanish on the constant, too.
    """

    def beside(w: Weights) -> Array:
        return vanishing(w, columns(w))

    def value(w: Weights) -> Array:
        assert constant is not None
        return np.asarray(w.field.matmul(beside(w), constant(w))[:, 0])

    def alone(w: Weights) -> Array:
        assert constant is not None
        return vanishing(w, np.concatenate([columns(w), constant(w)], axis=1))

    given: dict[str, Any] = {"needed": needed, "spanned": True, "document": "unreached"}
    kept, own = Forms(beside, value if constant else None, **given), Forms(alone, **given)
    read = readers(spec, sublayers(spec)[0])
    slack = (Slack(port_of(r), kept if r.bias or constant is None else own) for r in read)
    rows = sum(prod(part_shapes(spec, r.part)[r.weight][:-1]) for r in read)
    rows -= bool(spec.embed) and spec.norm == "layer"
    at = where(spec, sublayers(spec)[0][0])
    free = Several(tuple(slack))
    return Piece("unreached", name, at, "residual", "exact", each * rows, free)


def vanishing(w: Weights, columns: Array) -> Array:
    """Forms that vanish on columns, as rows."""
    if isinstance(w.field, Prime):
        return annihilator(w.field, np.ascontiguousarray(columns.T))
    left, sizes, _ = np.linalg.svd(columns)
    return np.asarray(left[:, int((sizes > 1e-10 * sizes[0]).sum()) :].T)


def _image(w: Weights, site: Norm | None) -> Array:
    """Columns that span what embeddings fill: W_E, after a norm its gain, and differences of these.

    What a LayerNorm writes is orthogonal to 1 before its gain.
    """
    F, image = w.field, w("embed", "W_E")
    if w.transformer.project:
        used = _used(w)
        return np.concatenate([image, F.sub(used[:, 1:], used[:, :1])], axis=1)
    if site is None:
        return image
    if site.gain is not None:
        image = F.mul(image, w("embed", site.gain)[:, 0])
    centred = w.transformer.norm == "layer"
    return np.asarray(F.sub(image[:, 1:], image[:, :1]) if centred else image)


def _used(w: Weights) -> Array:
    """The positions that tokens have."""
    spec = w.transformer
    return w("embed", "positions")[:, spec.offset : spec.offset + spec.t]


def patch_columns(w: Weights) -> Array:
    """Columns that span the tokens of patches: the map of the patches, and their positions."""
    F, spec = w.field, w.transformer
    used = w("embed", "positions")[:, : spec.t]
    patches = F.add(used, w("embed", "b_P"))
    if spec.cls:
        first = F.add(used[:, :1], w("embed", "cls"))
        patches = np.concatenate([first, patches[:, 1:]], axis=1)
    columns = np.concatenate([w("embed", "W_P"), patches], axis=1)
    if spec.norm != "layer":
        return columns
    share = F.reciprocal(F.constant(np.array([[spec.d]])))
    return np.asarray(F.sub(columns, F.mul(F.sum(columns, axis=-2), share)))


def _beside_patches(spec: Transformer, room: int) -> Piece:
    """Patches fill few directions of the stream."""
    site = norm_before(spec, sublayers(spec)[0])
    assert site is not None

    def read(w: Weights) -> Array:
        columns = patch_columns(w)
        return w.field.mul(columns, w(site.part, site.gain)) if site.gain else columns

    def bias(w: Weights) -> Array:
        assert site.bias is not None
        return w(site.part, site.bias)

    names = ("W_P", "b_P", "cls", "positions")
    needed = (*(("embed", n) for n in names if has(spec, "embed", n)), *tensors_of(site))
    name = "weights of the first attention on directions that its input never has"
    return _piece(spec, name, room, needed, read, bias if site.bias else None)
