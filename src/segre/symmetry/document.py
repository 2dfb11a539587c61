"""How does a certificate list what is free? As entries of docs/certificate.md.

Tensors are named "part/name", and axes are counted from the end. Of what is added to tensors, only
the tensors are listed, and along which axes it is a multiple of a fixed vector.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from itertools import groupby
from typing import Any

from segre.architectures import Architecture
from segre.polynomial.spec import Polynomial
from segre.polynomial.stages import weight_name
from segre.spec import Network
from segre.symmetry.basis import Basis, Scale
from segre.symmetry.constants import Constants, Entries, Several, Slack
from segre.symmetry.means import written
from segre.symmetry.norms import port_of
from segre.symmetry.piece import Piece
from segre.symmetry.space import Bias, Port, Tensor, rotary_planes
from segre.symmetry.special import CommonForm, Mean, UnseenShift, ValueKernel
from segre.symmetry.stack_document import Entry, basis, port, scale, sources, stack_entries
from segre.symmetry.transformers import transformer_pieces
from segre.symmetry.wiring import Norm, norm_before, own_sublayers, readers
from segre.transformer.spec import Transformer

_EVERY: dict[str, list[str]] = {"-2": [], "-1": []}  # one number for all entries


@singledispatch
def entries(spec: Architecture) -> Iterator[Entry]:
    """All that is free in an architecture."""
    raise TypeError(f"symmetries of a {type(spec).__name__} are not listed")


entries.register(Network, stack_entries)


@entries.register
def transformer_entries(spec: Transformer) -> Iterator[Entry]:
    """The entries of all pieces; a piece that is not made of spaces is named by its kind."""
    for piece in transformer_pieces(spec):
        yield from _of(piece.build, spec, piece)


@entries.register
def polynomial_entries(spec: Polynomial) -> Iterator[Entry]:
    """The basis of what is between two layers, its scales, and constants."""
    for i in range(1, spec.depth):
        own = [f"{i}/{weight_name(spec.layers[i - 1])}", *([f"{i}/b"] if spec.bias else [])]
        reader = f"{i + 1}/{weight_name(spec.layers[i])}"
        if spec.convolutional:
            yield scale(own, [reader], degree=spec.degree)
        else:
            group, width = "gl" if spec.degree == 1 else "torus", spec.layers[i - 1].units
            read = port(reader, -1, reads=True, degree=spec.degree)
            yield basis(group, width, (), [*(port(one) for one in own), read])
        if spec.degree == 1 and spec.bias:
            yield sources({"tensor": f"{i}/b"}, {"tensor": f"{i + 1}/b"})


@singledispatch
def _of(_free: Any, spec: Transformer, piece: Piece) -> Iterator[Entry]:
    if not piece.kind.startswith("word-"):
        yield {"free": "special", "name": piece.kind}
    elif piece.kind == "word-scale":
        yield basis("torus", spec.vocab, (), [port("embed/tokens", -1)])
    elif spec.norm == "rms":
        yield from _words(spec, piece)


def _words(spec: Transformer, piece: Piece) -> Iterator[Entry]:
    """A table that moves so that what its norm gives moves as it should."""
    if piece.kind == "word-gains":
        tokens = {**port("embed/tokens", reads=True), "normed": True}
        yield basis("torus", spec.d, (), [port("embed/norm.gain"), tokens])
        return
    gain = {"gain": "embed/norm.gain", "under": True} if spec.gain else {}
    ports: list[Entry] = [{**port("embed/tokens"), "normed": True, **gain}]
    first, *others = own_sublayers(spec)
    ports += [_port(port_of(read)) for read in readers(spec, first)]
    ports += [_port(one) for end in (first, *others) for one in written(spec, end)]
    for end in (*others, ("head", "")):
        site = norm_before(spec, end)
        own = (site.part, site.gain) if site is not None and site.gain else None
        ports += [_port(port_of(read, gain=own)) for read in readers(spec, end)]
    yield basis("o", spec.d, (), ports)


@_of.register
def _several(free: Several, spec: Transformer, piece: Piece) -> Iterator[Entry]:
    for one in free.free:
        yield from _of(one, spec, piece)


@_of.register
def _basis(free: Basis, spec: Transformer, _piece: Piece) -> Iterator[Entry]:
    ports = [_port(one) for one in free.ports if one.degree]
    planes = [list(plane) for plane in rotary_planes(spec, free.turning)]
    found = basis(free.group, free.width, free.copies, ports, free.start)
    yield {**found, "planes": planes} if planes else found


@_of.register
def _scale(free: Scale, _spec: Transformer, _piece: Piece) -> Iterator[Entry]:
    yield scale(map(_named, free.up), map(_named, free.down), free.copies)


@_of.register
def _constants(free: Constants, spec: Transformer, _piece: Piece) -> Iterator[Entry]:
    """Sources add one vector and takers take it back; what readers take back must vanish."""
    first, *others = free.sources
    same = [(one, 1) for one in others] + [(one, -1) for one in free.takers]
    listed, scaled = [_source(first)], spec.layerscale or _between(spec, first)
    for one, times in same:
        tied = {} if scaled or _between(spec, one) else {"as": 0, "times": times}
        listed.append({**_source(one), **tied})
    kept = [one.bias for one in free.readers if one.bias is not None]
    listed += map(_source, dict.fromkeys(kept))
    vanishing = [_named(one.tensor) for one in dict.fromkeys(kept) if one.site is None]
    yield sources(*listed) | ({"vanish": vanishing} if vanishing else {})


def _between(spec: Transformer, bias: Bias) -> bool:
    """Whether there is a factor between a tensor and its space."""
    return bias.tensor == ("embed", "tokens") and spec.embscale


@_of.register
def _slack(free: Slack, _spec: Transformer, piece: Piece) -> Iterator[Entry]:
    own, tensor, forms = free.port, _named(free.port.tensor), free.forms.document
    if forms == "unreached":
        back = [] if own.bias is None else [{"tensor": _named(own.bias.tensor)}]
        yield sources({"tensor": tensor, "where": "unreached"}, *back)
        return
    if isinstance(forms, dict):
        for _, run in groupby(enumerate(forms["unused"]), lambda pair: pair[1] - pair[0]):
            columns = [column for _, column in run]
            yield sources({"tensor": tensor, "columns": [columns[0], columns[-1] + 1]})
        return
    if isinstance(forms, Norm):
        bias = own.bias if free.forms.value is not None else None
        kept = [] if bias is None else [_source(bias)]
        yield sources({"tensor": tensor, "along": {"-1": _gain(forms)}}, *kept)
        return
    assert forms == "ones", piece.kind
    gain = [] if own.gain is None else [_named(own.gain)]
    yield sources({"tensor": tensor, "along": {str(own.axis): gain}})


@_of.register
def _entries(free: Entries, _spec: Transformer, _piece: Piece) -> Iterator[Entry]:
    yield sources({"tensor": _named(free.tensor)})


@_of.register
def _mean(free: Mean, _spec: Transformer, _piece: Piece) -> Iterator[Entry]:
    yield sources(*({"tensor": _named(tensor), "along": _EVERY} for tensor in free.tensors))


@_of.register
def _unseen_shift(free: UnseenShift, _spec: Transformer, _piece: Piece) -> Iterator[Entry]:
    along = {"-2": _gain(free.site), "-1": []}
    tables = [{"tensor": _named(one), "along": along} for one in (("embed", "tokens"), free.table)]
    bias = [] if free.site.bias is None else [{"tensor": "head/b_U", "along": _EVERY}]
    yield sources(*tables, *bias)


@_of.register
def _common_form(_free: CommonForm, _spec: Transformer, _piece: Piece) -> Iterator[Entry]:
    yield {"free": "special", "name": "common-form"}


@_of.register
def _value_kernel(free: ValueKernel, _spec: Transformer, _piece: Piece) -> Iterator[Entry]:
    yield sources(_source(free.source))


def _named(tensor: Tensor) -> str:
    return "/".join(tensor)


def _gain(site: Norm) -> list[str]:
    return [f"{site.part}/{site.gain}"] if site.gain else []


def _port(own: Port) -> Entry:
    found = port(_named(own.tensor), own.axis, reads=own.reads, degree=own.degree)
    gain = {} if own.gain is None else {"gain": _named(own.gain)}
    return {**found, **gain, **({"under": True} if own.under else {})}


def _source(bias: Bias) -> Entry:
    """A constant in all columns; after a LayerNorm, what reads its bias alone."""
    along = {"-1": [] if bias.site is None else _gain(bias.site)}
    columns = {} if bias.columns is None else {"columns": list(bias.columns)}
    return {"tensor": _named(bias.tensor), "along": along, **columns}
