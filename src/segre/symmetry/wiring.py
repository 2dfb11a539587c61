"""Which tensors write to the residual stream, and which read it.

The stream passes *points*: after the embedding and after every sublayer. A point has a producer
(the embedding, or the sublayer before it) and a consumer (the sublayer after it, or the head).
Layers that share their weights join points, and so do skips, which carry what is written on to
all later points. A point between parallel layers has two producers and two consumers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product

from segre.transformer.spec import Transformer
from segre.transformer.tensors import part_shapes, parts, routed

End = tuple[
    str, str
]  # (part, "attention" | "mlp"), ("embed", ""), ("input", ""), ("head", ""), ...


@dataclass(frozen=True)
class Reader:
    """A tensor whose last axis reads the stream (or a norm's output), and its bias, if any."""

    part: str
    weight: str
    bias: str | None = None


@dataclass(frozen=True)
class Norm:
    """A norm by the names of its tensors; those that are absent are None."""

    part: str
    name: str
    width: int
    gain: str | None
    bias: str | None


@dataclass(frozen=True)
class Place:
    """Points of the stream that must change together: their producers and consumers."""

    producers: tuple[End, ...]
    consumers: tuple[End, ...]

    @property
    def free(self) -> bool:
        """Whether the basis of the stream is free here: neither an input nor an output fixes it."""
        return ("input", "") not in self.producers and ("output", "") not in self.consumers


def has(spec: Transformer, part: str, name: str) -> bool:
    """Whether a part has a tensor of this name."""
    return name in part_shapes(spec, part)


def norm_at(spec: Transformer, part: str, name: str, width: int) -> Norm:
    """The norm of a name."""
    gain, bias = f"{name}.gain", f"{name}.bias"
    return Norm(
        part,
        name,
        width,
        gain if has(spec, part, gain) else None,
        bias if has(spec, part, bias) else None,
    )


def _reader(spec: Transformer, part: str, weight: str) -> Reader:
    bias = weight.replace("W_", "b_")
    return Reader(part, weight, bias if bias != weight and has(spec, part, bias) else None)


def readers(spec: Transformer, end: End) -> list[Reader]:
    """The tensors with which a consumer reads; a tied table is not among them."""
    part, kind = end
    if kind == "attention":
        names = ["W_Q", "W_K", "W_V", "W_G"]
        if spec.latent:
            queries = ["A_Q"] if spec.qrank else ["W_Q", "R_Q"]
            names = [*queries, "A_K", "R_K"]
    elif kind == "mlp":
        names = ["W_R", "W_gate", "W_up", "S_gate", "S_up", "S_R"]
    elif spec.project:
        names = ["W_D"]
    elif spec.output == "hidden":
        names = []
    else:
        names = ["W_T", "W_pool"] if spec.transform else ["W_pool"] if spec.pooler else ["W_U"]
    return [_reader(spec, part, name) for name in names if has(spec, part, name)]


def reads_norm(spec: Transformer, end: End) -> bool:
    """Whether a consumer reads the stream through a norm."""
    part, kind = end
    if part == "head":
        return spec.final
    return part != "output" and spec.normed_at(int(part), 1 if kind == "attention" else 2)


def norm_before(spec: Transformer, end: End) -> Norm | None:
    """The norm through which a consumer reads the stream."""
    part, kind = end
    if not reads_norm(spec, end):
        return None
    names = {"head": "norm", "attention": "norm1", "mlp": "norm2"}
    return norm_at(spec, part, names["head" if part == "head" else kind], spec.d)


def norm_after(spec: Transformer, end: End) -> Norm | None:
    """The norm between what a producer computes and the stream."""
    part, kind = end
    if part == "embed":
        return norm_at(spec, part, "norm", spec.embed or spec.d) if spec.embnorm else None
    if part == "input" or spec.norm == "none" or spec.place == "pre":
        return None
    return norm_at(spec, part, "post1" if kind == "attention" else "post2", spec.d)


def writers(spec: Transformer, end: End) -> list[str]:
    """The tensors whose rows (next to last axis) write what a producer computes."""
    part, kind = end
    names = {"attention": ["W_O"], "mlp": ["W_down", "S_down", "c_down"]}.get(kind)
    if names is None:
        names = ["tokens", "W_P", "b_P", "cls", "positions", "types"]
        if spec.embed:
            names = ["W_E", "positions"] if spec.project else ["W_E"]
    return [name for name in names if has(spec, part, name)]


def layer_scale(spec: Transformer, tensor: tuple[str, str]) -> str | None:
    """The vector by which what a tensor writes is multiplied, before it reaches the stream."""
    names = {"W_O": "scale1", "b_O": "scale1", "W_down": "scale2", "b_down": "scale2"}
    return names.get(tensor[1]) if spec.layerscale else None


def writer_bias(spec: Transformer, end: End) -> str | None:
    """The bias of what a producer computes."""
    name = {"attention": "b_O", "mlp": "b_down"}.get(end[1], "b_E")
    return name if has(spec, end[0], name) else None


@lru_cache(maxsize=64)
def sublayers(spec: Transformer) -> tuple[End, ...]:
    """The sublayers in order; where layers share their weights, the same ones again."""
    out: list[End] = []
    for i in range(1, spec.layers + 1):
        part = "1" if spec.share else str(i)
        out.append((part, "attention"))
        if spec.mlp != "none":
            out.append((part, "mlp"))
    return tuple(out)


def own_sublayers(spec: Transformer) -> list[End]:
    """The sublayers with distinct weights."""
    return list(dict.fromkeys(sublayers(spec)))


@lru_cache(maxsize=64)
def stream_readers(spec: Transformer) -> frozenset[str]:
    """The names of all tensors that read the stream."""
    consumers = (*own_sublayers(spec), ("head", ""))
    return frozenset(reader.weight for end in consumers for reader in readers(spec, end))


def ends(spec: Transformer) -> tuple[End, End]:
    """Where the stream begins and where it ends."""
    begin = ("embed", "") if spec.embedded else ("input", "")
    seen = ("head", "") if spec.final or not spec.shows_stream else ("output", "")
    return begin, seen


def points(spec: Transformer) -> Iterator[tuple[End, End]]:
    """Producer and consumer of every point of the stream."""
    begin, end = ends(spec)
    every = sublayers(spec)
    steps = list(zip(every[::2], every[1::2], strict=True)) if spec.parallel else zip(every)
    for producers, consumers in pairwise([(begin,), *steps, (end,)]):
        yield from product(producers, consumers)


@lru_cache(maxsize=64)
def producers(spec: Transformer) -> dict[End, tuple[End, ...]]:
    """What writes to the points that each consumer reads; several, if layers share weights."""
    out: dict[End, tuple[End, ...]] = {}
    for producer, consumer in points(spec):
        before = out.get(consumer, ())
        out[consumer] = before if producer in before else (*before, producer)
    return out


def producers_of(spec: Transformer, end: End) -> tuple[End, ...]:
    """What writes to the points that a consumer reads."""
    return producers(spec).get(end, ())


@lru_cache(maxsize=64)
def places(spec: Transformer, carried: bool) -> tuple[Place, ...]:
    """Points joined by shared weights and, if `carried`, by skips; in the order of the stream."""
    every = list(points(spec))
    home: dict[tuple[str, End], int] = {}  # the last place that has a producer or consumer
    group = list(range(len(every)))  # a forest: the place that a place has been joined to

    def root(i: int) -> int:
        while group[i] != i:
            group[i] = group[group[i]]
            i = group[i]
        return i

    for i, (producer, consumer) in enumerate(every):
        for key in (("writes", producer), ("reads", consumer)):
            group[root(home.get(key, i))] = root(i)
            home[key] = i
        if carried and i:
            group[root(i - 1)] = root(i)
    found: dict[int, tuple[dict[End, None], dict[End, None]]] = {}
    for i, (producer, consumer) in enumerate(every):
        producers, consumers = found.setdefault(root(i), ({}, {}))
        producers[producer] = None
        consumers[consumer] = None
    return tuple(Place(tuple(p), tuple(c)) for p, c in found.values())


def stream_places(spec: Transformer) -> tuple[Place, ...]:
    """The places at which the basis of the stream may be chosen."""
    return places(spec, spec.residual)


def expert_layer(spec: Transformer, part: str) -> bool:
    """Whether the MLP of a part has experts."""
    return spec.mlp != "none" and routed(spec, int(part))


def layer_parts(spec: Transformer) -> list[str]:
    """The parts that are layers."""
    return parts(spec)[1:-1]


def where(spec: Transformer, part: str) -> str:
    """A part in words."""
    if part in ("embed", "head"):
        return {"embed": "embedding", "head": "head"}[part]
    return "all layers" if spec.share and spec.layers > 1 else f"layer {part}"


def shift_source(spec: Transformer, end: End) -> tuple[str, str] | None:
    """A tensor that adds a constant to the stream where a producer writes."""
    if end[0] == "input":
        return ("embed", "positions") if has(spec, "embed", "positions") else None
    if end[0] == "embed":
        if spec.embed and not spec.project:
            return ("embed", "b_E") if has(spec, "embed", "b_E") else None
        if spec.embnorm:
            return ("embed", "norm.bias") if has(spec, "embed", "norm.bias") else None
        for name in ("positions", "types"):
            if has(spec, "embed", name):
                return "embed", name
        return "embed", "tokens"
    site = norm_after(spec, end)
    if site is not None:
        return (end[0], site.bias) if site.bias else None
    bias = writer_bias(spec, end)
    return (end[0], bias) if bias else None


def shift_writers(spec: Transformer, producers: tuple[End, ...]) -> tuple[End, ...]:
    """The sublayer that adds a constant to the stream at a point; of two, one that can."""
    if not spec.parallel:
        return producers
    able = tuple(end for end in producers if shift_source(spec, end) is not None)
    return (able or producers)[-1:]
