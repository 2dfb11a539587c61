"""Weights as files: round trips, and everything that is not a file of weights."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from segre.errors import UnsupportedError, WeightsError
from segre.fields.real import Real
from segre.geometry.fiber import sample
from segre.geometry.same import same_function
from segre.network import forward, tensors
from segre.sequence.attend import attend
from segre.spec import Network
from segre.weights import LayerPoint, Weights
from support.architectures import networks
from support.random_mechanisms import random_mixed


@given(networks())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_files_round_trip(tmp_path, net: Network) -> None:
    for exact, ending in ((True, "json"), (False, "json"), (False, "npz")):
        w = Weights.random(net, 1, exact=exact)
        path = tmp_path / f"w.{ending}"
        w.write(path)
        again = Weights.read(path)
        assert again.spec == net
        assert again.exact == exact
        assert list(again.vector) == list(w.vector)
        assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_fractions_do_not_fit_into_npz(tmp_path) -> None:
    w = Weights.random(Network.parse("softmax/d=2,2/a=1/t=2"), exact=True)
    with pytest.raises(WeightsError, match="npz files hold floats"):
        w.write(tmp_path / "w.npz")
    with pytest.raises(WeightsError, match="allowed"):
        w.write(tmp_path / "w.txt")
    assert list(tmp_path.iterdir()) == []


SPEC = "softmax/d=2,2/a=1/t=2"
GOOD = {"W_K": [[[1, 2]]], "W_Q": [[[1, "1/3"]]], "W_V": [[[1, 2], [3, 4]]]}
BAD_JSON = [
    "",
    "[]",
    "{",
    "[" * 100_000,
    json.dumps({"spec": SPEC}),
    json.dumps({"spec": "nonsense", "layers": [GOOD]}),
    json.dumps({"spec": SPEC, "layers": []}),
    json.dumps({"spec": SPEC, "layers": [3]}),
    json.dumps({"spec": SPEC, "layers": [{**GOOD, "W_X": [[[1]]]}]}),
    json.dumps({"spec": SPEC, "layers": [{**GOOD, "W_K": [[[1, 2, 3]]]}]}),
    json.dumps({"spec": SPEC, "layers": [{**GOOD, "W_K": [[[1], [2, 3]]]}]}),
    json.dumps({"spec": SPEC, "layers": [{**GOOD, "W_K": [[[1, "1/0"]]]}]}),
    json.dumps({"spec": SPEC, "layers": [{**GOOD, "W_K": [[[1, "x"]]]}]}),
    json.dumps({"spec": SPEC, "layers": [{**GOOD, "W_K": [[[1, "1e999999999"]]]}]}),
    json.dumps({"spec": SPEC, "layers": [{**GOOD, "W_K": [[[1, None]]]}]}),
    json.dumps({"spec": SPEC, "layers": [{**GOOD, "W_K": [[[1, True]]]}]}),
    json.dumps({"spec": SPEC, "layers": [{**GOOD, "W_K": [[[1, float("nan")]]]}]}),
    json.dumps({"spec": SPEC, "layers": [{**GOOD, "W_K": [[[1, float("inf")]]]}]}),
    json.dumps({"spec": SPEC + "/residual=true", "layers": [GOOD]}),
]


@pytest.mark.parametrize("text", BAD_JSON, ids=range(len(BAD_JSON)))
def test_bad_json_is_one_line(tmp_path, text: str) -> None:
    path = tmp_path / "w.json"
    path.write_text(text)
    with pytest.raises(WeightsError) as caught:
        Weights.read(path)
    assert "\n" not in str(caught.value)
    assert "w.json" in str(caught.value)


def test_bad_npz_is_one_line(tmp_path) -> None:
    good = tmp_path / "good.npz"
    Weights.random(Network.parse(SPEC)).write(good)
    data = good.read_bytes()
    bad = {
        "cut.npz": data[: len(data) // 2],
        "text.npz": b"hello",
        "empty.npz": b"",
    }
    for name, content in bad.items():
        (tmp_path / name).write_bytes(content)
    np.savez(tmp_path / "nospec.npz", V=np.ones(3))
    np.savez(tmp_path / "other.npz", spec=np.array(SPEC), extra=np.ones(3))
    np.savez(tmp_path / "pickle.npz", spec=np.array(SPEC), **{"layer1.W_K": np.array([{}])})
    np.savez(tmp_path / "complex.npz", spec=np.array(SPEC), **{"layer1.W_K": np.array([1j])})
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("layer1.W_K.npy", b"\0" * (300 << 20))
    names = [*bad, "nospec.npz", "other.npz", "pickle.npz", "complex.npz", "bomb.npz", "none.npz"]
    for name in names:
        with pytest.raises(WeightsError) as caught:
            Weights.read(tmp_path / name)
        assert "\n" not in str(caught.value), name


def test_points_are_read_in_both_forms(tmp_path) -> None:
    path = tmp_path / "p.json"
    path.write_text('{"V": [["1/2", 1]], "A": [[1, 0], [0, 0]], "a": 1}')
    point = LayerPoint.read(path)
    assert point.a == 1
    assert point.V.dtype == object
    path.write_text('{"V": [[0.5, 1]], "K": [[1, 0]], "Q": [["2/1", 3]]}')
    point = LayerPoint.read(path)
    assert point.a == 1
    assert point.A.tolist() == [[2.0, 3.0], [0.0, 0.0]]
    np.savez(tmp_path / "p.npz", V=np.ones((2, 2)), A=np.eye(2), a=2)
    assert LayerPoint.read(tmp_path / "p.npz").a == 2


@pytest.mark.parametrize(
    "text",
    [
        '{"V": [[1]]}',
        '{"V": [[1]], "A": [[1]], "K": [[1]]}',
        '{"V": [1], "A": [[1]]}',
        '{"V": [[1]], "A": [[1]], "a": "x"}',
        '{"V": [[1]], "A": [[1]], "a": 0}',
        '{"V": [[1]], "K": [[1, 2]], "Q": [[1]]}',
        '{"V": [[NaN]], "A": [[1]], "a": 1}',
        '{"V": {}, "A": [[1]], "a": 1}',
    ],
)
def test_bad_points_are_one_line(tmp_path, text: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(WeightsError) as caught:
        LayerPoint.read(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("exact", [False, True])
def test_random_weights_of_every_mechanism(seed: int, exact: bool, tmp_path: Path) -> None:
    """Also with decays, windows, biases and gates: drawn, written, read and attended with."""
    (net,) = random_mixed(seed, 1, 200)
    w = Weights.random(net, seed, exact=exact)
    assert w.exact == exact
    for (_, name), slot in tensors(net).items():
        if name.endswith("decay"):
            assert all(0 < x < 1 for x in w.vector[slot.range])
    with pytest.raises(UnsupportedError, match="mechanisms with options"):
        sample(w)
    with pytest.raises(UnsupportedError, match="mechanisms with options"):
        same_function(w, w)
    if exact or any(one.feature != "none" or one.weigh == "identity" for one in net.mechanisms):
        return  # fractions are not attended with; sums of such weights may be zero
    X = np.random.default_rng(seed).standard_normal((net.t, net.width_in))
    wanted = forward(Real(), net, w.vector, X.T).T
    for name in ("w.npz", "w.json"):
        w.write(tmp_path / name)
        for source in (w, tmp_path / name):
            assert np.allclose(attend(net, source, X), wanted, rtol=1e-8, atol=1e-10)


def test_what_has_no_weights_of_this_kind_is_refused() -> None:
    for spec in ("gpt2/d=4/heads=2/ff=3/vocab=11/t=3", "poly/2-2-1/degree=2"):
        with pytest.raises(UnsupportedError, match="stacks of attention layers only"):
            Weights.random(spec)
