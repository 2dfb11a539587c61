"""One layer recovered from its function: exactly, in floats, from noise; and refused."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segre.errors import SegreError, TooLargeError
from segre.fields.interface import Array
from segre.fields.linear import Rationals
from segre.fields.rational import Rational
from segre.geometry.recover import (
    Head,
    NotDetermined,
    NotThisLayer,
    Recovered,
    Samples,
    TooFewInputs,
    normalise_scale,
    recover,
)
from segre.network import forward
from segre.spec import Network
from segre.weights import Weights

Box = Callable[[Array], Array]


def lightning(V: Array, A: Array) -> Box:
    return lambda X: V @ X @ (X.T @ A @ X)


def softmax(V: Array, A: Array) -> Box:
    def box(X: Array) -> Array:
        scores = X.T @ A @ X
        grown = np.exp(scores - scores.max(axis=0))
        return V @ X @ (grown / grown.sum(axis=0))

    return box


def sampled(box: Box, X: Array) -> Samples:
    return Samples(X, np.stack([box(x) for x in X]))


def relative(found: Array, truth: Array) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def error(found: Recovered, V: Array, A: Array) -> float:
    if found.kind == "lightning":
        V, A = normalise_scale(V, A)
    return max(relative(found.V, V), relative(found.A, A))


def random_head(spec: str, seed: int) -> tuple[Array, Array]:
    layer = Weights.random(Network.parse(spec), seed).layers[0]
    return layer.W_V[0], layer.W_K[0].T @ layer.W_Q[0]


# ---- exact fractions


def fractions(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Small fractions, a third of them zero: degenerate heads are not rare."""
    top = rng.integers(-4, 5, shape) * (rng.random(shape) > 0.33)
    return Rational().constant(top) / Rational().constant(rng.integers(1, 5, shape))


def exact_heads(count: int, seed: int) -> Iterator[tuple[str, Array, Array]]:
    """Heads of all shapes, with V and A of any rank, many of both rank one."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        d, outputs, t = rng.integers(1, 5), rng.integers(1, 5), rng.integers(2, 5)
        a, b = rng.integers(1, d + 1), rng.integers(1, min(d, outputs) + 1)
        if rng.random() < 0.4:
            a = b = 1
        V = fractions(rng, (outputs, b)) @ fractions(rng, (b, d))
        A = fractions(rng, (d, a)) @ fractions(rng, (a, d))
        yield f"lightning/d={d},{outputs}/a={a}/t={t}", V, A


def exchanged(V: Array, A: Array) -> Head | None:
    """(u k^T, w q^T) of V = u w^T and A = k q^T, unless it is the same head."""
    if Rationals().rank(V) > 1 or Rationals().rank(A) > 1:
        return None
    o, i = np.argwhere(V != 0)[0]
    j, f = np.argwhere(A != 0)[0]
    u, w, k, q = V[:, i], V[o] / V[o, i], A[:, f], A[j] / A[j, f]
    if Rationals().rank(np.stack([w, k])) == 1:
        return None
    return Head(*normalise_scale(np.multiply.outer(u, k), np.multiply.outer(w, q)))


def equal(found: Head, truth: Head) -> bool:
    return bool((found.V == truth.V).all() and (found.A == truth.A).all())


@pytest.mark.parametrize("seed", range(10))
def test_fractions_are_recovered_exactly(seed: int) -> None:
    for spec, V, A in exact_heads(40, seed):
        if not V.any() or not A.any():
            with pytest.raises(NotDetermined, match="zero function"):
                recover(lightning(V, A), spec, exact=True, seed=seed)
            continue
        found = recover(lightning(V, A), spec, exact=True, seed=seed)
        assert (found.status, found.exact, found.residual, found.error) == ("exact", True, 0, None)
        expected = [Head(*normalise_scale(V, A))]
        other = exchanged(V, A)
        expected += [] if other is None else [other]
        heads = [*found.heads, *found.alternatives]
        assert len(heads) == len(expected), spec
        assert all(any(equal(head, truth) for head in heads) for truth in expected), spec


def test_the_exchange_is_reported_and_is_the_same_function() -> None:
    u, w, k, q = (Rational().constant(x) for x in ([1, 2], [1, 0, 3], [2, -1, 1], [0, 1, 5]))
    box = lightning(np.multiply.outer(u, w), np.multiply.outer(k, q))
    found = recover(box, "lightning/d=3,2/a=1/t=3", exact=True)
    (other,) = found.alternatives
    X = Rational().constant(np.random.default_rng(0).integers(-9, 10, (3, 3)))
    assert (lightning(found.V, found.A)(X) == box(X)).all()
    assert (lightning(other.V, other.A)(X) == box(X)).all()
    assert not equal(other, found.heads[0])


@given(st.integers(0, 10**6), st.sampled_from(["2", "-1/3", "7/5"]))
def test_the_scale_is_canonical(seed: int, scale: str) -> None:
    rng = np.random.default_rng(seed)
    V, A = fractions(rng, (2, 3)), fractions(rng, (3, 3))
    A[rng.integers(3), rng.integers(3)] = Rational().constant(1).item()
    c = Rational().constant(scale).item()
    first, second = Head(*normalise_scale(V, A)), Head(*normalise_scale(V * c, A / c))
    assert equal(first, second)
    assert next(x for x in first.A.reshape(-1) if x) == 1
    x = rng.standard_normal((2, 3)), rng.standard_normal((3, 3))
    y = normalise_scale(*x)
    assert y[1][np.unravel_index(np.abs(y[1]).argmax(), (3, 3))] == 1
    X = rng.standard_normal((3, 2))
    assert np.allclose(lightning(*x)(X), lightning(*y)(X), rtol=1e-9)


def test_exact_data_of_something_else_are_refused() -> None:
    rng = np.random.default_rng(0)
    V, A, W, B = (fractions(rng, (3, 3)) for _ in range(4))
    spec = "lightning/d=3,3/a=3/t=2"
    for other in (
        lambda X: lightning(V, A)(X) + lightning(W, B)(X),  # two heads
        lambda X: lightning(V, A)(X) + X,  # not homogeneous
        lambda X: np.ones_like(X) + 0 * X,  # constant
        lambda X: X * X * X,  # depends on the query alone
    ):
        with pytest.raises(NotThisLayer) as caught:
            recover(other, spec, exact=True)
        assert caught.value.exit_code == 3
    with pytest.raises(NotThisLayer, match="with rank 3"):
        recover(
            lightning(V, A + Rational().constant(9 * np.eye(3, dtype=int))),
            spec[:-7] + "a=2/t=2",
            exact=True,
        )


def test_irrational_factors_are_found_in_floats() -> None:
    """u (x^2 - 2 y^2) q^T is rational, its factors are not: the exact answer must say so."""
    root = np.sqrt(2.0)
    V, A = np.array([[1.0, root]]), np.array([[1.0, 1.0], [-root, -root]])
    T = Rational().constant([[1, 0], [0, -2]])

    def box(X: Array) -> Array:
        form = sum(T[i, i] * (X[i] * X[i]).sum() for i in range(2))
        return np.asarray(form * X.sum(axis=0, keepdims=True))

    with pytest.raises(NotThisLayer, match="no rational factors"):
        recover(box, "lightning/d=2,1/a=1/t=2", exact=True)
    found = recover(lightning(V, A), "lightning/d=2,1/a=1/t=2")
    assert min(error(found, V, A), error(found, -V[:, ::1] * [1, -1], A * [[1], [-1]])) < 1e-10


# ---- floats


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["lightning", "softmax"])
def test_a_layer_of_width_eight(kind: str, seed: int) -> None:
    spec = f"{kind}/d=8,8/a=3/t=4"
    V, A = random_head(spec, seed)
    box = (lightning if kind == "lightning" else softmax)(V, A)
    found = recover(box, spec, seed=seed)
    assert found.status == "least-squares"
    assert error(found, V, A) <= 1e-10
    assert not found.alternatives
    assert found.error is not None
    assert found.error <= 1e-10
    assert found.weights is not None
    X = np.random.default_rng(seed).standard_normal((160, 8, 4))
    known = sampled(box, X if kind == "lightning" else X[:40])
    assert error(recover(known, spec, starts=3, seed=seed), V, A) <= 1e-10


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["lightning", "softmax"])
def test_layers_of_all_shapes(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(12):
        d, outputs, t = rng.integers(1, 6), rng.integers(1, 6), rng.integers(2, 6)
        a = rng.integers(1, d + 2)
        spec = f"{kind}/d={d},{outputs}/a={a}/t={t}"
        V, A = random_head(spec, int(rng.integers(10**6)))
        box = (lightning if kind == "lightning" else softmax)(V, A)
        found = recover(box, spec, seed=seed)
        near = [error(found, V, A)]
        near += [
            max(relative(head.V, x), relative(head.A, y))
            for head in found.alternatives
            for x, y in [normalise_scale(V, A)]
        ]
        assert min(near) <= 1e-9, (spec, near)
        rank_one = min(d, outputs) == 1 and min(d, a) == 1
        assert bool(found.alternatives) == (kind == "lightning" and rank_one and d > 1), spec


@pytest.mark.parametrize(
    ("V", "A"),
    [
        (np.eye(4), np.eye(4)),
        (np.eye(4), np.diag([1.0, 0, 0, 0])),
        (np.diag([1.0, 0, 0, 0]), np.eye(4)),
        (np.diag([1.0, 1, 0, 0]), np.diag([0.0, 0, 1, 1])),
        (np.tri(4), np.tri(4).T),
        (1e8 * np.tri(4), np.tri(4)),
        (1e-8 * np.tri(4), 1e-8 * np.tri(4)),
    ],
)
def test_special_layers(V: Array, A: Array) -> None:
    assert error(recover(lightning(V, A), "lightning/d=4,4/a=4/t=3"), V, A) <= 1e-10
    large = recover(softmax(V, A), "softmax/d=4,4/a=4/t=3")
    assert error(large, V, A) <= 1e-10


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e6])
def test_softmax_scores_of_any_size(scale: float) -> None:
    V, A = random_head("softmax/d=4,3/a=2/t=3", 1)
    assert error(recover(softmax(V, scale * A), "softmax/d=4,3/a=2/t=3"), V, scale * A) <= 1e-10


def test_softmax_without_scores_or_with_a_thin_value_map() -> None:
    V, A = random_head("softmax/d=4,3/a=2/t=3", 1)
    flat = recover(softmax(V, 0 * A), "softmax/d=4,3/a=2/t=3")
    assert relative(flat.V, V) < 1e-10
    assert np.abs(flat.A).max() < 1e-12
    thin = np.outer(V[:, 0], V[0])
    assert error(recover(softmax(thin, A), "softmax/d=4,3/a=2/t=3"), thin, A) <= 1e-10


def test_a_factored_value_map() -> None:
    rng = np.random.default_rng(0)
    V = rng.standard_normal((5, 2)) @ rng.standard_normal((2, 4))
    A = rng.standard_normal((4, 2)) @ rng.standard_normal((2, 4))
    for kind, box in (("lightning", lightning), ("softmax", softmax)):
        found = recover(box(V, A), f"{kind}/d=4,5/a=2/dv=2/t=3")
        assert error(found, V, A) <= 1e-10
        with pytest.raises(NotThisLayer):
            recover(box(V, A), f"{kind}/d=4,5/a=2/dv=1/t=3")


# ---- noise


@pytest.mark.parametrize(
    ("spec", "noise"), [("lightning/d=3,3/a=2/t=3", 1e-2), ("softmax/d=3,4/a=2/t=3", 1e-3)]
)
@pytest.mark.parametrize("black_box", [True, False])
def test_the_error_estimate_is_the_size_of_the_error(
    spec: str, noise: float, black_box: bool
) -> None:
    ratios = []
    for seed in range(12):
        V, A = random_head(spec, seed)
        rng = np.random.default_rng(seed)
        clean = (lightning if spec.startswith("lightning") else softmax)(V, A)

        def noisy(X: Array, clean: Box = clean, rng: np.random.Generator = rng) -> Array:
            return clean(X) + noise * rng.standard_normal((len(clean(X)), X.shape[1]))

        if black_box:
            found = recover(noisy, spec, seed=seed)
        else:
            X = rng.standard_normal((40, 3, 3))
            found = recover(sampled(noisy, X), spec, starts=3, tolerance=0.1, seed=seed)
        if found.kind == "lightning":
            V, A = normalise_scale(V, A)
        assert found.error is not None
        assert 0 < found.error < 1
        (deviation,) = found.deviations
        for matrix, truth, size in ((found.V, V, deviation.V), (found.A, A, deviation.A)):
            ratios.append(np.linalg.norm(matrix - truth) / np.linalg.norm(size))
    assert max(ratios) < 5
    assert 0.5 < float(np.sqrt(np.mean(np.square(ratios)))) < 2


def test_more_data_less_error() -> None:
    spec = "lightning/d=3,3/a=2/t=3"
    V, A = random_head(spec, 0)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3, 3))
    clean = sampled(lightning(V, A), X)
    noisy = Samples(X, clean.Y + 0.01 * rng.standard_normal(clean.Y.shape))
    few, many = recover(noisy[:25], spec), recover(noisy, spec)
    assert few.error is not None
    assert many.error is not None
    assert many.error < few.error / 2
    assert error(many, V, A) < 5 * many.error


# ---- refusals


def test_one_token_is_refused() -> None:
    V, A = random_head("lightning/d=3,3/a=2/t=2", 0)
    for kind, box in (("lightning", lightning), ("softmax", softmax)):
        with pytest.raises(NotDetermined, match="t = 1"):
            recover(box(V, A), f"{kind}/d=3,3/a=2/t=1")
    with pytest.raises(NotDetermined, match="t = 1"):
        recover(Samples(np.ones((9, 2, 1)), np.ones((9, 2, 1))), "lightning")


@pytest.mark.parametrize("exact", [True, False])
def test_too_few_inputs_are_refused_with_how_many_are_missing(exact: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(-3, 4, (30, 3, 2))
    V, A = rng.integers(-3, 4, (3, 3)), rng.integers(-3, 4, (3, 3))
    samples = sampled(lightning(V, A), X)
    if exact:
        samples = Samples(
            Rational().constant(samples.X.astype(int)), Rational().constant(samples.Y.astype(int))
        )
    with pytest.raises(
        TooFewInputs, match="8 independent equations for 18 unknowns; give at least 5 more"
    ):
        recover(samples[:4], "lightning", a=3)
    repeated = samples[np.zeros(30, dtype=int)]
    with pytest.raises(TooFewInputs, match="2 independent equations"):
        recover(repeated, "lightning")
    assert recover(samples[:20], "lightning").exact == exact


def test_too_few_inputs_for_a_softmax_fit() -> None:
    V, A = random_head("softmax/d=3,3/a=2/t=2", 0)
    X = np.random.default_rng(0).standard_normal((20, 3, 2))
    samples = sampled(softmax(V, A), X)
    for few in (1, 3):
        with pytest.raises(TooFewInputs):
            recover(samples[:few], "softmax/d=3,3/a=2/t=2")
    assert error(recover(samples, "softmax/d=3,3/a=2/t=2", starts=4), V, A) < 1e-10


@pytest.mark.parametrize("kind", ["lightning", "softmax"])
def test_the_zero_function_is_refused(kind: str) -> None:
    with pytest.raises(NotDetermined, match="zero function"):
        recover(lambda X: np.zeros((2, 2)), f"{kind}/d=3,2/a=2/t=2")
    samples = Samples(np.random.default_rng(0).standard_normal((20, 3, 2)), np.zeros((20, 2, 2)))
    with pytest.raises(NotDetermined, match="zero function"):
        recover(samples, kind)


def test_other_functions_are_refused() -> None:
    V, A = random_head("lightning/d=3,3/a=2/t=2", 0)
    W, B = random_head("lightning/d=3,3/a=2/t=2", 1)
    rng = np.random.default_rng(0)
    cases: list[tuple[Box, str]] = [
        (softmax(V, A), "lightning/d=3,3/a=2/t=2"),
        (lightning(V, A), "softmax/d=3,3/a=2/t=2"),
        (lightning(V, A), "lightning/d=3,3/a=1/t=2"),
        (softmax(V, A), "softmax/d=3,3/a=1/t=2"),
        (lambda X: lightning(V, A)(X) + 1e-3 * lightning(W, B)(X), "lightning/d=3,3/a=3/t=2"),
        (lambda X: softmax(V, A)(X) + 1e-3 * softmax(W, B)(X), "softmax/d=3,3/a=3/t=2"),
        (lambda X: rng.standard_normal((3, 2)), "lightning/d=3,3/a=3/t=2"),
        (lambda X: rng.standard_normal((3, 2)), "softmax/d=3,3/a=3/t=2"),
        (np.tanh, "softmax/d=3,3/a=3/t=2"),
    ]
    for box, spec in cases:
        with pytest.raises(NotThisLayer, match="residual") as caught:
            recover(box, spec)
        assert "\n" not in str(caught.value)
    X = rng.standard_normal((60, 3, 2))
    two = sampled(lambda X: lightning(V, A)(X) + 0.01 * lightning(W, B)(X), X)
    with pytest.raises(NotThisLayer, match="try several heads"):
        recover(two, "lightning/d=3,3/a=3/t=2")


def test_noise_that_grows_with_the_outputs_is_noted_not_refused() -> None:
    V, A = random_head("lightning/d=4,5/a=2/t=3", 0)
    rng = np.random.default_rng(0)
    clean = sampled(lightning(V, A), rng.standard_normal((30, 4, 3)))
    noisy = Samples(clean.X, clean.Y * (1 + 1e-3 * rng.standard_normal(clean.Y.shape)))
    found = recover(noisy, "lightning/d=4,5/a=2/t=3")
    assert error(found, V, A) < 1e-2


def test_a_double_root_is_noted() -> None:
    """V = u w^T and A = w q^T: where the exchange meets itself, errors are of order sqrt."""
    u, w, q = np.random.default_rng(0).standard_normal((3, 4))
    V, A = np.outer(u, w), np.outer(w, q)
    found = recover(lightning(V, A), "lightning/d=4,4/a=1/t=3")
    assert error(found, V, A) < 1e-6
    assert found.error is not None
    assert error(found, V, A) < 1e-14 or any("ill-conditioned" in note for note in found.notes)


def test_bad_questions_are_one_line() -> None:
    V, A = random_head("lightning/d=2,2/a=2/t=2", 0)
    good, spec = lightning(V, A), "lightning/d=2,2/a=2/t=2"
    cases: list[tuple[Any, Any, dict[str, Any]]] = [
        (good, "lightning", {}),
        ("samples.json", spec, {}),
        (good, spec, {"a": 2}),
        (good, spec, {"starts": 0}),
        (good, spec, {"oversample": 0.5}),
        (good, spec, {"size": 0.0}),
        (good, spec, {"seed": -1}),
        (lambda X: np.ones((2, 2)), spec, {"exact": True}),  # floats for fractions
        (good, "softmax/d=2,2/a=2/t=2", {"exact": True}),
        (good, "lightning/d=2,3/a=2/t=2", {}),
        (lambda X: X + np.nan, spec, {}),
        (lambda X: np.full((2, 2), 1e300), spec, {}),
        (Samples(np.ones((9, 2, 2)), np.ones((9, 3, 2))), spec, {}),
        (good, "lightning/d=2,2/a=2/t=2/residual=true", {}),
    ]
    for source, net, options in cases:
        with pytest.raises(SegreError) as caught:
            recover(source, net, **options)
        assert "\n" not in str(caught.value)
    with pytest.raises(TooLargeError):
        recover(sampled(good, np.ones((9, 2, 2))), spec, memory=100)
    asked = []

    def counting(X: Array) -> Array:
        asked.append(X)
        return X

    with pytest.raises(TooLargeError):
        recover(counting, "lightning/d=64,64/a=3/t=4")
    assert len(asked) < 10  # refused before thousands of questions


# ---- the answer as data


def test_the_document_is_json_and_complete() -> None:
    V, A = (Rational().constant(x) for x in ([["1/2", 1]], [[3, 1], [0, "2/7"]]))
    exact = recover(lightning(V, A), "lightning/d=2,1/a=2/t=2", exact=True).document()
    assert exact["heads"] == [{"V": [["3/2", "3"]], "A": [["1", "1/3"], ["0", "2/21"]]}]
    assert (exact["status"], exact["error"], exact["alternatives"]) == ("exact", None, [])
    weights = Weights.random(Network.parse("softmax/d=2,2/a=1/t=2"), 0)
    found = recover(lambda X: forward(weights.field, weights.spec, weights.vector, X), weights.spec)
    text = json.dumps(found.document())
    assert json.loads(text)["status"] == "least-squares"
    assert found.success_rate is None
    assert found.starts is None
