"""Symmetries around norms: gains and biases that readers absorb."""

from __future__ import annotations

from collections.abc import Iterator

from segre.fields.interface import Array
from segre.geometry.gauge.absorb import absorb_shift
from segre.geometry.gauge.piece import ModularWeights, Piece
from segre.geometry.gauge.turns import gain_piece
from segre.geometry.gauge.wiring import (
    End,
    Norm,
    Reader,
    has,
    layer_scale,
    norm_after,
    norm_at,
    norm_before,
    own_sublayers,
    places,
    readers,
    where,
)
from segre.transformer.spec import Transformer

_TITLES = {
    "norm1": "attention",
    "norm2": "MLP",
    "norm": "final",
    "normT": "head's",
    "post1": "post-attention",
    "post2": "post-MLP",
}


def title(site: Norm) -> str:
    """A norm in words."""
    return "embedding" if site.part == "embed" else _TITLES[site.name]


def read_norms(spec: Transformer) -> Iterator[tuple[Norm, list[Reader]]]:
    """The norms whose outputs only linear maps read, with these; a tied table reads none."""
    for end in own_sublayers(spec):
        site = norm_before(spec, end)
        if site is not None:
            yield site, readers(spec, end)
    if spec.embnorm and spec.embed:
        bias = "b_E" if has(spec, "embed", "b_E") else None
        yield norm_at(spec, "embed", "norm", spec.embed), [Reader("embed", "W_E", bias)]
    if not spec.shows_stream:
        if spec.final and not spec.table_reads:
            yield norm_at(spec, "head", "norm", spec.d), readers(spec, ("head", ""))
        if spec.transform and spec.headnorm and not spec.tied:
            yield norm_at(spec, "head", "normT", spec.head_width), [_unembedding(spec)]
    yield from _post_norms(spec)


def _unembedding(spec: Transformer) -> Reader:
    return Reader("head", "W_U", "b_U" if spec.outbias else None)


def _post_norms(spec: Transformer) -> Iterator[tuple[Norm, list[Reader]]]:
    """Norms after a skip are carried on by the next one; but for the last, before the head."""
    if spec.norm == "none" or spec.place != "post" or spec.shows_stream:
        return
    for place in places(spec, carried=False):
        if (
            place.consumers == (("head", ""),)
            and len(place.producers) == 1
            and not spec.table_reads
        ):
            site = norm_after(spec, place.producers[0])
            assert site is not None
            yield site, readers(spec, ("head", ""))


def norm_pieces(spec: Transformer) -> Iterator[Piece]:
    """Gains and biases absorbed by their readers."""
    for site, read_by in read_norms(spec):
        at = where(spec, site.part)
        tensors = [(r.part, r.weight) for r in read_by]
        if site.gain:
            yield gain_piece(site.part, at, site, tensors, title(site))
        if site.bias and not (spec.place == "post" and site.name.startswith("post")):
            yield _absorbed_bias(spec, site, read_by)
    yield from _tied_bias(spec)
    if spec.layerscale:
        for end in own_sublayers(spec):
            yield _layer_scales(spec, end)


def _layer_scales(spec: Transformer, end: End) -> Piece:
    """The output scale of a sublayer is absorbed by its output weights."""
    part = end[0]
    names = ["W_O", "b_O"] if end[1] == "attention" else ["W_down", "b_down"]
    scale = layer_scale(spec, (part, names[0]))
    assert scale is not None

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(spec.d)
        for i in range(spec.d):
            canvas(part, scale)[i, i] = w(part, scale)[i]
            for name in names:
                canvas(part, name)[i, ..., i, :] = -w(part, name)[..., i, :]
        return canvas.rows

    title = f"scale of the {end[1]} output, absorbed by its weights"
    return Piece(
        "layer-scale", title, where(spec, part), "norms and biases", "exact", spec.d, build
    )


def _absorbed_bias(spec: Transformer, site: Norm, read_by: list[Reader]) -> Piece:
    """The bias of a norm goes into its readers."""

    def build(w: ModularWeights) -> Array:
        assert site.bias is not None
        canvas = w.canvas(site.width)
        canvas(site.part, site.bias)[range(site.width), range(site.width), 0] = 1
        for reader in read_by:
            absorb_shift(w, canvas, reader, site)
        return canvas.rows

    name = f"bias of the {title(site)} norm, absorbed by the maps that read it"
    at = where(spec, site.part)
    return Piece("norm-bias", name, at, "norms and biases", "exact", site.width, build)


def _tied_bias(spec: Transformer) -> Iterator[Piece]:
    """Before a tied table, a norm's bias goes into the bias of the logits."""
    if not (spec.tied and spec.outbias):
        return
    name = "normT" if spec.transform else "norm"
    site = norm_at(spec, "head", name, spec.embed or spec.d)
    if site.bias is None or not (spec.transform or spec.final):
        return
    bias = site.bias

    def build(w: ModularWeights) -> Array:
        canvas = w.canvas(site.width)
        canvas("head", bias)[range(site.width), range(site.width), 0] = 1
        canvas("head", "b_U")[:, :, 0] = -w("embed", "tokens")
        return canvas.rows

    name = f"bias of the {title(site)} norm, absorbed by the logits' bias"
    yield Piece("norm-bias", name, "head", "norms and biases", "exact", site.width, build)
