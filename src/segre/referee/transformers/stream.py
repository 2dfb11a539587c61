"""Who writes to the stream of a transformer, and who reads it? The places of section 9."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise, product

from segre.referee.transformers.weights import EMBED, HEAD, Layout, Place, shows_stream


@dataclass(frozen=True, slots=True)
class Actor:
    """The input, the embedding, a sublayer ("attention", "mlp"), the head, or the output."""

    kind: str
    part: int


@dataclass(frozen=True, slots=True)
class Norm:
    """A norm, by its part, its name there, and its width."""

    part: int
    name: str
    width: int

    @property
    def gain(self) -> Place:
        """Where its gain would be."""
        return self.part, self.name + ".gain"

    @property
    def bias(self) -> Place:
        """Where its bias would be."""
        return self.part, self.name + ".bias"


@dataclass(frozen=True, slots=True)
class Reader:
    """A linear map that reads, and its bias if it has one."""

    weight: Place
    bias: Place | None


@dataclass(frozen=True, slots=True)
class Spot:
    """A place of the stream: who writes there and who reads there, each once."""

    producers: tuple[Actor, ...]
    consumers: tuple[Actor, ...]

    @property
    def free(self) -> bool:
        """Whether its coordinates can be chosen."""
        kinds = {actor.kind for actor in self.producers + self.consumers}
        return not kinds & {"input", "output"}

    def writes(self, kind: str) -> bool:
        """Whether an actor of this kind writes here."""
        return any(actor.kind == kind for actor in self.producers)

    def reads(self, kind: str) -> bool:
        """Whether an actor of this kind reads here."""
        return any(actor.kind == kind for actor in self.consumers)


INPUT, EMBEDDING = Actor("input", EMBED), Actor("embedding", EMBED)
OUTPUT, HEAD_ACTOR = Actor("output", HEAD), Actor("head", HEAD)
_NUMBER = {"attention": 1, "mlp": 2}


class Stream:
    """The stream of a transformer: points before, between and after its sublayers."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.spec = spec = layout.spec
        sequence = []
        for layer in range(1, spec.layers + 1):
            part = 1 if spec.share else layer
            sequence.append(Actor("attention", part))
            if spec.mlp != "none":
                sequence.append(Actor("mlp", part))
        self.sequence = tuple(sequence)
        self.sublayers = tuple(dict.fromkeys(sequence))
        first = EMBEDDING if spec.vocab or spec.patch else INPUT
        last = HEAD_ACTOR if spec.final or not shows_stream(spec) else OUTPUT
        size = 2 if spec.parallel else 1
        steps = [tuple(sequence[i : i + size]) for i in range(0, len(sequence), size)]
        # Every pair of a producer and a consumer of the same point.
        pairs = [
            pair
            for before, after in pairwise([(first,), *steps, (last,)])
            for pair in product(before, after)
        ]
        self.producers = tuple(producer for producer, _ in pairs)
        self.consumers = tuple(consumer for _, consumer in pairs)
        self.spots = self._spots()
        everything = range(len(self.producers))
        self.joint_spots = [self._spot(everything)] if spec.residual else self.spots

    def _spots(self) -> list[Spot]:
        """Points with a common producer or consumer are in one place."""
        groups: list[set[int]] = []
        for point, (producer, consumer) in enumerate(
            zip(self.producers, self.consumers, strict=True)
        ):
            touching = [
                group
                for group in groups
                if any(
                    self.producers[i] == producer or self.consumers[i] == consumer for i in group
                )
            ]
            merged = {point}.union(*touching)
            groups = [group for group in groups if group not in touching] + [merged]
        return [self._spot(sorted(group)) for group in sorted(groups, key=min)]

    def _spot(self, points: Iterable[int]) -> Spot:
        points = list(points)
        return Spot(
            tuple(dict.fromkeys(self.producers[i] for i in points)),
            tuple(dict.fromkeys(self.consumers[i] for i in points)),
        )

    def occurrences(self, producer: Actor) -> int:
        """How often a producer writes: sublayers may come again and again."""
        return max(1, self.sequence.count(producer))

    def producers_for(self, consumer: Actor) -> list[Actor]:
        """All that write what one consumer reads."""
        pairs = zip(self.producers, self.consumers, strict=True)
        return list(dict.fromkeys(producer for producer, reader in pairs if reader == consumer))

    # What the actors consist of.

    def _existing(self, places: Iterable[Place]) -> list[Place]:
        return [place for place in places if place in self.layout.by_place]

    def writers(self, producer: Actor) -> list[Place]:
        """The tensors whose rows are dimensions of the stream."""
        names = {
            "input": (),
            "embedding": self._embedding_names(),
            "attention": ("W_O",),
            "mlp": ("W_down", "S_down", "c_down"),
        }
        return self._existing((producer.part, name) for name in names[producer.kind])

    def _embedding_names(self) -> tuple[str, ...]:
        if self.spec.project:
            return ("W_E", "positions")
        if self.spec.patch:
            return ("W_P", "b_P", "cls", "positions")
        return ("W_E",) if self.spec.embed else ("tokens", "positions", "types")

    def bias(self, producer: Actor) -> Place | None:
        """The bias that a producer adds to the stream."""
        names = {"input": "", "embedding": "b_E", "attention": "b_O", "mlp": "b_down"}
        place = (producer.part, names[producer.kind])
        return place if place in self.layout.by_place else None

    def written(self, producer: Actor) -> list[Place]:
        """Writers and bias."""
        bias = self.bias(producer)
        return self.writers(producer) + ([] if bias is None else [bias])

    def readers(self, consumer: Actor) -> list[Reader]:
        """The linear maps whose columns are dimensions of the stream."""
        spec = self.spec
        names: tuple[str, ...] = ()
        if consumer.kind == "attention":
            latent_queries = ("A_Q",) if spec.qrank else ("W_Q", "R_Q")
            names = (*latent_queries, "A_K", "R_K") if spec.kvrank else ("W_Q", "W_K", "W_V", "W_G")
        elif consumer.kind == "mlp":
            names = ("W_R", "W_gate", "W_up", "S_gate", "S_up", "S_R")
        elif consumer.kind == "head":
            names = () if shows_stream(spec) else self._head_names()
        return [self.reader(place) for place in self._existing((consumer.part, n) for n in names)]

    def _head_names(self) -> tuple[str, ...]:
        if self.spec.project:
            return ("W_D",)
        if self.spec.transform:
            return ("W_T", "W_pool")
        return ("W_pool",) if self.spec.pooler else ("W_U",)

    def reader(self, weight: Place) -> Reader:
        """A linear map with its bias."""
        part, name = weight
        bias = (part, "b_" + name[2:])
        known = name.startswith("W_") and bias in self.layout.by_place
        return Reader(weight, bias if known else None)

    def norm_before(self, consumer: Actor) -> Norm | None:
        """The norm through which a consumer reads."""
        spec = self.spec
        if consumer.kind == "head":
            return Norm(HEAD, "norm", spec.d) if spec.final else None
        before = spec.norm != "none" and spec.place in ("pre", "sandwich")
        if consumer.kind == "output" or not before:
            return None
        if not spec.firstnorm and consumer == self.consumers[0]:
            return None
        return Norm(consumer.part, f"norm{_NUMBER[consumer.kind]}", spec.d)

    def only_norms_read(self, spot: Spot, producer: Actor) -> bool:
        """Whether a norm comes before all that read what a producer writes.

        With firstnorm=false the first attention has none, and it reads the embedding only.
        """
        readers = spot.consumers
        if not self.spec.firstnorm and producer != self.producers[0]:
            readers = tuple(actor for actor in readers if actor != self.consumers[0])
        return all(self.norm_before(actor) is not None for actor in readers)

    def norm_after(self, producer: Actor) -> Norm | None:
        """The norm through which a producer writes; that of the embedding comes before W_E."""
        spec = self.spec
        if producer.kind == "embedding":
            return Norm(EMBED, "norm", spec.embed or spec.d) if spec.embnorm else None
        if producer.kind == "input" or spec.norm == "none" or spec.place == "pre":
            return None
        return Norm(producer.part, f"post{_NUMBER[producer.kind]}", spec.d)

    def norm_before_table(self) -> Norm | None:
        """The norm before a tied table, where it unembeds."""
        spec = self.spec
        if spec.transform:
            return Norm(HEAD, "normT", spec.embed or spec.d)
        return Norm(HEAD, "norm", spec.d) if spec.final else None

    def last_norm(self, producer: Actor) -> Norm | None:
        """The norm whose output is what a producer adds to the stream, if it is a norm's."""
        covered = producer.kind == "embedding" and self.spec.embed
        return None if covered else self.norm_after(producer)

    def shift_source(self, producer: Actor) -> Place | None:
        """The tensor that can shift all that a producer writes, families 21 and 27."""
        if producer.kind == "input":
            positions = (EMBED, "positions")
            return positions if positions in self.layout.by_place else None
        norm = self.last_norm(producer)
        if norm is not None:
            return norm.bias if norm.bias in self.layout.by_place else None
        if producer.kind == "embedding" and (self.spec.project or not self.spec.embed):
            tables = ((EMBED, name) for name in ("positions", "types", "tokens"))
            return self._existing(tables)[0]
        return self.bias(producer)
