"""The sentences of `segre diff` follow from its numbers, for results of every kind."""

import re
from dataclasses import asdict, replace

import numpy as np
import pytest

from segre.analysis.diff import Diff, OutputChange
from segre.checkpoint.align import Change
from segre.checkpoint.changes import Changes, Spot, Update
from segre.report.diff import (
    distance_in_words,
    distances_of,
    facts_of,
    gauge_in_words,
    number,
    pieces_of,
    tiles_of,
    update_in_words,
)
from segre.report.text import text_of
from segre.report.views import page_of

ROUNDOFF = 2.0**-24
PIECE = {"W_Q": "QK", "W_K": "QK", "W_V": "VO", "W_O": "VO", "W_up": "MLP", "W_down": "MLP"}


def drawn(seed: int) -> Diff:
    """A result: some matrices, tables, norms or biases changed, or none; moved or not."""
    rng = np.random.default_rng(seed)
    found = Changes(bool(rng.integers(2)), ROUNDOFF)
    nothing, dense = rng.random() < 0.15, rng.random()
    equal = nothing and not found.moved and rng.random() < 0.5

    def add(part: str, piece: str, after: float, other: str = "") -> None:
        raw = 2.0 if found.moved else after
        found.total.add(1.0, raw, after)
        found.grid.setdefault((part, piece), Change()).add(1.0, raw, after)
        if other:
            found.others.setdefault((part, other), Change()).add(1.0, raw, after)

    def size() -> float:
        rounding = 0.0 if equal else float(rng.uniform(0, ROUNDOFF**2))
        return rounding if nothing or rng.random() > dense else float(rng.uniform(0.01, 0.2)) ** 2

    add("embed", "tables", after := size(), "tables")
    if after > 1e-4:
        found.tokens.append(Spot("embed", 5, after**0.5))
    for part in ("1", "2"):
        add(part, "norms", size(), "norms")
        add(part, "QK", size(), "biases")
        for name, piece in PIECE.items():
            add(part, piece, after := size())
            full = int(rng.integers(8, 40))
            rank = int(rng.integers(1, full + 1)) if after > 1e-4 else 0
            if rng.random() < 0.5:
                rank = min(rank, full // 4)
            spectrum = np.linspace(1, 0, full)
            found.updates.append(
                Update(part, name, after**0.5, rank, full, rank, float(rank), spectrum=spectrum)
            )
    out = OutputChange("random tokens", 4, 12, 0.1, 0.05, 0.01, 0.9)
    return Diff("a", "b", {}, {}, found, out, ROUNDOFF)


def numbers(words: str) -> list[float]:
    """All numbers in a sentence."""
    return [float(x.replace(",", "")) for x in re.findall(r"\d[\d,]*(?:\.\d+)?(?:e-?\d+)?", words)]


@pytest.mark.parametrize("block", range(4))
def test_every_claim_and_number_follows_from_the_result(block: int) -> None:
    for seed in range(100 * block, 100 * block + 100):
        found = drawn(seed)
        changed, others = found.changed, found.others
        update, distance = update_in_words(found), distance_in_words(found)
        assert ("nothing changed" in update) == (not changed and not others)
        assert ("no matrix" in update) == bool(others and not changed)
        assert all((kind in update) == (kind in others) for kind in ("tables", "norms", "biases"))
        assert ("nothing else changed" in update) == bool(changed and not others)
        if changed:
            low = all(4 * one.rank <= one.full for one in changed)
            assert ("low rank" in update) == low
            assert (found.low_rank is not None) == (low and not others)
            assert ("full rank" in update) == all(one.rank == one.full for one in changed)
            widest = max(one.rank / one.full for one in changed)
            if low:
                assert max(one.rank for one in changed) in numbers(update)
                for name in PIECE:
                    assert (name in update) == (name in {one.name for one in changed})
            else:
                counts = re.search(r"(\d+) of (\d+) matrices changed", update)
                assert counts is not None
                assert (int(counts[1]), int(counts[2])) == (len(changed), len(found.updates))
                if "full rank" not in update:
                    rank = re.search(r"rank up to (\d+) of (\d+)", update)
                    assert rank is not None
                    assert int(rank[1]) / int(rank[2]) == widest
        total = found.changes.total
        assert ("all weights are equal" in distance) == (not total.raw)
        assert ("gauge" in distance) == found.changes.moved
        if total.raw:
            assert float(f"{found.value:.3g}") in numbers(distance)
            assert ("rounding" in distance) == (not changed and not others)
            assert ("as stored" in gauge_in_words(found)) == (not found.changes.moved)
        if found.changes.moved:
            assert float(f"{100 * found.gauge:.3g}") in numbers(distance)
        else:
            assert found.gauge == 0
            assert found.value == total.relative_raw


@pytest.mark.parametrize("block", range(2))
def test_cards_tables_and_pages_are_in_the_same_gauge(block: int) -> None:
    for seed in range(30 * block, 30 * block + 30):
        found = drawn(seed)
        moved = found.changes.moved
        labels = {tile.label for tile in tiles_of(found)}
        assert ("was gauge" in labels) == moved
        pieces = pieces_of(found)
        assert ("as stored" in pieces.columns) == moved
        shown = {row[0]: row[1] for row in pieces.rows}
        assert shown == {name: one.relative for name, one in found.by_piece.items()}
        for (*_, whole), one in zip(distances_of(found).rows, found.by_part.values(), strict=True):
            assert whole == number(one.relative)
        if not found.changes.total.raw:
            continue
        page = page_of(found)
        words = " ".join(f"{asdict(section)}" for section in page.sections)
        assert ("moved towards the first" in words) == moved
        assert facts_of(found)["update"] in " ".join(text_of(found).split())


def test_a_claim_of_rounding_is_not_made_from_the_whole_alone() -> None:
    """One small matrix that changed is a change, however large the rest is."""
    found = drawn(1)
    quiet = replace(found, changes=Changes(False, ROUNDOFF))
    quiet.changes.total.add(1e12, 1.0, 1.0)
    quiet.changes.updates.append(Update("1", "W_V", 0.1, 2, 24, 2, 2.0))
    assert quiet.value < ROUNDOFF * 32
    assert "rounding" not in distance_in_words(quiet)
    assert "rank at most 2 (W_V)" in update_in_words(quiet)
