"""Plain sentences from a small grammar, for networks to memorise; made here, copied from nowhere.

>>> print(" ".join(sentences(count=1, length=12, seed=3)[0]))
this wooden tailor never hears some calm bell , because some guard
"""

from __future__ import annotations

from random import Random

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
