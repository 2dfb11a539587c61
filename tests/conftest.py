"""What all tests share: markers, threads, how many examples are tried, and what Ctrl-C does."""

import gc
import os
import re
import signal
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from support.draws import ALL, EXAMPLES, left_out

# Models are tiny here: a second thread of torch costs more than it computes. torch reads this once.
os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("segre", deadline=None, max_examples=EXAMPLES)
settings.load_profile("segre")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells start what runs in the background deaf to Ctrl-C, and so would be all that tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Collecting 13,000 tests makes a million objects that stay: they are not searched for garbage.
gc.disable()

# By what a file of tests imports it is known what its tests need.
NEEDS = {
    "models": r"\b(torch|transformers|accelerate|gguf)\b|"
    r"\bsupport\.(checkpoints|hugging_face|random_models|small_models|zoo)\b",
    "browser": r"\bplaywright\b|\bsupport\.browser\b",
}


@cache
def needed(path: Path) -> frozenset[str]:
    """The markers of a file of tests, from the lines that import."""
    if path.suffix != ".py" or not path.name.startswith("test_"):
        return frozenset()
    lines = re.findall(r"^ *(?:from|import) .*", path.read_text(encoding="utf-8"), re.MULTILINE)
    return frozenset(mark for mark, name in NEEDS.items() if re.search(name, "\n".join(lines)))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What is not asked for is not imported either: torch alone takes seconds."""
    left_out = set(re.findall(r"not (\w+)", config.option.markexpr))
    return True if collection_path.is_file() and needed(collection_path) & left_out else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs the library of models, or a browser; the longest come first.

    Otherwise one of them might be the last, with one worker waiting for the other. On a push, some
    random cases are left out; a test that is named is run with all of its cases.
    """
    for item in items:
        for mark in needed(item.path):
            item.add_marker(mark)
    if not ALL and not any("::" in given for given in config.args):
        waiting = {*left_out(items)}
        config.hook.pytest_deselected(items=[*waiting])
        items[:] = [item for item in items if item not in waiting]
    items.sort(key=lambda item: not any(map(item.get_closest_marker, ("slow", "release"))))


def pytest_collection_finish() -> None:
    """From here on there is garbage to collect, among what tests make."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 5, 5)  # most objects end by themselves before there are so many
    gc.enable()
