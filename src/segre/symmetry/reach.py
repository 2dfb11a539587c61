"""What of each layer's token space can a stack fill, and what of it is read afterwards?

Between layers i and i+1 tokens live in R^d. They fill only the image of what came before
(dimension `reached`), and later layers read them only through their keys, queries, gates and values
(`read` linear forms). Weights that act outside the image, or write outside what is read, are
invisible. Both are bounds that follow from the spec alone, and that no weights exceed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from segre.attention.layer import Layer
from segre.attention.mechanism import Mechanism
from segre.errors import UnluckyError
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.fields.rank import Echelon
from segre.spec import Network


@dataclass(frozen=True)
class Head:
    """What the families depend on: the mechanism on t tokens, and the tensors with their rows."""

    mechanism: Mechanism
    a: int
    tokens: int
    rows: tuple[tuple[str, int], ...]
    parallel: bool = False  # whether all tokens are multiples of one vector

    @cached_property
    def tensors(self) -> dict[str, int]:
        """The tensors by name, with their numbers of rows."""
        return dict(self.rows)

    def named(self, *roots: str) -> tuple[str, ...]:
        """The tensors with one of these names; a kernel has one for each of its places."""
        return tuple(n for n in self.tensors if n in roots or n.partition("+")[0] in roots)

    def side(self, letter: str) -> tuple[str, ...]:
        """The tensors that make keys (K) or queries (Q): maps, and the bias if there is one."""
        return self.named(f"W_{letter}", f"b_{letter}")

    def filters(self, letter: str) -> tuple[str, ...]:
        """The weights of a convolution of keys (K) or values (V) by numbers."""
        return self.named(f"c_{letter}")

    @cached_property
    def constant(self) -> bool:
        """Whether the weights do not depend on keys and queries at all."""
        one = self.mechanism
        uniform = self.a == 1 and one.splits and one.normalise == "both"
        return one.silent(self.tokens) or (uniform and not one.masked)

    @cached_property
    def stuck(self) -> bool:
        """Whether small changes of keys and queries do not change the weights."""
        two_values = self.a == {"layer": 2, "sphere": 1}.get(self.mechanism.unit)
        return two_values or self.constant


@dataclass(frozen=True)
class HeadPlace:
    """A head: its group and its place there (from 0), and its number in the layer (from 1)."""

    group: int
    head: int
    number: int


@lru_cache(maxsize=4096)  # stacks of a sweep have layers in common
def heads_of(layer: Layer) -> tuple[HeadPlace, ...]:
    """The heads of a layer, group by group."""
    pairs = [(g, h) for g, group in enumerate(layer.groups) for h in range(group.heads)]
    return tuple(HeadPlace(g, h, n) for n, (g, h) in enumerate(pairs, 1))


@lru_cache(maxsize=4096)
def head_at(layer: Layer, group: int, t: int, parallel: bool = False) -> Head:
    """What the symmetries of the heads of a group depend on."""
    rows = tuple((name, shape[1]) for name, shape in layer.shapes[group].items())
    return Head(layer.groups[group].mechanism, layer.a, t, rows, parallel)


def dead(layer: Layer, group: int, t: int) -> bool:
    """Whether heads mix nothing: the weight of their only key, less one, is zero."""
    one = layer.groups[group].mechanism
    return one.normalise == "centred" and one.silent(t)


@dataclass(frozen=True)
class Units:
    """Heads that act together: a pool, or one head alone; and whether rows are told apart."""

    places: list[HeadPlace]
    rowwise: bool
    pooled: bool = False


@lru_cache(maxsize=64)
def units_of(spec: Network) -> tuple[list[Units], ...]:
    """The heads of each layer that mix anything."""
    return tuple(units_in(layer, spec.t) for layer in spec.layers)


@lru_cache(maxsize=4096)
def units_in(layer: Layer, t: int) -> list[Units]:
    """The heads of a layer that mix anything, first those that act as one.

    Heads with the same constant weights and no gate do: only the sum of their values matters.
    """
    pools: dict[bool, list[HeadPlace]] = {}
    alone: list[Units] = []
    groups = range(len(layer.groups))
    pooling = [_pool(layer, g, t) for g in groups]
    still = {g for g in groups if dead(layer, g, t)}
    for place in heads_of(layer):
        if place.group in still:
            continue
        pool = pooling[place.group]
        if pool is None:
            alone.append(Units([place], layer.groups[place.group].mechanism.rowwise))
        else:
            pools.setdefault(pool, []).append(place)
    return [*(Units(pool, rowwise=False, pooled=True) for pool in pools.values()), *alone]


def _pool(layer: Layer, group: int, t: int) -> bool | None:
    """Whether heads with constant weights see only their own token; None if weights vary."""
    one = layer.groups[group].mechanism
    if one.gate != "none" or one.conv != "none":
        return None
    return one.alone(t) if head_at(layer, group, t).constant else None


def inner_size(layer: Layer, unit: Units) -> int:
    """The width of the values of a unit before they are written."""
    return layer.inner * (len(unit.places) if layer.dv is not None else 1)


@lru_cache(maxsize=64)
def reached(spec: Network) -> list[int]:
    """Largest dimension of the space that tokens span before each layer and at the end.

    >>> reached(Network.parse("softmax/d=3,1,4,4/a=2/heads=2/t=3"))
    [3, 1, 2, 4]
    """
    out = [spec.widths[0]]
    for layer, units in zip(spec.layers, units_of(spec), strict=True):
        through = sum(_through(layer, unit, out[-1]) for unit in units)
        out.append(min(layer.width_out, through))
    return out


def _through(layer: Layer, unit: Units, dimension: int) -> int:
    """How many dimensions pass a unit."""
    size = inner_size(layer, unit)
    if unit.rowwise:
        return size
    return min(size, dimension * len(layer.taps(unit.places[0].group, "W_V")))


@lru_cache(maxsize=64)
def read(spec: Network) -> list[int]:
    """Largest number of linear forms of the tokens that are read from before each layer on.

    >>> read(Network.parse("softmax/d=9,9,1/a=2,1/t=3"))
    [7, 3, 1]
    """
    out = [spec.widths[-1]]
    for layer, units in zip(reversed(spec.layers), reversed(units_of(spec)), strict=True):
        total = 0
        for g, group in enumerate(layer.groups):
            rows = layer.shapes[g]
            total += group.heads * sum(rows[n][1] for n in reading_maps(layer, g, spec.t))
        for unit in units:
            taps = len(layer.taps(unit.places[0].group, "W_V"))
            size = inner_size(layer, unit)
            total += taps * (size if unit.rowwise else min(out[-1], size))
        out.append(min(layer.width_in, total))
    return out[::-1]


@lru_cache(maxsize=4096)
def reading_maps(layer: Layer, group: int, t: int) -> list[str]:
    """The maps by which the scores and the gate of a head read tokens, if they matter."""
    if dead(layer, group, t):
        return []
    scores = () if head_at(layer, group, t).stuck else ("W_K", "W_Q")
    return [name for root in (*scores, "W_G") for name in layer.taps(group, root)]


def parallel_tokens(spec: Network) -> list[bool]:
    """Before each layer: must all tokens be multiples of one vector?

    Then the layer sees only the symmetric part of K^T Q. It happens with one token, and
    after a lightning layer of rank one.
    """
    rank = [min(spec.widths[0], spec.t)]
    for layer in spec.layers:
        through = 0
        for group in layer.groups:
            one = group.mechanism
            most = one.features(layer.a) if not one.masked and one.normalise != "centred" else None
            keys = one.keys(spec.t) - (one.normalise == "centred")
            each = min(rank[-1] * one.kernel, keys, most or spec.t)
            through += group.heads * (spec.t if one.gate != "none" else min(each, layer.inner))
        rank.append(min(layer.width_out, spec.t, through))
    return [r == 1 for r in rank[:-1]]


def silent(spec: Network) -> bool:
    """Whether scores have no effect at all in a plain stack: a softmax over one token is 1."""
    return spec.mechanism.silent(spec.t)


def annihilator(field: Prime, rows: Array) -> Array:
    """A basis (rows) of the vectors orthogonal to `rows`, which must have full generic rank."""
    dimension = min(rows.shape)
    space = Echelon(rows.shape[1], field, capacity=dimension)
    space.add(rows)
    if space.rank != dimension:
        raise UnluckyError(
            f"this random point is special: it spans {space.rank} dimensions instead of "
            f"{dimension}; try another seed"
        )
    return field.reduce(space.kernel())
