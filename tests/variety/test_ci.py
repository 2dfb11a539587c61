"""Components of conditional-independence varieties: counted, measured mod p, and tried."""

import json
from itertools import islice, product
from math import comb, factorial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segre.errors import SegreError, UnsupportedError
from segre.fields.interface import Array
from segre.fields.rational import Rational
from segre.variety.ci import Grid, components, membership
from segre.variety.ci_components import (
    Component,
    Dependent,
    block_partitions,
    count_block_partitions,
    stirling,
    zero_patterns,
)
from support.terminal import run

exact = Rational().constant
SIZES = [(1, 1), (1, 3), (3, 1), (2, 2), (2, 3), (3, 2), (3, 3), (2, 4)]


def every(grid: Grid) -> list[Component]:
    """All components, one by one."""
    d, k, l = grid.d, grid.k, grid.l  # noqa: E741
    if grid.family == "blocks":
        return list(block_partitions(d, exact(np.zeros((d, k, l), int)))) if d > 1 else []
    assert grid.family == "zeros"
    return [Dependent(d, k, l), *(zero_patterns(d, k, l) if d >= l else [])]


def drawn(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return lambda shape: exact(rng.integers(1, 99, shape) * rng.choice([-1, 1], shape))


def grids() -> list[Grid]:
    blocks = [Grid(*size, d, 2, 2) for size in SIZES for d in (2, 3)]
    zeros = [Grid(*size, d, 2, size[1]) for size in SIZES if size[1] > 2 for d in (2, 3, 4)]
    return [*blocks, *zeros]


def test_known_counts_and_dimensions() -> None:
    counts = {(2, 2): 3, (2, 3): 7, (3, 3): 25, (3, 4): 79, (4, 4): 339}
    for grid, count in counts.items():
        assert components(grid, s=2, t=2, d=3).value == count
    found = components((2, 2), s=2, t=2, d=2, check=True)
    assert [(kind.dimension, kind.count) for kind in found.kinds] == [(5, 1), (4, 2)]
    assert found.tangents == (5, 4)
    found = components((2, 3), s=2, t=3, d=3, check=True)
    assert [(kind.dimension, kind.count) for kind in found.kinds] == [(11, 1), (10, 6)]
    assert found.tangents == (11, 10)
    found = components((3, 3), s=2, t=2, d=3, check=True)
    dimensions = [(kind.dimension, kind.count) for kind in found.kinds]
    assert dimensions == [(11, 1), (9, 9), (9, 6), (8, 9)]
    assert found.tangents == (11, 9, 9, 8)


@pytest.mark.parametrize("grid", grids(), ids=str)
def test_counts_are_those_of_the_list_and_of_the_formulas(grid: Grid) -> None:
    found = components((grid.k, grid.l), s=grid.s, t=grid.t, d=grid.d, check=True, seed=3)
    listed = every(grid)
    assert len(set(listed)) == len(listed) == found.value
    assert sorted(one.dimension for one in listed) == sorted(
        kind.dimension for kind in found.kinds for _ in range(kind.count)
    )
    if grid.family == "blocks":
        formula = sum(
            factorial(c) * stirling(grid.k, c) * stirling(grid.l, c)
            for c in range(1, min(grid.k, grid.l) + 1)
        )
    else:
        formula = grid.l**grid.k - grid.l + 1 if grid.d >= grid.l else 1
    assert found.value == formula
    assert found.tangents == tuple(kind.dimension for kind in found.kinds)


@pytest.mark.parametrize("grid", grids(), ids=str)
def test_a_random_point_lies_on_its_component_alone(grid: Grid) -> None:
    for seed, one in enumerate(islice(every(grid), 30)):
        x = one.point(drawn(seed))
        found = membership(grid, x.reshape(grid.d, -1))
        assert (found.count, found.components, found.reason) == (1, (one,), "")
        assert [other for other in every(grid) if other.contains(x)] == [one]


def in_variety(grid: Grid, x: Array) -> bool:
    """By ranks of floats."""
    rank = np.linalg.matrix_rank
    columns = all(rank(x[:, :, j]) < grid.s for j in range(grid.l))
    return columns and all(rank(x[:, i]) < grid.t for i in range(grid.k))


@pytest.mark.parametrize(
    "grid", [Grid(2, 2, 2, 2, 2), Grid(2, 3, 3, 2, 3), Grid(2, 3, 2, 2, 2), Grid(3, 3, 3, 2, 3)]
)
def test_the_components_are_the_variety(grid: Grid) -> None:
    """Special matrices: in the variety exactly if on a component, and counted as listed."""
    listed, rng = every(grid), np.random.default_rng(1)
    if grid.d * grid.k * grid.l <= 8:
        points = [np.array(one) for one in product((0, 1), repeat=8)]
    else:
        points = [rng.integers(0, 2, grid.d * grid.k * grid.l) for _ in range(60)]
        for one in listed[:60]:  # and points of components, with some of their vectors made zero
            x = one.point(lambda shape: rng.integers(1, 3, shape))
            points.append((x * rng.integers(0, 2, (1, grid.k, grid.l))).reshape(-1))
    seen = set()
    for point in points:
        x = point.reshape(grid.d, grid.k, grid.l)
        own = [one for one in listed if in_variety(grid, x) and one.contains(exact(x))]
        found = membership(grid, exact(x.reshape(grid.d, -1)))
        assert found.count == len(own)
        assert set(found.components) <= set(own)
        assert bool(own) == (not found.reason) == in_variety(grid, x)
        seen.add(len(own))
    assert len(seen) > 2


def test_partitions_are_counted_as_they_are_listed() -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):
        k, l = rng.integers(1, 4), rng.integers(1, 5)  # noqa: E741
        x = rng.integers(1, 3, (2, 1, 1)) * (rng.random((1, k, l)) < 0.3)
        listed = list(block_partitions(2, exact(x)))
        assert len(set(listed)) == len(listed) == count_block_partitions(exact(x))


def test_the_transposed_grid() -> None:
    one = components((2, 3), s=2, t=3, d=3, check=True)
    two = components((3, 2), s=3, t=2, d=3, check=True)
    assert [(kind.count, kind.dimension) for kind in one.kinds] == [
        (kind.count, kind.dimension) for kind in two.kinds
    ]
    assert one.tangents == two.tangents
    x = one.kinds[1].example.point(drawn(0))
    moved = x.swapaxes(1, 2).reshape(3, -1)
    assert membership(two.grid, moved).count == 1
    words = str(components((3, 2), s=3, t=2, d=3, matrix=moved))
    assert "parallel vectors in each grid row, and zero at (1, 2), (2, 1)" not in words
    assert "parallel vectors in each grid row, and zero at (2, 1), (1, 2)" in words


def test_few_dimensions_have_one_component() -> None:
    assert components((2, 2), s=2, t=2, d=1).value == 1
    found = components((2, 3), s=2, t=3, d=2, check=True)
    assert (found.value, found.kinds[0].dimension, found.tangents) == (1, 3 * 3, (9,))
    assert membership(Grid(2, 2, 1, 2, 2), exact([[1, 2, 3, 0]])).count == 1


def test_the_zero_matrix_lies_on_all() -> None:
    for grid in grids():
        found = membership(grid, exact(np.zeros((grid.d, grid.k * grid.l), int)))
        assert found.count == len(every(grid))
    assert membership(Grid(8, 8, 2, 2, 2), exact(np.zeros((2, 64), int))).count == sum(
        factorial(c) * stirling(8, c) ** 2 for c in range(1, 9)
    )
    assert stirling(8, 2) == sum(comb(8, j) for j in range(1, 8)) // 2


@pytest.mark.parametrize(("s", "t"), [(3, 3), (1, 2), (2, 1), (2, 4), (4, 4)])
def test_everything_else_is_not_decided(s: int, t: int) -> None:
    with pytest.raises(UnsupportedError, match="not supported"):
        components((3, 3), s=s, t=t, d=3)


# --- on the command line --------------------------------------------------------------------------

FILES = {
    "good.csv": "1,2,0,0\n3,6,0,0\n",
    "good.json": '[["1/2", 1, 0, 0], [1, 2, 0, 0]]',
    "outside.csv": "1,0,0,1\n0,1,1,0\n",
    "floats.json": "[[0.5, 1, 0, 0], [1, 2, 0, 0]]",
    "words.csv": "1,2,0,x\n3,6,0,0\n",
    "ragged.csv": "1,2,0\n3,6,0,0\n",
    "ragged.json": "[[1, 2, 0], [1, 2, 0, 0]]",
    "flat.json": "[1, 2, 3]",
    "broken.json": "[[1, 2",
    "table.json": '{"a": 1}',
    "empty.csv": "",
    "wide.csv": "1,2,0,0,0\n3,6,0,0,0\n",
    "root.csv": "sqrt(2),2,0,0\n3,6,0,0\n",
    "good.txt": "1,2,0,0\n3,6,0,0\n",
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ci")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def command(desk: Path, more: str, grid: str = "2x2") -> Any:
    return run("variety", "ci", "--grid", grid, *f"--s 2 --t 2 --d 2 {more}".split(), cwd=desk)


@pytest.mark.parametrize("name", ["good.csv", "good.json"])
def test_a_matrix_on_one_component(name: str, desk: Path) -> None:
    done = command(desk, f"--matrix {name} --json")
    document = json.loads(done.stdout)
    assert document["matrix"]["components"] == 1
    assert document["matrix"]["listed"][0]["dimension"] == 5
    assert command(desk, f"--matrix {name}").returncode == 0


def test_a_matrix_outside(desk: Path) -> None:
    done = command(desk, "--matrix outside.csv")
    assert done.returncode == 1
    assert "not in the variety: grid column 1 has rank 2; allowed: at most 1" in done.stdout


@pytest.mark.parametrize("name", [*list(FILES)[3:], "missing.csv"])
def test_bad_matrices_are_one_line(name: str, desk: Path) -> None:
    from segre.variety.ci import read_matrix

    with pytest.raises(SegreError) as error:
        membership(Grid(2, 2, 2, 2, 2), read_matrix(desk / name))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("grid", ["2", "2x", "2y2", "0x2", "2x-1", "9x2", "2x2x2", "999999x2"])
def test_bad_grids_are_one_line(grid: str, desk: Path) -> None:
    done = command(desk, "", grid)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
