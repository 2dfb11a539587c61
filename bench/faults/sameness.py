"""`segre same` on copies that it must recognise and changes that it must not miss.

Small trained models of six families, in three number types. A copy that is called different is
wrong, and so is a change that is called the same; copies that stay undecided are counted.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.faults.small_models import (
    FAMILIES,
    TYPES,
    changes,
    copies,
    fresh,
    outputs_apart,
    save,
    trained,
)
from bench.faults.tally import Tally
from segre.checkpoint.commands import move, same

SEEN = 1e-9  # outputs that differ by less, relative, in float64, do not show a change


def verdicts(family: str, dtype: str, seed: int) -> Iterator[tuple[bool, str, str]]:
    """Whether a pair is a copy, what was done, and the verdict on it."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        model = trained(family, seed)
        source = save(model, folder / "source", dtype)
        for what, one, two in copies(source, folder, seed):
            yield True, what, same(one, two).verdict
        if dtype != "float32":
            exact = save(model, folder / "exact", "float32")
            yield True, "rounded", same(exact, source).verdict
            yield True, "rounded and moved", same(exact, folder / "moved").verdict
        first = save(fresh(family, seed), folder / "fresh", dtype)
        move(first, folder / "fresh, moved", seed=seed, report=False)
        yield True, "untrained, moved", same(first, folder / "fresh, moved").verdict
        for what, one, two in changes(source, folder, dtype, seed):
            if outputs_apart(one, two) > SEEN:
                yield False, what, same(one, two).verdict


def tally(quick: bool) -> list[Tally]:
    """All families and types, over several seeds."""
    warnings.filterwarnings("ignore", category=UserWarning, module="torch")
    seeds = 1 if quick else 12
    found: dict[tuple[bool, str], Counter[str]] = {}
    for seed in range(seeds):
        for at, family in enumerate(FAMILIES[::2] if quick else FAMILIES):
            types = [list(TYPES)[(at + 1) % 3]] if quick else list(TYPES)
            for dtype in types:
                for is_copy, what, verdict in verdicts(family, dtype, seed):
                    found.setdefault((is_copy, what), Counter())[verdict] += 1
    return [_tally(is_copy, what, count) for (is_copy, what), count in found.items()]


def _tally(is_copy: bool, what: str, count: Counter[str]) -> Tally:
    tried = sum(count.values())
    wrong = count["different"] if is_copy else tried - count["different"] - count["undecided"]
    note = ", ".join(f"{number} {verdict}" for verdict, number in sorted(count.items()))
    return Tally(f"{'copy' if is_copy else 'change'}: {what}", tried, wrong, note)
