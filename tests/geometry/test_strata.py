"""Singular and boundary points of one lightning layer, against a numerical referee."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segre.errors import SegreError
from segre.fields.linear import Floats, Rationals
from segre.fields.rational import Rational
from segre.fields.real import Real
from segre.geometry.strata import classify, coefficient_tensor, factor, swapped
from segre.network import forward
from segre.spec import Network

exact = Rational().constant


def of_rank(rng, rows: int, columns: int, rank: int):
    """A random integer matrix of exactly this rank."""
    while True:
        M = rng.integers(-4, 5, (rows, rank)) @ rng.integers(-4, 5, (rank, columns))
        if not rank:
            return np.zeros((rows, columns), int)
        if np.linalg.matrix_rank(M) == rank:
            return M


@st.composite
def points(draw):
    d, d_out = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    a = draw(st.integers(1, d + 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    V = of_rank(rng, d_out, d, draw(st.integers(0, min(d, d_out))))
    A = of_rank(rng, d, d, draw(st.integers(0, min(a, d))))
    if draw(st.booleans()) and np.linalg.matrix_rank(V) == np.linalg.matrix_rank(A) == 1:
        w = V[np.argmax(np.abs(V).sum(axis=1))]  # a fold: the columns of A become parallel to w
        A = np.outer(w, A[np.argmax(np.abs(A).sum(axis=1))])
    return V, A, a


@given(points())
def test_theory_agrees_with_the_tangent_spaces(point) -> None:
    """Smooth exactly where the tangent images over the fiber span the dimension.

    The one exception: with d' = a = 1, d = 2, the closure is smooth at a fold, which is a boundary.
    """
    V, A, a = point
    found = classify(exact(V), exact(A), a)
    d, d_out = found.d, found.d_out
    smooth_boundary = found.boundary and d == 2 and d_out == 1 and a == 1 and found.rank_A == 1
    smooth_boundary = smooth_boundary and found.rank_V == 1
    regular = found.tangent_span == found.dimension
    assert found.singular == (not regular and not smooth_boundary)
    assert found.tangent <= min(found.dimension, found.tangent_span)
    if found.boundary:
        assert found.tangent_span != found.dimension or found.singular


@given(points())
def test_floats_and_fractions_agree(point) -> None:
    V, A, a = point
    one, two = classify(exact(V), exact(A), a), classify(V.astype(float), A.astype(float), a)
    assert one.exact
    assert not two.exact
    different = {k for k in one.document() if one.document()[k] != two.document()[k]}
    assert different == {"exact"}


@given(points(), st.integers(0, 2**32))
def test_a_point_keeps_its_stratum_under_changes_of_basis(point, seed: int) -> None:
    V, A, a = point
    rng = np.random.default_rng(seed)
    d_out, d = V.shape
    P, S = (np.tril(rng.integers(-2, 3, (n, n)), -1) + np.eye(n, dtype=int) for n in (d_out, d))
    moved = classify(exact(P @ V @ S), exact(S.T @ A @ S), a)
    assert moved == classify(exact(V), exact(A), a)


@given(points())
def test_the_swap_has_the_same_function(point) -> None:
    V, A, _ = point
    if np.linalg.matrix_rank(V) != 1 or np.linalg.matrix_rank(A) != 1:
        return
    other = swapped(Rationals(), exact(V), exact(A))
    assert (coefficient_tensor(*other) == coefficient_tensor(exact(V), exact(A))).all()
    K, Q = factor(Rationals(), other[1], 1)
    assert (other[1] == K.T @ Q).all()


def closure_of_missed(T) -> bool:
    """Whether a tensor is a limit of u q^T (w^2 + e^2), which no real weights reach.

    Asked of the function alone, not of its weights: all quadratic forms in it are multiples of
    one, with coefficients of rank one, and that form is semidefinite of rank two or less.
    """
    d_out, d, _, last = T.shape
    flat = T.transpose(0, 3, 1, 2).reshape(d_out * last, d * d)
    if np.linalg.matrix_rank(flat) > 1:
        return False
    form = flat[np.argmax(np.abs(flat).sum(axis=1))].reshape(d, d)
    values = np.linalg.eigvalsh(form)
    signs = values[np.abs(values) > 1e-9 * np.abs(values).max()] > 0
    outer = T.transpose(1, 2, 0, 3).reshape(d * d, d_out, last)
    rank_one = all(np.linalg.matrix_rank(one) <= 1 for one in outer)
    return rank_one and len(signs) <= 2 and len(set(signs)) <= 1


@given(points())
def test_the_boundary_is_the_closure_of_what_is_missed(point) -> None:
    V, A, a = point
    T = coefficient_tensor(V.astype(float), A.astype(float))
    missed = V.shape[1] > 1 and closure_of_missed(T)
    assert classify(exact(V), exact(A), a).boundary == missed


@pytest.mark.parametrize("zero", [False, True])
def test_near_the_boundary_the_closure_has_functions_that_no_weights_reach(zero: bool) -> None:
    """The neighbour is real, close, in the closure, and definite: no product of real forms."""
    u, w, q = np.array([1.0, 2.0]), np.array([1.0, -1.0, 2.0]), np.array([1.0, 0.0, 3.0])
    e = np.array([1.0, 1.0, 0.0])
    c = 0.0 if zero else 1.0
    V, A = np.outer(u, c * w), np.outer(2 * c * w, q)
    assert classify(V, A, a=1).boundary
    here = coefficient_tensor(V, A)
    for epsilon in (1e-1, 1e-2, 1e-3):
        v = (epsilon if zero else 1) * w + 1j * epsilon * e  # complex weights, a real function
        near = coefficient_tensor(np.outer(u, v), np.outer(2 * v.conj(), q))
        assert np.abs(near.imag).max() < 1e-12
        near = near.real
        assert np.linalg.norm(near - here) < 500 * epsilon**2
        assert closure_of_missed(near)
        assert np.linalg.matrix_rank(near[0, :, :, 0], tol=1e-3 * epsilon**2) == 2


def test_real_products_are_never_definite() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        w, k = rng.standard_normal((2, 3))
        values = np.linalg.eigvalsh(np.outer(w, k) + np.outer(k, w))
        assert values[0] < 1e-12 < values[-1] or abs(values).max() < 1e-12


def test_coefficients_are_the_function() -> None:
    """The tensor predicts the outputs, so equal tensors are equal functions."""
    rng = np.random.default_rng(1)
    V, A, X = rng.standard_normal((2, 3)), rng.standard_normal((3, 3)), rng.standard_normal((3, 4))
    net = Network.parse("lightning/d=3,2/a=3/t=4")
    weights = np.concatenate([np.eye(3).reshape(-1), A.reshape(-1), V.reshape(-1)])
    T = coefficient_tensor(V, A)
    predicted = np.einsum("oijf,ik,jk,fq->oq", T, X, X, X) / 2
    assert np.allclose(forward(Real(), net, weights, X), predicted)


@pytest.mark.parametrize(
    ("V", "A", "a"),
    [
        (np.ones((2, 3)), np.ones((2, 2)), 1),
        (np.ones(3), np.ones((3, 3)), 1),
        (np.ones((2, 2)), np.eye(2), 1),
        (np.full((2, 2), np.nan), np.eye(2), 2),
        (np.ones((2, 2)), np.eye(2), 0),
    ],
)
def test_what_is_no_point_is_refused(V, A, a: int) -> None:
    with pytest.raises(SegreError):
        classify(V, A, a)


def test_given_weights_are_used_for_the_tangent() -> None:
    """At K = Q = 0 nothing moves; the function is the same zero as at other weights."""
    zero = np.zeros((2, 3))
    found = classify(np.eye(3), np.zeros((3, 3)), 2, (zero, zero))
    assert found.tangent == 0
    assert found.reasons == ("zero function",)
    assert Floats().rank(np.zeros((2, 2))) == 0
