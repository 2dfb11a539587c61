"""How does a certificate list what is free? Each piece as entries of docs/certificate.md.

Tensors are named "part/name", and axes are counted from the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Any

from segre.symmetry.basis import Basis, Scale
from segre.symmetry.constants import Constants, Entries, Several, Slack
from segre.symmetry.piece import Piece
from segre.symmetry.space import Bias, Port, Tensor, rotary_planes
from segre.symmetry.special import CarriedMean, CommonForm, TiedMean, UnseenShift, ValueKernel
from segre.transformer.spec import Transformer

Entry = dict[str, Any]


def entries(spec: Transformer, piece: Piece) -> list[Entry]:
    """The entries of a piece; one that is not made of spaces is named by its kind."""
    return list(_of(piece.build, spec, piece))


@singledispatch
def _of(_free: Any, _spec: Transformer, piece: Piece) -> Iterator[Entry]:
    yield {"free": "special", "name": piece.kind}


@_of.register
def _several(free: Several, spec: Transformer, piece: Piece) -> Iterator[Entry]:
    for one in free.free:
        yield from _of(one, spec, piece)


@_of.register
def _basis(free: Basis, spec: Transformer, _piece: Piece) -> Iterator[Entry]:
    planes = rotary_planes(spec, free.turning)
    yield {
        "free": "basis",
        "group": free.group,
        "width": free.width,
        "copies": list(free.copies),
        "start": free.start,
        **({"planes": [list(plane) for plane in planes]} if planes else {}),
        "ports": [_port(port) for port in free.ports if port.degree],
    }


@_of.register
def _scale(free: Scale, _spec: Transformer, _piece: Piece) -> Iterator[Entry]:
    every = [(tensor, False) for tensor in free.up] + [(tensor, True) for tensor in free.down]
    ports = [{"tensor": _named(tensor), "reads": reads} for tensor, reads in every]
    yield {"free": "basis", "group": "scale", "copies": list(free.copies), "ports": ports}


@_of.register
def _constants(free: Constants, _spec: Transformer, _piece: Piece) -> Iterator[Entry]:
    yield {
        "free": "constants",
        "width": free.width,
        "copies": list(free.copies),
        "start": free.start,
        "sources": [_source(one) for one in free.sources],
        "readers": [_reader(one) for one in free.readers],
        "takers": [_source(one) for one in free.takers],
    }


@_of.register
def _slack(free: Slack, _spec: Transformer, _piece: Piece) -> Iterator[Entry]:
    port = free.port
    bias = port.bias if free.forms.value is not None else None
    yield {
        "free": "slack",
        "tensor": _named(port.tensor),
        "axis": port.axis,
        "forms": free.forms.document,
        **({"gain": _named(port.gain)} if port.gain is not None else {}),
        **({"bias": _source(bias)} if bias is not None else {}),
    }


@_of.register
def _entries(free: Entries, _spec: Transformer, _piece: Piece) -> Iterator[Entry]:
    yield {"free": "entries", "tensor": _named(free.tensor)}


@_of.register
def _carried_mean(free: CarriedMean, _spec: Transformer, piece: Piece) -> Iterator[Entry]:
    moved = {"source": _named(free.source), "last": _named(free.last), "often": list(free.often)}
    yield {"free": "special", "name": piece.kind, **moved}


@_of.register
def _tied_mean(free: TiedMean, _spec: Transformer, piece: Piece) -> Iterator[Entry]:
    yield {"free": "special", "name": piece.kind, "table": _named(free.table)}


@_of.register
def _unseen_shift(free: UnseenShift, _spec: Transformer, _piece: Piece) -> Iterator[Entry]:
    norm = f"{free.site.part}/{free.site.name}"
    yield {"free": "special", "name": "unseen-shift", "table": _named(free.table), "norm": norm}


@_of.register
def _common_form(free: CommonForm, spec: Transformer, piece: Piece) -> Iterator[Entry]:
    (shear,) = _of(free.shear, spec, piece)
    named = {"name": "common-form", "norm": f"{free.site.part}/{free.site.name}"}
    source = {} if free.source is None else {"source": _named(free.source)}
    biases = [_reader(port) for port in free.shear.ports if port.reads and port.bias is not None]
    yield {"free": "special", **named, **source, "ports": shear["ports"], "readers": biases}


@_of.register
def _value_kernel(free: ValueKernel, _spec: Transformer, _piece: Piece) -> Iterator[Entry]:
    source = _source(free.source)
    own = {"source": source, "centred": free.centred}
    yield {"free": "special", "name": "value-kernel", "part": free.part, **own}


def _named(tensor: Tensor) -> str:
    return "/".join(tensor)


def _port(port: Port) -> Entry:
    return {
        "tensor": _named(port.tensor),
        "axis": port.axis,
        "reads": port.reads,
        **({"gain": _named(port.gain)} if port.gain is not None else {}),
        **({"under": True} if port.under else {}),
        **({"degree": port.degree} if port.degree != 1 else {}),
    }


def _reader(port: Port) -> Entry:
    assert port.bias is not None
    return {"tensor": _named(port.tensor), "axis": port.axis, "bias": _source(port.bias)}


def _source(bias: Bias) -> Entry:
    return {
        "tensor": _named(bias.tensor),
        **({"norm": f"{bias.site.part}/{bias.site.name}"} if bias.site is not None else {}),
        **({"columns": list(bias.columns)} if bias.columns is not None else {}),
    }
