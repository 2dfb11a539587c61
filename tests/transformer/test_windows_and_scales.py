"""Sliding windows and the scale of scores: as specs say them, and what they do."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from segre.certificate import certify, checksum
from segre.errors import SpecError
from segre.fields import Real
from segre.geometry.dimension import dimension
from segre.geometry.real_point import RealPoint
from segre.kernel import verify
from segre.models import architecture
from segre.models.instances import small_instance
from segre.network import forward
from segre.transformer.spec import Transformer
from segre.transformer.tensors import tensors


@pytest.mark.parametrize(
    ("given", "short"),
    [
        ("0", ""),
        ("0,0", ""),
        ("8", "8"),
        ("8,8", "8"),
        ("8,0", "8,0"),
        ("8,0,8,0", "8,0"),
        ("0,0,0,8", "0,0,0,8"),
        ("8,0,8", "8,0,8"),
    ],
)
def test_windows_are_said_in_the_shortest_way(given: str, short: str) -> None:
    spec = Transformer.parse(f"transformer/d=4/layers=4/causal=true/window={given}/t=3")
    assert ",".join(map(str, spec.window)) == short
    assert Transformer.parse(str(spec)) == spec == Transformer.from_mapping(spec.document())
    assert ("window" in spec.document()) == bool(short)


@pytest.mark.parametrize(
    ("rest", "word"),
    [
        ("causal=true/window=1", "window"),
        ("causal=true/window=-1", "window"),
        ("causal=true/window=4,0,0", "layers"),
        ("scale=1/qknorm=true/gain=false", "scale"),
        ("bylayer=true/qknorm=true/gain=false", "bylayer"),
        ("pos=rope/rescale=yarn:4:64/qknorm=true/gain=false", "rescale"),
        ("bylayer=true/share=true", "share"),
        ("rescale=linear:4", "rope"),
        ("pos=rope/rotary=2/rescale=dynamic:2:4", "dynamic"),
    ],
)
def test_what_does_not_go_together_is_refused(rest: str, word: str) -> None:
    with pytest.raises(SpecError, match=word):
        Transformer.parse(f"transformer/d=4/layers=2/{rest}/t=3")


def test_a_standard_scale_is_left_out() -> None:
    spec = Transformer.parse("transformer/d=8/heads=2/scale=4/t=3")
    assert spec == Transformer.parse("transformer/d=8/heads=2/t=3")
    latent = Transformer.parse("transformer/d=4/head=2/kvrank=2/pos=rope/rotary=4/scale=6/t=3")
    assert latent.scale == 0


@pytest.mark.parametrize("window", [2, 3, 4])
def test_a_token_sees_as_far_as_the_windows_of_its_layers_reach(window: int) -> None:
    spec = architecture(f"llama/d=4/layers=2/heads=2/ff=3/window={window},0/t=9")
    one = replace(spec, layers=1, window=(window,))
    for net, reach in ((one, window), (replace(spec, window=(window,)), 2 * window - 1)):
        point = RealPoint(net, 0)
        X = point.inputs(np.arange(1))
        before = forward(Real(), net, point.weights, X)
        for moved in range(9):
            other = X.copy()
            other[..., moved] += 1
            change = np.abs(forward(Real(), net, point.weights, other) - before).max(axis=(0, 1))
            seen = np.flatnonzero(change > 1e-12)
            assert seen.tolist() == list(range(moved, min(9, moved + reach)))


def test_windows_as_long_as_the_input_change_nothing() -> None:
    spec = architecture("llama/d=4/layers=2/heads=2/ff=3/window=3,5/t=3")
    point = RealPoint(spec, 0)
    X = point.inputs(np.arange(2))
    plain = forward(Real(), replace(spec, window=()), point.weights, X)
    assert np.array_equal(forward(Real(), spec, point.weights, X), plain)


@pytest.mark.parametrize(
    "text",
    [
        "gpt2/d=4/layers=2/heads=2/ff=3/scale=3/bylayer=true/t=4",
        "qwen3/d=4/layers=2/heads=2/ff=3/scale=3/bylayer=true/t=4",
        "llama/d=4/layers=2/heads=1/ff=3/rescale=yarn:4:40:attention=1.5/t=4",
        "qwen3/d=4/layers=2/heads=1/ff=3/rescale=yarn:4:40/scale=5/t=4",
    ],
)
def test_factors_of_scores_are_absorbed_by_the_queries(text: str) -> None:
    spec = architecture(text)
    point = RealPoint(spec, 0)
    X = point.inputs(np.arange(2))
    how = spec.rescaling
    a = 1.0
    if how is not None:
        a = float(how.attention) or 1 + math.log(how.factor) / 10
    weights = point.weights.copy()
    names = ("normq.gain",) if spec.qknorm else ("W_Q", "b_Q")
    for (part, name), slot in tensors(spec).items():
        if name in names:
            factor = math.sqrt(spec.head / spec.scale) if spec.scale else 1.0
            weights[slot.range] *= factor * a * a / (int(part) if spec.bylayer else 1)
    rescale = "" if how is None else spec.rescale.split(":attention")[0] + ":attention=1"
    plain = replace(spec, scale=Fraction(0), bylayer=False, rescale=rescale)
    ours = forward(Real(), spec, point.weights, X)
    np.testing.assert_allclose(ours, forward(Real(), plain, weights, X), rtol=1e-11, atol=1e-13)


PROVED = {
    "llama/d=4/heads=2/ff=3/window=2/t=3": 85,
    "llama/d=4/layers=2/heads=2/ff=3/window=2,0/t=3": 170,
    "gpt2/d=4/layers=2/heads=2/ff=3/mlp=gelu-quick/scale=1/bylayer=true/t=2": 148,
    "llama/d=4/heads=1/ff=3/rescale=linear:4/t=4": 77,
    "llama/d=4/heads=1/ff=3/rescale=yarn:4:64/t=4": 77,
    "llama/d=4/heads=1/ff=3/rescale=llama3:8:1:4:16/t=4": 77,
    "llama/d=4/heads=1/ff=3/rescale=dynamic:2:2/t=4": 77,
    "gemma2/d=4/heads=2/kv=1/ff=3/eps=1e-5/vocab=11/window=2/scale=5": 131,
    "transformer/d=4/heads=2/mlp=geglu-quick/ff=3/norm=rms/t=3": 81,
    "transformer/d=4/attn=lightning/causal=true/window=2/scale=1/t=3": 31,
}


@pytest.mark.parametrize("text", PROVED)
def test_small_ones_are_proved_and_the_kernel_agrees(text: str) -> None:
    document = certify(text)
    assert document["claim"]["lower"] == document["claim"]["upper"] == PROVED[text]
    assert verify(document).valid
    assert dimension(text).value == PROVED[text]


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("llama/d=4/heads=2/ff=3/window=2/t=3", {"window": None}),
        ("llama/d=4/heads=2/ff=3/t=3", {"window": 2}),
        ("llama/d=4/heads=1/ff=3/rescale=linear:4/t=4", {"rescale": "yarn:4:16"}),
        ("llama/d=4/heads=1/ff=3/rescale=linear:4/t=4", {"rescale": "llama3:8:1:4:64"}),
        ("gpt2/d=4/heads=2/ff=3/t=3", {"mlp": "gelu-quick"}),
    ],
)
def test_a_certificate_is_of_its_own_window_and_frequencies(
    text: str, other: dict[str, object]
) -> None:
    """With the spec of another function, and every digest healed, the numbers do not fit."""
    document = certify(text)
    spec = {**document["spec"], **other}
    spec = {key: value for key, value in spec.items() if value is not None}
    net = Transformer.from_mapping(spec)
    forged = {**document, "spec": net.document(), "digest": net.digest}
    found = verify({**forged, "checksum": checksum(forged)})
    assert not found.valid
    assert "checksum" not in found.reason
    assert "digest" not in found.reason


def test_small_instances_keep_the_choices() -> None:
    small = small_instance(architecture("mistral-7b-v0.1"))
    assert small.sees(1) == 2 < small.t
    assert small_instance(architecture("llama-3.2-1b")).rescale.startswith("llama3")
