"""What is quicker gives the same: copies by projections, norms by inner products, blocks."""

import numpy as np
import pytest

from segre.checkpoint.compare import products
from segre.checkpoint.elements import assignment, copied_rows
from segre.checkpoint.rounding import flip_at_random
from segre.checkpoint.sizes import apart, inner
from segre.models import architecture
from segre.symmetry.compact import act, of_stream
from segre.symmetry.orders import Order
from segre.symmetry.space import FloatWeights, Port
from segre.transformer.spec import Transformer

SEEDS = range(20)


def signed_copy(
    rng: np.random.Generator, rows: np.ndarray, noise: float, *, signed: bool
) -> np.ndarray:
    signs = rng.choice([-1.0, 1.0], (len(rows), 1)) if signed else 1.0
    moved = rows[rng.permutation(len(rows))] * signs
    return moved * (1 + noise * rng.uniform(-1, 1, rows.shape))


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_copies_are_those_of_the_best_assignment(seed: int, signed: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((int(rng.integers(2, 60)), 80)) * rng.lognormal(size=(1, 80))
    two = signed_copy(rng, rows, rng.choice([0.0, 1e-7, 2e-3]), signed=signed)
    cosines = rows @ two.T / np.outer(*(np.linalg.norm(x, axis=1) for x in (rows, two)))
    best = assignment(np.abs(cosines) if signed else cosines)
    found = copied_rows(rows, two, signed=signed)
    assert found is not None
    assert (found[0] == best).all()
    assert (found[1] == np.sign(cosines[np.arange(len(rows)), best])).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_no_copy_or_not_alone_is_left_open(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((12, 80))
    changed = rows[::-1].copy()
    changed[3] += 0.5 * rng.standard_normal(80)
    assert copied_rows(rows, changed) is None
    assert copied_rows(rows, -rows[::-1]) is None
    twice = np.concatenate([rows, rows[:1] * 1.5])
    assert copied_rows(twice, twice[::-1]) is None
    silent = np.concatenate([rows, np.zeros((2, 80))])
    found = copied_rows(silent, silent[::-1])
    assert found is not None
    assert (silent[::-1][found[0]] == silent).all()
    assert copied_rows(silent, np.concatenate([rows, rows[:1] * 0, rows[:1]])) is None


@pytest.mark.parametrize("apart_by", [1.0, 1e-3, 1e-8, 1e-12, 0.0])
@pytest.mark.parametrize("turn", ["none", "signs", "any"])
def test_norms_of_products(apart_by: float, turn: str) -> None:
    """Whatever cancels, the digits that double precision has are there."""
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((3, 2, 30, 5)), rng.standard_normal((3, 1, 5, 30))
    by = {
        "none": np.eye(5),
        "signs": np.diag(rng.choice([-1.0, 1.0], 5)),
        "any": np.linalg.qr(rng.standard_normal((5, 5)))[0],
    }[turn]
    left2 = left * (1 + apart_by * rng.standard_normal(left.shape)) @ by
    right2 = by.T @ right * (1 + apart_by * rng.standard_normal(right.shape))
    differences, sizes = products(left, right, left2, right2)
    expected = np.linalg.norm(left @ right - left2 @ right2, axis=(-1, -2))
    assert np.allclose(sizes, np.linalg.norm(left @ right, axis=(-1, -2)))
    assert np.allclose(differences, expected, rtol=1e-4, atol=1e-13 * sizes.max())


@pytest.mark.parametrize("shape", [(1,), (63,), (64,), (7, 501)])
def test_random_signs(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    values = rng.lognormal(size=shape)
    flipped = values.copy()
    flip_at_random(rng, flipped)
    assert (np.abs(flipped) == values).all()
    assert abs(np.sign(flipped).mean()) <= 4 / values.size**0.5


@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (1, 70000), (1, 3, 40000), (300, 200)])
def test_sums_over_blocks(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    one, two = rng.standard_normal((2, *shape)) if shape else rng.standard_normal((2, 1))
    for a, b in ((one, two), (one.T, two.T), (one.T, np.ascontiguousarray(two.T))):
        assert np.isclose(inner(a, b), (a * b).sum())
        assert np.isclose(apart(a, b), ((a - b) ** 2).sum())


def test_a_table_of_ones_own_is_changed_where_it_is() -> None:
    rng = np.random.default_rng(0)
    spec = architecture("llama/d=6/heads=2/head=2/ff=3/vocab=9/t=3/tied=true")
    assert isinstance(spec, Transformer)
    stream = of_stream(spec)["stream"]
    assert isinstance(stream, Order)
    found = {"stream": stream.of(rng.permutation(6), rng.choice([-1.0, 1.0], 6))}
    table = rng.standard_normal((9, 6)).T
    kept = table.copy()
    apart_from, own = {"tokens": table}, {"tokens": table.copy(order="F")}
    before = own["tokens"]
    act(spec, "embed", found, apart_from, stream=True)
    act(spec, "embed", found, own, stream=True, owned=True)
    assert (table == kept).all()
    assert own["tokens"] is before
    assert (own["tokens"] == apart_from["tokens"]).all()
    assert (own["tokens"] == stream.on(found["stream"], kept)).all()


@pytest.mark.parametrize("axis", [-2, -1])
def test_maps_that_lie_by_columns_are_reordered_along_either_axis(axis: int) -> None:
    """As those of GPT-2: more numbers than are taken at a time."""
    rng = np.random.default_rng(0)
    value = rng.standard_normal((300, 2000)).T
    order = rng.permutation(value.shape[axis])
    w = FloatWeights.of(architecture("gpt2"), "1", {"W_up": value.copy(order="F")})
    w.owned = True
    Port(("1", "W_up"), axis).by_order(w, order, np.ones(len(order)), 0)
    assert (w("1", "W_up") == np.take(value, order, axis)).all()
