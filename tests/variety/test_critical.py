"""Numbers of critical points: formulas, elimination, and metrics that change them."""

import pytest

import segre
from segre.errors import SegreError
from segre.fields.prime import Prime
from segre.variety.formulas import Product
from segre.variety.metric import gram, normal_moment


def both(spec: str, metric: str = "generic") -> tuple[int | None, int | None]:
    found = segre.critical(spec, metric, seconds=60)
    return found.value, None if found.count is None else found.count.functions


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ("cnn/k=2,2/degree=2", 14),
        ("cnn/k=2,2/degree=3", 22),
        ("cnn/k=2,3/degree=2", 22),
        ("cnn/k=3,2/degree=2", 79),
        ("cnn/k=2,2/degree=2/stride=2,1", 14),
        ("poly/3-1-2/degree=2", 79),
        ("poly/3-2-1/degree=2", 13),
        ("poly/3-1-3/degree=1", 39),
        ("poly/2-2-1/degree=3", 1),
    ],
)
def test_polar_classes_against_elimination(spec: str, value: int) -> None:
    assert both(spec) == (value, value)


def test_the_largest_by_formula() -> None:
    assert segre.critical("cnn/k=2,2,2/degree=2", seconds=0).value == 404


@pytest.mark.parametrize(
    ("spec", "numbers"),
    [
        ("poly/2-1-1/degree=2", (2, 2, 4)),
        ("poly/3-1-1/degree=2", (3, 3, 13)),
        ("poly/3-2-1/degree=2", (3, 3, 13)),
        ("poly/3-2-3/degree=1", (3, 3, 39)),
    ],
)
def test_data_change_the_landscape(spec: str, numbers: tuple[int, ...]) -> None:
    for metric, value in zip(("identity", "gaussian", "generic"), numbers, strict=True):
        assert both(spec, metric) == (value, value), metric


def test_special_metrics_have_no_more_than_a_generic_one() -> None:
    for spec, most in {"cnn/k=3,2/degree=2": 79, "cnn/k=2,3/degree=2": 22}.items():
        for metric in ("gaussian", "identity"):
            found = segre.critical(spec, metric)
            assert found.value is None
            assert found.lower is not None
            assert 0 < found.lower < most


def test_eigenvectors_of_tensors() -> None:
    """Cartwright and Sturmfels: ((d-1)^n - 1) / (d-2) for a form of degree d in n variables."""
    for n in range(2, 6):
        for d in range(3, 6):
            found = Product("", ((n - 1, d),), True, True).critical("identity")
            assert found is not None
            assert found.value == ((d - 1) ** n - 1) // (d - 2)
    for spec in ("poly/3-1-1/degree=3", "poly/2-1-2/degree=3", "poly/2-1-2-2/degree=2"):
        value, counted = both(spec, "identity")
        assert value == counted


def test_metrics_by_hand() -> None:
    assert normal_moment([6]) == 15
    assert normal_moment([]) == 1
    keys = [(0, (2, 0)), (0, (1, 1)), (0, (0, 2))]
    half = pow(2, -1, Prime().p)
    assert gram("identity", keys, 2, Prime()) == [[1, 0, 0], [0, half, 0], [0, 0, 1]]
    drawn = gram("generic", keys, 2, Prime())
    assert all(drawn[i][j] == drawn[j][i] for i in range(3) for j in range(3))
    with pytest.raises(SegreError, match="allowed: generic, gaussian, identity"):
        segre.critical("cnn/k=2,2/degree=2", "euclidean")
