"""The symmetry vectors change nothing, and count what the formulas say."""

from __future__ import annotations

import random

import pytest
from flint import nmod_mat

from segre.referee.dimensions import Dimensions
from segre.referee.document import ListedPiece
from segre.referee.formulas import ambient, closed_form
from segre.referee.linear import Echelon, annihilator, identity, row_basis
from segre.referee.network import Point, jacobian
from segre.referee.rejection import RejectionError
from segre.referee.residues import Draw
from segre.referee.symmetries import check_symmetries, recount
from segre.spec import Network

P = 2147483629


def silently(*_: object) -> None:
    pass


def random_spec(chance: random.Random, one_headed: bool) -> Network:
    depth = chance.choice([1, 2, 2, 3])
    plain = {"heads": [1] * depth, "dv": [None] * depth}
    rich = {
        "heads": [chance.choice([1, 1, 2, 3]) for _ in range(depth)],
        "dv": [chance.choice([None, None, 1, 2, 3]) for _ in range(depth)],
    }
    return Network.from_mapping(
        {
            "kind": chance.choice(["lightning", "softmax"]),
            "d": [chance.randint(1, 4) for _ in range(depth + 1)],
            "a": [chance.randint(1, 3) for _ in range(depth)],
            "t": chance.choice([1, 1, 2, 3]),
            **(plain if one_headed else rich),
        }
    )


def full_jacobian(net: Network, draw: Draw, point: Point) -> nmod_mat:
    # One input can say as little as one number, so there is one for each parameter.
    outputs = net.widths[-1] * net.t
    rows = [(n, o) for n in range(net.parameters) for o in range(outputs)]
    return jacobian(point, draw, rows, silently)


@pytest.mark.parametrize("seed", range(120))
def test_vectors_lie_in_the_kernel(seed: int) -> None:
    net = random_spec(random.Random(seed), one_headed=False)
    draw = Draw(P, seed)
    point = Point.drawn(net, draw)
    J = full_jacobian(net, draw, point)
    # `recount` rejects a vector that is not orthogonal to all rows.
    pieces = list(recount(point, Dimensions.of(net), J))
    assert sum(piece.dimension for piece in pieces) <= net.parameters - J.rank(), str(net)
    assert check_symmetries(point, Dimensions.of(net), J, pieces, silently) == sum(
        piece.dimension for piece in pieces
    )


@pytest.mark.parametrize("seed", range(120))
def test_closed_form_is_the_dimension(seed: int) -> None:
    net = random_spec(random.Random(1000 + seed), one_headed=True)
    draw = Draw(P, seed)
    point = Point.drawn(net, draw)
    J = full_jacobian(net, draw, point)
    rank = sum(piece.dimension for piece in recount(point, Dimensions.of(net), J))
    assert closed_form(net) == J.rank() == net.parameters - rank, str(net)


@pytest.mark.parametrize("t", [1, 2])
@pytest.mark.parametrize("widths", ["1,1", "2,1", "2,2", "3,1"])
def test_ambient_is_reached_by_many_heads(t: int, widths: str) -> None:
    net = Network.parse(f"lightning/d={widths}/a=3/heads=8/t={t}")
    draw = Draw(P, 1)
    assert full_jacobian(net, draw, Point.drawn(net, draw)).rank() == ambient(net)


def test_formulas_refuse_other_networks() -> None:
    for spec in ("lightning/d=2,2/a=1/heads=2/t=2", "softmax/d=2,2/a=1/dv=1/t=2"):
        with pytest.raises(RejectionError, match="closed-form"):
            closed_form(Network.parse(spec))
    for spec in ("lightning/d=2,2,2/a=1/t=2", "softmax/d=2,2/a=1/t=2"):
        with pytest.raises(RejectionError, match="ambient"):
            ambient(Network.parse(spec))


def test_closed_form_of_the_example() -> None:
    assert closed_form(Network.parse("softmax/d=10,10,10/a=2,2/t=3")) == 172


@pytest.mark.parametrize(
    ("spec", "reached", "read", "parallel"),
    [
        ("softmax/d=4,2,5/a=1/t=2", (4, 2, 2), (4, 2, 5), (False, False, False)),
        ("softmax/d=6,6,6/a=1/heads=2/dv=1/t=2", (6, 2, 2), (6, 6, 6), (False,) * 3),
        ("softmax/d=6,6,6/a=1/heads=2/dv=1/t=1", (6, 2, 2), (2, 2, 6), (False,) * 3),
        ("softmax/d=9,8,1/a=1/t=2", (9, 8, 1), (5, 3, 1), (False,) * 3),
        ("lightning/d=3,3,3/a=1/t=3", (3, 3, 3), (3, 3, 3), (False, True, True)),
        ("lightning/d=3,3,3/a=1/heads=2/t=3", (3, 3, 3), (3, 3, 3), (False, False, False)),
        ("lightning/d=3,3/a=2/t=1", (3, 3), (3, 3), (True, True)),
    ],
)
def test_dimensions(
    spec: str, reached: tuple[int, ...], read: tuple[int, ...], parallel: tuple[bool, ...]
) -> None:
    dimensions = Dimensions.of(Network.parse(spec))
    assert (dimensions.reached, dimensions.read, dimensions.parallel) == (reached, read, parallel)


def test_a_vector_that_changes_an_output_is_rejected() -> None:
    net, draw = Network.parse("lightning/d=2,2/a=2/t=2"), Draw(P, 0)
    point = Point.drawn(net, draw)
    wrong = nmod_mat(1, net.parameters, draw.residues(1, 0, net.parameters), P)
    with pytest.raises(RejectionError, match="changes an output"):
        list(recount(point, Dimensions.of(net), wrong))


def test_lists_of_pieces_are_compared_entry_by_entry() -> None:
    net, draw = Network.parse("lightning/d=2,2,2/a=1/t=2"), Draw(P, 0)
    point, dimensions = Point.drawn(net, draw), Dimensions.of(net)
    none = nmod_mat(0, net.parameters, P)
    pieces = list(recount(point, dimensions, none))
    extra = ListedPiece("unread", 1, None, 1)
    for wrong in (pieces[:-1], pieces[1:], [*pieces, extra], [extra, *pieces], pieces[::-1]):
        with pytest.raises(RejectionError, match="pieces"):
            check_symmetries(point, dimensions, none, wrong, silently)


def test_a_point_that_is_not_generic_is_rejected() -> None:
    net = Network.parse("softmax/d=2,2/a=1/t=2")
    point = Point.of(net, P, [0] * net.parameters)
    with pytest.raises(RejectionError, match="dimension 0 at this point"):
        list(recount(point, Dimensions.of(net), nmod_mat(0, net.parameters, P)))


def test_mixing_needs_a_regular_system() -> None:
    net = Network.parse("lightning/d=1,1/a=1/heads=2/t=2")
    point = Point.of(net, P, [0, 0, 1, 2, 3, 4])
    with pytest.raises(RejectionError, match="singular"):
        list(recount(point, Dimensions.of(net), nmod_mat(0, net.parameters, P)))


def test_growing_rank_equals_rank_of_the_stack() -> None:
    chance = random.Random(3)
    for _ in range(30):
        width = chance.randint(1, 7)
        span, stack = Echelon(), []
        for _ in range(5):
            factor = nmod_mat(4, 2, [chance.randrange(3) for _ in range(8)], P)
            block = factor * nmod_mat(2, width, [chance.randrange(3) for _ in range(2 * width)], P)
            before = nmod_mat(len(stack) // width, width, stack, P).rank()
            stack += [int(x) for x in block.entries()]
            after = nmod_mat(len(stack) // width, width, stack, P).rank()
            assert span.add(block) == after - before


def test_annihilators_and_bases() -> None:
    wide = nmod_mat(1, 3, [1, 2, 3], P)
    found = annihilator(wide, "it")
    assert len(found) == 2
    assert all((x + 2 * y + 3 * z) % P == 0 for x, y, z in found)
    assert annihilator(wide.transpose(), "it") == []
    with pytest.raises(RejectionError, match="not full"):
        annihilator(nmod_mat(2, 2, [1, 2, 2, 4], P), "it")
    with pytest.raises(RejectionError, match="dimension 2"):
        row_basis(identity(2, P), 1, "it")
