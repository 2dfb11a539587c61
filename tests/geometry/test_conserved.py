"""Conserved quantities: exactly mod p and over Q, and along an integrated gradient flow."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings

from segre.errors import SegreError, UnluckyError
from segre.fields import Echelon, Prime, Real
from segre.fields.rational import Rational
from segre.geometry import flow
from segre.geometry.conserved import Conserved, conserved_quantities, gradients
from segre.geometry.explain import explain
from segre.geometry.flow import drift, gradient_descent, gradient_flow, loss_and_gradient
from segre.geometry.point import Point
from segre.geometry.rank import symmetry_rank
from segre.network import forward, jacobian, layer_starts, unflatten
from segre.spec import Network
from segre.symmetry.all import generators
from segre.weights import Weights
from support.architectures import networks

SPECS = [
    "softmax/d=3,3/a=2/t=2",
    "lightning/d=2,2/a=1/t=2",
    "lightning/d=3,3,2/a=2/t=2",
    "softmax/d=3,4,2/a=2/heads=2/dv=2,3/t=3",
    "lightning/d=3,2/a=2/heads=2/dv=1/t=2",
    "lightning/d=2,2/a=2/heads=2/t=3",  # mixing of heads
    "lightning/d=3,3,2/a=2/heads=2/t=1",  # parallel tokens
    "softmax/d=2,5,1/a=1/t=2",  # unread and unreached directions
    "softmax/d=3,3,2/a=1/heads=2/t=1",  # silent scores
    "softmax/d=2,3/a=2/heads=2/dv=2/t=1",
]


def data(weights: Weights, seed: int = 0):
    """Inputs at which the outputs have size one, and what a network nearby makes of them."""
    spec, field = weights.spec, Real()
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((6, spec.widths[0], spec.t))
    if spec.score == "lightning":  # homogeneous in X, of degree 3^depth
        size = np.sqrt((forward(field, spec, weights.vector, X) ** 2).mean())
        X /= size ** (1 / 3**spec.depth)
    teacher = weights.vector + 0.3 * Weights.random(spec, seed + 1).vector
    return X, forward(field, spec, teacher, X)


def layers(spec: Network, vector):
    starts = layer_starts(spec)
    return [
        unflatten(layer, vector[at : at + layer.parameters])
        for layer, at in zip(spec.layers, starts, strict=True)
    ]


def value(law: Conserved, field, spec: Network, vector):
    return field.sub(*law.sides(field, layers(spec, vector)))


def linear(law: Conserved, spec: Network) -> bool:
    pooled = law.kind == "pooled-heads" and spec.layers[law.layer - 1].dv is None
    return pooled or law.kind == "silent-scores"


def gradient_mod_p(point: Point):
    """The gradient of a random loss: random multiples of the outputs at three inputs."""
    rows = point.jacobian_rows(point.batch(0, 3))
    errors = np.random.default_rng(1).integers(0, point.field.p, (1, len(rows)))
    return point.field.matmul(point.field.constant(errors), rows)[0]


@given(networks())
def test_a_step_of_descent_changes_a_quantity_by_its_value_at_the_gradient(net: Network) -> None:
    """C(w - s g) = C(w) + s^2 C(g), exactly: the term linear in s is the flow's, and is zero."""
    point = Point.draw(net, seed=5)
    F, w = point.field, point.weights
    try:
        g = gradient_mod_p(point)
    except UnluckyError:
        assume(False)
    s = F.constant(np.array([12345]))
    for law in conserved_quantities(net):
        after = value(law, F, net, F.sub(w, F.mul(s, g)))
        expected = value(law, F, net, w)
        if not linear(law, net):
            expected = F.add(expected, F.mul(F.mul(s, s), value(law, F, net, g)))
        assert not F.sub(after, expected).any(), law


@given(networks())
def test_float_gradients_are_orthogonal_too(net: Network) -> None:
    w = Weights.random(net, seed=2)
    X, Y = data(w)
    _, g = loss_and_gradient(net, w.vector, X, Y + 1)
    v = g * np.linalg.norm(w.vector) / max(np.linalg.norm(g), 1e-300)
    for law in conserved_quantities(net):
        # quantities are of degree at most two: a central difference is the derivative
        ahead, behind = (law.evaluate(Weights(net, w.vector + sign * v)) for sign in (1, -1))
        size = sum(np.linalg.norm(side) for side in law.sides(Real(), w.layers))
        assert np.linalg.norm(ahead - behind) <= 1e-9 * (size + np.linalg.norm(v) ** 2), law


@pytest.mark.parametrize("text", SPECS)
def test_the_sides_of_a_quantity_are_not_conserved(text: str) -> None:
    """What the law test rests on: with one sign wrong it fails."""
    point = Point.draw(Network.parse(text), seed=5)
    F, spec = point.field, point.spec
    g = gradient_mod_p(point)
    for law in conserved_quantities(spec):
        ahead = law.sides(F, layers(spec, F.add(point.weights, g)))
        behind = law.sides(F, layers(spec, F.sub(point.weights, g)))
        plus, minus = (F.sub(x, y) for x, y in zip(ahead, behind, strict=True))
        assert not F.sub(plus, minus).any()
        if law.kind != "silent-scores":  # these do not move at all
            assert plus.any(), law
            assert minus.any(), law
            if law.kind != "skew-scores":
                assert F.add(plus, minus).any(), law


@given(networks())
def test_gradients_are_symmetric_generators_and_their_rank_is_the_count(net: Network) -> None:
    point = Point.draw(net, seed=7)
    F: Prime = point.field
    try:
        found = list(generators(F, net, point.weights))
    except UnluckyError:
        assume(False)
    v = F.constant(np.random.default_rng(2).integers(0, F.p, net.parameters))
    twice = F.constant(np.array([2]))
    laws = {(law.kind, law.layer, law.head): law for law in conserved_quantities(net)}
    for own in found:
        piece, rows = own.piece, gradients(F, own)
        law = laws.pop((piece.kind, piece.layer, piece.head), None)
        if law is None:
            assert not len(rows)
            continue
        ahead, behind = (value(law, F, net, op(point.weights, v)) for op in (F.add, F.sub))
        change = F.sub(ahead, behind)  # twice the derivative along v
        if law.kind == "skew-scores":
            change = change[np.tril_indices(len(change), -1)]
        elif not linear(law, net):
            change = change[np.tril_indices(len(change))]
        predicted = F.mul(twice, F.matmul(rows, v[:, None])[:, 0])
        assert not F.sub(change.reshape(-1), predicted).any(), law
        space = Echelon(net.parameters, F)
        assert space.add(rows) == law.count, law
    assert not laws


@given(networks(deepest=2))
@settings(max_examples=40)
def test_an_explanation_joins_symmetries_and_quantities(net: Network) -> None:
    found = explain(net)
    assert found.laws is not None
    every, counted = found.laws.every, symmetry_rank(Point.draw(net, 0))
    assert found.finding.symmetries == counted.symmetries
    named = [(law.name, law.where) for law in every]
    assert [x for x in named if x in {(s.name, s.where) for s in counted.symmetries}] == [
        (s.name, s.where) for s in counted.symmetries
    ]
    listed = [law.conserved for law in every if law.conserved is not None]
    assert sorted(map(str, listed)) == sorted(map(str, conserved_quantities(net)))
    assert all((law.formula is None) != (law.reason is None) for law in every)
    assert found.laws.independent <= min(counted.rank, sum(law.count for law in every))


@pytest.mark.parametrize(
    ("text", "counts", "independent"),
    [
        ("softmax/d=4,4,4/a=2/t=3", [3, 10, 3], 16),
        ("lightning/d=4,4/a=2/heads=2/dv=3/t=3", [3, 6, 1, 3, 6, 1], 20),
        # (Q + K)(Q - K)^T is conserved, a 3 x 3 matrix of rank 2: 8 of 6 + 3, and the scale
        ("lightning/d=2,2/a=3/t=1", [6, 3, 1], 9),
        ("lightning/d=2,2/a=2/heads=2/t=3", [3, 1, 3, 1, 0], 8),
        ("softmax/d=2,2/a=1/heads=2/t=1", [8, 4], 12),
        ("softmax/d=1,1/a=3/t=2", [5], 5),  # K and Q span 2 of 3 dimensions
    ],
)
def test_counts(text: str, counts: list[int], independent: int) -> None:
    found = explain(text).laws
    assert found is not None
    assert [law.count for law in found.every if law.kind not in ("unread", "unreached")] == counts
    assert found.independent == independent


def test_documents_are_plain() -> None:
    document = explain("lightning/d=2,2/a=2/heads=2/t=3", seed=3).document()
    assert document["seed"] == 3
    assert document["conserved"]["independent"] == 8
    found = document["conserved"]["laws"]
    assert found[0] == {
        "kind": "query-key",
        "name": "query-key basis GL(2)",
        "where": "layer 1, head 1",
        "layer": 1,
        "head": 1,
        "acts": "GL(2)",
        "formula": "W_Q W_Q^T - W_K W_K^T",
        "count": 3,
        "reason": None,
    }
    assert found[-1]["acts"] == "GL(2)"
    assert "not linear" in found[-1]["reason"]


def test_one_layout_of_explanations() -> None:
    """Every kind of network is explained in the same terms."""
    specs = ("softmax/d=3,3/a=2/t=2", "softmax/d=3,3/a=2/gate=head/t=2", "poly/2-3-1/degree=2")
    documents = [explain(spec).document() for spec in (*specs, "transformer/d=4/heads=2/t=3")]
    assert len({tuple(document) for document in documents}) == 1
    for document in documents:
        pieces = document["redundancy"]["pieces"]
        assert sum(pieces.values()) == sum(s["dimension"] for s in document["symmetries"])
        assert all(choice["change"].keys() == pieces.keys() for choice in document["choices"])
    assert [one["conserved"] is None for one in documents] == [False, True, False, True]


@pytest.mark.parametrize("text", SPECS)
def test_a_flow_conserves_them(text: str) -> None:
    spec = Network.parse(text)
    start = Weights.random(spec, seed=11)
    found = drift(gradient_flow(start, *data(start), time=4.0))
    assert found.loss_after < 0.3 * found.loss_before
    assert found.moved > 0.02
    assert found.worst < 1e-9
    for change in found.changes:
        if change.quantity.kind == "silent-scores":
            assert change.sides == change.change == 0
        else:  # both sides move, together
            assert change.change < 1e-6 * change.sides, change
    assert found.document()["changes"][0]["formula"] == found.changes[0].quantity.formula


def test_what_is_not_conserved_drifts() -> None:
    """The check can fail: a quantity with the wrong partner changes along the same flow."""
    spec = Network.parse("lightning/d=3,3/a=2/heads=2/t=2")
    start = Weights.random(spec, seed=11)
    course = gradient_flow(start, *data(start), time=12.0)
    mistaken = [  # the tokens of this network are not parallel; its heads' Q and K do not commute
        Conserved("skew-scores", "layer 1, head 1", 1, 1, "W_K W_Q^T - W_Q W_K^T", 1),
        Conserved("query-key", "layer 1", 1, None, "sum_h W_Q W_Q^T - W_K W_K^T", 3),
    ]
    wrong, right = drift(course, mistaken).changes
    assert wrong.change > 1e-4
    assert right.change < 1e-8  # a sum of conserved quantities
    alone = [w.layers[0].W_Q[0] @ w.layers[0].W_Q[0].T for w in map(course.weights, (0, -1))]
    assert np.linalg.norm(alone[1] - alone[0]) > 1e-3


@pytest.mark.parametrize("text", ["softmax/d=3,3,2/a=2/t=2", "lightning/d=3,3/a=2/dv=2/t=2"])
def test_descent_drifts_in_proportion_to_its_step(text: str) -> None:
    spec = Network.parse(text)
    start = Weights.random(spec, seed=11)
    X, Y = data(start)
    drifts = []
    for halvings in range(3):
        steps = 200 * 2**halvings
        course = gradient_descent(start, X, Y, 4.0 / steps, steps)
        found = drift(course)
        assert found.loss_after < 0.7 * found.loss_before
        drifts.append([change.change for change in found.changes])
    for coarse, fine in pairwise(drifts):
        assert np.allclose(np.array(coarse) / fine, 2, rtol=0.1)


def test_one_exact_step_of_descent() -> None:
    """The same identity as mod p, on weights that are fractions."""
    spec = Network.parse("lightning/d=2,3,2/a=2/heads=2,1/dv=1,2/t=2")
    F, w = Rational(), Weights.random(spec, seed=4, exact=True)
    X = F.constant(np.arange(8).reshape(2, 2, 2) - 3)
    error = F.sub(forward(F, spec, w.vector, X), F.constant(np.ones((2, 2, 2), dtype=int)))
    J = jacobian(F, spec, w.vector, X).reshape(-1, spec.parameters)
    g = F.matmul(error.reshape(1, -1), J)[0]
    step = F.constant("1/7")
    after = Weights(spec, w.vector - step * g)
    for law in conserved_quantities(spec):
        change = law.evaluate(after) - law.evaluate(w)
        assert (change == step * step * law.evaluate(Weights(spec, g))).all()
        assert change.any()


def test_the_gradient_is_that_of_the_loss() -> None:
    spec = Network.parse("softmax/d=2,3,2/a=2/heads=2/dv=1/t=3")
    start = Weights.random(spec, seed=8)
    X, Y = data(start)
    w = start.vector
    loss, g = loss_and_gradient(spec, w, X, Y)
    assert np.isclose(loss, ((forward(Real(), spec, w, X) - Y) ** 2).mean() / 2)
    for v in np.random.default_rng(0).standard_normal((3, spec.parameters)):
        ahead, behind = (loss_and_gradient(spec, w + e * v, X, Y)[0] for e in (1e-5, -1e-5))
        assert np.isclose((ahead - behind) / 2e-5, g @ v, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("tolerance", [1e-6, 1e-9, 1e-12])
def test_the_integrator_keeps_its_tolerance(tolerance: float) -> None:
    """w' = -w^3 from 1 is 1 / sqrt(1 + 2 t)."""
    course = flow.integrate(lambda w: (0.0, -(w**3)), np.ones(2), 4.0, tolerance)
    assert course[-1][0] == 4.0
    assert abs(course[-1][1] - 1 / 3).max() < 10 * tolerance
    assert all(before[0] < after[0] for before, after in pairwise(course))


def test_exact_weights_and_no_time() -> None:
    spec = Network.parse("lightning/d=2,2/a=1/t=2")
    course = gradient_flow(Weights.random(spec, exact=True), *data(Weights.random(spec)), time=0)
    assert len(course) == 1
    assert course.points.dtype == np.float64
    assert drift(course).worst == drift(course).moved == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w, X, Y: gradient_flow(w, X[0], Y, 1.0), "do not fit"),
        (lambda w, X, Y: gradient_flow(w, X, Y[:, :1], 1.0), "do not fit"),
        (lambda w, X, Y: gradient_flow(w, X, Y, -1.0), "time"),
        (lambda w, X, Y: gradient_flow(w, X, Y, 1.0, tolerance=0), "tolerance"),
        (lambda w, X, Y: gradient_descent(w, X, Y, 0.0, 3), "steps"),
        (lambda w, X, Y: gradient_descent(w, X, Y, 1e9, 30), "diverged"),
    ],
)
def test_mistakes_are_named(call, message: str) -> None:
    spec = Network.parse("lightning/d=2,3/a=1/t=2")
    with pytest.raises(SegreError, match=message):
        call(Weights.random(spec), *data(Weights.random(spec)))


def test_a_flow_that_takes_too_long_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "MOST_STEPS", 3)
    spec = Network.parse("lightning/d=2,2/a=1/t=2")
    with pytest.raises(SegreError, match="more than 3 steps"):
        gradient_flow(Weights.random(spec), *data(Weights.random(spec)), time=5.0)
