"""Symmetries as finite transformations of real weights, and as generators mod p."""

import numpy as np
import pytest
from hypothesis import given, settings

import segre.geometry.point as geometry_point
import segre.geometry.rank as geometry_rank
from segre.errors import UnluckyError
from segre.fields import Echelon, Real
from segre.geometry.dimension import prove
from segre.geometry.point import Point
from segre.geometry.rank import symmetry_rank
from segre.network import forward, layer_starts, slots
from segre.spec import Network
from segre.symmetry.all import generators
from segre.symmetry.reach import parallel_tokens, reached, silent
from segre.symmetry.stack_heads import OfHead
from support.architectures import networks


def tensors(net: Network, weights):
    """Views into the vector of weights: one dict of tensors per layer."""
    return [
        {slot.name: weights[slot.range].reshape(slot.shape) for slot in slots(layer, start)}
        for layer, start in zip(net.layers, layer_starts(net), strict=True)
    ]


def regular(rng, n: int):
    return np.linalg.qr(rng.standard_normal((n, n)))[0] * rng.uniform(0.7, 1.4)


def null_space(matrix):
    _, s, Vt = np.linalg.svd(matrix)
    return Vt[(s > 1e-9 * max(1, s[0])).sum() :]


def move(net: Network, weights, rng):
    """A random element of the whole group, applied: bases, scales, and invisible additions."""
    weights = weights.copy()
    layers = tensors(net, weights)
    for i, (layer, w) in enumerate(zip(net.layers, layers, strict=True)):
        head = layer
        last = w.get("W_O", w["W_V"])
        for h in range(head.heads):
            G = regular(rng, head.a)
            w["W_Q"][h], w["W_K"][h] = G @ w["W_Q"][h], np.linalg.inv(G).T @ w["W_K"][h]
            if head.dv is not None:
                G = regular(rng, head.dv)
                w["W_V"][h], w["W_O"][h] = G @ w["W_V"][h], w["W_O"][h] @ np.linalg.inv(G)
            if net.score == "lightning":
                scale = rng.uniform(0.5, 2)
                last[h] *= scale
                w["W_Q"][h] /= scale
        if i + 1 < net.depth:
            C = regular(rng, layer.width_out)
            last[:] = C @ last
            after = layers[i + 1]
            for name in ("W_K", "W_Q", "W_V"):
                after[name][:] = after[name] @ np.linalg.inv(C)
    if silent(net):
        for w in layers:
            w["W_K"] += rng.standard_normal(w["W_K"].shape)
    image = np.eye(net.widths[0])
    for layer, w in zip(net.layers, layers, strict=True):
        blind = null_space(image.T)
        for name in ("W_K", "W_Q", "W_V"):
            shape = (*w[name].shape[:2], len(blind))
            w[name] += rng.standard_normal(shape) @ blind
        value = w["W_O"] @ w["W_V"] if "W_O" in w else w["W_V"]
        image = np.concatenate(list(value @ image), axis=1)
        assert layer.width_out == len(image)
    return weights


@given(networks())
def test_the_function_does_not_move_under_the_group(net: Network) -> None:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal(net.parameters) / 2
    X = rng.standard_normal((4, net.widths[0], net.t))
    before = forward(Real(), net, weights, X)
    moved = move(net, weights, rng)
    assert not np.allclose(moved, weights)
    after = forward(Real(), net, moved, X)
    assert np.allclose(before, after, rtol=1e-6, atol=1e-8 * (1 + np.abs(before).max()))


@given(networks())
def test_every_generator_is_in_the_kernel_at_fresh_inputs(net: Network) -> None:
    point = Point.draw(net, seed=3)
    try:
        found = list(generators(point.field, net, point.weights))
    except UnluckyError:
        return
    J = point.jacobian_rows(point.batch(5, 2))
    for own in found:
        assert own.rows.shape[1] == net.parameters
        assert own.rows.any(axis=1).all(), own.piece.kind
        assert not point.field.matmul(own.rows, J.T).any(), own.piece.kind


@given(networks())
def test_small_and_large_networks_are_computed_alike(net: Network) -> None:
    """All at once or one after the other: the same symmetries, the same rows, the same minor."""
    found = []
    for few in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            for module in (geometry_point, geometry_rank):
                patch.setattr(module, "FEW_PARAMETERS", few)
            try:
                proof = prove(net, seed=5, formula=False)
            except UnluckyError:
                return
            found.append((proof.symmetry, proof.minor, proof.lower, proof.upper))
    assert found[0] == found[1]


def test_a_broken_symmetry_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel check is real: a wrong sign in a generator makes it fail."""
    right = OfHead.__call__
    monkeypatch.setattr(OfHead, "__call__", lambda own, w: abs(right(own, w)))
    with pytest.raises(AssertionError, match="changes the function"):
        symmetry_rank(Point.draw(Network.parse("lightning/d=3,3/a=2/t=2"), 0))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("softmax/d=4,4/a=2/t=3", {"query-key basis GL(2)": 4}),
        ("softmax/d=4,4,4/a=1/t=3", {"query-key basis GL(1)": 2, "token basis GL(4)": 16}),
        ("softmax/d=3,3/a=2/heads=2/dv=1/t=3", {"query-key": 8, "value-output basis GL(1)": 2}),
        ("lightning/d=4,4/a=2/t=3", {"query-key": 4, "scale": 1}),
        ("lightning/d=4,4/a=2/t=1", {"query-key": 4, "scale": 1, "skew part": 2}),
        ("lightning/d=2,2/a=2/heads=2/t=3", {"query-key": 8, "scale": 2, "mixing of heads": 2}),
        ("softmax/d=2,2/a=1/heads=2/t=1", {"scores without effect": 8, "only the sum": 4}),
        # 3 forms vanish on the image, for each of 2 + 2 + 5 rows; GL(5) acts on the image alone
        ("softmax/d=2,5,5/a=2/t=3", {"query-key": 8, "no token reaches": 27, "token basis": 10}),
        # 6 of 9 dimensions are unread: 6 x 12 directions, of which GL(9) has 6 x 9 already
        ("softmax/d=12,9,1/a=1/t=3", {"query-key": 2, "token basis": 81, "no layer reads": 18}),
    ],
)
def test_pieces_by_name(text: str, names: dict[str, int]) -> None:
    proof = prove(Network.parse(text))
    assert proof.symmetry is not None
    found: dict[str, int] = {}
    for symmetry in proof.symmetry.symmetries:
        key = next((name for name in names if name in symmetry.name), symmetry.name)
        found[key] = found.get(key, 0) + symmetry.dimension
    assert found == names
    assert proof.lower.value == proof.upper.value


def test_generic_dimensions_of_images() -> None:
    assert reached(Network.parse("softmax/d=4,1,3,3/a=1/heads=1,2,1/t=2")) == [4, 1, 2, 2]
    assert reached(Network.parse("softmax/d=4,4,4/a=1/heads=2/dv=1/t=1")) == [4, 2, 2]
    assert parallel_tokens(Network.parse("lightning/d=4,4,4/a=1,2/t=2")) == [False, True]
    assert parallel_tokens(Network.parse("lightning/d=4,4,4/a=1,2/heads=2/t=2")) == [False, False]


@given(networks(deepest=2))
@settings(max_examples=30)
def test_rank_of_symmetries_does_not_depend_on_the_point(net: Network) -> None:
    ranks = {symmetry_rank(Point.draw(net, seed, seed)).rank for seed in range(3)}
    assert len(ranks) == 1


def test_pieces_add_up_to_their_joint_rank() -> None:
    point = Point.draw(Network.parse("lightning/d=2,5,3/a=3/heads=2/dv=4,1/t=2"), 0)
    space = Echelon(point.spec.parameters, point.field)
    for found in generators(point.field, point.spec, point.weights):
        space.add(found.rows)
    assert symmetry_rank(point).rank == space.rank
