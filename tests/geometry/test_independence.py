import numpy as np
import pytest
from hypothesis import given

from segre.fields import Prime
from segre.geometry import dimension as dimension_module
from segre.geometry import independence
from segre.geometry.balls import BallMinor
from segre.geometry.dimension import prove
from segre.geometry.independence import witness
from segre.spec import Network
from support.architectures import networks


@given(networks())
def test_scores_of_softmax_stacks_are_independent(net: Network) -> None:
    net = Network.parse({**net.document(), "kind": "softmax"})
    found = witness(net, Prime(seed=1))
    assert found.established, str(net)
    assert len(found.points) == found.arguments + found.coordinates
    assert len(set(found.points)) == len(found.points)


def test_equal_scores_counted_twice_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens of width one have symmetric scores: counting both must fail, and claim nothing."""
    net = Network.parse("softmax/d=1,2/a=1/t=2")
    assert witness(net, Prime()).established
    pairs = np.array([(k, q) for k in range(2) for q in range(2)]).T
    monkeypatch.setattr(independence, "distinct_scores", lambda _: [(1, pairs)])
    assert not witness(net, Prime()).established
    proof = prove(net)
    assert proof.lower.evidence.kind == "ball-minor"
    monkeypatch.setattr(dimension_module, "ball_minor", lambda *_: BallMinor([], [], 64, 0))
    proof = prove(net)
    assert (proof.lower.value, proof.lower.evidence.kind) == (0, "trivial")


def test_symmetric_scores_are_counted_once() -> None:
    found = witness(Network.parse("softmax/d=1,2/a=1/heads=3/t=4"), Prime())
    assert (found.arguments, found.coordinates) == (3 * 10, 4)
    found = witness(Network.parse("softmax/d=2,2/a=1/heads=3/t=4"), Prime())
    assert (found.arguments, found.coordinates) == (3 * 16, 8)
