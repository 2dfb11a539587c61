"""The same laws over every field, and agreement between fields."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segre.errors import UnluckyError
from segre.fields import PRIMES, Ball, Dual, DualArray, Prime, Real

FIELDS = [Prime(), Prime(PRIMES[1], seed=5), Real(), Ball(128)]
entries = st.integers(-50, 50)


def matrices(rows: int, columns: int):
    return st.lists(entries, min_size=rows * columns, max_size=rows * columns).map(
        lambda flat: np.array(flat).reshape(rows, columns)
    )


def same(field, x, y) -> bool:
    """Equality as the field can decide it: exact, to rounding, or by overlapping balls."""
    if isinstance(field, Prime):
        return bool((field.residues(x) == field.residues(y)).all())
    if isinstance(field, Ball):
        return all(a.overlaps(b) for a, b in zip(x.reshape(-1), y.reshape(-1), strict=True))
    return bool(np.allclose(x, y, rtol=1e-9, atol=1e-9))


@pytest.mark.parametrize("field", FIELDS, ids=repr)
@given(matrices(2, 3), matrices(3, 2), matrices(3, 2))
def test_products_distribute_and_transpose(field, x, y, z) -> None:
    x, y, z = (field.constant(m) for m in (x, y, z))
    left = field.matmul(x, field.add(y, z))
    assert same(field, left, field.add(field.matmul(x, y), field.matmul(x, z)))
    turned = field.matmul(field.transpose(y), field.transpose(x))
    assert same(field, field.transpose(field.matmul(x, y)), turned)
    assert same(field, field.sub(field.add(y, z), z), y)


@pytest.mark.parametrize("field", FIELDS, ids=repr)
@given(matrices(2, 2))
def test_reciprocal_inverts_and_sum_sums(field, x) -> None:
    x = field.constant(np.where(x == 0, 7, x))
    one = field.mul(x, field.reciprocal(x))
    assert same(field, one, field.constant(np.ones((2, 2))))
    total = field.sum(x, axis=-2)
    assert same(field, total, field.matmul(field.constant(np.ones((1, 2))), x))


@pytest.mark.parametrize("field", FIELDS, ids=repr)
def test_exp_of_zero_is_one_and_equal_arguments_have_equal_values(field) -> None:
    x = field.constant(np.array([[0, 3], [3, -2]]))
    y = field.exp(x)
    assert same(field, y[:1, :1], field.constant(np.ones((1, 1))))
    assert same(field, y[:1, 1:], y[1:, :1])


def test_exp_mod_p_is_never_zero_and_looks_injective() -> None:
    field = Prime()
    values = field.residues(field.exp(field.constant(np.arange(1, 5000))))
    assert values.min() > 0
    assert len(set(values.tolist())) > 4990
    other = field.residues(Prime(seed=1).exp(field.constant(np.arange(1, 5000))))
    assert (values != other).mean() > 0.99


def test_division_by_zero_is_unlucky() -> None:
    with pytest.raises(UnluckyError):
        Prime().reciprocal(np.array([[1.0, 0.0]]))
    with pytest.raises(UnluckyError):
        Ball().reciprocal(Ball().constant(np.array([[1, 0]])))


@given(st.integers(1, 1200), st.integers(0, 2**32))
def test_long_products_mod_p_are_exact(inner: int, seed: int) -> None:
    """Past the length at which float64 must reduce, against Python's own integers."""
    field = Prime()
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, field.p, (2, inner)), rng.integers(0, field.p, (inner, 2))
    exact = [[sum(int(a) * int(b) for a, b in zip(r, c, strict=True)) for c in y.T] for r in x]
    found = field.residues(field.matmul(field.constant(x), field.constant(y)))
    assert found.tolist() == [[value % field.p for value in row] for row in exact]


def test_worst_case_products_are_exact() -> None:
    field = Prime()
    half = (field.p - 1) // 2
    for sign in (1, -1):
        x = np.full((1, field.inner), float(half))
        value = field.residues(field.matmul(x, sign * x.T)).item()
        assert value == sign * half * half * field.inner % field.p


@pytest.mark.parametrize("field", FIELDS, ids=repr)
@given(matrices(2, 2), matrices(2, 2), matrices(2, 2), matrices(2, 2))
def test_dual_numbers_obey_the_rules_of_derivatives(field, x, dx, y, dy) -> None:
    """d(xy) = dx y + x dy for both products, and d(1/x) x^2 = -dx, d exp = exp dx."""
    x = np.where(x == 0, 3, x)
    X, DX, Y, DY = (field.constant(m) for m in (x, dx, y, dy))
    dual = Dual(field)
    u, v = DualArray(X, DX[..., None]), DualArray(Y, DY[..., None])

    def tangent(z):
        return z.tangent[..., 0]

    product = field.add(field.matmul(DX, Y), field.matmul(X, DY))
    assert same(field, tangent(dual.matmul(u, v)), product)
    assert same(field, tangent(dual.mul(u, v)), field.add(field.mul(DX, Y), field.mul(X, DY)))
    back = field.mul(tangent(dual.reciprocal(u)), field.mul(X, X))
    assert same(field, back, field.sub(field.constant(np.zeros((2, 2))), DX))
    small = DualArray(field.constant(x % 3), DX[..., None])
    assert same(field, tangent(dual.exp(small)), field.mul(field.exp(small.value), DX))
    assert same(field, tangent(dual.transpose(u)), field.transpose(DX))
    assert same(field, tangent(dual.sum(u, axis=-2)), field.sum(DX, axis=-2))


def test_residues_are_canonical() -> None:
    field = Prime()
    x = np.array([[field.p // 2 + 1.0, -(field.p // 2) - 0.0, field.p, -field.p]])
    y = np.array([[-(field.p - field.p // 2 - 1.0), field.p - field.p // 2, 0, 0]])
    assert (field.residues(field.constant(x)) == field.residues(field.constant(y))).all()


def test_a_prime_too_large_for_float64_is_refused() -> None:
    with pytest.raises(ValueError, match="too large"):
        Prime(2**31 - 1)
