"""Degrees by elimination are the degrees that formulas give, and limits leave the formula."""

from math import comb

import numpy as np
import pytest

import segre
from segre.errors import SegreError
from segre.fields.prime import Prime
from segre.polynomial.spec import Polynomial
from segre.variety import answer
from segre.variety.chart import chart, rank_at
from segre.variety.families import family
from segre.variety.formulas import Formula

LISTED = {
    "cnn/k=2,2/degree=2": 4,
    "cnn/k=2,2/degree=3": 6,
    "cnn/k=3,2/degree=2": 12,
    "cnn/k=2,3/degree=2": 6,
    "cnn/k=3,3/degree=2": 24,
    "cnn/k=4,2/degree=2": 32,
    "cnn/k=2,4/degree=2": 8,
    "cnn/k=2,2,2/degree=2": 48,
}


def both(spec: str) -> tuple[int | None, int | None]:
    """By the formula and by elimination."""
    found = segre.degree(spec, seconds=60)
    return found.value, None if found.count is None else found.count.functions


@pytest.mark.parametrize(("spec", "value"), LISTED.items())
def test_the_listed_ones(spec: str, value: int) -> None:
    assert both(spec) == (value, value)


def test_random_filters_and_strides() -> None:
    rng = np.random.default_rng(0)
    seen = 0
    while seen < 12:
        depth, degree = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        kernels = rng.integers(1, 4, depth).tolist()
        strides = rng.integers(1, 4, depth).tolist()
        k, s = (",".join(map(str, one)) for one in (kernels, strides))
        spec = f"cnn/k={k}/stride={s}/degree={degree}"
        if family(Polynomial.parse(spec)).degree().value > 30:  # type: ignore[union-attr]
            continue
        value, counted = both(spec)
        assert value == counted, spec
        seen += 1


@pytest.mark.parametrize(
    "spec",
    [
        *(f"poly/{n}-{r}-1/degree=2" for n in (2, 3, 4) for r in range(1, n + 1)),
        *(f"poly/{n}-{r}-{m}/degree=1" for n, m in ((3, 3), (4, 3)) for r in (1, 2)),
        "poly/3-2-2-3/degree=1",
        "poly/3-1-2/degree=1/bias=true",
        "poly/2-1-2/degree=3",
        "poly/3-1-2-2/degree=2",
        "poly/2-2-1/degree=4",
        "poly/2-2-1/degree=5",
        "poly/2-2-1/degree=3",
        "poly/3-4-1/degree=2",
        "poly/1-2-2/degree=2",
        "poly/2-2/degree=3",
        "cnn/k=2,2/degree=2/n=5",
        "cnn/k=2,2,3/degree=1/stride=1,2,1",
        "cnn/k=3,3/degree=1",
        "cnn/k=1,1/degree=2",
    ],
)
def test_formula_and_elimination_agree(spec: str) -> None:
    value, counted = both(spec)
    assert value is not None
    assert value == counted


def test_famous_degrees_without_a_formula_here() -> None:
    """Secants of the cubic Veronese surface, and Aronhold's quartic."""
    for spec, value in {"poly/3-2-1/degree=3": 15, "poly/3-3-1/degree=3": 4}.items():
        found = segre.degree(spec)
        assert (found.value, found.lower, found.upper) == (None, value, None)
        assert found.status == "lower-bound"


def test_dual_and_classical_values() -> None:
    """Hypersurfaces of singular matrices, and Veronese varieties."""
    for n in range(2, 30):
        singular = family(Polynomial.parse(f"poly/{n}-{n - 1}-1/degree=2"))
        assert singular is not None
        assert singular.degree().value == n
        square = family(Polynomial.parse(f"poly/{n}-{n - 1}-{n}/degree=1"))
        assert square is not None
        assert square.degree().value == n
        one = family(Polynomial.parse(f"poly/{n}-1-{n}/degree=1"))
        assert one is not None
        assert one.degree().value == comb(2 * n - 2, n - 1)
        veronese = family(Polynomial.parse(f"poly/{n}-1-1/degree=3"))
        assert veronese is not None
        assert veronese.degree().value == 3 ** (n - 1)


def test_charts_keep_the_dimension() -> None:
    for spec in ("poly/3-5-2/degree=3", "poly/4-3-1/degree=2", "poly/3-2-2-3/degree=1"):
        net, size = Polynomial.parse(spec), segre.dimension(spec).value
        assert size is not None
        fixed = chart(net, size, Prime())
        assert sum(one is None for one in fixed) == size
        assert rank_at(net, fixed, Prime(seed=5)) == size


def test_past_a_limit_there_is_the_formula_alone() -> None:
    for found in (
        segre.degree("cnn/k=3,2/degree=2", seconds=0),
        segre.degree("cnn/k=3,2/degree=2", memory=1000),
    ):
        assert (found.value, found.count, found.status) == (12, None, "proved")
        assert found.reason
    large = segre.degree("cnn/k=9,9/degree=5")
    assert large.value is not None
    assert large.count is None
    nothing = segre.degree("poly/3-2-1/degree=3", seconds=0)
    assert (nothing.value, nothing.lower, nothing.status) == (None, None, "not run")


def test_a_wrong_formula_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong:
        name = "wrong"

        def degree(self) -> Formula:
            return Formula(5, "five")

    monkeypatch.setattr(answer, "family", lambda _spec: Wrong())
    with pytest.raises(AssertionError, match="formula gives 5, elimination gives 4"):
        segre.degree("cnn/k=2,2/degree=2")


def test_other_architectures_are_refused_by_name() -> None:
    for ask in (segre.degree, segre.critical):
        with pytest.raises(SegreError, match=r"d=4,4.*supported only for polynomial networks"):
            ask("softmax/d=4,4/a=2/t=3")
    with pytest.raises(SegreError, match="4,000 digits"):
        segre.degree("cnn/k=1000,1000,300/degree=7")
    with pytest.raises(SegreError, match="seed"):
        segre.degree("cnn/k=2,2/degree=2", seed=-1)
