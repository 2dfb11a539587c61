"""The spaces that norms write: gains and biases that readers absorb."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from segre.symmetry.basis import Basis
from segre.symmetry.constants import Constants
from segre.symmetry.piece import Piece
from segre.symmetry.space import Bias, Port, Tensor, reader, writer
from segre.symmetry.wiring import (
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


def gained(site: Norm, read_by: Sequence[Tensor], name: str, at: str) -> Piece:
    """What a norm writes: its gain and bias against the maps that read them."""
    own = [writer(site.part, n) for n in (site.gain, site.bias) if n]
    ports = (*own, *(reader(*tensor) for tensor in read_by))
    words = f"gains of the {name} norm, absorbed by the maps that read it"
    free = Basis(site.width, "torus", ports)
    return Piece("gain", words, at, "norms and biases", "exact", site.width, free)


def port_of(read: Reader, site: Norm | None = None, gain: Tensor | None = None) -> Port:
    """A reader as a port; it takes constants back by its bias or, after a LayerNorm, without."""
    bias = None
    if read.bias is not None:
        bias = Bias((read.part, read.bias))
    elif site is not None and site.bias is not None:
        bias = Bias((read.part, read.weight), site)
    return reader(read.part, read.weight, bias=bias, gain=gain)


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
            unembedding = Reader("head", "W_U", "b_U" if spec.outbias else None)
            yield norm_at(spec, "head", "normT", spec.head_width), [unembedding]
    after = norm_after_skips(spec)
    if after is not None and not spec.shows_stream and not spec.table_reads:
        yield after, readers(spec, ("head", ""))


def norm_after_skips(spec: Transformer) -> Norm | None:
    """The norm after the last skip, if the head alone reads it."""
    if spec.norm == "none" or spec.place != "post":
        return None
    last = [place for place in places(spec, carried=False) if place.consumers == (("head", ""),)]
    one = len(last) == 1 and len(last[0].producers) == 1
    return norm_after(spec, last[0].producers[0]) if one else None


def norm_pieces(spec: Transformer) -> Iterator[Piece]:
    """Gains and biases absorbed by their readers, and scales of what sublayers write."""
    for site, read_by in read_norms(spec):
        at = where(spec, site.part)
        if site.gain:
            yield gained(site, [(r.part, r.weight) for r in read_by], title(site), at)
        if site.bias and not (spec.place == "post" and site.name.startswith("post")):
            name = f"bias of the {title(site)} norm, absorbed by the maps that read it"
            source = Bias((site.part, site.bias))
            free = Constants(site.width, (source,), tuple(port_of(r, site) for r in read_by))
            yield Piece("norm-bias", name, at, "norms and biases", "exact", site.width, free)
    yield from _tied_bias(spec)
    for part, kind in own_sublayers(spec) if spec.layerscale else ():
        names = ("W_O", "b_O") if kind == "attention" else ("W_down", "b_down")
        scale = layer_scale(spec, (part, names[0]))
        assert scale is not None
        ports = (*(writer(part, n) for n in names), Port((part, scale), reads=True))
        name = f"scale of the {kind} output, absorbed by its weights"
        scales, at = Basis(spec.d, "torus", ports), where(spec, part)
        yield Piece("layer-scale", name, at, "norms and biases", "exact", spec.d, scales)


def _tied_bias(spec: Transformer) -> Iterator[Piece]:
    """Before a tied table, a norm's bias goes into the bias of the logits."""
    name = "normT" if spec.transform else "norm"
    site = norm_at(spec, "head", name, spec.embed or spec.d)
    seen = spec.tied and spec.outbias and (spec.transform or spec.final)
    if site.bias is None or not seen:
        return
    table = Port(("embed", "tokens"), -2, True, Bias(("head", "b_U")))
    free = Constants(site.width, (Bias(("head", site.bias)),), (table,))
    name = f"bias of the {title(site)} norm, absorbed by the logits' bias"
    yield Piece("norm-bias", name, "head", "norms and biases", "exact", site.width, free)
