"""The polynomials of the static page are segre's counts, and a wrong one stops the build."""

import json
import random
from typing import Any

import pytest

from segre.explore import table as tables
from segre.explore.formulas import (
    REGIONS,
    DisagreementError,
    region_of,
    sizes_in,
    within_limits,
)
from segre.explore.table import designs, spec_of, table
from segre.geometry.redundancy import counted
from segre.sequence.cost import cost

RNG = random.Random(5)
SOME = set(RNG.sample(list(designs()), 24))


@pytest.fixture(scope="module")
def found() -> Any:
    return json.loads(json.dumps(table(SOME.__contains__)))


def value(formula: list[Any], at: dict[str, int]) -> int:
    whole, *terms = formula
    total = 0
    for coefficient, names in terms:
        for name in names:
            coefficient *= at[name]
        total += coefficient
    assert total % whole == 0
    return int(total // whole)


def test_counts_at_random_sizes(found: Any) -> None:
    rng = random.Random(11)
    for design in sorted(SOME):
        own, by_region = (found["lists"][n] for n in found["designs"]["|".join(design)])
        for _ in range(3):
            at = {**sizes_in(rng.choice(REGIONS), rng), "L": rng.randint(3, 9)}
            at |= {"V": at["d"] + rng.randint(8, 10**5), "f": rng.randint(4, 10**4)}
            assert within_limits(at)
            spec = spec_of(design, at)
            labels, formulas = found["sizes"]
            sizes = {tuple(labels[n]): value(formulas[n], at) for n in own}
            parameters = sum(n for label, n in sizes.items() if label[0] == "parameters")
            assert parameters == spec.parameters
            numbers = by_region[REGIONS.index(region_of(at)) if len(by_region) > 1 else 0]
            redundant = sum(value(found["symmetries"][1][n], at) for n in numbers)
            assert parameters - redundant == counted(spec).upper
            for what, tokens in (label for label in sizes if label[0] != "parameters"):
                costs = cost(spec, [int(tokens)])
                kept = costs.state(int(tokens))
                true = costs.total(int(tokens)) if what == "operations" else kept
                assert sizes[what, tokens] == (-1 if true is None else true)


def test_large_models(found: Any) -> None:
    """Far from the small sizes that the polynomials were made from."""
    at = {
        "d": 4096,
        "L": 32,
        "H": 32,
        "g": 4,
        "k": 8,
        "a": 128,
        "f": 14336,
        "V": 128256,
        "t": 8192,
        "w": 4096,
    }
    for design in sorted(SOME):
        own, by_region = (found["lists"][n] for n in found["designs"]["|".join(design)])
        spec = spec_of(design, at)
        labels, formulas = found["sizes"]
        sizes = [value(formulas[n], at) for n in own if labels[n][0] == "parameters"]
        redundant = sum(value(found["symmetries"][1][n], at) for n in by_region[0])
        assert sum(sizes) - redundant == counted(spec).upper


def test_a_count_that_is_no_polynomial_stops_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    true = tables.symmetry_counts

    def wrong(spec: Any, at: Any) -> Any:
        return {label: n + (spec.d % 7 == 3) for label, n in true(spec, at).items()}

    monkeypatch.setattr(tables, "symmetry_counts", wrong)
    one = min(SOME)
    with pytest.raises(DisagreementError):
        table(lambda design: design == one)


def test_a_polynomial_that_fits_by_accident_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts that change only from six layers on, where nothing is interpolated."""
    true = tables.symmetry_counts

    def wrong(spec: Any, at: Any) -> Any:
        return {label: n + (spec.layers == 6) for label, n in true(spec, at).items()}

    monkeypatch.setattr(tables, "symmetry_counts", wrong)
    with pytest.raises(DisagreementError):
        table(SOME.__contains__)
