"""What the first layer reads where no token lies: beside narrow embeddings, or few patches."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.symmetry.constants import Forms, Several, Slack
from segre.symmetry.norms import port_of
from segre.symmetry.piece import Piece
from segre.symmetry.reach import annihilator
from segre.symmetry.space import Weights, tensors_of
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


def unreached_pieces(spec: Transformer) -> Iterator[Piece]:
    """Weights of the first attention on directions that its input never has."""
    if spec.embed:
        yield from _narrow(spec)
    room = spec.d - (spec.norm == "layer") - spec.patch - spec.t
    if spec.patch and room > 0:
        site = norm_before(spec, sublayers(spec)[0])
        assert site is not None
        name = "weights of the first attention on directions that its input never has"
        yield _piece(
            spec, name, room * _rows(spec), _beside_patches(spec, site), site.bias is not None
        )


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
    constant = spec.project or any(has(spec, "embed", name) for name in ("b_E", "norm.bias"))
    if free and all(read.bias or not constant for read in readers(spec, first)):
        name = "weights of the first layer on directions without embeddings"
        # a form of the embedding added to its mean is one of these, where it vanishes on all
        count = free * (_rows(spec) - (spec.norm == "layer"))
        yield _piece(spec, name, count, _beside_embeddings(spec), constant)


def _rows(spec: Transformer) -> int:
    """How many rows the maps of the first attention have."""
    read = readers(spec, sublayers(spec)[0])
    return sum(prod(part_shapes(spec, r.part)[r.weight][:-1]) for r in read)


def _piece(
    spec: Transformer, name: str, count: int, forms: tuple[Forms, Forms], constant: bool
) -> Piece:
    """Maps with a bias keep the value of the first forms; others need the second ones."""
    read = readers(spec, sublayers(spec)[0])
    kept = [forms[0] if r.bias is not None or not constant else forms[1] for r in read]
    slack = (Slack(port_of(r), own) for r, own in zip(read, kept, strict=True))
    at = where(spec, sublayers(spec)[0][0])
    return Piece("unreached", name, at, "residual", "exact", count, Several(tuple(slack)))


def vanishing(w: Weights, columns: Array) -> Array:
    """Forms that vanish on columns, as rows."""
    if isinstance(w.field, Prime):
        return annihilator(w.field, np.ascontiguousarray(columns.T))
    left, sizes, _ = np.linalg.svd(columns)
    return np.asarray(left[:, int((sizes > 1e-10 * sizes[0]).sum()) :].T)


def _beside_embeddings(spec: Transformer) -> tuple[Forms, Forms]:
    site = norm_after(spec, EMBED)
    biased = site is not None and site.bias is not None

    def directions(w: Weights) -> Array:
        return vanishing(w, _image(w, site))

    def value(w: Weights) -> Array:
        F, total = w.field, np.zeros((spec.d, 1))
        if site is not None and site.bias is not None:
            total = F.add(total, F.matmul(w("embed", "W_E"), w("embed", site.bias)))
        if spec.project:
            total = F.add(total, _used(w)[:, :1])
        if has(spec, "embed", "b_E"):
            total = F.add(total, w("embed", "b_E"))
        return np.asarray(F.matmul(directions(w), total)[:, 0])

    constant = biased or spec.project or has(spec, "embed", "b_E")
    names = ("W_E", "b_E", "positions", "norm.gain", "norm.bias")
    needed = tuple(("embed", name) for name in names if has(spec, "embed", name))
    given = value if constant else None
    found = Forms(directions, given, needed, spanned=True, document="unreached")
    return found, found


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


def _beside_patches(spec: Transformer, site: Norm) -> tuple[Forms, Forms]:
    def read(w: Weights) -> Array:
        columns = patch_columns(w)
        return w.field.mul(columns, w(site.part, site.gain)) if site.gain else columns

    def alone(w: Weights) -> Array:
        assert site.bias is not None
        return vanishing(w, np.concatenate([read(w), w(site.part, site.bias)], axis=1))

    def value(w: Weights) -> Array:
        assert site.bias is not None
        return np.asarray(w.field.matmul(vanishing(w, read(w)), w(site.part, site.bias))[:, 0])

    names = ("W_P", "b_P", "cls", "positions")
    needed = (*(("embed", n) for n in names if has(spec, "embed", n)), *tensors_of(site))
    kept = Forms(
        lambda w: vanishing(w, read(w)),
        value if site.bias else None,
        needed,
        spanned=True,
        document="unreached",
    )
    return kept, Forms(alone, needed=needed, spanned=True, document="unreached")
