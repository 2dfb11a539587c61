"""How does a certificate list what is free? As entries of docs/certificate.md.

Tensors are named "part/name", and axes are counted from the end. Of what is added to tensors, only
the tensors are listed, and along which axes it is a multiple of a fixed vector.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from functools import singledispatch
from itertools import groupby
from typing import Any

from segre.architectures import Architecture
from segre.spec import Network
from segre.stack.stages import named
from segre.symmetry.all import pieces
from segre.symmetry.basis import Basis, Scale
from segre.symmetry.constants import Constants, Entries, Several, Slack
from segre.symmetry.norms import port_of
from segre.symmetry.piece import Given, Piece
from segre.symmetry.space import Bias, Port, Tensor, rotary_planes
from segre.symmetry.special import CommonForm, Mean, UnseenShift, ValueKernel
from segre.symmetry.stack_heads import OfHead
from segre.symmetry.wiring import Norm, own_sublayers, readers
from segre.symmetry.words import turned_ports
from segre.transformer.spec import Transformer

Entry = dict[str, Any]
_EVERY: dict[str, list[str]] = {"-2": [], "-1": []}  # one number for all entries


def entries(spec: Architecture) -> Iterator[Entry]:
    """The entries of all pieces; a piece that is not made of spaces is named by its kind."""
    for piece in pieces(spec):
        for entry in _of(piece.build, spec, piece):
            yield _in_groups(spec, entry) if isinstance(spec, Network) else entry


def _in_groups(spec: Network, entry: Entry) -> Entry:
    """Certificates number the groups of heads of a layer: 1/2.W_K is 1.2/W_K there."""
    for one in _tensors(entry):
        part, _, name = one["tensor"].partition("/")
        group, _, root = name.rpartition(".")
        one["tensor"] = f"{_part(spec, int(part), int(group or 1))}/{root}"
    return entry


def _part(spec: Network, layer: int, group: int) -> str:
    """A group of heads of a layer, both counted from 1."""
    return f"{layer}.{group}" if len(spec.layers[layer - 1].groups) > 1 else str(layer)


@singledispatch
def _of(_free: Any, spec: Any, piece: Piece) -> Iterator[Entry]:
    if not piece.kind.startswith("word-"):
        yield {"free": "special", "name": piece.kind}
    elif spec.norm == "rms":
        yield _words(spec, piece)


def _words(spec: Transformer, piece: Piece) -> Entry:
    """A table that moves so that what its norm gives moves as it should."""
    gains = piece.kind == "word-gains"
    tokens = {**_port_at("embed/tokens", reads=gains), "normed": True}
    if gains:
        return _group("torus", spec.d, (), [_port_at("embed/norm.gain"), tokens])
    under = {"gain": "embed/norm.gain", "under": True} if spec.gain else {}
    first = [port_of(read) for read in readers(spec, own_sublayers(spec)[0])]
    return _group("o", spec.d, (), [tokens | under, *map(_port, (*first, *turned_ports(spec)))])


@_of.register
def _several(free: Several, spec: Transformer, piece: Piece) -> Iterator[Entry]:
    for one in free.free:
        yield from _of(one, spec, piece)


@_of.register
def _basis(free: Basis, spec: Transformer, _piece: Piece) -> Iterator[Entry]:
    ports = [_port(one) for one in free.ports if one.degree]
    planes = [list(plane) for plane in rotary_planes(spec, free.turning)]
    found = _group(free.group, free.width, free.copies, ports, free.start)
    yield {**found, "planes": planes} if planes else found


@_of.register
def _scale(free: Scale, _spec: Any, _piece: Piece) -> Iterator[Entry]:
    ports: list[Entry] = [{"tensor": _named(one), "reads": False} for one in free.up]
    less = {"degree": free.degree} if free.degree != 1 else {}
    ports += [{"tensor": _named(one), "reads": True, **less} for one in free.down]
    yield {"free": "basis", "group": "scale", "copies": list(free.copies), "ports": ports}


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
    yield _sources(*listed) | ({"vanish": vanishing} if vanishing else {})


def _between(spec: Transformer, bias: Bias) -> bool:
    """Whether there is a factor between a tensor and its space."""
    return bias.tensor == ("embed", "tokens") and spec.embscale


@_of.register
def _slack(free: Slack, _spec: Transformer, piece: Piece) -> Iterator[Entry]:
    own, tensor, forms = free.port, _named(free.port.tensor), free.forms.document
    if forms == "unreached":
        back = [] if own.bias is None else [{"tensor": _named(own.bias.tensor)}]
        yield _sources({"tensor": tensor, "where": "unreached"}, *back)
        return
    if isinstance(forms, dict):
        for _, run in groupby(enumerate(forms["unused"]), lambda pair: pair[1] - pair[0]):
            columns = [column for _, column in run]
            yield _sources({"tensor": tensor, "columns": [columns[0], columns[-1] + 1]})
        return
    if isinstance(forms, Norm):
        bias = own.bias if free.forms.value is not None else None
        kept = [] if bias is None else [_source(bias)]
        yield _sources({"tensor": tensor, "along": {"-1": _gain(forms)}}, *kept)
        return
    assert forms == "ones", piece.kind
    gain = [] if own.gain is None else [_named(own.gain)]
    yield _sources({"tensor": tensor, "along": {str(own.axis): gain}})


@_of.register
def _entries(free: Entries, _spec: Any, _piece: Piece) -> Iterator[Entry]:
    yield _sources({"tensor": _named(free.tensor)})


@_of.register
def _mean(free: Mean, _spec: Any, _piece: Piece) -> Iterator[Entry]:
    yield _sources(*({"tensor": _named(tensor), "along": _EVERY} for tensor in free.tensors))


@_of.register
def _unseen_shift(free: UnseenShift, _spec: Any, _piece: Piece) -> Iterator[Entry]:
    along = {"-2": _gain(free.site), "-1": []}
    tables = [{"tensor": _named(one), "along": along} for one in (("embed", "tokens"), free.table)]
    bias = [] if free.site.bias is None else [{"tensor": "head/b_U", "along": _EVERY}]
    yield _sources(*tables, *bias)


@_of.register
def _common_form(_free: CommonForm, _spec: Any, _piece: Piece) -> Iterator[Entry]:
    yield {"free": "special", "name": "common-form"}


@_of.register
def _value_kernel(free: ValueKernel, _spec: Any, _piece: Piece) -> Iterator[Entry]:
    yield _sources(_source(free.source))


# --- stacks ---------------------------------------------------------------------------------------


@_of.register
def _of_head(free: OfHead, spec: Network, piece: Piece) -> Iterator[Entry]:
    """Heads of a group are alike: an entry for the first is about all of them."""
    part, group, head = free.at
    if head:
        return
    for one in free.family.free:
        for entry in _of(one, spec, piece):
            if entry["free"] == "basis":
                entry["copies"] = [spec.layers[int(part) - 1].groups[group].heads]
            if entry["free"] == "special":
                entry["part"] = _part(spec, int(part), group + 1)
            for own in _tensors(entry):
                own["tensor"] = f"{part}/{named(group, own['tensor'][1:])}"
            yield entry


@_of.register
def _given(free: Given, _spec: Any, _piece: Piece) -> Iterator[Entry]:
    yield from deepcopy(free.entries)


# --- parts of entries -----------------------------------------------------------------------------


def _port_at(tensor: str, axis: int = -2, *, reads: bool = False, degree: int = 1) -> Entry:
    """An axis of a tensor that lies in a space."""
    more = {"degree": degree} if degree != 1 else {}
    return {"tensor": tensor, "axis": axis, "reads": reads, **more}


def _group(
    group: str, width: int, copies: Iterable[int], ports: list[Entry], start: int = 0
) -> Entry:
    """A group that acts on the axes that lie in a space."""
    own = {"width": width, "copies": list(copies), "start": start}
    return {"free": "basis", "group": group, **own, "ports": ports}


def _sources(*given: Entry) -> Entry:
    """Tensors to which something is added, with no effect together."""
    return {"free": "constants", "sources": list(given)}


def _tensors(entry: Entry) -> list[Entry]:
    """What an entry says of each tensor."""
    found: list[Entry] = entry.get("ports") or entry.get("sources") or []
    return found


def _named(tensor: Tensor) -> str:
    return "/".join(tensor)


def _gain(site: Norm) -> list[str]:
    return [f"{site.part}/{site.gain}"] if site.gain else []


def _port(own: Port) -> Entry:
    found = _port_at(_named(own.tensor), own.axis, reads=own.reads, degree=own.degree)
    gain = {} if own.gain is None else {"gain": _named(own.gain)}
    return {**found, **gain, **({"under": True} if own.under else {})}


def _source(bias: Bias) -> Entry:
    """A constant in all columns; after a LayerNorm, what reads its bias alone."""
    along = {"-1": [] if bias.site is None else _gain(bias.site)}
    columns = {} if bias.columns is None else {"columns": list(bias.columns)}
    return {"tensor": _named(bias.tensor), "along": along, **columns}
