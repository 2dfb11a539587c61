"""What do the paper's small networks learn, how are they trained, and what is published?

Sorting, convex hulls, and random labels of the words of plain sentences, which a small grammar
makes. A label belongs to each token. Everything is drawn from a seed.

>>> train, test = sorting(train=2, test=1, length=4, seed=0)
>>> bool((np.sort(train.inputs) == train.labels).all())
True
>>> print(" ".join(sentences(count=1, length=12, seed=3)[0]))
this wooden tailor never hears some calm bell , because some guard
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

from segre.errors import SegreError
from segre.fields.interface import Array

DETERMINERS = ("the", "a", "this", "that", "one", "every", "each", "some", "another", "no")
ADJECTIVES = (
    *("small", "old", "bright", "quiet", "heavy", "green", "narrow", "warm", "broken", "early"),
    *("gentle", "hollow", "plain", "crooked", "distant", "hungry", "silver", "wooden", "late"),
    *("careful", "dusty", "round", "sudden", "patient", "yellow", "bitter", "calm", "steep"),
)
PEOPLE = (
    *("baker", "sailor", "teacher", "child", "farmer", "painter", "nurse", "miller", "king"),
    *("driver", "singer", "tailor", "hunter", "neighbour", "doctor", "clerk", "widow", "guard"),
    *("fox", "horse", "crow", "dog", "goat", "heron", "mouse", "bear", "cousin", "shepherd"),
)
THINGS = (
    *("lantern", "bridge", "letter", "basket", "river", "window", "ladder", "garden", "bell"),
    *("stone", "wagon", "kettle", "map", "blanket", "door", "clock", "boat", "apple", "hammer"),
    *("rope", "mirror", "barrel", "coat", "candle", "fence", "book", "table", "drum", "key"),
)
PLACES = (
    *("hill", "market", "forest", "harbour", "kitchen", "valley", "tower", "field", "village"),
    *("cellar", "road", "shore", "attic", "mill", "orchard", "barn", "square", "island", "well"),
)
VERBS = (
    *("carries", "finds", "paints", "hides", "mends", "watches", "lifts", "sells", "draws"),
    *("counts", "follows", "pushes", "opens", "drops", "cleans", "borrows", "guards", "loses"),
    *("wants", "hears", "burns", "moves", "keeps", "wraps", "brings", "breaks", "turns", "leaves"),
)
ADVERBS = (
    *("slowly", "often", "never", "quietly", "again", "gladly", "soon", "twice", "rarely"),
    *("badly", "early", "alone", "always", "quickly", "today", "almost", "still", "gently"),
)
PREPOSITIONS = ("near", "behind", "under", "beside", "above", "inside", "across", "past", "in")
JOINTS = ("and", "but", "while", "because", "before", "after", "until", "so", "or", "when")


def sentences(count: int = 500, length: int = 128, seed: int = 0) -> list[list[str]]:
    """Long sentences of clauses, each cut after `length` words (commas are words)."""
    rng = Random(seed)
    return [_sentence(rng, length) for _ in range(count)]


def vocabulary() -> list[str]:
    """All words, in the order of the alphabet: a word is the token of its place."""
    kinds = (DETERMINERS, ADJECTIVES, PEOPLE, THINGS, PLACES, VERBS, ADVERBS, PREPOSITIONS, JOINTS)
    return sorted({",", *(word for kind in kinds for word in kind)})


def _sentence(rng: Random, length: int) -> list[str]:
    words = _clause(rng)
    while len(words) < length:
        words += [",", rng.choice(JOINTS), *_clause(rng)]
    return words[:length]


def _clause(rng: Random) -> list[str]:
    """Somebody, perhaps somewhere, does something to a thing."""
    words = _noun(rng, PEOPLE)
    if rng.random() < 0.4:
        words += [rng.choice(PREPOSITIONS), *_noun(rng, PLACES)]
    if rng.random() < 0.5:
        words.append(rng.choice(ADVERBS))
    words += [rng.choice(VERBS), *_noun(rng, THINGS)]
    if rng.random() < 0.4:
        words += [rng.choice(PREPOSITIONS), *_noun(rng, PLACES)]
    return words


def _noun(rng: Random, kind: tuple[str, ...]) -> list[str]:
    adjective = [rng.choice(ADJECTIVES)] if rng.random() < 0.5 else []
    return [rng.choice(DETERMINERS), *adjective, rng.choice(kind)]


@dataclass(frozen=True)
class Examples:
    """Sequences of tokens (count, n), or of points (count, n, 2), and a label for each."""

    inputs: Array
    labels: Array  # (count, n)

    def first(self, count: int) -> Examples:
        """The first of them."""
        return Examples(self.inputs[:count], self.labels[:count])

    def majority(self) -> float:
        """The accuracy of always giving the most frequent label."""
        return float(np.bincount(self.labels.ravel()).max() / self.labels.size)


def sorting(
    train: int = 1000, test: int = 200, length: int = 8, alphabet: int = 10, seed: int = 0
) -> tuple[Examples, Examples]:
    """Random letters; the label of a place is the letter there after sorting."""
    rng = np.random.default_rng([seed, 1])

    def some(count: int) -> Examples:
        letters = rng.integers(alphabet, size=(count, length))
        return Examples(letters, np.sort(letters, axis=-1))

    return some(train), some(test)


def convex_hull(
    train: int = 10000, test: int = 300, length: int = 10, seed: int = 0
) -> tuple[Examples, Examples]:
    """Points of a randomly shifted square of side 10; the label: is it on the hull?"""
    rng = np.random.default_rng([seed, 2])

    def some(count: int) -> Examples:
        shift = rng.normal(scale=3.3, size=(count, 1, 2))
        points = rng.uniform(high=10, size=(count, length, 2)) + shift
        return Examples(points, on_hull(points).astype(np.int64))

    return some(train), some(test)


def on_hull(points: Array) -> Array:
    """Whether each point (..., n, 2) is a corner of their convex hull.

    It is if all others are on one side of a line through it: if there is a gap of more than half
    a turn between the directions in which they are.
    """
    n = points.shape[-2]
    others = points[..., None, :, :] - points[..., :, None, :]  # [i, j]: from i to j
    others = others[..., ~np.eye(n, dtype=bool), :].reshape(*points.shape[:-1], n - 1, 2)
    angles = np.sort(np.arctan2(others[..., 1], others[..., 0]), axis=-1)
    gaps = np.diff(angles, axis=-1, append=angles[..., :1] + 2 * np.pi)
    return np.asarray(gaps.max(axis=-1) > np.pi)


def memorising(count: int = 500, length: int = 128, seed: int = 0) -> tuple[Examples, Examples]:
    """Sentences with a random label 0 or 1 for each word; the test is what was learned."""
    place = {word: token for token, word in enumerate(vocabulary())}
    tokens = [[place[word] for word in words] for words in sentences(count, length, seed)]
    labels = np.random.default_rng([seed, 3]).integers(2, size=(count, length))
    found = Examples(np.array(tokens), labels)
    return found, found


@dataclass(frozen=True)
class Published:
    """What the paper and its code report; `rerun` is that code, run again."""

    training: str
    full: float
    chance: float
    lengths: tuple[float, ...] = ()  # isolated paths, by length, in the run again
    rerun: float | None = None


@dataclass(frozen=True)
class Shape:
    """The sizes of a network; without a vocabulary its inputs are points of the plane."""

    heads: int
    layers: int
    d: int
    outputs: int
    vocabulary: int = 0
    positions: int = 0  # learned ones, for as many places; 0 is none
    mlp: bool = False
    skip: bool = True
    lift: int = 2  # maps from points to the layers, with a GELU between two
    norms: bool = False  # after every layer; then there is none before the readout
    dropout: float = 0.0  # of embeddings, patterns, what heads write, and what is read out


@dataclass(frozen=True)
class Settings:
    """How a network is trained: with Adam (AdamW, if there is a decay) at a constant rate."""

    epochs: int
    lr: float
    batch: int = 30
    decay: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class Plan:
    """A task: its network, its data, and how it is trained here unless said otherwise."""

    name: str
    title: str
    shape: Shape
    training: Settings
    train: int
    test: int
    length: int
    published: Published
    full: tuple[tuple[str, Any], ...] = ()  # what is otherwise with --full
    notes: tuple[str, ...] = ()

    def examples(self, seed: int) -> tuple[Examples, Examples]:
        """Training and test examples."""
        if self.name == "path-memorize":
            return memorising(self.train, self.length, seed)
        draw: Callable[..., tuple[Examples, Examples]]
        draw = sorting if self.name == "path-sort" else convex_hull
        return draw(self.train, self.test, self.length, seed=seed)

    def changed(self, **options: Any) -> Plan:
        """The plan with those options that are given."""
        given = {key: value for key, value in options.items() if value is not None}

        def own(part: Any) -> Any:
            return replace(part, **{key: given.pop(key) for key in vars(part).keys() & given})

        shape = own(self.shape)
        found = replace(self, shape=shape, training=own(self.training), **given)
        if shape.d % shape.heads:
            raise SegreError(f"heads: {shape.heads} does not divide d={shape.d}")
        if (shape.layers, shape.d) == (self.shape.layers, self.shape.d):
            return found
        return replace(found, published=replace(self.published, lengths=()))


SORT = Plan(
    *("path-sort", "sorting 8 letters from an alphabet of 10"),
    Shape(2, 6, 48, 10, vocabulary=10, positions=8),
    Settings(65, 1e-3),
    *(1000, 200, 8),
    Published(
        "Adam 1e-5, 65 epochs",
        *(0.98, 0.10),
        lengths=(0.34, 0.56, 0.18, 0.09, 0.10, 0.10, 0.09),
        rerun=0.996,
    ),
    notes=(
        "The published code trains with a learning rate of 1e-5. Run with that rate, it stays at "
        ".37 on sorting, far below the published .98; with 1e-3 it reaches .996. Here the rate "
        "is 1e-3.",
    ),
)
HULL = Plan(
    *("path-hull", "which of 10 points are on their convex hull"),
    Shape(3, 6, 84, 2),
    Settings(5, 3e-4),
    *(10000, 300, 10),
    Published(
        "Adam 1e-5, 70 epochs",
        *(0.90, 0.54),
        lengths=(0.42, 0.57, 0.54, 0.55, 0.51, 0.51, 0.50),
        rerun=0.926,
    ),
    full=(("epochs", 70), ("lr", 1e-5)),
    notes=(
        "Published training runs 70 epochs at 1e-5 (--full); the default here is 5 epochs at "
        "3e-4. The published weight decay and falling learning rate are left out.",
    ),
)
MEMORIZE = Plan(
    *("path-memorize", "random labels of words"),
    Shape(2, 6, 250, 2, vocabulary=len(vocabulary())),
    Settings(10, 3e-4, 8, decay=0.01),
    *(500, 30, 32),
    Published("AdamW 3e-4, 50 epochs", 0.85, 0.5),
    full=(("epochs", 50), ("length", 128)),
    notes=(
        "The published texts are 500 from RTE, up to 128 tokens each. Here there are 500 "
        "sentences from segre's own grammar, cut to 32 words, and 10 epochs rather than 50 "
        "(--full has the published sizes). As in the published code there are no positions: a "
        "word that is repeated in a sentence gets the same answer everywhere, which bounds what "
        "can be learned.",
    ),
)
PLANS = {plan.name: plan for plan in (SORT, HULL, MEMORIZE)}
