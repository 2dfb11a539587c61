"""The elements that bring one reduced checkpoint closest to another: stream, heads, units.

The basis of the stream comes from the tables of tokens, whose columns have names; then heads are
assigned to heads by the inner products of what they compute, and their bases rotated (Procrustes);
then units to units. For copies of one function every step is exact. For other models each step is
the best of its kind, given the steps before.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from segre.checkpoint.assignment import assignment, copied_rows
from segre.checkpoint.closest import closest, closest_element, signs_of
from segre.checkpoint.flips import asked_flips, written_flips
from segre.checkpoint.layout import Tensors
from segre.checkpoint.likeness import head_likeness
from segre.checkpoint.match_units import match_units
from segre.checkpoint.model import Model
from segre.checkpoint.planes import free_planes, turning
from segre.checkpoint.sizes import apart, inner
from segre.fields.interface import Array
from segre.symmetry.basis import Basis
from segre.symmetry.compact import Elements, act, of_layer, of_stream, stream_freedom
from segre.symmetry.orders import Order, head_orders, stream_ports
from segre.symmetry.space import FloatWeights
from segre.transformer.spec import Transformer

OPEN = 1e-9  # singular values below this fraction of the largest determine nothing
WEAK = 1e-2  # and below this one little


# --- the stream ---------------------------------------------------------------------------------


def match_stream(
    spec: Transformer, one: Tensors, two: Tensors, unembedded: Array | None = None
) -> Elements:
    """The basis in which the table `two` is nearest to `one`.

    `unembedded` has the inner products of the columns of the unembeddings, which have names too.
    """
    if spec.embed:
        return _match_embedded(spec, one, two)
    if stream_freedom(spec) == "none":
        return {}
    if unembedded is None and (copied := _copied_axes(spec, one, two)) is not None:
        return {"stream": copied}
    return best_stream(spec, _named_products(one, two, unembedded))


def _copied_axes(spec: Transformer, one: Tensors, two: Tensors) -> Array | None:
    """The order and signs of the axes of the stream, if tables are copies of each other."""
    stream = of_stream(spec).get("stream")
    if not isinstance(stream, Order):
        return None
    table = _named(one)
    found = copied_rows(one[table], two[table], signed=True)
    if found is None or (stream.kind != "order and signs" and np.ptp(found[1])):
        return None
    return stream.of(*found)


def _named(w: Tensors) -> str:
    """The table whose columns have names: of tokens or patches."""
    return "tokens" if "tokens" in w else "W_P"


def match_sign(spec: Transformer, one: Tensors, two: Tensors) -> Elements:
    """For files in the same basis: nothing, up to the common sign of the stream."""
    stream = of_stream(spec).get("stream")
    if spec.embed or not isinstance(stream, Order) or stream.kind != "order and one sign":
        return {}
    sign = signs_of((one["tokens"] * two["tokens"]).sum())
    return {"stream": stream.of(signs=np.full(spec.d, float(sign)))}


def _match_embedded(spec: Transformer, one: Tensors, two: Tensors) -> Elements:
    """Match embeddings of another width by the tables, then the stream by the part they fill."""
    inner = one["tokens"] @ two["tokens"].T
    out = {"embeddings": closest(of_stream(spec)["embeddings"], inner)}
    if stream_freedom(spec) == "none":
        return out
    read = {"W_E": two["W_E"]}
    act(spec, "embed", out, read, stream=True)
    return out | best_stream(spec, one["W_E"] @ read["W_E"].T)


def _named_products(one: Tensors, two: Tensors, unembedded: Array | None) -> Array:
    """Inner products (d, d) over what has names: tokens or patches, positions if those are few."""
    table = _named(one)
    inner: Array = one[table] @ two[table].T
    if unembedded is None:
        return inner
    more = [unembedded]
    if "positions" in one:
        more.append(one["positions"] @ two["positions"].T)
    size = np.linalg.norm(inner)
    for other in more:  # each table counts by its size
        inner = inner + other * (size / max(float(np.linalg.norm(other)), 1e-300))
    return inner


def undetermined(spec: Transformer, one: Tensors, two: Tensors, unembedded: Array | None) -> bool:
    """Whether tables leave a part of the basis of the stream open."""
    if not any(isinstance(one, Basis) for one in of_stream(spec).values()):
        return False
    sigma = np.linalg.svd(_named_products(one, two, unembedded), compute_uv=False)
    kept = sigma[:-1] if spec.norm == "layer" else sigma
    return bool(kept[-1] < OPEN * kept[0])


def settled(spec: Transformer, one: Tensors, two: Tensors, near: float) -> bool:
    """Whether tables, in one basis, are copies of each other to within `near`, and determine it."""
    table = _named(one)
    if spec.embed or (spec.vocab or spec.patch) < 2 * spec.d:
        return False
    size = inner(one[table], one[table])
    if apart(one[table], two[table]) > near**2 * size:
        return False
    if stream_freedom(spec) != "orthogonal":
        return _copied_axes(spec, one, two) is not None and bool(one[table].any(axis=1).all())
    spectrum = np.linalg.eigvalsh(one[table] @ one[table].T)
    return bool(spectrum[int(spec.norm == "layer")] > WEAK**2 * spectrum[-1])


def unembedding_products(one: Model, two: Model) -> Array | None:
    """Inner products (d, d) of what two unembeddings read, if a table of tokens is too short.

    Twice as many tokens as coordinates determine a basis well; then this is None.
    """
    spec = one.spec
    if stream_freedom(spec) != "orthogonal" or (spec.vocab or spec.patch) >= 2 * spec.d:
        return None
    return np.asarray(_unembedding(one).T @ _unembedding(two))


def _unembedding(model: Model) -> Array:
    """The unembedding with the preceding gain, restricted to what the norm passes on."""
    w = model.part("head", ["norm.gain", "W_U"])
    out = w["W_U"] * w["norm.gain"].T
    return out - out.mean(axis=1, keepdims=True) if model.spec.norm == "layer" else out


def best_stream(spec: Transformer, inner: Array) -> Elements:
    """The basis for inner products (d, d) of what two models write to the stream or read."""
    return {"stream": closest(of_stream(spec)["stream"], inner)}


def stream_rows(
    spec: Transformer, part: str, one: Tensors, two: Tensors, *, gains: bool = True
) -> Iterator[tuple[Array, Array]]:
    """What two parts write to the stream and read from it, as rows (n, d)."""
    for port in stream_ports(spec):
        where, name = port.tensor
        if where == part and name in one and (gains or "." not in name):
            a, b = (w[name] if port.reads else w[name].swapaxes(-1, -2) for w in (one, two))
            yield a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1])


def stream_products(spec: Transformer, part: str, one: Tensors, two: Tensors) -> Array:
    """Inner products of all that two parts write to the stream and read from it, (d, d)."""
    out: Array = np.zeros(())
    for a, b in stream_rows(spec, part, one, two):
        out = out + a.T @ b
    return out


def match_head(spec: Transformer, one: Tensors, two: Tensors) -> Elements:
    """Brings units of an untied transform and of a pooler nearest to those of `one`, in place."""
    a, b = (FloatWeights.of(spec, "head", w) for w in (one, two))
    names = ("transform", "pooled")
    out = {n: closest_element(g, a, b) for n, g in of_stream(spec).items() if n in names}
    act(spec, "head", out, two, stream=True)
    return out


# --- layers -------------------------------------------------------------------------------------


def match_layer(
    spec: Transformer,
    part: str,
    one: Tensors,
    two: Tensors,
    near: float = 0.0,
    known: Elements | None = None,
) -> Elements:
    """Brings the layer `two` nearest to `one`, in place: orders and bases of heads and units.

    If orders and bases are `known`, only phases and signs that rounding can change are found.
    """
    own, group, out = spec.at(part), of_layer(spec, part), dict[str, Array]()

    def take(found: Elements) -> None:
        act(spec, part, found, two)
        out.update(found)

    def basis(name: str) -> Array:
        a, b = (FloatWeights.of(spec, part, w) for w in (one, two))
        return closest_element(group[name], a, b)

    take(written_flips(spec, part, one, two, near))
    out |= match_latents(spec, part, one, two)
    take(_match_heads(spec, part, one, two) if known is None else _of(known, "heads", "queries"))
    if known is not None:
        take(_of(known, "vo"))
    elif "vo" in group:
        take({"vo": basis("vo")})
    if own.qknorm:
        take(asked_flips(spec, part, one, two, near))
    if turning(own):
        take({"qk": _rotations(own, basis("qk"), [one, two][: 1 + (known is None)], near)})
    rest = "still" if turning(own) else "qk"
    if known is not None:
        take(_of(known, rest, "experts", "units", "signs", "shared", "shared_signs"))
        return out
    if rest in group:
        take({rest: basis(rest)})
    for found in match_units(spec, part, one, two):
        take(found)
    return out


def match_latents(spec: Transformer, part: str, one: Tensors, two: Tensors) -> Elements:
    """Brings latents and the rotary key of `two` nearest to those of `one`, in place."""
    a, b = (FloatWeights.of(spec, part, w) for w in (one, two))
    every = of_layer(spec, part).items()
    out = {
        name: closest_element(space, a, b, readers=False)
        for name, space in every
        if name.startswith("latents")
    }
    act(spec, part, out, two)
    return out


def _of(known: Elements, *names: str) -> Elements:
    return {name: known[name] for name in names if name in known}


def _match_heads(spec: Transformer, part: str, one: Tensors, two: Tensors) -> Elements:
    """The orders of heads with the largest sum: of key-value heads, and of the heads of each."""
    own, (groups, within_group) = spec.at(part), head_orders(spec, part)
    likeness = head_likeness(own, one, two)  # (kv, kv, group, group)
    within = np.array([[assignment(pair) for pair in row] for row in likeness])
    best = np.take_along_axis(likeness, within[..., None], axis=-1).sum(axis=(-1, -2))
    heads = assignment(best)
    queries = within[np.arange(own.kv), heads]
    return {"heads": groups.of(heads), "queries": within_group.of(queries)}


def _rotations(spec: Transformer, found: Array, models: list[Tensors], near: float) -> Array:
    """Phases of planes; under norms half turns only, unless the gains let planes rotate."""
    if not spec.qknorm:
        return found
    free = np.all([free_planes(spec, w, near) for w in models], axis=0)
    return np.where(free, found, signs_of(found.real))
