"""The spaces of attention: queries and keys, values and outputs, heads of a group, latents."""

from __future__ import annotations

from collections.abc import Iterator

from segre.attention.symmetries import SCALE, query_key, value_output
from segre.symmetry.basis import Basis, Scale
from segre.symmetry.constants import Constants, Several
from segre.symmetry.norms import gained
from segre.symmetry.piece import Piece
from segre.symmetry.space import Bias, Port, Tensor, reader, writer
from segre.symmetry.special import ValueKernel
from segre.symmetry.wiring import (
    End,
    Norm,
    has,
    norm_after,
    norm_at,
    norm_before,
    producers_of,
    where,
)
from segre.transformer.spec import Transformer


def head_pieces(spec: Transformer, part: str) -> Iterator[Piece]:
    """The pieces of one attention layer."""
    at, spec = where(spec, part), spec.at(part)
    if spec.mixnorm and spec.gain:
        ports = writer(part, "normo.gain"), reader(part, "W_O")
        gains = Basis(spec.dv, "torus", ports, (spec.kv, spec.group))
        name = "gains of the norm after mixing, absorbed by the outputs"
        yield Piece("gain", name, at, "norms and biases", "exact", spec.heads * spec.dv, gains)
    if spec.feature != "none":  # which no basis and no scale passes
        return
    if spec.qknorm:
        yield from _normed_queries(spec, part, at)
    else:
        yield from _queries(spec, part, at)
    if not spec.mixnorm:
        yield _values(spec, part, at)
    if not spec.latent:
        site = _biased_norm(spec, part)
        if has(spec, part, "b_K") or site is not None:
            yield from _key_bias(spec, part, at, site)
            yield from _value_bias(spec, part, at, site)
    if spec.mechanism.scales and not spec.mixnorm:
        scores = (*_ports(spec, part, "W_Q", -3), Port((part, "W_O"), -3, True))
        basis = Basis(spec.group, "torus", scores, (spec.kv,))
        yield Piece(*SCALE, at, "QK", "exact", spec.heads, basis)
    if spec.latent:
        yield from _latents(spec, part, at)


def _named(spec: Transformer, part: str, weight: str) -> tuple[Tensor, ...]:
    """A map, and its bias if it has one."""
    names = (weight, weight.replace("W_", "b_"))
    return tuple((part, name) for name in names if has(spec, part, name))


def _ports(
    spec: Transformer, part: str, weight: str, axis: int = -2, reads: bool = False
) -> tuple[Port, ...]:
    """A map and its bias, along one of their axes."""
    return tuple(Port(tensor, axis, reads) for tensor in _named(spec, part, weight))


def _query_key(spec: Transformer, part: str) -> tuple[Port, ...]:
    """The ports of the space of queries and keys."""
    return (*_ports(spec, part, "W_K"), *_ports(spec, part, "W_Q", reads=True))


def _queries(spec: Transformer, part: str, at: str) -> Iterator[Piece]:
    n, kv, ports = spec.still, (spec.kv,), _query_key(spec, part)
    if n:
        start = 0 if spec.latent else spec.rotary_dim
        basis = Basis(spec.head, "gl", ports, kv, start)
        yield Piece(*query_key(n), at, "QK", "exact", spec.kv * n * n, basis)
    if spec.rotary_dim:
        count = spec.rotary_dim if spec.latent else spec.kv * spec.rotary_dim
        turns = rotary_basis(spec, part)
        name = "scaled rotations of the rotary planes"
        yield Piece("rotary", name, at, "QK", "exact", count, turns)


def rotary_basis(spec: Transformer, part: str) -> Basis:
    """The rotary planes of the heads; of latent attention, those of the one rotary key."""
    if not spec.latent:
        return Basis(spec.head, "planes", _query_key(spec, part), (spec.kv,), turning=part)
    ports = (writer(part, "R_K"), Port((part, "R_Q"), reads=True))
    return Basis(spec.rotary_dim, "planes", ports, turning=part)


def _normed_queries(spec: Transformer, part: str, at: str) -> Iterator[Piece]:
    planes, n, kv = spec.rotary_dim // 2, spec.still, (spec.kv,)
    if spec.gain:
        groups = kv if spec.qknorm == "all" else ()  # with gains of their own
        ports = writer(part, "normk.gain"), Port((part, "normq.gain"), reads=True)
        gains = Basis(spec.head, "plane-scales", ports, groups, spec.rotary_dim, part)
        count = (spec.kv if groups else 1) * (planes + n)
        name = "gains of queries against gains of keys"
        yield Piece("query-key-gains", name, at, "QK", "exact", count, gains)
    elif planes or n > 1:
        count = spec.kv * (planes + n * (n - 1) // 2)
        turns = Basis(spec.head, "turns", _query_key(spec, part), kv, spec.rotary_dim, part)
        name = "rotations of normed queries and keys"
        yield Piece("query-key-turns", name, at, "QK", "exact", count, turns)
    if not spec.eps:
        whole = spec.qknorm == "all"
        kinds = (("W_Q", (spec.kv, spec.group)), ("W_K", (spec.kv, 1)))
        scales = tuple(
            Scale(_named(spec, part, weight), copies=() if whole else heads)
            for weight, heads in kinds
        )
        every = "scale of every query and key head"
        name = "scale of all queries, and of all keys" if whole else every
        count, free = 2 if whole else spec.heads + spec.kv, Several(scales)
        yield Piece("query-key-scale", name, at, "QK", "eps=0", count, free)


def _values(spec: Transformer, part: str, at: str) -> Piece:
    """(W_V, W_O) -> (G W_V, W_O G^-1), one G for each key-value head; diagonal with a gate."""
    v, single = spec.dv, spec.gate == "element"
    ports = (*_ports(spec, part, "W_V"), reader(part, "W_O"))
    basis = Basis(v, "torus" if single else "gl", ports, (spec.kv,))
    name = "scale of every value, against outputs" if single else value_output(v).name
    count = spec.kv * (v if single else v * v)
    return Piece("value-output", name, at, "VO", "exact", count, basis)


def _biased_norm(spec: Transformer, part: str) -> Norm | None:
    """The norm with a bias that keys and values without biases read, as if it were their own."""
    end = (part, "attention")
    site = None if has(spec, part, "b_K") else norm_before(spec, end) or _post_norm(spec, end)
    return None if site is None or site.bias is None else site


def _post_norm(spec: Transformer, end: End) -> Norm | None:
    """The LayerNorm whose output a consumer reads as it is, if it is one."""
    if spec.norm != "layer" or spec.place != "post":
        return None
    found = producers_of(spec, end)
    return norm_after(spec, found[0]) if len(found) == 1 and found[0][1] else None


def _key_bias(spec: Transformer, part: str, at: str, site: Norm | None) -> Iterator[Piece]:
    """A key bias shifts all scores of a query equally, which cancels in the softmax."""
    if not spec.ignores_shifts or spec.qknorm or not spec.still:
        return
    source = Bias((part, "b_K")) if site is None else Bias((part, "W_K"), site)
    free = Constants(spec.head, (source,), copies=(spec.kv,), start=spec.head - spec.still)
    name = "key biases, which cancel in the softmax"
    count = spec.kv * spec.still
    yield Piece("key-bias", name, at, "norms and biases", "exact", count, free)


def _value_bias(spec: Transformer, part: str, at: str, site: Norm | None) -> Iterator[Piece]:
    """Softmax columns sum to one: value biases write a constant, if no gate is in between."""
    if not spec.sums_to_one or spec.gate != "none":
        return
    inner, centred = spec.kv * spec.dv, norm_centres(spec)
    source = Bias((part, "b_V")) if site is None else Bias((part, "W_V"), site)
    taker = "b_down" if site is not None and spec.parallel else "b_O"
    if has(spec, part, taker):
        out = reader(part, "W_O", bias=Bias((part, taker)))
        free = Constants(spec.dv, (source,), (out,), copies=(spec.kv,))
        name = "value biases, absorbed by the output bias"
        yield Piece("value-bias", name, at, "norms and biases", "exact", inner, free)
        return

    count = inner - min(inner, spec.d - centred)
    if count:
        name = "value biases that write nothing"
        kernel = ValueKernel(part, source, (spec.kv, spec.dv), centred)
        yield Piece("value-bias", name, at, "norms and biases", "exact", count, kernel)


def norm_centres(spec: Transformer) -> bool:
    """Whether the mean of the attention output has no effect: only LayerNorms follow."""
    return spec.norm == "layer" and (spec.final or spec.place != "pre")


def _latents(spec: Transformer, part: str, at: str) -> Iterator[Piece]:
    """A normed latent: rotations and gains before its readers, and at eps = 0 its scale."""
    chosen = [("A_K", "normk", ("W_K", "W_V"), "key-value", spec.kvrank)]
    if spec.qrank:
        chosen.insert(0, ("A_Q", "normq", ("W_Q", "R_Q"), "query", spec.qrank))
    for source, norm, names, what, n in chosen:
        site = norm_at(spec, part, norm, n)
        gain = (part, site.gain) if site.gain else None
        read = [name for name in names if has(spec, part, name)]
        ports = (writer(part, source), *(reader(part, name, gain=gain) for name in read))
        name = f"rotations O({n}) of the {what} latent"
        count = n * (n - 1) // 2
        yield Piece("latent-turns", name, at, "QK", "exact", count, Basis(n, "o", ports))
        if site.gain:
            yield gained(site, [(part, name) for name in read], f"{what} latent", at)
        if not spec.eps:
            scale = Scale(((part, source),))
            yield Piece("latent-scale", f"scale of the {what} latent", at, "QK", "eps=0", 1, scale)
