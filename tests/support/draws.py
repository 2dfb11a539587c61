"""How many random cases a law is tried on: a few on every push, all of them every night.

A test with a parameter `seed` is a law on random cases, one with many values of `spec` that are no
text a law on random designs, and one that runs over the tiny models of tests/support/zoo.py or over
the families of the registry a law on every family. On a push each of them keeps a few cases, and so
does a test with the marker `few(N)`. Laws keep different ones, so that together they meet most.
`make test-all` sets SEGRE_TEST_ALL, and then nothing is left out.
"""

import os
import sys
from collections import defaultdict
from collections.abc import Sequence

import pytest

ALL = bool(os.environ.get("SEGRE_TEST_ALL"))
SEEDS = 4
SPECS = 10  # of laws with more than twice as many
MODELS = 3  # of the zoo
FAMILIES = 6  # of the registry
EXAMPLES = 60 if ALL else 25  # of hypothesis


def draws(every: int, few: int = 3) -> range:
    """The seeds of a loop inside of a test."""
    return range(every if ALL else min(few, every))


def left_out(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The cases that wait for the night."""
    zoo = frozenset(getattr(sys.modules.get("support.zoo"), "NAMES", ()))
    laws: dict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            laws[item.nodeid.partition("[")[0]].append(item)
    out: dict[pytest.Item, None] = {}
    turn = 0
    for _, cases in sorted(laws.items()):
        for key in cases[0].callspec.params:
            values = list(dict.fromkeys(str(case.callspec.params[key]) for case in cases))
            few = _few(cases[0], key, values, zoo)
            if few >= len(values):
                continue
            step = len(values) / few
            kept = {values[int(turn + n * step) % len(values)] for n in range(few)}
            turn += 1
            out |= {case: None for case in cases if str(case.callspec.params[key]) not in kept}
    return [*out]


def _few(case: pytest.Function, key: str, values: Sequence[str], zoo: frozenset[str]) -> int:
    """How many values of a parameter are kept on a push, given one case of the law."""
    marker = case.get_closest_marker("few")
    if marker is not None:
        return int(marker.args[0])
    if key == "seed":
        return SEEDS
    designs = key == "spec" and not isinstance(case.callspec.params[key], str)
    if designs and len(values) > 2 * SPECS:
        return SPECS
    if len(zoo.intersection(values)) > len(zoo) // 2 > 0:
        return MODELS
    if key in ("family", "model_type") and len(values) > 2 * FAMILIES:
        return FAMILIES
    return len(values)
