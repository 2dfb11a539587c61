"""Which layers, tokens and coordinates of one checkpoint are those of another?

Layers are compared by what all their heads, and all their units, do to the stream together: sums
that depend on no basis and no order within a layer. Tokens that have other numbers are found by
sizes that no basis changes. Where one stream is narrower, the token tables give the map between
the two. What was found is undone in a view of one of the two, so that the rest can be compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from segre.checkpoint.elements import copied_rows
from segre.checkpoint.layout import Tensors
from segre.checkpoint.match import Finder, centred, unembedding_products
from segre.checkpoint.model import Model
from segre.checkpoint.reduce import Reduced, reduced
from segre.checkpoint.store import Store
from segre.fields.interface import Array
from segre.symmetry.basis import Basis
from segre.symmetry.compact import act
from segre.symmetry.orders import stream_ports
from segre.symmetry.space import FloatWeights
from segre.transformer.tensors import part_shapes

PROBES = 64  # directions in which the sums of a layer are seen
TWIN = 0.5  # a cosine: layers this much alike are one layer
UNLIKE = 0.1  # layers that were repeated are as much alike as those that were kept, less this
BETTER = 0.2  # a layer is taken for another one only if it is so much more like it
MUTUAL = 0.7  # of the tokens must find each other
OPEN = 1e-5  # of the largest singular value: less determines nothing

Rebuilt = Literal[
    "tokens permuted", "layers dropped", "layers duplicated", "layers reordered", "width pruned"
]


@dataclass(frozen=True)
class Structure:
    """Two checkpoints with layers and tokens in the same places, and what had to be undone.

    Of streams of different widths, the sizes say all.
    """

    one: Model
    two: Model
    found: tuple[tuple[Rebuilt, str], ...] = ()


def rebuilt(one: Model, two: Model) -> Structure:
    """Put the tokens and layers of two checkpoints in the same places."""
    found: list[tuple[Rebuilt, str]] = []
    sizes = [(model.spec.vocab, model.spec.d) for model in (one, two)]
    comparable = sizes[0] == sizes[1] and one.spec.vocab > 0
    tokens = None
    if comparable:
        x, y = (model.part("embed", ["tokens"])["tokens"].T for model in (one, two))
        rows = None if np.array_equal(x, y) else copied_rows(x, y)
        tokens = rows[0] if rows is not None and np.array_equal(x, y[rows[0]]) else None
    alike = None if tokens is not None else layer_likeness(one, two)
    if comparable and alike is not None and alike.max(initial=0.0) < TWIN:
        tokens = _alike_tokens(one, two)
    if tokens is not None:
        two = _permuted(two, tokens)
        again = layer_likeness(one, two)
        count = int((tokens != np.arange(len(tokens))).sum())
        if alike is None or again.max(initial=0.0) >= TWIN:
            found.append(("tokens permuted", f"{count:,} of {len(tokens):,} token rows have moved"))
        alike = again
    assert alike is not None
    one, two, layers = _with_layers_matched(one, two, alike)
    found += layers
    if one.spec.d != two.spec.d:
        found.append(("width pruned", ""))
    return Structure(one, two, tuple(found))


# --- layers -----------------------------------------------------------------------------------


def _with_layers_matched(
    one: Model, two: Model, alike: Array
) -> tuple[Model, Model, list[tuple[Rebuilt, str]]]:
    """Both with the layers that correspond to each other; the one that lost or repeats some."""
    lost, again = (alike.T, alike) if alike.shape[0] < alike.shape[1] else (alike, alike.T)
    sure = lost.max(axis=0).min()  # of a loss; it is none if all layers of the deeper have twins
    if sure < TWIN and alike.shape[0] == alike.shape[1]:
        return one, two, []
    repeats = len(lost) > len(again) and again.max(axis=0).min() > max(TWIN, sure - UNLIKE)
    of_one = (lost is alike) != repeats
    order = _twins(again if repeats else lost)
    names = ("the first", "the second") if of_one else ("the second", "the first")
    said = [] if sure < TWIN else _said(order, len(again if repeats else lost), *names)
    return (_view(one, order), two, said) if of_one else (one, _view(two, order), said)


def _twins(alike: Array) -> list[int]:
    """For every column, the row that is most like it."""
    best = alike.argmax(axis=0)
    if alike.shape[0] == alike.shape[1]:
        stays = alike.max(axis=0) - np.diag(alike) < BETTER
        best = np.where(stays, np.arange(len(best)), best)
    return [int(i) for i in best]


def _view(model: Model, order: Sequence[int]) -> Model:
    """A model made of some layers of another, which may be repeated."""
    if list(order) == list(range(model.spec.layers)):
        return model
    parts = {"embed": "embed", **{str(i): str(n + 1) for i, n in enumerate(order, 1)}}
    parts["head"] = "head"
    return replace(
        model,
        spec=replace(model.spec, layers=len(order)),
        held={new: model.held[old] for new, old in parts.items() if old in model.held},
        factors={n: model.factors[old] for n, old in parts.items() if old in model.factors},
    )


def _said(order: list[int], layers: int, source: str, other: str) -> list[tuple[Rebuilt, str]]:
    """What leads from all layers of a source to these, which the other has, in words."""
    found: list[tuple[Rebuilt, str]] = []
    if lost := [i + 1 for i in range(layers) if i not in order]:
        found.append(("layers dropped", f"{other} lacks {_listed(lost)} of {source}"))
    if again := [i + 1 for i, count in Counter(order).items() if count > 1]:
        found.append(("layers duplicated", f"{other} repeats {_listed(again)} of {source}"))
    if sorted(order) != order and not again:
        said = f"{other} has {_listed([i + 1 for i in order])} of {source}, in this order"
        found.append(("layers reordered", said))
    return found


def _listed(layers: list[int]) -> str:
    """Numbers of layers in words.

    >>> _listed([3]), _listed([3, 5])
    ('layer 3', 'layers 3, 5')
    """
    return f"layer{'s' * (len(layers) > 1)} {', '.join(map(str, layers))}"


def layer_likeness(one: Model, two: Model) -> Array:
    """Cosines of all layers of one to all layers of two, (layers, layers)."""
    first, second = (
        [_sums(found.tensors, one.spec.d) for found in layers]
        for layers in layers_in_one_stream(one, two)
    )
    ours, theirs = (map(np.array, zip(*sums, strict=True)) for sums in (first, second))
    return np.asarray(np.mean([a @ b.T for a, b in zip(ours, theirs, strict=True)], axis=0))


def _sums(w: Tensors, d: int) -> list[Array]:
    """What all heads, and all units, of a layer write to some directions for others; length 1."""
    rng = np.random.default_rng(0)
    seen, given = (rng.standard_normal((min(PROBES, d), d)) for _ in range(2))
    found = []
    if w["W_V"].shape[-1] == d:
        read = (w["W_V"] @ given.T).sum(axis=1)  # (kv, v, probes)
        found.append(np.einsum("hgpv,hvq->pq", seen @ w["W_O"], read, optimize=True))
    if "W_up" in w:
        inner = (seen @ w["W_down"]) @ (w["W_up"] @ given.T)
        found.append(inner.reshape(-1, *inner.shape[-2:]).sum(axis=0))
    return [x.ravel() / max(float(np.linalg.norm(x)), 1e-300) for x in found]


# --- the stream -------------------------------------------------------------------------------


def layers_in_one_stream(one: Model, two: Model) -> tuple[Iterator[Reduced], Iterator[Reduced]]:
    """The reduced layers of both, those of the second in the basis of the stream of the first."""
    ours, theirs = reduced(one), reduced(two)
    move = _into_stream(one, two, next(ours).tensors, next(theirs).tensors)

    def moved() -> Iterator[Reduced]:
        for found in theirs:
            if found.part != "head":
                move(found.part, found.tensors)
                yield found

    return (found for found in ours if found.part != "head"), moved()


def _into_stream(one: Model, two: Model, a: Tensors, b: Tensors) -> Callable[[str, Tensors], None]:
    """Moves parts of the second, in place, into the basis of the stream of the first.

    It is found from the reduced token tables.
    """
    if one.spec.d == two.spec.d:
        found = Finder(centred=True).stream(one.spec, a, b, unembedding_products(one, two))
        return lambda part, w: act(two.spec, part, found, w, stream=True)
    x, y = (centred(w)["tokens"] for w in (a, b))
    wide, narrow = (x, y) if len(x) > len(y) else (y, x)
    u, s, v = np.linalg.svd(np.linalg.lstsq(wide.T, narrow.T)[0], full_matrices=False)
    kept = s > OPEN * s[0]
    matrix = u[:, kept] @ v[kept]  # from the narrow stream into the wide one
    matrix = matrix if len(x) > len(y) else matrix.T
    space = Basis(two.spec.d, "gl", stream_ports(two.spec))

    def move(part: str, tensors: Tensors) -> None:
        w = FloatWeights.of(two.spec, part, tensors)
        space.act_by(w, matrix, matrix.T)
        tensors.update(w.part(part))

    return move


# --- tokens -----------------------------------------------------------------------------------


def _alike_tokens(one: Model, two: Model) -> Array | None:
    """The order of the tokens of two in which each has the sizes of that of one."""
    from scipy.spatial import cKDTree

    x, y = (_sizes_of_tokens(model) for model in (one, two))
    scale = x.std(axis=0)
    if not scale.all():
        return None
    forth, back = cKDTree(y / scale).query(x / scale)[1], cKDTree(x / scale).query(y / scale)[1]
    sure = back[forth] == np.arange(len(x))
    if sure.mean() < MUTUAL:
        return None
    order = np.where(sure, forth, -1)
    order[~sure] = np.setdiff1d(np.arange(len(x)), forth[sure])
    return order


def _permuted(model: Model, order: Array) -> Model:
    """The model with its tokens in another order."""
    store = model.store
    longer = replace(model.spec, vocab=model.spec.vocab + 1)
    files = {
        held.file
        for part, held, _ in model.files
        for name in held.names
        if part_shapes(longer, part)[name] != part_shapes(model.spec, part)[name]
    }
    arrays = {
        name: store.raw(name)[order] if name in files else store.raw(name)
        for name in store.entries
        if name not in (*model.unused, *model.copies)
    }
    return replace(model, store=Store.of(store.name, store.config, arrays), copies={})


def _sizes_of_tokens(model: Model) -> Array:
    """Of every token: its length, and those of what the first layer reads of it."""
    every = reduced(model)
    table = next(every).tensors["tokens"]
    w = next(every).tensors
    names = [n for n in ("W_Q", "W_K", "W_V", "W_gate", "W_up") if n in w]
    seen = [w[n].reshape(-1, w[n].shape[-1]) @ table for n in names if w[n].shape[-1] == len(table)]
    return np.stack([np.linalg.norm(x, axis=0) for x in (table, *seen)], axis=1)
