"""The elements that bring one reduced checkpoint closest to another: stream, heads, units.

The basis of the stream comes from the tables of tokens, whose columns have names; then heads are
assigned to heads by the inner products of what they compute, and their bases rotated (Procrustes);
then units to units. For copies of one function every step is exact. For other models each step is
the best of its kind, given the steps before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from segre.checkpoint.elements import closest, closest_element, copied_rows, signs_of
from segre.checkpoint.flips import asked_flips, written_flips
from segre.checkpoint.layout import Tensors
from segre.checkpoint.likeness import match_heads, match_units
from segre.checkpoint.model import Model
from segre.checkpoint.planes import free_planes, turning
from segre.checkpoint.reduce import Reduced, reduced
from segre.checkpoint.sizes import apart, inner
from segre.checkpoint.witness import Witness
from segre.fields.interface import Array
from segre.symmetry.basis import Basis
from segre.symmetry.compact import Elements, act, of_layer, of_stream, stream_freedom
from segre.symmetry.orders import Order, stream_ports
from segre.symmetry.space import FloatWeights
from segre.transformer.spec import Transformer

OPEN = 1e-9  # singular values below this fraction of the largest determine nothing
WEAK = 1e-2  # and below this one little
TABLES = ("tokens", "positions", "types")


# --- the stream ---------------------------------------------------------------------------------


def match_stream(
    spec: Transformer, one: Tensors, two: Tensors, unembedded: Array | None = None
) -> Elements:
    """The basis in which the table `two` is nearest to `one`.

    `unembedded` has the inner products of the columns of the unembeddings, which have names too.
    Embeddings of another width are matched by the tables, then the stream by the part they fill.
    """
    free = stream_freedom(spec) != "none"
    if spec.embed:
        read = {"W_E": two["W_E"]}
        inner = one["tokens"] @ two["tokens"].T
        out = {"embeddings": closest(of_stream(spec)["embeddings"], inner)}
        act(spec, "embed", out, read, stream=True)
        return out | (best_stream(spec, one["W_E"] @ read["W_E"].T) if free else {})
    if not free:
        return {}
    if unembedded is None and (copied := _copied_axes(spec, one, two)) is not None:
        return {"stream": copied}
    return best_stream(spec, _named_products(one, two, unembedded))


def best_stream(spec: Transformer, inner: Array) -> Elements:
    """The basis for inner products (d, d) of what two models write to the stream or read."""
    return {"stream": closest(of_stream(spec)["stream"], inner)}


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

    They count with the preceding gain, restricted to what the norm passes on. Twice as many tokens
    as coordinates determine a basis well; then this is None.
    """
    spec = one.spec
    if stream_freedom(spec) != "orthogonal" or (spec.vocab or spec.patch) >= 2 * spec.d:
        return None
    read = []
    for model in (one, two):
        w = model.part("head", ["norm.gain", "W_U"])
        x = w["W_U"] * w["norm.gain"].T
        read.append(x - x.mean(axis=1, keepdims=True) if spec.norm == "layer" else x)
    return np.asarray(read[0].T @ read[1])


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
    return sum((a.T @ b for a, b in stream_rows(spec, part, one, two)), np.zeros(()))


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

    def take_basis(name: str) -> None:
        if known is not None:
            take(_of(known, name))
        elif name in group:
            take({name: _nearest(spec, part, group[name], one, two)})

    take(written_flips(spec, part, two, near, one))
    out |= match_latents(spec, part, one, two)
    take(match_heads(spec, part, one, two) if known is None else _of(known, "heads", "queries"))
    take_basis("vo")
    if own.qknorm:
        take(asked_flips(spec, part, one, two, near))
    if turning(own):
        found = _nearest(spec, part, group["qk"], one, two)
        if own.qknorm:  # half turns only, unless the gains let planes rotate
            models = (one, two) if known is None else (one,)
            free = np.all([free_planes(own, w, near) for w in models], axis=0)
            found = np.where(free, found, signs_of(found.real))
        take({"qk": found})
    take_basis("still" if turning(own) else "qk")
    if known is not None:
        take(_of(known, "experts", "units", "signs", "shared", "shared_signs"))
        return out
    for units in match_units(spec, part, one, two):
        take(units)
    return out


def match_latents(spec: Transformer, part: str, one: Tensors, two: Tensors) -> Elements:
    """Brings latents and the rotary key of `two` nearest to those of `one`, in place."""
    latents = {n: g for n, g in of_layer(spec, part).items() if n.startswith("latents")}
    out = {n: _nearest(spec, part, g, one, two, readers=False) for n, g in latents.items()}
    act(spec, part, out, two)
    return out


def _nearest(
    spec: Transformer,
    part: str,
    space: Basis | Order,
    one: Tensors,
    two: Tensors,
    *,
    readers: bool = True,
) -> Array:
    a, b = (FloatWeights.of(spec, part, w) for w in (one, two))
    return closest_element(space, a, b, readers=readers)


def _of(known: Elements, *names: str) -> Elements:
    return {name: known[name] for name in names if name in known}


# --- all parts ------------------------------------------------------------------------------------


@dataclass
class Finder(Witness):
    """Elements that are known, or else found on the way and kept as a witness."""

    in_place: bool = False  # the stream is in the same basis in both
    centred: bool = False  # it is looked for in tables without their means, which training shifts
    undetermined: bool = False  # found: tables leave a part of that basis open
    near: float = 0.0  # gains of rotary planes this near, relative, count as equal

    def stream(
        self, spec: Transformer, one: Tensors, two: Tensors, unembedded: Array | None
    ) -> Elements:
        """The basis of the stream."""
        if self.basis:
            return self.basis
        if self.in_place:
            self.basis = match_sign(spec, one, two)
        elif self.centred:
            self.basis = match_stream(spec, centred(one), centred(two), unembedded)
        else:
            self.basis = match_stream(spec, one, two, unembedded)
            self.undetermined = undetermined(spec, one, two, unembedded)
        return self.basis

    def units(self, spec: Transformer, one: Tensors, two: Tensors) -> None:
        """Bring units of an untied transform and of a pooler near to those of `one`, in place."""
        free = {n: g for n, g in of_stream(spec).items() if n in ("transform", "pooled")}
        if not self.head:
            self.head = {n: _nearest(spec, "head", g, one, two) for n, g in free.items()}
        act(spec, "head", self.head, two, stream=True)

    def layer(self, spec: Transformer, part: str, one: Tensors, two: Tensors) -> None:
        """Bring heads and units of a layer of `two` near to those of `one`, in place."""
        if part in self.layers:
            act(spec, part, self.layers[part], two)
        else:
            self.layers[part] = match_layer(spec, part, one, two, self.near)


def centred(w: Tensors) -> Tensors:
    """The tensors of a part, tables without the mean over their tokens."""
    return {
        name: x - x.mean(axis=1, keepdims=True) if name in TABLES else x for name, x in w.items()
    }


class Follower:
    """The parts of a model, reduced, in the basis of those of another, which are given."""

    def __init__(self, one: Model, two: Model, turns: Finder) -> None:
        """`turns` has the elements that are applied, or finds them."""
        self.models, self.turns, self.parts = (one, two), turns, reduced(two)
        self.basis: Elements = {}
        turns.spec = one.spec

    def part(self, like: Reduced) -> Reduced:
        """The next part, like the one of the other model."""
        out, turns, spec = next(self.parts), self.turns, self.models[0].spec
        w = out.tensors
        if like.part == "embed":
            named = unembedding_products(*self.models)
            self.basis = turns.stream(spec, like.tensors, w, named)
        act(spec, like.part, self.basis, w, stream=True, owned=True)
        if like.part == "head":
            turns.units(spec, like.tensors, w)
        elif like.part != "embed":
            turns.layer(spec, like.part, like.tensors, w)
        return out


def aligned_pairs(one: Model, two: Model, turns: Finder) -> Iterator[tuple[Reduced, Reduced]]:
    """Parts of both, reduced, the second in the basis of the first; one part at a time."""
    second = Follower(one, two, turns)
    for a in reduced(one):
        yield a, second.part(a)
