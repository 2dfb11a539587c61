"""What was done to a checkpoint: laws over random seeds, on models that nobody trained.

Layers, tokens and widths changed at random; numbers quantised in many ways; families of three.
"""

from itertools import combinations
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bench.descendants import (
    SCHEMES,
    dequantised,
    moved,
    narrowed,
    relayered,
    stored_as,
    with_tokens_permuted,
)
from bench.tiny_models import Checkpoint, new_model, taken

from segre.checkpoint.grids import grid_of
from segre.checkpoint.kinship import Kinship
from segre.checkpoint.lineage import Relation, _among_others, related_checkpoints
from segre.checkpoint.model import Model

FAMILIES = ("gpt2", "llama", "qwen3", "gpt_neox", "bert")
HALF: dict[str, Any] = {
    "float32": np.float32,
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
}
pytestmark = pytest.mark.models


def untrained(family: str, seed: int, layers: int = 4) -> Checkpoint:
    return taken(new_model(family, seed, layers))


def relation(one: Checkpoint, two: Checkpoint) -> Relation:
    with Model.open(one) as a, Model.open(two) as b:
        return related_checkpoints(a, b)


@pytest.mark.parametrize("seed", range(8))
def test_layers_in_any_order_are_named(seed: int) -> None:
    """Dropped, repeated or in another order; in place or moved; of either type."""
    rng = np.random.default_rng(seed)
    base = stored_as(untrained(FAMILIES[seed % 5], seed), list(HALF.values())[seed % 2])
    kept = [int(i) for i in rng.permutation(4)]
    some = sorted(kept[: int(rng.integers(2, 4))])
    twice = sorted([*range(4), *kept[: int(rng.integers(1, 3))]])
    if kept == sorted(kept):
        kept = kept[::-1]
    cases = {
        "layers reordered": (kept, [i + 1 for i in kept]),
        "layers dropped": (some, [i + 1 for i in range(4) if i not in some]),
        "layers duplicated": (twice, sorted({i + 1 for i in twice if twice.count(i) > 1})),
    }
    for number, (verdict, (order, named)) in enumerate(cases.items()):
        other = relayered(base, order)
        two = moved(other, seed) if (seed + number) % 2 else other
        for found in (relation(base, two), relation(two, base)):
            assert found.verdict == verdict, (verdict, order, found.reason)
            if verdict != "layers reordered":
                word = "layer" if len(named) == 1 else "layers"
                assert f" {word} {', '.join(map(str, named))} of " in found.reason


@pytest.mark.parametrize("seed", range(6))
def test_tokens_and_widths_are_seen(seed: int) -> None:
    base = untrained(FAMILIES[seed % 5], seed, 2)
    dtype = list(HALF.values())[seed % 2]
    other = stored_as(with_tokens_permuted(base, seed), dtype)
    narrow = stored_as(narrowed(base, seed=seed), dtype)
    if seed % 2:
        other, narrow = moved(other, seed), moved(narrow, seed)
    assert relation(stored_as(base, dtype), other).verdict == "tokens permuted"
    assert relation(base, narrow).verdict == "width pruned"
    stranger = untrained(FAMILIES[seed % 5], seed + 100, 2)
    assert not relation(stranger, other).related
    assert not relation(stranger, narrow).related


@pytest.mark.parametrize("scheme", SCHEMES)
def test_levels_are_seen_in_every_type(scheme: str) -> None:
    """Of all schemes; and not in numbers that were only rounded."""
    seed = list(SCHEMES).index(scheme)
    base = untrained(FAMILIES[seed % 5], seed, 1)
    bits = 8 if "8" in scheme.split()[0] else int(next(c for c in scheme if c in "345"))
    for dtype in HALF.values():
        with Model.open(dequantised(base, scheme, dtype)) as model:
            assert grid_of(model).bits == bits
        with Model.open(stored_as(base, dtype)) as model:
            assert grid_of(model).bits is None


def related_at(points: dict[str, np.ndarray]) -> dict[tuple[str, str], str]:
    """The verdicts on fine-tunes that are vectors, as all pairs of them give them."""
    pairs = [
        Relation(a, b, "fine-tuned", "", Kinship(1, 1, 9, np.linalg.norm(x - y), 0.5, 0.1))
        for (a, x), (b, y) in combinations(points.items(), 2)
    ]
    return {(x.one, x.two): _among_others(x, pairs).verdict for x in pairs}


@pytest.mark.parametrize("seed", range(50))
def test_a_common_origin_is_seen_from_a_third(seed: int) -> None:
    """The origin and two fine-tunes; three fine-tunes; a chain. Two alone do not show it."""
    rng = np.random.default_rng(seed)
    base = rng.standard_normal(2000)
    one, two = (base + size * rng.standard_normal(2000) for size in rng.uniform(0.2, 0.4, 2))
    later = one + rng.uniform(0.2, 0.4) * rng.standard_normal(2000)
    tuned, common = "fine-tuned", "common origin"
    star = related_at({"base": base, "one": one, "two": two})
    assert [*star.values()] == [tuned, tuned, common]
    chain = related_at({"base": base, "one": one, "later": later})
    assert [*chain.values()] == [tuned, common, tuned]
    assert [*related_at({"one": one, "two": two}).values()] == [tuned]
    sizes = rng.uniform(0.29, 0.31, 3)  # else the one nearest to the missing origin stands for it
    three = {str(size): base + size * rng.standard_normal(2000) for size in sizes}
    assert {*related_at(three).values()} == {common}


def test_the_distance_of_copies_is_what_rounding_did() -> None:
    base = untrained("llama", 0)
    exact, coarse = (stored_as(base, HALF[name]) for name in ("float32", "bfloat16"))
    found = relation(exact, moved(exact))
    assert found.verdict == "same function, moved"
    assert 0 < found.distance < 1e-6
    found = relation(coarse, moved(coarse))
    assert found.verdict == "same up to rounding, moved"
    assert 1e-4 < found.distance < 0.05
    assert "outputs differ by 0.00" in found.reason
